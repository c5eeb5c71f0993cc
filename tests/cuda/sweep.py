"""Operators of PyTorch's database on an imagined card, beside the same on the host.

``python -m tests.cuda [REGEX]`` makes up to four calls of each and counts: the same
results, other results (those that end the run with 1), and refusals for want of a kernel.
"""

from __future__ import annotations

import collections
import re
from itertools import islice

import rushlight as rl

# What has no determined values: memory as it is, and numbers drawn by each run.
RANDOM = re.compile(
    r"empty|new_empty|rand|dropout|bernoulli|normal|multinomial|exponential|cauchy|"
    r"geometric|log_normal|uniform|rrelu|svd_lowrank|pca_lowrank|fractional_max_pool|"
    r"scaled_dot_product|multi_head"
)


def converted(value, device):
    """PyTorch's arguments as ours, on a device."""
    import torch

    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        dtype = getattr(rl, str(value.dtype)[6:])
        if value.dtype is torch.bfloat16:
            plain = plain.float()
        return rl.tensor(plain.numpy(), dtype=dtype).to(device)
    if type(value) in (list, tuple):
        return type(value)(converted(v, device) for v in value)
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value)[6:])
    return device if value == "cpu" or isinstance(value, torch.device) else value


def tensors_of(result):
    """The tensors of a nest of results."""
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for part in result for t in tensors_of(part)]
    return []


def called(function, sample, device):
    """The tensors that a sample's call gives on a device."""
    args = [converted(v, device) for v in (sample.input, *sample.args)]
    kwargs = {name: converted(v, device) for name, v in sample.kwargs.items()}
    return tensors_of(function(*args, **kwargs))


def same(one, other):
    """Whether two results agree, the second from a card."""
    if not other.is_cuda or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_sparse:
        one, other = one.to_dense(), other.to_dense()
    wide = rl.complex128 if one.is_complex() else rl.float64
    expected, found = one.to(wide), other.cpu().to(wide)
    # Sums are taken in another order: their error goes with the terms, not the sum.
    near = 1e-6
    finite = expected.abs()[expected.isfinite()] if expected.numel() else expected
    if one.is_floating_point() and finite.numel():
        near = max(near, 4e-7 * finite.max().item())
    return rl.allclose(expected, found, rtol=1e-5, atol=near, equal_nan=True)


def judged(op, most=4):
    """What becomes of an operator's samples: "same", "absent", or what is wrong."""
    import torch

    dtypes = op.dtypes
    if not dtypes:
        return None
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    function = rl
    for part in op.name.split("."):
        function = getattr(function, part, None) or getattr(rl.Tensor, op.name, None)
    if function is None:
        return None
    for sample in islice(op.sample_inputs("cpu", dtype), most):
        try:
            expected = called(function, sample, "cpu")
        except Exception:  # not a call that is right on the host: judged elsewhere
            continue
        try:
            found = called(function, sample, "cuda")
        except NotImplementedError as error:
            if "Could not run" in str(error) or "launch" in str(error):
                return "absent"
            raise
        if len(found) != len(expected):
            return f"{len(found)} results instead of {len(expected)}"
        if not RANDOM.search(op.name) and not all(map(same, expected, found)):
            return "other values"
    return "same"


def run(pattern=""):
    """Judges every operator whose name a pattern finds: names by what became of them."""
    from torch.testing._internal.common_methods_invocations import op_db

    told = collections.defaultdict(list)
    for op in op_db:
        if not re.search(pattern, op.name):
            continue
        try:
            verdict = judged(op)
        except Exception as error:
            verdict = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if verdict is not None:
            told[verdict].append(op.name)
    return told

"""Operators of PyTorch's database on an imagined card, beside the same on the host.

``python -m tests.cuda [REGEX]`` makes up to four calls of each and counts: the same
results, other results (those that end the run with 1), and refusals for want of a kernel.
With ``--compiled`` each call is made as a compiled function, too: noted once, followed
twice, with operands that wait.
"""

from __future__ import annotations

import collections
import re
from itertools import islice

import rushlight as rl
from rushlight.graph import compiled_function
from tests.graph.sweep import copies

# What has no determined values: memory as it is, and numbers drawn by each run.
RANDOM = re.compile(
    r"empty|new_empty|rand|dropout|bernoulli|normal|multinomial|exponential|cauchy|"
    r"geometric|log_normal|uniform|rrelu|svd_lowrank|pca_lowrank|fractional_max_pool"
)

# What a sum's other order may cost, of what this one costs.
TIMES = 4
WIDER = {rl.float32: rl.float64, rl.complex64: rl.complex128}


def converted(value, device, wide=False):
    """PyTorch's arguments as ours, on a device; ``wide`` in double precision."""
    import torch

    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        dtype = getattr(rl, str(value.dtype)[6:])
        if value.dtype is torch.bfloat16:
            plain = plain.float()
        return rl.tensor(
            plain.numpy(), dtype=WIDER.get(dtype, dtype) if wide else dtype
        ).to(device)
    if type(value) in (list, tuple):
        return type(value)(converted(v, device, wide) for v in value)
    if isinstance(value, torch.dtype):
        dtype = getattr(rl, str(value)[6:])
        return WIDER.get(dtype, dtype) if wide else dtype
    if isinstance(value, torch.memory_format):
        return getattr(rl, str(value)[6:])
    return device if value == "cpu" or isinstance(value, torch.device) else value


def tensors_of(result):
    """The tensors of a nest of results."""
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for part in result for t in tensors_of(part)]
    return []


def called(function, sample, device, wide=False, runner=None):
    """The tensors that a sample's call gives on a device.

    Args:
        runner: follows the call, of copies of its operands, as that of a compiled function.
    """
    args = [converted(v, device, wide) for v in (sample.input, *sample.args)]
    kwargs = {name: converted(v, device, wide) for name, v in sample.kwargs.items()}
    if runner is None:
        return tensors_of(function(*args, **kwargs))

    def program(args, kwargs):
        return function(*copies(args), **copies(kwargs))

    return tensors_of(compiled_function.run(runner, program, (args, kwargs), {}))


def calls_of(function, sample, compiled):
    """What a sample's call gives on a card, each time that it is made."""
    if not compiled:
        return [called(function, sample, "cuda")]
    runner = compiled_function.make_runner("sample")
    return [called(function, sample, "cuda", runner=runner) for _ in range(3)]


def largest_of(values):
    """The largest size among the finite numbers of PyTorch's arguments."""
    from torch.utils._pytree import tree_leaves

    sizes = [
        v.detach().to_dense().abs().double().nan_to_num(0, 0, 0).max().item()
        for v in tree_leaves(values)
        if hasattr(v, "numel") and v.numel() and v.is_floating_point() | v.is_complex()
    ]
    return max(sizes, default=0.0)


def rounding(function, sample, expected):
    """For each result, what rounding may cost; None where nothing is rounded.

    That is a few times the host's distance to double precision, and a last digit of the
    largest number that goes in.
    """
    if not any(x.is_floating_point() or x.is_complex() for x in expected):
        return [None] * len(expected)
    try:
        exact = called(function, sample, "cpu", True)
    except Exception:
        return [None] * len(expected)
    found, largest = [], largest_of((sample.input, *sample.args, sample.kwargs))
    for one, other in zip(expected, exact, strict=False):
        plain = (one.is_floating_point() or one.is_complex()) and not one.is_sparse
        if one.shape != other.shape or not other.numel() or not plain:
            found.append(None)
            continue
        gap = (one.to(rl.complex128) - other.to(rl.complex128)).abs()
        gap = gap[gap.isfinite()]
        digit = rl.finfo(one.dtype).eps * largest
        found.append(TIMES * gap.max().item() + digit if gap.numel() else None)
    return found + [None] * (len(expected) - len(found))


def same(one, other, rounded):
    """Whether two results agree, the second from a card.

    They may be as far apart as rounding costs in this sample, and a few last digits of
    each element.
    """
    if not other.is_cuda or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_sparse:
        one, other = one.to_dense(), other.to_dense()
    if not (one.is_floating_point() or one.is_complex()):
        return rl.equal(one, other.cpu())
    wide = rl.complex128 if one.is_complex() else rl.float64
    expected, found = one.to(wide), other.cpu().to(wide)
    digits = 4 * rl.finfo(one.dtype).eps
    near = digits if rounded is None else rounded
    return rl.allclose(expected, found, rtol=digits, atol=near, equal_nan=True)


def function_of(name):
    """Our function of a name of the database's, or method, or None."""
    function = rl
    for part in name.split("."):
        function = getattr(function, part, None) or getattr(rl.Tensor, name, None)
    return getattr(rl.Tensor, name) if isinstance(function, rl.dtype) else function


def judged(op, most=4, compiled=False):
    """What becomes of an operator's samples: "same", "absent", or what is wrong."""
    import torch

    dtypes = op.dtypes
    if not dtypes:
        return None
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    function = function_of(op.name)
    if function is None:
        return None
    for sample in islice(op.sample_inputs("cpu", dtype), most):
        try:
            expected = called(function, sample, "cpu")
        except Exception:  # not a call that is right on the host: judged elsewhere
            continue
        try:
            every = calls_of(function, sample, compiled)
        except NotImplementedError as error:
            if "Could not run" in str(error) or "launch" in str(error):
                return "absent"
            raise
        except RuntimeError as error:
            if "not supported on CUDA" in str(error):  # nor is it on PyTorch
                continue
            raise
        if any(len(found) != len(expected) for found in every):
            return f"{list(map(len, every))} results instead of {len(expected)}"
        rounded = rounding(function, sample, expected)
        drops = "multi_head" in op.name and sample.kwargs.get("training")
        drawn = RANDOM.search(op.name) or sample.kwargs.get("dropout_p") or drops
        for number, found in enumerate(every):
            if not drawn and not all(map(same, expected, found, rounded)):
                return f"other values in call {number}" if compiled else "other values"
    return "same"


def run(pattern="", compiled=False):
    """Judges every operator whose name a pattern finds: names by what became of them."""
    from torch.testing._internal.common_methods_invocations import op_db

    told = collections.defaultdict(list)
    for op in op_db:
        if not re.search(pattern, op.name):
            continue
        try:
            verdict = judged(op, compiled=compiled)
        except Exception as error:
            verdict = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if verdict is not None:
            told[verdict].append(op.name)
    return told

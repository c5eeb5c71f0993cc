"""`out=` of every operator: identity, resizing, types, gradients, as the oracle's."""

import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.ops.oracle import to_rushlight  # noqa: E402
from tests.ops.test_oracle_samples import LEFT_OUT, RANDOM, find  # noqa: E402

# Where the oracle's forms disagree with each other, and why ours is left as it is.
APART = {
    "diff": "gradients are refused for some orders only",
    "tensordot": "gradients are refused for some dimensions only",
    "addr": "gradients are refused though beta is zero",
    "matmul": "a product with gaps gets new memory",
    "nn.functional.linear": "a product with gaps gets new memory",
    "native_batch_norm": "statistics that nothing fills are resized",
    "normal": "sizes of means are not broadcast",
    "nonzero": "its matrix lies column by column",
    "fft.ifft": "what is resized gets the strides of a work space",
    "mode": "lines of one element are not resized",
    "split_with_sizes_copy": "leaves are written to",
    "cumsum": "no running sums of complex numbers yet",
    "cumprod": "no running products of complex numbers yet",
    "equal": "its result is no tensor",
    "_native_batch_norm_legit": "statistics that nothing fills are resized",
    "_batch_norm_with_update": "the oracle's forms with `out=` take other arguments",
    "histogramdd": "its edges are tensors in a tuple: held to more in test_small_operators",
    "empty": "nothing is written",
    "arange": "a warning in other words",
    "narrow_copy": "values go astray in memory with gaps",
    "nn.functional.avg_pool3d": "values go astray in memory with gaps",
    "nn.functional.gelu": "values go astray in memory with gaps",
}
KEPT = ("float64", "float16", "int64", "int32", "uint8", "bool", "complex64")


def operators():
    """Those with an ``out=`` on both sides, one entry a name."""
    seen = set()
    for info in op_db:
        if not info.supports_out or info.name in seen or info.name in APART:
            continue
        function = find(info.name)
        if function is None or LEFT_OUT.get(info.name, RANDOM) is not RANDOM:
            continue
        if torch.float32 not in info.dtypes:
            continue
        seen.add(info.name)
        yield pytest.param(info, function, id=info.name)


def outputs_for(result, name):
    """A tensor for each of a result's, changed."""
    several = isinstance(result, (list, tuple))
    made = [changed(t, name) for t in (result if several else [result])]
    return tuple(made) if several else made[0]


def spaced(t):
    """A transposed tensor with gaps, of the sizes of ``t``."""
    wide = torch.full([*t.shape[::-1], 2], 1, dtype=t.dtype)
    return wide.select(-1, 0).permute(*range(t.ndim)[::-1])


def longer(t):
    """One more along the last dimension."""
    sizes = [*t.shape[:-1], t.shape[-1] + 1] if t.ndim else [2]
    return torch.full(sizes, 1, dtype=t.dtype)


CHANGES = {
    "as it is": lambda t: torch.full(t.shape, 1, dtype=t.dtype),
    "spaced": lambda t: spaced(t) if t.ndim else torch.full((), 1, dtype=t.dtype),
    "longer": longer,
    "empty": lambda t: torch.empty(0, dtype=t.dtype),
    "wants grad": lambda t: torch.full(t.shape, 1, dtype=t.dtype).requires_grad_(
        t.is_floating_point()
    ),
}


def changed(t, name):
    """An output for a result: of another layout, or of another type."""
    if name in CHANGES:
        return CHANGES[name](t)
    return torch.full(t.shape, 1, dtype=getattr(torch, name))


def outcome(module, function, sample, out):
    """What a call leaves: the exception's class, or warning, identity and layout."""
    outs = out if isinstance(out, tuple) else (out,)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(sample.input, *sample.args, **sample.kwargs, out=out)
        except Exception as error:
            return type(error).__name__, str(error), None
    results = result if isinstance(result, (list, tuple)) else (result,)
    return (
        any("was resized" in str(one.message) for one in caught),
        [one is two for one, two in zip(results, outs)],
        [laid(t) for t in outs],
        [t.detach().numpy(force=True) if module is torch else t.numpy(force=True)
         for t in outs],
    )  # fmt: skip


def laid(t):
    """Sizes, and the strides that say something."""
    strides = [step for step, size in zip(t.stride(), t.shape) if size > 1]
    return list(t.shape), strides if 0 not in t.shape else []


class Carried:
    """A sample on our side."""

    def __init__(self, sample):
        carried = {}
        self.input, self.args, self.kwargs = (
            to_rushlight(part, carried)
            for part in (sample.input, sample.args, sample.kwargs)
        )


def close(left, right):
    return np.allclose(left, right, 1e-4, 3e-5, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info, function", list(operators()))
def test_out_has_the_oracles_rules(info, function):
    torch.manual_seed(0)
    sample = next(iter(info.sample_inputs("cpu", torch.float32)))
    result = info.op(sample.input, *sample.args, **sample.kwargs)
    wrong = []
    for name in (*CHANGES, *KEPT):
        theirs = outputs_for(result, name)
        mine = to_rushlight(theirs)
        want = outcome(torch, info.op, sample, theirs)
        got = outcome(rl, function, Carried(sample), mine)
        if want[0] in (True, False) and got[0] in (True, False):
            same = want[:3] == got[:3] and (
                info.name in LEFT_OUT or all(map(close, want[3], got[3]))
            )
        else:
            same = want[0] == got[0]
        refused = want[0] in ("RuntimeError", "NotImplementedError")
        if not same and not (name in KEPT and refused):  # ours may take more types
            wrong.append((name, want[:3], got[:3]))
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", "gather index_select cumsum cat add neg".split())
def test_an_output_in_the_memory_of_an_input_is_refused_as_the_oracle_refuses(name):
    told = []
    for module in (torch, rl):
        for shift in (0, 1):
            buffer = module.arange(8.0)
            x, out = buffer[:6], buffer[shift : shift + 6]
            index = module.tensor([0, 1, 2, 3, 4, 5])
            first = [x[:3], x[3:]] if name == "cat" else x
            rest = {"gather": (0, index), "index_select": (0, index), "add": (x,),
                    "neg": ()}.get(name, (0,))  # fmt: skip
            try:
                told.append(getattr(module, name)(first, *rest, out=out).tolist())
            except RuntimeError as error:
                told.append(str(error)[:60])
    assert told[:2] == told[2:]

"""A transformation of a transformation agrees with PyTorch, for a third of all operators.

For every pair of grad, vjp, jvp and vmap, on the first small sample that the oracle's
database has of an operator in float64. Where the two libraries differ, differences
quotients of the inner transformation decide: forward mode of the oracle goes through what
it has computed before as if it were constant, so that what is taken of it comes out wrong.
"""

import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.operators.oracle import to_rushlight  # noqa: E402

EVERY = 3  # of so many operators, one is looked at
# These always: what they save for their gradients has been taken for constant once.
ALWAYS = {
    "polar",
    "linalg.solve",
    "linalg.slogdet",
    "linalg.det",
    "logdet",
    "cumprod",
    "fill",
}
KINDS = ("grad", "vjp", "jvp", "vmap")
LEFT_OUT = {
    "zero_": "in place on a leaf",
    "double": "a type is no function here",
    "special.erfcx": "numbers of 1e19 cancel",
    "svd_lowrank": "random",
    "pca_lowrank": "random",
    "normal": "random",
    "bernoulli": "random",
    "cdouble": "a type is no function here",
    "mT": "no function",
    "mH": "no function",
    "nn.functional.rrelu": "random",
    "nn.functional.embedding": "the oracle's samples call it another way",
    "cholesky_inverse": "the oracle's wrapper takes the oracle's tensors only",
    "linalg.eig": "phases of vectors are free",
    "linalg.eigh": "signs of vectors are free",
}


def find(name):
    target = rl
    for part in name.split("."):
        target = getattr(target, part, None)
    return target if callable(target) else getattr(rl.Tensor, name, None)


def first_small_sample(info):
    """A sample of few numbers, or None."""
    torch.manual_seed(0)
    try:
        for sample in info.sample_inputs("cpu", torch.float64, requires_grad=False):
            x = sample.input
            if isinstance(x, torch.Tensor) and x.dtype == torch.float64:
                if 0 < x.numel() <= 36 and x.dim():
                    return sample
    except Exception:  # some need another device
        return None
    return None


def operators():
    """Every third operator with both modes of differentiation."""
    names = []
    for info in op_db:
        name = info.name
        both = info.supports_autograd and info.supports_forward_ad
        if not both or torch.float64 not in info.dtypes or info.variant_test_name:
            continue
        if name.startswith("_") or "rand" in name or "dropout" in name:
            continue
        if name.startswith("masked."):
            continue  # the oracle's wrapper takes the oracle's tensors only
        if name in LEFT_OUT or "empty" in name or find(name) is None:
            continue
        if len(names) % EVERY == 0 or name in ALWAYS:
            yield pytest.param(info, id=name)
        names.append(name)


def floats(output):
    if isinstance(output, (tuple, list)):
        return [one for part in output for one in floats(part)]
    if not isinstance(output, (rl.Tensor, torch.Tensor)):
        return []
    if output.is_complex():
        return [output.real, output.imag]
    return [output] if output.is_floating_point() else []


def total(output):
    """One number of all that an operator gives, in which none is linear."""
    parts = [one.sin().sum() for one in floats(output)]
    return sum(parts[1:], parts[0])


def under(kind, f, library):
    """``f`` under a transformation; again a function of one tensor."""
    func = library.func

    def number(y):
        return total(f(y))

    if kind == "grad":
        return func.grad(number)
    if kind == "vjp":
        return lambda x: func.vjp(number, x)[1](library.ones_like(number(x)))[0]
    if kind == "jvp":
        return lambda x: func.jvp(lambda y: number(y) * y, (x,), (x.cos(),))[1]
    return lambda x: func.vmap(lambda y: number(y) * y)(library.stack([x, x * 0.9]))


def both_ways(info, sample):
    """The operator as a function of its first tensor, in each library."""
    ours = find(info.name)
    args, options = to_rushlight((sample.args, sample.kwargs), {})
    wrapped = info.gradcheck_wrapper
    return {
        rl: lambda x: wrapped(ours, x, *args, **options),
        torch: lambda x: wrapped(info.op, x, *sample.args, **sample.kwargs),
    }


def quotient(f, x, kind):
    """What the outer transformation gives, by differences of the inner one's numbers."""

    def number(values):
        return float(total(f(rl.tensor(values))))

    step = 1e-5
    slope = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        moved = np.zeros(x.shape)
        moved[place] = step
        slope[place] = (number(x + moved) - number(x - moved)) / (2 * step)
    if kind != "jvp":
        return slope
    return np.cos(x) * number(x) + x * (slope * np.cos(x)).sum()


def close(found, expected, digits):
    size = np.abs(expected).max(initial=0)
    return np.allclose(found, expected, digits, digits * (size + 1e-2), equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", list(operators()))
def test_every_pair_agrees(info):
    sample = first_small_sample(info)
    if sample is None:
        pytest.skip("the oracle has no small sample of one tensor")
    functions = both_ways(info, sample)
    x = sample.input.detach().numpy()
    for outer, inner in itertools.product(KINDS, KINDS):
        try:
            theirs = under(outer, under(inner, functions[torch], torch), torch)
            expected = theirs(torch.tensor(x)).numpy()
        except (RuntimeError, NotImplementedError, ValueError):
            continue  # the oracle cannot
        inside = under(inner, functions[rl], rl)
        found = under(outer, inside, rl)(rl.tensor(x)).numpy()
        if close(found, expected, 1e-6):
            continue
        assert outer != "vmap", f"{outer} of {inner}: {found} for {expected}"
        slope = quotient(inside, x, outer)
        assert close(found, slope, 1e-3), f"{outer} of {inner}: {found} for {expected}"
        assert not close(expected, slope, 1e-3), f"{outer} of {inner}"

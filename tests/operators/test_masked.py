"""Masked reductions, beside the oracle's."""

import warnings

import numpy as np
import pytest

import rushlight as rl

CASES = [
    (name, {"dim": dim, "keepdim": keepdim})
    for name in (
        "sum",
        "prod",
        "amax",
        "amin",
        "mean",
        "norm",
        "var",
        "std",
        "logsumexp",
    )
    for dim in (None, 1, (0, 2), ())
    for keepdim in (True, False)
]
CASES += [
    (name, {"dim": 1}) for name in ("argmax", "argmin", "median", "cumsum", "cumprod")
]
CASES += [(name, {"dim": 1}) for name in ("softmax", "log_softmax", "softmin")]
CASES += [
    ("normalize", {"dim": 1, "ord": 2.0}),
    ("norm", {"dim": 1, "ord": float("-inf")}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_results_and_gradients_are_the_oracles(name, settings):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 4, 2))
    for mask in (rng.random((3, 4, 2)) < 0.6, rng.random((4, 1)) < 0.6, None):
        x, y = (
            rl.from_numpy(values).requires_grad_(),
            torch.from_numpy(values).requires_grad_(),
        )
        ours = None if mask is None else rl.from_numpy(mask)
        theirs = None if mask is None else torch.from_numpy(mask)
        result = getattr(rl.masked, name)(x, mask=ours, **settings)
        expected = getattr(torch.masked, name)(y, mask=theirs, **settings)
        np.testing.assert_allclose(
            result.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12
        )
        if expected.requires_grad and bool(torch.isfinite(expected).all()):
            result.sum().backward()
            expected.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-12)


def test_masks_that_do_not_fit_are_refused():
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        rl.masked.sum(rl.ones(3), mask=rl.ones(2, 3, dtype=rl.bool))
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        rl.masked.mean(rl.ones(3, dtype=rl.int64))
    with pytest.raises(NotImplementedError, match="identity of amax"):
        rl.masked.amax(rl.ones(3, dtype=rl.bool), mask=rl.ones(3, dtype=rl.bool))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_running_sums_of_integers_keep_their_type(dtype):
    x = rl.ones(3, dtype=getattr(rl, dtype))
    assert rl.masked.cumsum(x, 0).dtype is x.dtype
    assert rl.masked.cumprod(x, 0).dtype is x.dtype
    assert rl.masked.sum(x).dtype is rl.int64


NAMES = (
    "sum prod amax amin mean norm var std logsumexp argmax argmin median cumsum".split()
)
NAMES += ["cumprod", "softmax", "log_softmax", "softmin", "logaddexp"]
WRONG = [
    {"dim": (0, 0)}, {"dim": 7}, {"dim": 2**70}, {"dim": False}, {"dim": (-1,)},
    {"dim": 1, "keepdim": 1}, {"dim": 1, "keepdim": None}, {"dim": 1, "correction": ()},
    {"dim": 1, "correction": 0.5}, {"dim": 1, "unbiased": False},
    {"dim": 1, "unbiased": True, "correction": 1}, {"dim": 1, "ord": -float("inf")},
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint16", "complex64"])
@pytest.mark.parametrize("name", NAMES)
def test_types_and_odd_settings_go_as_on_the_oracle(name, dtype):
    torch = pytest.importorskip("torch")

    def outcome(module, settings, masked):
        values = module.arange(12).reshape(3, 4).to(getattr(module, dtype))
        mask = module.tensor([True, False, True, True]) if masked else None
        operands = [values] * (2 if name == "logaddexp" else 1)
        key = "input_mask" if name == "logaddexp" else "mask"
        warnings.simplefilter("ignore")  # imaginary parts that get lost
        try:
            result = getattr(module.masked, name)(*operands, **settings, **{key: mask})
        except Exception as error:
            kind = type(error).__name__
            return "NotImplemented" if kind == "NotImplementedError" else kind
        return str(result.dtype).rpartition(".")[2], tuple(result.shape)

    for settings in [{}, {"dim": 1}, *WRONG]:
        for masked in (True, False):
            found = outcome(rl, settings, masked)
            expected = outcome(torch, settings, masked)
            if expected == "NotImplemented":  # a type for which there is no kernel
                continue
            assert found == expected, (settings, masked)

"""Resampling agrees with the oracle in every mode, dtype and way of giving the size."""

import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F

torch = pytest.importorskip("torch", reason="the oracle is not installed")

MODES = [
    (1, "nearest"), (1, "nearest-exact"), (1, "linear"),
    (2, "nearest"), (2, "nearest-exact"), (2, "bilinear"), (2, "bicubic"),
    (3, "nearest"), (3, "nearest-exact"), (3, "trilinear"),
]  # fmt: skip
SIZES = [
    {"size": (3, 5, 4)},
    {"size": (9, 11, 10)},
    {"size": (7, 6, 5)},
    {"scale_factor": 2},
    {"scale_factor": 0.6},
    {"scale_factor": 2.3, "recompute_scale_factor": True},
]
CLOSE = {"float32": 1e-4, "float64": 1e-12, "uint8": 0, "float16": 3e-3}


@pytest.mark.parametrize("kind", CLOSE)
@pytest.mark.parametrize(("n", "mode"), MODES)
def test_every_mode_agrees_with_the_oracle(n, mode, kind):
    if kind == "uint8" and mode in ("linear", "trilinear"):
        pytest.skip("the oracle has no bytes there")
    smooth = not mode.startswith("nearest")
    values = (np.random.default_rng(3).random((2, 3, *(7, 6, 5)[:n])) * 255).astype(
        kind
    )
    for wanted in SIZES:
        wanted = {k: v[:n] if isinstance(v, tuple) else v for k, v in wanted.items()}
        for align in (False, True) if smooth else (None,):
            for antialias in (False, True) if smooth and n == 2 else (False,):
                if antialias and kind == "float16":
                    continue  # which the oracle refuses
                options = dict(
                    mode=mode, align_corners=align, antialias=antialias, **wanted
                )
                mine = F.interpolate(rl.from_numpy(values.copy()), **options)
                theirs = torch.nn.functional.interpolate(
                    torch.from_numpy(values), **options
                )
                np.testing.assert_allclose(
                    mine.double().numpy(), theirs.double().numpy(),
                    rtol=CLOSE[kind], atol=255 * CLOSE[kind], err_msg=str(options),
                )  # fmt: skip


@pytest.mark.parametrize(("n", "mode"), MODES)
def test_gradients_agree_with_the_oracle(n, mode):
    values = np.random.default_rng(4).random((2, 2, *(5, 6, 4)[:n]))
    grads = []
    for module, functions in ((rl, F), (torch, torch.nn.functional)):
        x = module.from_numpy(values.copy()).requires_grad_()
        result = functions.interpolate(x, scale_factor=1.7, mode=mode)
        (result * result).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 1e40},
        {"scale_factor": float("nan")},
        {"scale_factor": -1},
        {"scale_factor": 0.01},
        {"scale_factor": (2,)},
        {"scale_factor": 2, "size": 3},
        {"scale_factor": "2"},
        {"size": 0},
        {"size": 2**40},
        {"size": 2.5},
        {"size": (3, 3, 3)},
        {"size": 3, "mode": "linear"},
        {"size": 3, "mode": "unknown"},
        {"size": 3, "align_corners": True},
        {"size": 3, "antialias": True},
        {"size": 3, "recompute_scale_factor": True},
        {"size": 3, "mode": "lanczos"},
        {},
    ],
)
def test_what_cannot_be_reached_is_refused_at_once(options):
    with pytest.raises(Exception) as theirs:
        torch.nn.functional.interpolate(torch.ones(1, 1, 4, 4), **options)
    with pytest.raises(theirs.type):
        F.interpolate(rl.ones(1, 1, 4, 4), **options)


def test_an_empty_batch_stays_empty():
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        assert F.interpolate(rl.ones(0, 2, 4, 4), size=3, mode=mode).shape == (
            0,
            2,
            3,
            3,
        )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_gradients_are_pytorch_s_whether_elements_are_used_alike_or_not(mode, kind):
    sizes = [(5, 7), (4, 4), (8, 8), (6, 9), (3, 17), (1, 1)]
    for size, scale in itertools.product(sizes, (0.5, 1, 1.5, 2, 3, 4, 5, (2, 3))):
        if size == (1, 1) and scale == 0.5:
            continue
        x = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(kind)
        found = []
        for m in (rl, torch):
            given = m.tensor(x).requires_grad_()
            out = m.nn.functional.interpolate(given, scale_factor=scale, mode=mode)
            along = m.tensor(np.cos(np.arange(out.numel())).astype(kind))
            (slope,) = m.autograd.grad(out, given, along.reshape(out.shape))
            found.append(slope.numpy())
        close = 1e-5 if kind == "float32" else 1e-12
        np.testing.assert_allclose(*found, rtol=close, atol=close)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_an_infinite_gradient_reaches_only_what_its_output_was_made_of(mode):
    grads = []
    for lib in (rl, torch):
        x = lib.zeros(1, 1, 6, 5, requires_grad=True)
        y = lib.nn.functional.interpolate(x, size=(11, 9), mode=mode)
        slope = lib.ones_like(y)
        slope[0, 0, 0, 4] = float("inf")
        y.backward(slope)
        grads.append(x.grad.numpy())
    np.testing.assert_array_equal(np.isfinite(grads[0]), np.isfinite(grads[1]))

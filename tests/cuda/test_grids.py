"""Samples at the points of a grid on cards: a point is a thread's, and lies in registers."""

import pytest

import rushlight as rl
from rushlight.codegen.emit import device
from rushlight.codegen.target import NVIDIA, using
from rushlight.nn import functional as F
from rushlight.operators.resampling import grid_kernels

SAMPLES = [(2, 0, 2), (2, 1, 1), (3, 0, 2)]


def texts():
    """PTX of the kernels, of linear samples and of nearest elements."""
    given = {"T": "float32", "I": "int32", "padding": 0, "block": 1}
    with using(NVIDIA):
        for axes, mode, taps in SAMPLES:
            choice = {**given, "axes": axes, "mode": mode, "taps": taps}
            yield device.emit(grid_kernels.sample_points.lower(**choice))
        for axes in (2, 3):
            yield device.emit(grid_kernels.slope_points.lower(**given, axes=axes))


def test_samples_keep_nothing_in_local_memory():
    for text in texts():
        assert ".entry" in text and ".local" not in text


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_and_their_gradients_are_the_hosts(machine, mode):
    machine.start(memory=1 << 27)
    rl.manual_seed(0)
    image, grid = rl.randn(2, 3, 5, 4), rl.rand(2, 9, 8, 2) * 2.4 - 1.2
    found = []
    for where in ("cpu", "cuda"):
        x, points = (t.clone().to(where).requires_grad_() for t in (image, grid))
        out = F.grid_sample(x, points, mode, "reflection", align_corners=False)
        out.square().sum().backward()
        found.append([t.detach().cpu() for t in (out, x.grad, points.grad)])
    for here, there in zip(*found, strict=True):
        assert rl.allclose(here, there, atol=1e-4)

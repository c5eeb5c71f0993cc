"""Pooling on an imagined card: an element a thread, with the host's values and places."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import functional as F

WINDOWS = (
    ((2, 3, 11), "max_pool1d", dict(kernel_size=3, stride=2, padding=1, dilation=2)),
    ((2, 3, 9, 10), "max_pool2d", dict(kernel_size=3, stride=2, padding=1)),
    ((2, 3, 9, 10), "max_pool2d", dict(kernel_size=(2, 3), stride=1, dilation=(3, 2))),
    ((2, 3, 9, 10), "max_pool2d", dict(kernel_size=2, stride=3, ceil_mode=True)),
    ((1, 2, 5, 6, 7), "max_pool3d", dict(kernel_size=3, stride=2, padding=1)),
    ((2, 3, 11), "avg_pool1d", dict(kernel_size=3, stride=2, padding=1)),
    (
        (2, 3, 9, 10),
        "avg_pool2d",
        dict(kernel_size=3, count_include_pad=False, padding=1),
    ),
    ((2, 3, 9, 10), "avg_pool2d", dict(kernel_size=2, divisor_override=3)),
    ((1, 2, 5, 6, 7), "avg_pool3d", dict(kernel_size=2, ceil_mode=True)),
    ((2, 3, 9, 10), "adaptive_avg_pool2d", dict(output_size=(4, 3))),
    ((2, 3, 9, 10), "adaptive_max_pool2d", dict(output_size=(4, 3))),
)


@pytest.mark.parametrize("shape, name, given", WINDOWS)
def test_windows_have_the_hosts_values_places_and_gradients(
    machine, shape, name, given
):
    found = []
    for device in ("cpu", "cuda"):
        rl.manual_seed(0)
        x = rl.randn(shape)
        x[..., 2] = float("nan")
        x = x.to(device).requires_grad_()
        more = {"return_indices": True} if "max" in name else {}
        results = getattr(F, name)(x, **given, **more)
        results = results if isinstance(results, tuple) else (results,)
        results[0].nan_to_num(0.5).square().sum().backward()
        found.append([r.detach().cpu() for r in (*results, x.grad)])
    for here, there in zip(*found, strict=True):
        assert rl.allclose(here, there, rtol=1e-6, equal_nan=True)


def test_places_outside_of_their_plane_are_refused(machine):
    x = rl.randn(1, 1, 4, 4, device="cuda")
    index = rl.full((1, 1, 2, 2), 16, device="cuda")
    geometry = [2, 2], [2, 2], [0, 0], [1, 1], False
    with pytest.raises(RuntimeError, match="found an invalid max index: 16"):
        rl.ops.aten.max_pool2d_with_indices_backward(
            x[..., :2, :2], x, *geometry, index
        ).cpu()

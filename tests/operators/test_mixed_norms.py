"""Norms of half-precision activations whose parameters are wider: gradients in full."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F

NORMS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
    "layer_norm of long rows": lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "instance_norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
}
SHAPES = {
    "layer_norm": (40, 16),
    "layer_norm of long rows": (2, 70_000),
}
HALF = [torch.bfloat16, torch.float16]


def gradients(norm, x, dtype, parameters_dtype, run):
    """Gradients of a norm's input, weight and bias at ``x``."""
    size = x.shape[1]
    x = x.to(dtype, copy=True).requires_grad_()
    weight = torch.linspace(0.5, 1.5, size, dtype=torch.float64).to(parameters_dtype)
    bias = torch.zeros(size, dtype=parameters_dtype)
    parameters = weight.requires_grad_(), bias.requires_grad_()
    result = run(norm)(x, *parameters)
    grad = torch.arange(result.numel()).reshape(result.shape) % 7 - 2
    result.backward(grad.to(result.dtype))
    return [each.grad for each in (x, *parameters)]


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("run", [lambda f: f, torch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_wide_parameters_are_not_rounded_to_half(name, run, dtype):
    x = torch.randn(SHAPES.get(name, (6, 8, 5)), dtype=torch.float32).to(dtype)
    found = gradients(NORMS[name], x, dtype, torch.float32, run)
    exact = gradients(NORMS[name], x, torch.float64, torch.float64, lambda f: f)
    assert [each.dtype for each in found] == [dtype, torch.float32, torch.float32]
    for each, true in zip(found[1:], exact[1:], strict=True):
        torch.testing.assert_close(
            each.double(), true, rtol=1e-5, atol=1e-5 * true.abs().max()
        )


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_shapes_without_elements_give_wide_parameters_the_same_dtypes(dtype):
    x, parameter = torch.empty(4, 8, dtype=dtype), torch.empty(8)
    moments = torch.empty(4, 1)
    given = [x, x, [8], moments, moments, parameter, parameter, [True, True, True]]
    kinds = []
    for device in ("cpu", "meta"):
        moved = [a.to(device) if isinstance(a, torch.Tensor) else a for a in given]
        found = torch.ops.aten.native_layer_norm_backward(*moved)
        kinds.append([each.dtype for each in found])
    assert kinds[0] == kinds[1] == [dtype, torch.float32, torch.float32]

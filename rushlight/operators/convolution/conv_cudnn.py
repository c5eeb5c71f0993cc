"""Convolutions by a library of the device's, where it has one that takes them.

Operands keep their dtype: what is short is multiplied as it is. All of them are brought
into one format, channels first or last, and results are made in it. Every function gives
None where the library does not do the work, and kernels of ours must.
"""

from rushlight.core.device import backend_for
from rushlight.core.roles import host
from rushlight.kernels.conv.conv_geometry import output_size
from rushlight.operators import call as ops
from rushlight.operators.matmul.matmul_cuda import check_together

fresh = host.matmul.fresh


def run(kind, shape, first, second, vector, layout, stride, padding, dilation):
    """A result of a shape, in the format of the operands.

    Args:
        kind: see `rushlight.core.device_roles.Libraries.run_convolution`, as for all but these.
        shape: of the result.
        layout: the memory format of all of them; None for rows.
    """
    check_together(first, second, vector)
    backend = backend_for(first.device)
    if 0 in shape or not backend.libraries.convolves(first.dtype):
        return None
    last = layout is not None
    if last:
        batch, channels, *sizes = shape
        result = fresh(first, (batch, *sizes, channels)).movedim(-1, 1)
    else:
        result = fresh(first, shape)
    if vector is not None and not vector.is_contiguous():
        vector = vector.contiguous()
    done = backend.libraries.run_convolution(
        *(kind, result, dense(first, last), dense(second, last), vector, last),
        *(stride, padding, dilation),
    )
    return result if done else None


def dense(tensor, last):
    """A tensor without gaps, with channels first or last in memory."""
    if not last:
        return tensor if tensor.is_contiguous() else tensor.contiguous()
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def forward(input, weight, bias, plan, transposed, layout):
    """The output of a convolution that `convolution.planned` has checked."""
    if not transposed:
        *settings, _ = plan.settings
        return run("forward", plan.shape, input, weight, bias, layout, *settings)
    shape, *settings, _ = plan
    if seen(shape, weight, *settings) != list(input.shape[2:]):
        return None  # padded by a step: that is no convolution's gradient
    result = run("input", shape, input, weight, None, layout, *settings)
    if result is not None and bias is not None:
        result = result.add_(bias.reshape(-1, *[1] * (input.ndim - 2)))
    return result


def input_gradient(grad, input, weight, transposed, layout, geometry):
    """The gradient of the input."""
    *settings, _ = geometry
    if not transposed:
        shape = tuple(input.shape)
        return run("input", shape, grad, weight, None, layout, *settings)
    sizes = seen(grad.shape, weight, *settings)
    shape = (grad.shape[0], weight.shape[0], *sizes)
    result = run("forward", shape, grad, weight, None, layout, *settings)
    if result is None or result.shape == input.shape:
        return result
    for dim, size in enumerate(input.shape[2:], 2):  # the output was padded by a step
        result = result.narrow(dim, 0, size)
    return dense(result, layout is not None)


def weight_gradient(grad, input, weight, transposed, layout, geometry):
    """The gradient of the weight."""
    *settings, _ = geometry
    image, loss = (grad, input) if transposed else (input, grad)
    if seen(image.shape, weight, *settings) != list(loss.shape[2:]):
        return None
    shape = tuple(weight.shape)
    return run("weight", shape, image, loss, None, layout, *settings)


def seen(shape, weight, stride, padding, dilation):
    """The sizes in space of a convolution's output."""
    sizes = zip(*(shape[2:], weight.shape[2:], stride, padding, dilation), strict=True)
    return [output_size(*values) for values in sizes]

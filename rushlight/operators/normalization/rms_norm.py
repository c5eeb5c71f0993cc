"""Root-mean-square normalization: rows over the roots of their mean squares.

The gradients are kernels where nothing differentiates them again, and formulas over
operators under ``create_graph``.
"""

from rushlight.codegen.language import mean, rowwise, rsqrt, total
from rushlight.core.dtype import FLOATING, finfo
from rushlight.core.layout import contiguous_format
from rushlight.core.state import is_recording
from rushlight.operators import call as ops
from rushlight.operators.half_precision import narrowed, widened
from rushlight.operators.half_precision import statistics_dtype as _wide
from rushlight.operators.loop_calls import expect, fresh, name_of, scalar_name
from rushlight.operators.normalization import long_rows
from rushlight.operators.normalization.normalization import (
    check_parameter,
    moments_of,
    rows_of,
)
from rushlight.operators.normalization.rows import EACH, ROW, SHARED, run_rows
from rushlight.operators.shape.formats import format_of, laid_out, odd_steps


@rowwise
def rms_norm_kernel(x, dim, eps):
    """The row over the root of its mean square, and one over that root."""
    rstd = rsqrt(mean(x * x, over=dim) + eps)
    return x * rstd, rstd


@rowwise
def rms_norm_affine_kernel(x, weight, dim, eps):
    """``rms_norm_kernel``, scaled."""
    rstd = rsqrt(mean(x * x, over=dim) + eps)
    return x * rstd * weight, rstd


@rowwise(scalars=("rstd",))
def rms_norm_backward_kernel(grad, x, rstd, dim):
    """The gradient less its share along the normalized row."""
    unit = x * rstd
    return (grad - unit * mean(grad * unit, over=dim)) * rstd


@rowwise(scalars=("rstd",))
def rms_norm_affine_backward_kernel(grad, x, rstd, weight, dim):
    """``rms_norm_backward_kernel`` of the scaled gradient."""
    scaled = grad * weight
    unit = x * rstd
    return (scaled - unit * mean(scaled * unit, over=dim)) * rstd


@rowwise
def rms_norm_weight_kernel(grad, x, rstd, dim):
    """A sum over the samples: a row runs along the samples here."""
    return total(grad * x * rstd, over=dim)


def rms_norm(input, normalized_shape, weight, eps):
    """The rows over the roots of their mean squares, scaled.

    Raises:
        RuntimeError: the shapes don't fit.
    """
    if normalized_shape:
        check_parameter("weight", weight, normalized_shape)
    if input.ndim < len(normalized_shape):
        raise ValueError(
            f"Input tensor must have at least {len(normalized_shape)} dimensions, but got "
            f"{input.ndim}"
        )
    _, size = rows_of(input, normalized_shape)
    if input.dtype.category < FLOATING:
        raise NotImplementedError(
            f"\"rms_norm\" not implemented for '{scalar_name(input.dtype)}'"
        )
    format = format_of(input)
    fits = weight is None or weight.dtype in (input.dtype, _wide(input.dtype))
    if fits and not (input.dtype.is_complex or odd_steps(input)):
        result = ops._fused_rms_norm(input, normalized_shape, weight, eps)[0]
        return result if format is None else result.contiguous(memory_format=format)
    wide = input.to(_wide(input.dtype))
    result = wide * _root_mean_square(wide, normalized_shape, eps)
    result = result if weight is None else result * weight
    order = contiguous_format if format is None else format
    return result.contiguous(memory_format=order).to(input.dtype)


def _root_mean_square(x, normalized_shape, eps):
    """One over the root of each row's mean square."""
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    return ops.rsqrt((x * x).mean(dims, True) + _epsilon(x, eps))


def _epsilon(x, eps):
    return finfo(_wide(x.dtype)).eps if eps is None else float(eps)


def fused_rms_norm(input, normalized_shape, weight, eps):
    """One kernel over the rows.

    Raises:
        RuntimeError: the shapes don't fit.
    """
    rows, size = rows_of(input, normalized_shape)
    check_parameter("weight", weight, normalized_shape)
    x, count = input.contiguous(), len(normalized_shape)
    if long_rows.are_long(size, x):
        return long_rows.rms_norm(x, count, weight, _epsilon(x, eps))
    short = [*x.shape[: x.ndim - count], *[1] * count]
    result, rstd = fresh(x, x.shape), fresh(x, short, _wide(x.dtype))
    kernel, operands = rms_norm_kernel, [(x, EACH)]
    if weight is not None:
        kernel = rms_norm_affine_kernel
        operands.append((weight.contiguous(), SHARED))
    run_rows(
        kernel, [(result, EACH), (rstd, ROW)], operands, (rows, size, 1),
        name_of(x.dtype), (_epsilon(x, eps),),
    )  # fmt: skip
    return result, rstd


def fused_rms_norm_backward(
    grad_out, input, normalized_shape, rstd, weight, output_mask
):
    """One kernel over the rows, one over the columns.

    Raises:
        RuntimeError: the shapes don't fit.
    """
    rows, size = rows_of(input, normalized_shape)
    check_parameter("weight", weight, normalized_shape)
    expect("_fused_rms_norm_backward", grad_out=(grad_out, input.shape, None))
    (rstd,) = moments_of("_fused_rms_norm_backward", [rows], rstd)
    grad, x, compute = grad_out.contiguous(), input.contiguous(), name_of(input.dtype)
    d_input = d_weight = None
    if output_mask[0]:
        d_input = fresh(x, x.shape)
        kernel, operands = rms_norm_backward_kernel, [(grad, EACH), (x, EACH)]
        operands.append((rstd, ROW))
        if weight is not None:
            kernel = rms_norm_affine_backward_kernel
            operands.append((weight.contiguous(), SHARED))
        run_rows(kernel, [(d_input, EACH)], operands, (rows, size, 1), compute)
    if output_mask[1] and weight is not None and long_rows.are_long(rows, x):
        center = ops.zeros_like(rstd)
        d_weight, _ = long_rows.layer_norm_parameters(
            grad, x, center, rstd, normalized_shape, weight.dtype
        )
    elif output_mask[1] and weight is not None:
        d_weight = fresh(x, normalized_shape, weight.dtype)
        run_rows(
            rms_norm_weight_kernel, [(d_weight, ROW)],
            [(grad, EACH), (x, EACH), (rstd, SHARED)], (1, rows, size), compute,
        )  # fmt: skip
    return d_input, d_weight


def rms_norm_gradients(grad, input, normalized_shape, rstd, weight, eps, needs):
    """By kernels, or by operators that can be differentiated again."""
    format = format_of(grad)
    if not is_recording():
        mask = [bool(needs & 1), bool(needs & 2)]
        d_input, d_weight = ops._fused_rms_norm_backward(
            grad, input, normalized_shape, rstd, weight, mask
        )
        return d_input if d_input is None else laid_out(d_input, format), d_weight
    if input.dtype.itemsize == 2:  # squares overflow
        grad, x, wide_weight = widened((grad, input, weight))
        eps = _epsilon(input, eps)
        given = x, normalized_shape, rstd, wide_weight, eps, needs
        return narrowed(rms_norm_gradients(grad, *given), input, weight)
    rstd = _root_mean_square(input, normalized_shape, eps)
    unit, d_input, d_weight = input * rstd, None, None
    if needs & 1:
        scaled = grad if weight is None else grad * weight
        dims = list(range(input.ndim - len(normalized_shape), input.ndim))
        along = (scaled * unit).mean(dims, True)
        d_input = laid_out((scaled - unit * along) * rstd, format)
    if needs & 2:
        lead = list(range(input.ndim - len(normalized_shape)))
        d_weight = (grad * unit).sum(lead) if lead else grad * unit
    return d_input, d_weight

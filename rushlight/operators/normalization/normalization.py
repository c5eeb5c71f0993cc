"""Layer, group, batch and root-mean-square normalization.

The gradients are kernels where nothing differentiates them again, and formulas over
operators under ``create_graph``.
"""

from math import prod as product

from rushlight.codegen.language import (
    cast,
    fma,
    maximum,
    mean,
    pointwise,
    rowwise,
    rsqrt,
    select,
    total,
)
from rushlight.core.dtype import FLOATING, finfo, get_default_dtype
from rushlight.core.dtypes import float32, float64, uint8
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.core.state import is_recording
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.python_key import listening
from rushlight.operators import call as ops
from rushlight.operators import shared
from rushlight.operators.half_precision import narrowed, widened
from rushlight.operators.half_precision import statistics_dtype as _wide
from rushlight.operators.loop_calls import brief, expect, fresh, name_of, scalar_name
from rushlight.operators.normalization import long_rows
from rushlight.operators.normalization.rows import (
    EACH,
    OUTER,
    PER_ELEMENT,
    ROW,
    SHARED,
    run_rows,
)
from rushlight.operators.shape.formats import format_of, laid_out, odd_steps
from rushlight.operators.shared import conjugated, followed, readable, refuse_gradient


def _centered(x, dim, eps):
    """Distances from the mean, the mean in two parts, and the reciprocal deviation.

    What the mean was rounded by is the mean of the distances: far from zero those are
    exact, while near zero they are rounded more than the mean is.
    """
    center = mean(x, over=dim)
    gap = x - center
    shift = mean(gap, over=dim)
    spread = maximum(mean(gap * gap, over=dim) - shift * shift, 0)
    far = center * center > spread * 0.01
    shift = select(far, shift, 0)
    return gap - shift, (center, shift), rsqrt(spread + eps)


@rowwise
def layer_norm_kernel(x, dim, eps):
    """The row with mean zero and variance one; its mean and reciprocal deviation."""
    gap, center, rstd = _centered(x, dim, eps)
    return gap * rstd, center[0] + center[1], rstd


@rowwise
def layer_norm_affine_kernel(x, weight, bias, dim, eps):
    """``layer_norm_kernel``, scaled and shifted."""
    gap, center, rstd = _centered(x, dim, eps)
    return gap * rstd * weight + bias, center[0] + center[1], rstd


@rowwise(scalars=("center", "rstd"))
def layer_norm_backward_kernel(grad, x, center, rstd, dim):
    """The gradient less its mean and its share along the normalized row."""
    unit = (x - center) * rstd
    along = mean(grad * unit, over=dim)
    return (grad - mean(grad, over=dim) - unit * along) * rstd


@rowwise(scalars=("center", "rstd"))
def layer_norm_affine_backward_kernel(grad, x, center, rstd, weight, dim):
    """``layer_norm_backward_kernel`` of the scaled gradient."""
    scaled = grad * weight
    unit = (x - center) * rstd
    along = mean(scaled * unit, over=dim)
    return (scaled - mean(scaled, over=dim) - unit * along) * rstd


@rowwise
def layer_norm_parameters_kernel(grad, x, center, rstd, dim):
    """Sums over the samples: a row runs along the samples here."""
    return total(grad * (x - center) * rstd, over=dim), total(grad, over=dim)


@rowwise
def moments_kernel(x, dim, eps):
    """The mean of a row, its reciprocal deviation, and the mean in two parts."""
    _, center, rstd = _centered(x, dim, eps)
    return center[0] + center[1], rstd, *center


@rowwise(scalars=("center", "shift", "rstd", "weight", "bias"))
def channel_norm_kernel(x, center, shift, rstd, weight, bias, dim):
    """One channel of a group whose moments are known, the mean in two parts."""
    return (x - center - shift) * (rstd * weight) + bias


@rowwise(scalars=("center",))
def channel_sums_kernel(grad, x, center, dim):
    """What the gradients of a channel are made of: its share along the row, its sum."""
    return total(grad * (x - center), over=dim), total(grad, over=dim)


@rowwise(scalars=("center", "rstd", "slope", "grad_mean", "weight"))
def channel_gradient_kernel(grad, x, center, rstd, slope, grad_mean, weight, dim):
    """One channel of `layer_norm_backward_kernel`, the means of its group known."""
    return (grad * weight - grad_mean - (x - center) * slope) * rstd


@pointwise
def reciprocal_deviation(spread, eps):
    """One over the root of a variance, rounded once."""
    return rsqrt(cast(spread, "float64") + cast(eps, "float64"))


@pointwise
def apply_norm(x, center, scale, shift):
    """``(x - center) * scale + shift``, with what the difference is rounded by."""
    gap = x - center
    back = gap - x
    lost = (x - (gap - back)) - (center + back)
    known = select(lost == lost, lost, 0)  # an infinite element loses nothing
    finite = scale - scale == 0  # what is lost is nothing beside infinity
    return fma(gap, scale, select(finite, fma(known, scale, shift), shift))


@pointwise
def centered_product(grad, x, center):
    """The gradient times the distance from the mean."""
    return grad * (x - center)


@pointwise
def norm_input_gradient(grad, x, center, scale, grad_mean, slope):
    """The gradient less its mean and its share along the normalized values."""
    return (grad - grad_mean - (x - center) * slope) * scale


def _check_types(operator, input, *parameters):
    """Parameters are of the input's dtype, or float32 beside half precision.

    Raises:
        NotImplementedError: the input isn't floating.
        RuntimeError: dtypes don't go together.
    """
    dtype, wrong, given = input.dtype, False, []
    for parameter in parameters:
        if parameter is not None:
            given.append(parameter.dtype)
            wrong = wrong or parameter.dtype is not dtype
    if not wrong and dtype.is_floating_point:
        return
    if not dtype.is_floating_point and (operator == "batch_norm" or not wrong):
        raise NotImplementedError(
            f"\"{operator}\" not implemented for '{scalar_name(dtype)}'"
        )
    half = dtype.is_floating_point and dtype.itemsize == 2
    if not half or any(kind is not float32 for kind in given):
        raise RuntimeError(
            "mixed dtype (CPU): expect parameter to have scalar type of Float\n"
            f"  input: {brief(input)}\n  parameters: {given}"
        )


def _check_batch(input, weight, bias, mean, var, training):
    """`_check_types`, and what else PyTorch takes or refuses of batches with strides.

    Raises:
        RuntimeError: a batch of whole numbers has no mean.
    """
    given = [one for one in (weight, bias, mean, var) if one is not None]
    strided = not input.is_contiguous() and format_of(input) is None
    if training and strided and input.dtype.category < FLOATING:
        if not given or given[0].dtype is input.dtype:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a "
                f"floating point or complex dtype. Got: {scalar_name(input.dtype)}"
            )
    strided = strided or not all(one.is_contiguous() for one in given)
    usual = input.dtype is get_default_dtype()
    if (
        strided
        and not training
        and usual
        and var is not None
        and var.dtype.category < FLOATING
    ):
        given = given[:-1]  # the root of a whole number is of the usual type
    _check_types("batch_norm", input, *given)


def _kept(input, *parameters):
    """The dtype of statistics and of parameters' gradients: a parameter's, or the input's."""
    for parameter in parameters:
        if parameter is not None:
            return parameter.dtype
    return input.dtype


# The same of rows and batches: in full where the device is not the host.
_kept_by_kind = KernelTable(cpu=_kept, cuda=lambda input, *_: _wide(input.dtype))


def rows_of(input, normalized_shape):
    """The number of rows and their length.

    Raises:
        RuntimeError: the input doesn't end in the normalized shape.
    """
    normalized_shape = tuple(normalized_shape)
    count = len(normalized_shape)
    if count < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
            f"least one element, but got normalized_shape = {list(normalized_shape)}"
        )
    shape = input.shape
    if shape[len(shape) - count :] != normalized_shape:
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size"
            f"{list(input.shape)}"
        )
    return product(shape[: len(shape) - count]), product(normalized_shape)


def check_parameter(name, parameter, normalized_shape):
    if parameter is not None and tuple(parameter.shape) != tuple(normalized_shape):
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of "
            f"shape {list(parameter.shape)} and normalized_shape = "
            f"{list(normalized_shape)}"
        )


def layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable):
    """The normalized rows alone."""
    return ops.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """One kernel over the rows.

    Raises:
        RuntimeError: the shapes don't fit.
    """
    rows, size = rows_of(input, normalized_shape)
    check_parameter("weight", weight, normalized_shape)
    check_parameter("bias", bias, normalized_shape)
    _check_types("LayerNormKernelImpl", input, weight, bias)
    input = input.contiguous()
    lead = list(input.shape[: input.ndim - len(normalized_shape)])
    short = lead + [1] * len(normalized_shape)
    wide = _kept_by_kind(input, weight, bias)
    result = fresh(input, input.shape)
    if long_rows.are_long(size, input):
        return long_rows.layer_norm(
            input, len(normalized_shape), weight, bias, eps, wide
        )
    center, rstd = fresh(input, short, wide), fresh(input, short, wide)
    kernel, operands = layer_norm_kernel, [(input, EACH)]
    if weight is not None or bias is not None:
        kernel = layer_norm_affine_kernel
        weight, bias = _both_parameters(input, normalized_shape, weight, bias)
        operands += [(weight, SHARED), (bias, SHARED)]
    run_rows(
        kernel, [(result, EACH), (center, ROW), (rstd, ROW)], operands, (rows, size, 1),
        name_of(input.dtype), (float(eps),),
    )  # fmt: skip
    return result, center, rstd


def _both_parameters(input, shape, weight, bias):
    if weight is None:
        weight = ops.ones(shape, dtype=input.dtype, device=input.device)
    if bias is None:
        bias = ops.zeros(shape, dtype=input.dtype, device=input.device)
    return weight.contiguous(), bias.contiguous()


def moments_of(operator, sizes, *moments):
    """Means and reciprocal deviations of rows, as so many.

    Raises:
        RuntimeError: there are more or fewer.
    """
    found = []
    names = ("mean", "rstd")[-len(moments) :]
    for name, each in zip(names, moments, strict=True):
        if each.numel() != product(sizes):
            raise RuntimeError(
                f"{operator}: expected {product(sizes)} numbers for {name}\n"
                f"  {name}: {brief(each)}"
            )
        found.append(each.contiguous().reshape(sizes))
    return found


def native_layer_norm_backward(
    grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
):
    """One kernel over the rows, one over the columns.

    Raises:
        RuntimeError: the shapes don't fit.
    """
    rows, size = rows_of(input, normalized_shape)
    check_parameter("weight", weight, normalized_shape)
    expect("native_layer_norm_backward", grad_out=(grad_out, input.shape, None))
    mean, rstd = moments_of("native_layer_norm_backward", [rows], mean, rstd)
    grad, x, compute = grad_out.contiguous(), input.contiguous(), name_of(input.dtype)
    d_input = d_weight = d_bias = None
    if output_mask[0]:
        d_input = fresh(x, x.shape)
        kernel = layer_norm_backward_kernel
        operands = [(grad, EACH), (x, EACH), (mean, ROW), (rstd, ROW)]
        if weight is not None:
            kernel = layer_norm_affine_backward_kernel
            operands.append((weight.contiguous(), SHARED))
        run_rows(kernel, [(d_input, EACH)], operands, (rows, size, 1), compute)
    if any(output_mask[1:]) and long_rows.are_long(rows, x):
        d_weight, d_bias = long_rows.layer_norm_parameters(
            grad, x, mean, rstd, normalized_shape, _kept(x, weight, bias)
        )
    elif any(output_mask[1:]):
        kept = _kept(x, weight, bias)
        d_weight, d_bias = (fresh(x, normalized_shape, kept) for _ in range(2))
        operands = [(grad, EACH), (x, EACH), (mean, SHARED), (rstd, SHARED)]
        run_rows(
            layer_norm_parameters_kernel, [(d_weight, ROW), (d_bias, ROW)], operands,
            (1, rows, size), compute,
        )  # fmt: skip
    return d_input, d_weight, d_bias


def layer_norm_gradients(
    grad, input, normalized_shape, mean, rstd, weight, bias, eps, needs
):
    """By kernels, or by operators that can be differentiated again."""
    if not is_recording():
        mask = [bool(needs & 1), bool(needs & 2), bool(needs & 4)]
        return ops.native_layer_norm_backward(
            grad, input, normalized_shape, mean, rstd, weight, bias, mask
        )
    if input.dtype.itemsize == 2:  # squares overflow
        grad, x, mean, rstd, wide_weight = widened((grad, input, mean, rstd, weight))
        given = x, normalized_shape, mean, rstd, wide_weight, bias, eps, needs
        return narrowed(layer_norm_gradients(grad, *given), input, weight, bias)
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    lead = list(range(input.ndim - len(normalized_shape)))
    gap = input - input.mean(dims, True)
    rstd = ops.rsqrt((gap * gap).mean(dims, True) + eps)
    unit = gap * rstd
    d_input = d_weight = d_bias = None
    if needs & 1:
        scaled = grad if weight is None else grad * weight
        along = (scaled * unit).mean(dims, True)
        d_input = (scaled - scaled.mean(dims, True) - unit * along) * rstd
    if needs & 2:
        d_weight = (grad * unit).sum(lead) if lead else grad * unit
    if needs & 4:
        d_bias = grad.sum(lead) if lead else grad
    return d_input, d_weight, d_bias


def group_norm(input, num_groups, weight, bias, eps, cudnn_enabled):
    """The normalized groups alone.

    Raises:
        RuntimeError: the channels can't be divided into the groups.
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    batch, channels, *rest = input.shape
    _check_groups(input, weight, bias, channels, num_groups)
    return ops.native_group_norm(
        input, weight, bias, batch, channels, product(rest), num_groups, eps
    )[0]


def _check_groups(input, weight, bias, channels, groups):
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if channels % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(input.shape)} and num_groups={groups}"
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and (tensor.ndim != 1 or tensor.numel() != channels):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels"
                f" in input, but got {name} of shape {list(tensor.shape)} and input of"
                f" shape {list(input.shape)}"
            )


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """Moments of every group, then one pass that scales and shifts.

    Raises:
        RuntimeError: the sizes aren't those of the input.
    """
    _check_groups(input, weight, bias, C, group)
    _check_types("GroupNormKernelImpl", input, weight, bias)
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: expected {N} x {C} x {HxW} elements, but got input of"
            f" shape {list(input.shape)}"
        )
    format, wide = format_of(input), _wide(input.dtype)
    if abs(float(eps)) >= 1e38 and wide is not float64:  # beyond single ones
        doubles = [t if t is None else t.double() for t in (input, weight, bias)]
        result, *moments = native_group_norm(*doubles, N, C, HxW, group, eps)
        kept = _kept(input, weight, bias)
        return result.to(input.dtype), *(moment.to(kept) for moment in moments)
    x = input.contiguous()
    center, rstd = fresh(x, [N, group], wide), fresh(x, [N, group], wide)
    result, kept = fresh(x, x.shape), _kept(input, weight, bias)
    moments, extents = [(center, ROW), (rstd, ROW)], (N * group, C // group * HxW, 1)
    compute, numbers = name_of(x.dtype), (float(eps),)
    if long_rows.are_long(extents[1], x):
        sizes = [N, group, C // group, HxW]
        result, center, rstd = long_rows.group_norm(x, weight, bias, sizes, numbers[0])
    elif not extents[1]:
        center.fill_(0)
        rstd.fill_(float("nan"))
    elif weight is None and bias is None:
        outputs = [(result, EACH), *moments]
        run_rows(layer_norm_kernel, outputs, [(x, EACH)], extents, compute, numbers)
    else:
        parts = [fresh(x, [N, group], wide) for _ in range(2)]
        moments += [(part, ROW) for part in parts]
        run_rows(moments_kernel, moments, [(x, EACH)], extents, compute, numbers)
        operands = [(x, PER_ELEMENT), *((v, OUTER) for v in (*parts, rstd))]
        for parameter in _both_parameters(input, [C], weight, bias):
            every = parameter if N == 1 else parameter.expand([N, C]).contiguous()
            operands.append((every, ROW))
        run_rows(
            channel_norm_kernel, [(result, PER_ELEMENT)], operands,
            (N * group, HxW, C // group), compute,
        )  # fmt: skip
    result = laid_out(result, format)
    if kept is wide:
        return result, center, rstd
    return result, center.to(kept), rstd.to(kept)


def native_group_norm_backward(
    grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
):
    """Every group is a row; the parameters' gradients are sums over the samples.

    Raises:
        RuntimeError: the sizes aren't those of the input.
    """
    if min(N, C, HxW) < 0 or group <= 0 or C % group or input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm_backward: expected {N} x {C} x {HxW} elements in "
            f"{group} groups, but got input of shape {list(input.shape)}"
        )
    expect(
        "native_group_norm_backward", grad_out=(grad_out, input.shape, None),
        weight=(weight, (C,), None),
    )  # fmt: skip
    mean, rstd = moments_of("native_group_norm_backward", [N, group], mean, rstd)
    format, wide = format_of(input), _wide(input.dtype)
    x, grad = input.contiguous(), grad_out.contiguous()
    center, rstd = mean.to(wide).contiguous(), rstd.to(wide).contiguous()
    d_input = d_weight = d_bias = along = sums = None
    size, compute = C // group * HxW, name_of(x.dtype)
    if long_rows.are_long(size, x):
        found = long_rows.group_norm_backward(
            grad, x, center, rstd, weight, [N, group, C // group, HxW]
        )
        return laid_out(found[0], format), *found[1:]
    if output_mask[1] or output_mask[2] or weight is not None:
        along, sums = fresh(x, [N, group, C // group], wide), fresh(x, [N, C], wide)
        run_rows(
            channel_sums_kernel, [(along, ROW), (sums, ROW)],
            [(grad, PER_ELEMENT), (x, PER_ELEMENT), (center, OUTER)],
            (N * group, HxW, C // group), compute,
        )  # fmt: skip
    if output_mask[0]:
        d_input = fresh(x, x.shape)
        if weight is None:
            operands = [(grad, EACH), (x, EACH), (center, ROW), (rstd, ROW)]
            run_rows(
                layer_norm_backward_kernel, [(d_input, EACH)], operands,
                (N * group, size, 1), compute,
            )  # fmt: skip
        else:
            scale = weight.to(wide).reshape([1, group, C // group])
            slope = (along * scale).sum([2]) * (rstd * rstd / max(size, 1))
            shares = (sums.reshape(along.shape) * scale).sum([2]) / max(size, 1)
            every = scale.expand(along.shape).contiguous()
            operands = [(grad, PER_ELEMENT), (x, PER_ELEMENT)]
            operands += [(v, OUTER) for v in (center, rstd, slope, shares)]
            run_rows(
                channel_gradient_kernel, [(d_input, PER_ELEMENT)], [*operands, (every, ROW)],
                (N * group, HxW, C // group), compute,
            )  # fmt: skip
        d_input = laid_out(d_input, format)
    if output_mask[1]:
        d_weight = (along * rstd.unsqueeze(-1)).sum([0]).reshape([C])
    if output_mask[2]:
        d_bias = sums.sum([0])
    return d_input, d_weight, d_bias


def group_norm_gradients(
    grads, input, weight, mean, rstd, N, C, HxW, group, eps, needs
):
    """By kernels, or by operators that can be differentiated again."""
    grad, of_mean, of_rstd = grads
    statistics = of_mean is not None or of_rstd is not None
    if grad is None:
        grad = ops.zeros_like(input)
    if not is_recording() and not statistics:
        mask = [bool(needs & 1), bool(needs & 2), bool(needs & 4)]
        if listening(grad):
            grad = grad.contiguous()
        return ops.native_group_norm_backward(
            grad, input, mean, rstd, weight, N, C, HxW, group, mask
        )
    if input.dtype.itemsize == 2:  # squares overflow
        given = widened((input, weight, mean, rstd))
        grads = widened((grad, of_mean, of_rstd))
        found = group_norm_gradients(grads, *given, N, C, HxW, group, eps, needs)
        return narrowed(found, input, weight, None)
    size = C // group * HxW
    gap = input.reshape([N, group, size])
    gap = gap - gap.mean([2], True)
    rstd = ops.rsqrt((gap * gap).mean([2], True) + eps)
    unit = gap * rstd
    planes = grad.reshape([N, C, HxW])
    d_input = d_weight = d_bias = None
    if needs & 1:
        scaled = planes if weight is None else planes * weight.unsqueeze(-1)
        scaled = scaled.reshape([N, group, size])
        along = (scaled * unit).mean([2], True)
        d_input = (scaled - scaled.mean([2], True) - unit * along) * rstd
        if of_mean is not None:
            d_input = d_input + of_mean.unsqueeze(-1) / size
        if of_rstd is not None:
            d_input = d_input - of_rstd.unsqueeze(-1) * rstd * rstd * unit / size
        d_input = d_input.reshape(input.shape)
    if needs & 2:
        d_weight = (planes * unit.reshape([N, C, HxW])).sum([0, 2])
    if needs & 4:
        d_bias = planes.sum([0, 2])
    return d_input, d_weight, d_bias


def batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps,
    cudnn_enabled,
):  # fmt: skip
    """The normalized batch alone; without elements, only scaled and shifted."""
    if input.numel() == 0:
        result = input.clone()
        result = result if weight is None else result * weight[0]
        return result if bias is None else result + bias[0]
    if not training:
        _refuse_no_statistics(running_mean, running_var)
    return ops.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def _refuse_no_statistics(running_mean, running_var):
    if running_mean is None or running_var is None:
        missing = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"{missing} must be defined in evaluation mode")


def _others(input):
    """The dimensions that statistics are taken over: all but the channels."""
    return [dim for dim in range(input.ndim) if dim != 1]


def _channels(value, ndim):
    """A value for each channel, shaped so that it broadcasts against the batch."""
    return value.reshape([1, value.numel(), *[1] * (ndim - 2)])


def native_batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps
):
    """Statistics of the batch, or those kept, then one pass over the elements.

    Raises:
        RuntimeError: there are no channels, or a parameter doesn't have their number.
        ValueError: one statistic is kept without the other.
    """
    if input.ndim < 2 and input.numel() == 0 and not training:
        nothing = ops.empty((0,), dtype=input.dtype, device=input.device)
        return ops.clone(input), nothing, nothing
    refuse_gradient(
        "native_batch_norm", running_mean=running_mean, running_var=running_var
    )
    wrap_dim(1, input.ndim)
    if (running_mean is None) != (running_var is None):
        raise ValueError(
            "running_mean and running_var must either both be None or neither be None"
        )
    _check_channels(input, weight, bias, running_mean, running_var)
    _check_batch(input, weight, bias, running_mean, running_var, training)
    if training and input.numel() == 0:
        raise RuntimeError(
            "input tensor must have at least one element, but got input_sizes = "
            f"{list(input.shape)}"
        )
    if not training:
        _refuse_no_statistics(running_mean, running_var)
    if format_of(input) is None:
        input = input.contiguous()
        if 1 in input.shape:  # whose strides may be any
            input = input.reshape([-1]).view(input.shape)
    elif 1 in input.shape and input.is_contiguous():
        input = input.reshape([-1]).view(input.shape)  # the usual strides, even of ones
    wide, eps = _wide(input.dtype), float(eps)
    weight, bias = _flat(weight), _flat(bias)
    if training:
        momentum = float(momentum)
        source = input if input.dtype is wide else input.to(wide)
        spread, center = ops.var_mean(source, _others(input), correction=0)
        center = _whole_means(center, source)
        count = input.numel() // max(input.shape[1], 1)
        if running_mean is not None:
            _blend(running_mean, center, momentum)
        if running_var is not None:
            unbiased = spread * (count / (count - 1) if count > 1 else float("nan"))
            _blend(running_var, unbiased, momentum)
    else:
        center, spread = _flat(running_mean).to(wide), _flat(running_var).to(wide)
    if abs(eps) < 1e38:
        invstd = ops._reciprocal_deviation(spread, eps)
    else:  # beyond single precision
        invstd = ops._reciprocal_deviation(spread.double(), eps).to(spread.dtype)
    scale = invstd if weight is None else invstd * weight
    shift = ops.zeros_like(center) if bias is None else bias
    result = ops._batch_norm_apply(
        input, *(_channels(value, input.ndim) for value in (center, scale, shift))
    )
    if not training:
        kept = _kept_by_kind(input, weight, bias, running_mean)
        nothing = ops.empty((0,), dtype=kept, device=input.device)
        return result, nothing, nothing
    kept = _kept_by_kind(input, weight, bias, running_mean)
    if kept is not wide:
        return result, center.to(kept), invstd.to(kept)
    return result, center, invstd


def batch_norm_with_statistics(*args):
    """`native_batch_norm`, with statistics to write to."""
    return ops.native_batch_norm(*args)


def batch_norm_of_itself(input, weight, bias, *how):
    """`native_batch_norm` without statistics."""
    return ops.native_batch_norm(input, weight, bias, None, None, *how)


def batch_norm_as_kept(input, weight, bias, running_mean, running_var, momentum, eps):
    """`native_batch_norm`, with statistics that stay as they are."""
    return ops.native_batch_norm(
        input, weight, bias, running_mean, running_var, False, momentum, eps
    )


def batch_norm_without_writes(input, weight, bias, running_mean, running_var, *how):
    """`native_batch_norm` that leaves the statistics as they are, and gives new ones."""
    kept = running_mean.clone(), running_var.clone()
    return *ops.native_batch_norm(input, weight, bias, *kept, *how), *kept


def batch_norm_of_library(input, *given):
    """Together with bytes that a library may keep for the gradient: none."""
    parts = ops.native_batch_norm(input, *given)
    return *parts, ops.empty((0,), dtype=uint8, device=input.device)


def batch_norm_with_update(*given):
    """In training."""
    *operands, momentum, eps = given
    return batch_norm_of_library(*operands, True, momentum, eps)


def batch_norm_without_update(*given):
    """By statistics that stay as they are."""
    *operands, momentum, eps = given
    return batch_norm_of_library(*operands, False, momentum, eps)


def _whole_means(center, source):
    """The means, infinite where single elements are: deviations from them are NaN."""
    if not followed() and not shared.recorded_ahead():
        if not readable(center) or not _any_nan(center):
            return center
    return ops.where(ops.isnan(center), source.mean(_others(source)), center)


# A sum tells of any; a GPU is not waited for: its means of infinities are PyTorch's NaN.
_any_nan = KernelTable(cpu=lambda x: ops.isnan(ops.sum(x)).item(), cuda=lambda x: False)


def _flat(parameter):
    """A parameter as a vector: it may have any shape of so many elements."""
    if parameter is None or parameter.ndim == 1:
        return parameter
    return parameter.reshape([-1])


def _blend(running, value, momentum):
    """Lets the running statistics forget a share, and adds as much of the new ones.

    Unlike an interpolation, it keeps infinities of one sign.
    """
    value, momentum = value.reshape(running.shape), float(momentum)
    dtype = value.dtype if abs(momentum) < 1e38 else float64
    wide = running if running.dtype is dtype else running.to(dtype)
    wide.mul_(1 - momentum).add_(value, alpha=momentum)
    if wide is not running:
        running.copy_(wide)


def _check_channels(input, weight, bias, running_mean, running_var):
    channels = input.shape[1] if input.ndim > 1 else 0
    named = (
        ("running_mean", running_mean), ("running_var", running_var),
        ("weight", weight), ("bias", bias),
    )  # fmt: skip
    for name, tensor in named:
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(
                f"{name} should contain {channels} elements not {tensor.numel()}"
            )
        if tensor is not None and tensor.ndim != 1 and name.startswith("running"):
            raise RuntimeError(
                f"{name} should have 1 dimension but has {tensor.ndim}: TensorAccessor "
                f"expected 1 dims but tensor has {tensor.ndim}"
            )
    input.size(1)  # refused where there is none


def _in_planes(format, *tensors):
    """Whether each sample's channels are rows that are worth a kernel's while."""
    first = tensors[0]
    planes = first.shape[0] * first.shape[1]
    if first.numel() < max(16 * planes, 1) or followed():
        return False
    return all(t.is_contiguous(memory_format=format) and readable(t) for t in tensors)


def _sums_of_planes(grad, input, center, way):
    """For each channel the gradient's sum, and that of its share along the distances."""
    batch, channels = input.shape[:2]
    along, sums = (fresh(input, [batch, channels], center.dtype) for _ in range(2))
    every = center.expand([batch, channels]).contiguous()
    run_rows(
        channel_sums_kernel, [(along, ROW), (sums, ROW)],
        [(grad, way), (input, way), (every, ROW)],
        (batch, input.numel() // (batch * channels), channels), name_of(input.dtype),
    )  # fmt: skip
    if batch == 1:
        return sums.reshape([channels]), along.reshape([channels])
    return sums.sum([0]), along.sum([0])


def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train,
    eps, output_mask,
):  # fmt: skip
    """Two sums for each channel, then one pass over the elements."""
    wide = _wide(input.dtype)
    shape = None if weight is None else weight.shape
    weight = _flat(weight)
    ndim, dims, format = input.ndim, _others(input), format_of(input)
    grad_out = grad_out.contiguous() if format is None else laid_out(grad_out, format)
    if train:
        center, invstd = save_mean.to(wide), save_invstd.to(wide)
    else:
        center = _flat(running_mean).to(wide)
        invstd = ops.rsqrt(_flat(running_var).to(wide) + float(eps))
    count = max(input.numel() // max(input.shape[1], 1), 1)
    middle = _channels(center, ndim)
    if _in_planes(format or contiguous_format, grad_out, input):
        way = PER_ELEMENT if format is None else EACH
        total, along = _sums_of_planes(grad_out, input, center, way)
    else:
        total = ops.sum(grad_out, dims, dtype=wide)
        along = None
        if train or output_mask[1]:
            along = ops._centered_product(grad_out, input, middle).sum(dims, dtype=wide)
    d_input = d_weight = d_bias = None
    scale = invstd if weight is None else invstd * weight
    if output_mask[0] and train:
        slope = along * (invstd * invstd / count)
        d_input = ops._batch_norm_input_gradient(
            grad_out, input, middle, _channels(scale, ndim),
            _channels(total / count, ndim), _channels(slope, ndim),
        )  # fmt: skip
    elif output_mask[0]:
        d_input = (grad_out * _channels(scale, ndim)).to(input.dtype)
    if output_mask[1]:
        d_weight = along * invstd
        if shape is not None and len(shape) != 1:
            d_weight = d_weight.reshape(shape)
    if output_mask[2]:
        d_bias = total
    return d_input, d_weight, d_bias


def batch_norm_gradients(
    grad, input, weight, running_mean, running_var, saved_mean, saved_invstd, training,
    eps, needs,
):  # fmt: skip
    """By kernels, or by operators that can be differentiated again."""
    if input.ndim < 2:
        nothing = None if weight is None else ops.zeros_like(weight)
        return ops.zeros_like(input), nothing, nothing
    if not is_recording():
        mask = [bool(needs & 1), bool(needs & 2), bool(needs & 4)]
        return ops.native_batch_norm_backward(
            grad, input, weight, running_mean, running_var, saved_mean, saved_invstd,
            training, eps, mask,
        )  # fmt: skip
    if input.dtype.itemsize == 2:  # squares overflow
        given = grad, input, weight, running_mean, running_var, saved_mean, saved_invstd
        found = batch_norm_gradients(*widened(given), training, eps, needs)
        return narrowed(found, input, weight, None)
    ndim, dims = input.ndim, _others(input)
    if training:
        gap = input - input.mean(dims, True)
        invstd = ops.rsqrt((gap * gap).mean(dims, True) + eps)
    else:
        gap = input - _channels(running_mean, ndim)
        invstd = ops.rsqrt(_channels(running_var, ndim) + eps)
    unit = gap * invstd
    d_input = d_weight = d_bias = None
    if needs & 1:
        d_input = grad if weight is None else grad * _channels(weight, ndim)
        if training:
            along = (d_input * unit).mean(dims, True)
            d_input = d_input - d_input.mean(dims, True) - unit * along
        d_input = d_input * invstd
    if needs & 2:
        d_weight = (grad * unit).sum(dims)
    if needs & 4:
        d_bias = grad.sum(dims)
    return d_input, d_weight, d_bias


def _cast(vector, dtype):
    return vector if vector is None or vector.dtype is dtype else vector.to(dtype)


def _kind_of_statistics(input, running_mean, running_var):
    """The type that running statistics, which may be of any, are computed in.

    Raises:
        RuntimeError: the mean is of the input's type, and the variance is not.
    """
    kinds = {t.dtype for t in (running_mean, running_var) if t is not None}
    if running_mean is not None and running_mean.dtype is input.dtype:
        if len(kinds) > 1:
            raise RuntimeError(
                f"expected scalar type {scalar_name(input.dtype)} but found "
                f"{scalar_name(running_var.dtype)}"
            )
    elif input.dtype.itemsize == 2 and float32 in kinds:
        return float32
    return input.dtype


def instance_norm(
    input,
    weight,
    bias,
    running_mean,
    running_var,
    use_input_stats,
    momentum,
    eps,
    cudnn_enabled,
):
    """Each channel of each sample takes the part of a channel in one batch norm.

    Raises:
        RuntimeError: there is nothing to take mean and variance from, or the statistics
            are of two types.
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when "
            "use_input_stats is false"
        )
    samples, channels = input.size(0), input.size(1)
    kept = _kind_of_statistics(input, running_mean, running_var)

    def of_all(vector):
        return None if vector is None else vector.repeat(samples)

    mean = _cast(of_all(running_mean), kept)
    var = _cast(of_all(running_var), kept)
    sizes = [1, samples * channels, *input.shape[2:]]
    result = ops.batch_norm(
        input.contiguous().view(sizes), of_all(weight), of_all(bias), mean, var,
        use_input_stats, momentum, eps, cudnn_enabled,
    )  # fmt: skip
    for vector, parts in ((running_mean, mean), (running_var, var)):
        if vector is not None and use_input_stats:
            vector.detach().copy_(parts.detach().view(samples, channels).mean(0))
    return result.view(input.shape)

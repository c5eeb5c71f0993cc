"""Pooling: windows of one, two or three dimensions over the last axes of a tensor."""

from __future__ import annotations

from functools import partial
from math import prod

from rushlight.core.dtypes import bool_, float32, float64, int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.window.pooling_kernels import (
    adaptive_avg_pool,
    adaptive_avg_pool_spread,
    adaptive_max_pool,
    avg_pool_inside,
    avg_pool_rows,
    avg_pool_spread,
    avg_pool_tiles,
    max_pool_inside,
    max_pool_rows,
    max_pool_scatter,
)
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fault_in,
    filled,
    fresh,
    name_of,
    require,
    run,
)
from rushlight.operators.pooling import window_elements
from rushlight.operators.shape.formats import (
    format_of,
    laid_out,
    lines_channels_last,
    lines_laid_out,
)
from rushlight.operators.type_groups import FLOATS

# Windows of few taps, and rows of few outputs, are compiled into the kernel: LLVM then
# unrolls the window and fits the vector width to the row.
FROZEN_TAPS = 9
FROZEN_ROW = 16
LARGEST = 2**31  # windows are measured in C integers
KEPT = 512  # geometries remembered between calls
_known: dict = {}


def spread(value, axes, what, operator):
    """A window parameter as one number for each axis: a lone number stands for all."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        return values * axes
    if len(values) != axes:
        raise RuntimeError(
            f"{operator}: {what} must either be a single int, or a tuple of {axes}"
            f" ints, but got {len(values)}"
        )
    return values


def pooled_size(size, kernel, stride, pad, dilation, ceil_mode):
    """How many windows fit along an axis; in ceil mode the last may reach over the end.

    >>> pooled_size(7, 2, 2, 0, 1, True), pooled_size(7, 2, 2, 0, 1, False)
    (4, 3)
    """
    span = size + 2 * pad - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def _check_rank(operator, x, axes):
    if x.ndim in (axes + 1, axes + 2):
        return
    if axes == 3:
        raise RuntimeError(
            f"{operator}: non-empty 4D or 5D (batch mode) tensor expected for input, but"
            f" got {list(x.shape)}\n  self: {brief(x)}"
        )
    _refuse_shape(operator, x, axes)


def _check_filled(operator, x, axes):
    """Refuses planes without elements; the batch alone may be empty."""
    if prod(x.shape[x.ndim - axes - 1 :]):
        return
    if axes == 3:
        dim = x.shape.index(0, x.ndim - 4)
        raise RuntimeError(
            f"{operator}: Expected input's non-batch dimensions to have positive length,"
            f" but input has a shape of {list(x.shape)} and non-batch dimension {dim}"
            " has length zero!"
        )
    _refuse_shape(operator, x, axes)


def _refuse_shape(operator, x, axes):
    raise RuntimeError(
        f"{operator}: Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with"
        f" optional 0 dim batch size for input, but got:{list(x.shape)}\n"
        f"  self: {brief(x)}"
    )


class Windows:
    """The checked geometry of one pooling call, as three axes; missing ones are 1."""

    def __init__(self, operator, x, axes, kernel, stride, padding, dilation, ceil_mode):
        self.operator = operator
        _check_rank(operator, x, axes)
        k = spread(kernel, axes, "kernel_size", operator)
        s = spread(stride, axes, "stride", operator) if _given(stride) else list(k)
        p = spread(padding, axes, "padding", operator)
        d = spread(dilation, axes, "dilation", operator)
        for value in (*k, *s, *p, *d):
            if not -LARGEST <= value < LARGEST:
                raise RuntimeError(
                    "value cannot be converted to type int without overflow\n"
                    f"  operator: {operator}\n  value: {value}"
                )
        self.check(k, s, p, d)
        _check_filled(operator, x, axes)
        sizes = list(x.shape[-axes:])
        out = [pooled_size(*row, ceil_mode) for row in zip(sizes, k, s, p, d)]
        if min(out) < 1 and axes == 1:
            raise RuntimeError(f"{operator}() Invalid computed output size: {out[0]}")
        if min(out) < 1:
            raise RuntimeError(
                f"{operator}: Given input size: ({'x'.join(map(str, sizes))})."
                f" Calculated output size: ({'x'.join(map(str, out))})."
                f" Output size is too small\n"
                f"  self: {brief(x)}"
            )
        self.inside = all(
            a == 0 and (o - 1) * t + e * (n - 1) + 1 <= m
            for a, o, t, e, n, m in zip(p, out, s, d, k, sizes)
        )
        self.lead = list(x.shape[:-axes])
        self.out_shape = self.lead + out
        self.planes = prod(self.lead)
        ones, zeros = [1] * (3 - axes), [0] * (3 - axes)
        self.sizes, self.out = ones + sizes, ones + out
        self.kernel, self.stride = ones + k, ones + s
        self.padding, self.dilation = zeros + p, ones + d
        self.taps = prod(k)
        self.constants, self.scales, self.averages = self.frozen(), {}, {}
        self.work = prod(self.out) * self.taps  # elements read for one plane

    def geometry(self):
        """The integers of a kernel that knows nothing of the windows."""
        ints = self.sizes + self.out + self.kernel + self.stride
        return ints + self.padding + self.dilation

    def check(self, kernel, stride, padding, dilation):
        """Refuses windows of no size and paddings wider than half a window."""
        named = ("kernel_size", kernel), ("stride", stride), ("dilation", dilation)
        for name, values in named:
            if min(values) <= 0:
                if len(values) == 1:
                    raise RuntimeError(
                        f"{self.operator}() {name} must be greater than zero, but got"
                        f" {values[0]}"
                    )
                raise RuntimeError(
                    f"{self.operator}: {name.replace('_', ' ')} should be greater than"
                    f" zero, but got {tuple(values)}"
                )
        for pad, taps, gap in zip(padding, kernel, dilation):
            if pad < 0:
                raise RuntimeError(
                    f"{self.operator}: pad must be non-negative, but got pad: {pad}"
                )
            if pad > ((taps - 1) * gap + 1) // 2:
                raise RuntimeError(
                    f"{self.operator}: pad should be at most half of effective kernel"
                    f" size, but got pad={pad}, kernel_size={taps} and dilation={gap}"
                )
        for pad, taps in zip(padding, kernel):
            if pad > taps // 2:  # of the window itself, whatever the dilation
                raise RuntimeError(
                    f"{self.operator}: pad should be smaller than or equal to half of"
                    f" kernel size, but got pad={pad}, kernel_size={taps}"
                )

    def frozen(self):
        """What becomes a constant of the kernel: small windows and short rows.

        Empty where windows are large or cross the border.
        """
        if not self.inside or self.taps > FROZEN_TAPS or max(self.dilation) > 1:
            return {}
        names = ("kd", "kh", "kw", "sd", "sh", "sw")
        constants = dict(zip(names, self.kernel + self.stride))
        if self.out[2] <= FROZEN_ROW:
            constants["ow"] = self.out[2]
        return constants


def windows(operator, x, axes, *choices):
    """The `Windows` of a call; those of earlier calls are kept."""
    key = (operator, x.shape, *choices)
    try:
        hash(key)
    except TypeError:  # lists among them
        key = [tuple(c) if isinstance(c, list) else c for c in key]
        key = tuple(key)
    win = _known.get(key)
    if win is None:
        if len(_known) >= KEPT:
            _known.clear()
        win = _known[key] = Windows(operator, x, axes, *choices)
    return win


def layout_of(x, axes):
    """The memory format that results of pooling ``x`` are to have; None for rows."""
    if axes == 1:
        return "lines" if lines_channels_last(x) else None
    return format_of(x) if x.ndim == axes + 2 else None


def _averages_layout(x, axes):
    """The layout of means, which are rows for volumes."""
    return None if axes == 3 else layout_of(x, axes)


def in_layout(result, layout):
    """A pooled tensor in the layout of its input."""
    if layout is None:
        return result
    if layout == "lines":
        return lines_laid_out(result, True)
    return laid_out(result, layout)


def scattered(operator, grad, x, indices, planes, size, osize, layout, win=None):
    """Adds each output's gradient to the place in its plane that ``indices`` names.

    Args:
        win: the `Windows` that the places came from, where they did.

    Raises:
        RuntimeError: dtypes or shapes differ, or a place is outside of its plane.
    """
    if grad.dtype is not x.dtype:
        raise RuntimeError(
            f"expected dtype {name_of(x.dtype)} for `gradOutput` but got dtype"
            f" {name_of(grad.dtype)}\n  operator: {operator}"
        )
    if indices.dtype is not int64:
        raise RuntimeError(
            f"{operator}: Expected dtype int64 for indices, but got"
            f" {name_of(indices.dtype)}\n  indices: {brief(indices)}"
        )
    if tuple(indices.shape) != tuple(grad.shape):
        raise RuntimeError(
            f"{operator}: expected indices to have shape {list(grad.shape)}, but got"
            f" {list(indices.shape)}\n  indices: {brief(indices)}"
        )
    grad_input, flag = fresh(x, x.shape), fault_flag(x)
    tensors = [grad_input, grad.contiguous(), indices.contiguous()]
    _bring_back(grad, tensors, flag, (planes, size, osize), win)
    place = fault_in(flag)
    if place is not None:
        raise RuntimeError(
            f"{operator}: found an invalid max index: {place} (a plane has {size}"
            f" elements)\n  indices: {brief(indices)}"
        )
    return in_layout(grad_input, layout)


def _bring_back_by_planes(grad, tensors, flag, sizes, win):
    """Clears planes, and adds each output's gradient."""
    planes, size, osize = sizes
    types = {"T": name_of(grad.dtype)}
    work = size + 2 * osize
    run(max_pool_scatter, [*tensors, flag], [size, osize], planes, work, **types)


def _bring_back_by_elements(grad, tensors, flag, sizes, win):
    """Gathers the gradients of windows, where they are known."""
    if win is None:
        _bring_back_by_planes(grad, tensors, flag, sizes, win)
    else:
        window_elements.bring_back(grad, tensors, flag, sizes[1], win.geometry())


_bring_back = KernelTable(cpu=_bring_back_by_planes, cuda=_bring_back_by_elements)


def _given(stride):
    return stride is not None and stride != [] and stride != ()


def _max_pool(axes, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    if x.dtype is bool_:
        _floating(operator, x)
    layout = layout_of(x, axes)
    index = fresh(x, win.out_shape, int64)
    return in_layout(_largest(win, x, index), layout), in_layout(index, layout)


def max_pool_values(x, kernel, stride, padding, dilation, ceil_mode):
    """The values of max pooling over as many dimensions as the window has.

    What programs run where nobody looks at the places, after the same checks.
    """
    axes = len(kernel)
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    return in_layout(_largest(win, x, None), layout_of(x, axes))


def _largest(win, x, index):
    """The largest of each window; their places go to ``index`` unless it is None."""
    x = x.contiguous()
    out = fresh(x, win.out_shape)
    _find_largest(x, out, index, win)
    return out


def _largest_by_planes(x, out, index, win):
    """Goes over planes, with the geometry of small windows as constants."""
    placed = index is not None
    types = {"T": name_of(x.dtype), "placed": int(placed), **win.constants}
    ints = win.sizes + win.out + win.kernel + win.stride
    kernel = max_pool_inside
    if not win.constants:
        kernel, ints = max_pool_rows, ints + win.padding + win.dilation
    operands = [out, index if placed else out, x]
    run(kernel, operands, [*ints, int(placed)], win.planes, win.work, **types)


_find_largest = KernelTable(cpu=_largest_by_planes, cuda=window_elements.find_largest)


def _max_pool_backward(
    axes, grad, x, kernel, stride, padding, dilation, ceil_mode, index
):
    operator = f"max_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    _check_grad(operator, grad, win.out_shape)
    return scattered(
        operator,
        grad,
        x,
        index,
        win.planes,
        prod(win.sizes),
        prod(win.out),
        layout_of(x, axes),
        win,
    )


def _check_grad(operator, grad, shape):
    if list(grad.shape) != list(shape):
        raise RuntimeError(
            f"{operator}: expected grad_output to have shape {list(shape)}, but got"
            f" {list(grad.shape)}\n  grad_output: {brief(grad)}"
        )


def _check_divisor(operator, divisor):
    if divisor == 0:
        raise RuntimeError(f"{operator}: divisor must be not zero")


def _averaging(win, x, count_include_pad, divisor):
    """The integers that say what an average divides by."""
    _check_divisor(win.operator, divisor)
    if x.dtype is not int64:
        _floating(win.operator, x)
    return [int(bool(count_include_pad)), divisor or 0]


def _floating(operator, x):
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{operator}\" not implemented for '{x.dtype.name.capitalize()}'\n"
            f"  self: {brief(x)}"
        )


def _scale(x, win, divisor):
    """One over a divisor, in the type that windows are summed in; kept for later."""
    key = x.dtype, divisor, x.device
    scale = win.scales.get(key)
    if scale is None:
        wide = float64 if x.dtype.itemsize == 8 else float32
        scale = filled(x, (1,), 1.0 / (divisor or win.taps), wide)
        if x.device.on_host:  # a card's memory is not held for later
            win.scales[key] = scale
    return scale


def _avg_pool(
    axes,
    x,
    kernel,
    stride=(),
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor=None,
):
    if axes == 2 and x.ndim < 3:
        x.size(-3)  # images have three dimensions at least
    win = windows(f"avg_pool{axes}d", x, axes, kernel, stride, padding, 1, ceil_mode)
    if axes == 3 and x.ndim > 3:
        cube = spread(kernel, 3, "kernel_size", "avg_pool3d")
        if any(n < k for n, k in zip(x.shape[-3:], cube)):
            raise RuntimeError(
                f"input image {list(x.shape[-3:])} smaller than kernel size {cube}\n"
                f"  operator: avg_pool3d\n  self: {brief(x)}"
            )
    key = x.dtype, x.device, count_include_pad, divisor
    plan = win.averages.get(key)
    if plan is None:
        plan = _averaging_plan(win, x, count_include_pad, divisor)
        if x.device.on_host:  # a card's memory is not held for later
            win.averages[key] = plan
    kernel, more, ints, types = plan
    layout = _averages_layout(x, axes)
    out, x = fresh(x, win.out_shape), x.contiguous()
    run(kernel, [out, x, *more], ints, win.planes, win.work, **types)
    return in_layout(out, layout)


def _averaging_plan(win, x, count_include_pad, divisor):
    """The kernel of an average, its last operand, its integers and its types."""
    rule = _averaging(win, x, count_include_pad, divisor)
    types = {"T": name_of(x.dtype)}
    ints = win.sizes + win.out + win.kernel + win.stride
    if not (win.constants and x.dtype.is_floating_point):
        return avg_pool_rows, (), ints + win.padding + rule, types
    return avg_pool_inside, (_scale(x, win, divisor),), ints, types | win.constants


def _avg_pool_backward(
    axes, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor=None
):
    operator = f"avg_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, 1, ceil_mode)
    rule = _averaging(win, x, count_include_pad, divisor)
    _check_grad(operator, grad, win.out_shape)
    grad_input = fresh(x, x.shape, grad.dtype)
    tensors, types = [grad_input, grad.contiguous()], {"T": name_of(grad.dtype)}
    constants = win.constants
    if constants and win.stride == win.kernel:
        tensors.append(_scale(x, win, divisor))
        types.update({name: constants[name] for name in ("kd", "kh", "kw")})
        types.update({name: constants[name] for name in ("ow",) if name in constants})
        ints = win.sizes + win.out + win.kernel
        run(avg_pool_tiles, tensors, ints, win.planes, prod(win.sizes), **types)
    else:
        ints = win.sizes + win.out + win.kernel + win.stride + win.padding + rule
        run(avg_pool_spread, tensors, ints, win.planes, 2 * win.work, **types)
    return in_layout(grad_input, _averages_layout(x, axes))


_NEED_CHANNELS = ("adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_avg_pool3d")
_WRONG_COUNTS = {
    "adaptive_avg_pool1d": (
        "adaptive_avg_pool1d() argument 'output_size' should contain one int (got {})"
    ),
    "adaptive_avg_pool2d": "adaptive_avg_pool2d: output_size must be 2",
    "adaptive_avg_pool3d": "adaptive_avg_pool3d: output_size must be 3",
    "adaptive_max_pool2d": (
        "adaptive_max_pool2d(): internal error: output_size.size() must be 2"
    ),
    "adaptive_max_pool3d": (
        "adaptive_max_pool3d(): internal error: output_size.size() must be 3"
    ),
}


def _adaptive(operator, x, axes, output_size):
    """Checks an adaptive call; returns the output's shape, planes and padded sizes."""
    if x.dim() not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"{operator}: Expected {axes + 1}D or {axes + 2}D tensor, but got"
            f" {list(x.shape)}\n  self: {brief(x)}"
        )
    sizes = list(x.shape[-axes:])
    out = [output_size] * axes if isinstance(output_size, int) else list(output_size)
    if len(out) != axes:
        raise RuntimeError(_WRONG_COUNTS[operator].format(len(out)))
    out = [n if o is None else o for n, o in zip(sizes, out)]
    if min(out) < 0 and "max" in operator:
        shape = [*x.shape[: x.ndim - axes], *out]
        raise RuntimeError(
            "Trying to create tensor with negative dimension"
            f" {min(out)}: {shape}\n  operator: {operator}"
        )
    if min(out) < 0:
        raise RuntimeError(
            f"{operator}: elements of output_size must be greater than or equal to 0"
            f" but received {tuple(out)}"
        )
    # Means over lines and images take no channels; the others don't.
    first = 1 if operator in _NEED_CHANNELS else x.ndim - axes
    for dim in range(first, x.ndim):
        if x.shape[dim] == 0:
            raise RuntimeError(
                f"{operator}(): Expected input to have non-zero size for non-batch"
                f" dimensions, but input has sizes {list(x.shape)} with dimension"
                f" {dim} being empty\n  self: {brief(x)}"
            )
    lead, ones = list(x.shape[:-axes]), [1] * (3 - axes)
    return lead + out, prod(lead), ones + sizes, ones + out


def _adaptive_avg_pool(axes, x, output_size):
    operator = f"adaptive_avg_pool{axes}d"
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, output_size)
    if prod(shape):
        _floating(operator, x)
    if prod(out_sizes) == 1:
        mean = x.mean([d - axes for d in range(axes)], keepdim=True)
        return in_layout(mean, layout_of(x, axes))
    layout = _averages_layout(x, axes)
    x = x.contiguous()
    out = fresh(x, shape)
    if prod(out_sizes):
        ints, types = sizes + out_sizes, {"T": name_of(x.dtype)}
        run(adaptive_avg_pool, [out, x], ints, planes, prod(sizes), **types)
    return in_layout(out, layout)


def _adaptive_avg_pool_backward(axes, grad, x):
    operator = f"adaptive_avg_pool{axes}d"
    out = list(grad.shape[-axes:])
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, out)
    _check_grad(operator, grad, shape)
    require(f"{operator}_backward", grad.dtype, FLOATS, grad)
    grad_input = fresh(x, x.shape, grad.dtype)
    operands, ints = [grad_input, grad.contiguous()], sizes + out_sizes
    types = {"T": name_of(grad.dtype)}
    run(adaptive_avg_pool_spread, operands, ints, planes, 2 * prod(sizes), **types)
    if prod(out_sizes) == 1:
        return grad_input
    return in_layout(grad_input, _averages_layout(x, axes))


def _adaptive_max_pool(axes, x, output_size):
    operator = f"adaptive_max_pool{axes}d"
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, output_size)
    _floating(operator, x)
    layout = layout_of(x, axes) if axes == 2 else None
    x = x.contiguous()
    out, index = fresh(x, shape), fresh(x, shape, int64)
    if prod(out_sizes):
        ints, types = sizes + out_sizes, {"T": name_of(x.dtype)}
        run(adaptive_max_pool, [out, index, x], ints, planes, prod(sizes), **types)
    return in_layout(out, layout), in_layout(index, layout)


def _adaptive_max_pool_backward(axes, grad, x, indices):
    operator = f"adaptive_max_pool{axes}d"
    _adaptive(operator, x, axes, list(grad.shape[-axes:]))
    _check_grad(operator, grad, indices.shape)
    _check_grad(operator, grad, [*x.shape[:-axes], *grad.shape[-axes:]])
    size, osize = prod(x.shape[-axes:]), prod(grad.shape[-axes:])
    layout = layout_of(x, axes) if axes == 2 else None
    planes = prod(x.shape[:-axes])
    return scattered(operator, grad, x, indices, planes, size, osize, layout)


# One function serves all ranks; each is an operator.
max_pool1d_with_indices = partial(_max_pool, 1)
max_pool2d_with_indices = partial(_max_pool, 2)
max_pool3d_with_indices = partial(_max_pool, 3)
max_pool1d_with_indices_backward = partial(_max_pool_backward, 1)
max_pool2d_with_indices_backward = partial(_max_pool_backward, 2)
max_pool3d_with_indices_backward = partial(_max_pool_backward, 3)
avg_pool1d = partial(_avg_pool, 1)
avg_pool2d = partial(_avg_pool, 2)
avg_pool3d = partial(_avg_pool, 3)
avg_pool1d_backward = partial(_avg_pool_backward, 1)
avg_pool2d_backward = partial(_avg_pool_backward, 2)
avg_pool3d_backward = partial(_avg_pool_backward, 3)
adaptive_avg_pool1d = partial(_adaptive_avg_pool, 1)
adaptive_avg_pool2d = partial(_adaptive_avg_pool, 2)
adaptive_avg_pool3d = partial(_adaptive_avg_pool, 3)
adaptive_avg_pool1d_backward = partial(_adaptive_avg_pool_backward, 1)
adaptive_avg_pool2d_backward = partial(_adaptive_avg_pool_backward, 2)
adaptive_avg_pool3d_backward = partial(_adaptive_avg_pool_backward, 3)
adaptive_max_pool2d = partial(_adaptive_max_pool, 2)
adaptive_max_pool3d = partial(_adaptive_max_pool, 3)
adaptive_max_pool2d_backward = partial(_adaptive_max_pool_backward, 2)
adaptive_max_pool3d_backward = partial(_adaptive_max_pool_backward, 3)

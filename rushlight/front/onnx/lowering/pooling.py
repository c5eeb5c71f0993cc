"""Pooling, and images in other sizes."""

import math

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.convolution import spread, with_batch
from rushlight.operators import call


class Window:
    """A pooling window: its sizes, and how far its places go over the end.

    Args:
        value: what is pooled, a batch.
        sizes: the sizes of the result's last dimensions; those are numbers where the
            value's are.
        ceil_mode: whether windows may go over the end.
    """

    def __init__(self, value, sizes, kernel, stride, padding, dilation, ceil_mode):
        count = value.rank - 2
        self.kernel = spread(kernel, count)
        self.stride = spread(stride, count) if stride else self.kernel
        self.padding, self.dilation = spread(padding, count), spread(dilation, count)
        self.extra = [0] * count
        if not ceil_mode:
            return
        if not value.is_static(*range(2, value.rank)):
            raise Unsupported(
                "with ceil_mode its image has to have sizes that are known"
            )
        for at, size in enumerate(sizes[-count:]):
            reach = self.dilation[at] * (self.kernel[at] - 1) + 1
            last = (size - 1) * self.stride[at] + reach
            self.extra[at] = max(last - value.shape[2 + at] - 2 * self.padding[at], 0)

    def attributes(self, pads=None):
        """ONNX's attributes of the window."""
        before = self.padding if pads is None else pads
        after = [one + more for one, more in zip(before, self.extra)]
        return {
            "kernel_shape": self.kernel,
            "strides": self.stride,
            "pads": [*before, *after],
        }


def _largest(g, x, window, with_indices):
    attributes = window.attributes()
    attributes["dilations"] = window.dilation
    kind = x.dtype
    if not with_indices:
        return g.op("MaxPool", x, dtype=kind, **attributes)
    values, indices = g.op("MaxPool", x, outputs=2, **attributes)
    values.dtype, indices.dtype = kind, rl.int64
    if not x.is_static(*range(2, x.rank)):
        raise Unsupported("its places are counted in an image whose sizes are open")
    plane = math.prod(x.shape[2:])
    return values, g.op("Mod", indices, g.const(plane, rl.int64), dtype=rl.int64)


def _register_largest(packet, count, with_indices):
    @lowers(packet)
    def lower(g, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        sizes = tuple(g.result.shape)

        def batch(x):
            window = Window(x, sizes, kernel_size, stride, padding, dilation, ceil_mode)
            return _largest(g, x, window, with_indices)

        return with_batch(g, self, count + 2, batch)


_register_largest(call.max_pool1d, 1, False)
_register_largest(call.max_pool2d, 2, False)
_register_largest(call.max_pool3d, 3, False)
_register_largest(call.max_pool1d_with_indices, 1, True)
_register_largest(call.max_pool2d_with_indices, 2, True)
_register_largest(call.max_pool3d_with_indices, 3, True)


def _mean(g, x, window, count_include_pad, divisor):
    kind = x.dtype
    if any(window.padding) and (count_include_pad or divisor):
        pads = [0, 0, *window.padding] * 2
        x = g.op("Pad", x, g.ints(pads), dtype=kind)
        attributes = window.attributes([0] * len(window.padding))
    else:
        attributes = window.attributes()
    # where a window goes over the end, what is not there is not counted
    made = g.op(
        "AveragePool", x, dtype=kind, count_include_pad=int(divisor is not None),
        **attributes,
    )  # fmt: skip
    if divisor is None:
        return made
    return g.mul(made, math.prod(window.kernel) / divisor)


def _register_mean(packet, count):
    @lowers(packet)
    def lower(
        g, self, kernel_size, stride=(), padding=0, ceil_mode=False,
        count_include_pad=True, divisor_override=None,
    ):  # fmt: skip
        sizes = tuple(g.result.shape)

        def batch(x):
            window = Window(x, sizes, kernel_size, stride, padding, 1, ceil_mode)
            return _mean(g, x, window, count_include_pad, divisor_override)

        return with_batch(g, self, count + 2, batch)


_register_mean(call.avg_pool1d, 1)
_register_mean(call.avg_pool2d, 2)
_register_mean(call.avg_pool3d, 3)


# -- to a size ---------------------------------------------------------------------------


def _shares(size, count):
    """How much of each element goes into each of so many means."""
    rows = []
    for at in range(count):
        low, high = at * size // count, -(-(at + 1) * size // count)
        row = [0.0] * size
        row[low:high] = [1 / (high - low)] * (high - low)
        rows.append(row)
    return rows


def _mean_along(g, x, dim, count):
    """Means of parts of a dimension."""
    if count == 1:
        made = g.reduce("ReduceMean", x, [dim], True)
        made.shape = tuple(1 if at == dim else s for at, s in enumerate(x.shape))
        return made
    size = x.shape[dim]
    if type(size) is not int:
        raise Unsupported("its image has open sizes")
    if size == count:
        return x
    order = [at for at in range(x.rank) if at != dim] + [dim]
    shares = g.const(rl.tensor(_shares(size, count)).t().tolist(), x.dtype)
    made = g.op("MatMul", g.transpose(x, order), shares, dtype=x.dtype)
    back = [order.index(at) for at in range(x.rank)]
    made = g.op("Transpose", made, perm=back, dtype=x.dtype)
    made.shape = tuple(count if at == dim else s for at, s in enumerate(x.shape))
    return made


def _register_adaptive(count, *packets):
    @lowers(*packets)
    def lower(g, self, output_size):
        for at, size in enumerate(spread(output_size, count)):
            dim = self.rank - count + at
            if isinstance(size, Value):
                raise Unsupported("its result's size is computed")
            if size is not None:
                self = _mean_along(g, self, dim, size)
        return self


_register_adaptive(1, call.adaptive_avg_pool1d)
_register_adaptive(2, call.adaptive_avg_pool2d, call._adaptive_avg_pool2d)
_register_adaptive(3, call.adaptive_avg_pool3d, call._adaptive_avg_pool3d)


def _register_adaptive_largest(packet, count):
    @lowers(packet)
    def lower(g, self, output_size):
        dims = [self.rank - count + at for at in range(count)]
        sizes = spread(output_size, count)
        if not self.is_static(*dims):
            raise Unsupported("its image has open sizes")
        kernel = []
        for dim, size in zip(dims, sizes):
            if size == 0 or self.shape[dim] % size:
                raise Unsupported("its parts have different sizes")
            kernel.append(self.shape[dim] // size)

        def batch(x):
            window = Window(x, sizes, kernel, kernel, 0, 1, False)
            return _largest(g, x, window, True)

        return with_batch(g, self, count + 2, batch)


_register_adaptive_largest(call.adaptive_max_pool1d, 1)
_register_adaptive_largest(call.adaptive_max_pool2d, 2)
_register_adaptive_largest(call.adaptive_max_pool3d, 3)


# -- other sizes -------------------------------------------------------------------------


def _resized(g, input, output_size, scale_factors, **attributes):
    kind = input.dtype
    inner = kind if kind.is_floating_point or kind is rl.uint8 else rl.float32
    scales = sizes = None
    if scale_factors:
        factors = [1.0, 1.0, *map(float, scale_factors)]
        scales = g.const(factors, rl.float32)
    else:
        own = [g.size_of(input, 0), g.size_of(input, 1)]
        sizes = g.sizes([*own, *output_size])
    made = g.op(
        "Resize", g.cast(input, inner), None, scales, sizes, dtype=inner, **attributes
    )
    return g.cast(made, kind)


def _register_nearest(exact, *packets):
    transform = "half_pixel" if exact else "asymmetric"
    rounding = "round_prefer_ceil" if exact else "floor"

    @lowers(*packets)
    def lower(g, input, output_size=None, scale_factors=None, scales=None):
        return _resized(
            g, input, output_size, scale_factors, mode="nearest",
            coordinate_transformation_mode=transform, nearest_mode=rounding,
        )  # fmt: skip


_register_nearest(
    False, call.upsample_nearest1d, call.upsample_nearest2d, call.upsample_nearest3d
)
_register_nearest(
    True,
    call._upsample_nearest_exact1d,
    call._upsample_nearest_exact2d,
    call._upsample_nearest_exact3d,
)


def _register_smooth(mode, *packets, antialias=0):
    @lowers(*packets)
    def lower(g, input, align_corners, output_size=None, scale_factors=None):
        transform = "align_corners" if align_corners else "half_pixel"
        return _resized(
            g, input, output_size, scale_factors, mode=mode, antialias=antialias,
            coordinate_transformation_mode=transform, cubic_coeff_a=-0.75,
        )  # fmt: skip


_register_smooth(
    "linear",
    call.upsample_linear1d,
    call.upsample_bilinear2d,
    call.upsample_trilinear3d,
)
_register_smooth("cubic", call.upsample_bicubic2d)


@lowers(call.grid_sampler, call.grid_sampler_2d, call.grid_sampler_3d)
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):
    """An image at places that are given."""
    words = ("bilinear", "nearest", "bicubic")
    if g.opset >= 20:
        words = ("linear", "nearest", "cubic")
    elif input.rank != 4:
        raise Unsupported("of volumes it is in ONNX's version 20: use opset_version=20")
    return g.op(
        "GridSample",
        input,
        grid,
        mode=words[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=int(align_corners),
        dtype=input.dtype,
    )

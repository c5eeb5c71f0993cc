"""Convolutions, pooling, normalization, images in other sizes."""

import math

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._table import implements, integers
from rushlight.operators import call


def _pads(auto_pad, pads, sizes, kernel, strides, dilations):
    """Borders before and after each dimension."""
    count = len(kernel)
    if auto_pad in ("NOTSET", b"NOTSET") or pads:
        pads = [0] * 2 * count if pads is None else list(pads)
        return pads[:count], pads[count:]
    if auto_pad == "VALID":
        return [0] * count, [0] * count
    before, after = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        first, last = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        before.append(first)
        after.append(last)
    return before, after


def _framed(x, before, after, value=0.0):
    """A value with a border around its last dimensions."""
    flat = [n for pair in zip(reversed(before), reversed(after)) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


@implements("Conv")
def conv(
    x, w, b=None, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None,
    strides=None,
):  # fmt: skip
    """A convolution."""
    count = w.dim() - 2
    kernel = list(w.shape[2:])
    strides, dilations = strides or [1] * count, dilations or [1] * count
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    if before == after:
        padding = before
    else:
        x, padding = _framed(x, before, after), [0] * count
    return call.convolution(
        x, w, b, strides, padding, dilations, False, [0] * count, group
    )


_CONV = "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"


@implements("ConvInteger", more=_CONV)
def conv_integer(x, w, x_zero_point=None, w_zero_point=None, **attributes):
    """A convolution of small integers less their zero points."""
    x, w = x.to(rl.float64), w.to(rl.float64)
    x = x if x_zero_point is None else x - x_zero_point.to(rl.float64)
    if w_zero_point is not None:
        zero = w_zero_point.to(rl.float64)
        w = w - (zero.reshape([-1, *[1] * (w.dim() - 1)]) if zero.dim() else zero)
    return conv(x, w, **attributes).to(rl.int32)


@implements("ConvTranspose", more=("kernel_shape",))
def conv_transpose(
    x, w, b=None, auto_pad="NOTSET", dilations=None, group=1, output_padding=None,
    output_shape=None, pads=None, strides=None, **_,
):  # fmt: skip
    """A transposed convolution."""
    count = w.dim() - 2
    kernel = list(w.shape[2:])
    strides, dilations = strides or [1] * count, dilations or [1] * count
    extra = output_padding or [0] * count
    whole = [
        s * (n - 1) + e + (k - 1) * d + 1
        for n, s, e, k, d in zip(x.shape[2:], strides, extra, kernel, dilations)
    ]
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [n * s for n, s in zip(x.shape[2:], strides)]
    if output_shape is not None:
        total = [max(n - m, 0) for n, m in zip(whole, output_shape[-count:])]
        halves = [t // 2 for t in total]
        rest = [t - h for t, h in zip(total, halves)]
        before, after = (rest, halves) if auto_pad != "SAME_UPPER" else (halves, rest)
        extra = [
            e + max(m - n, 0) for e, n, m in zip(extra, whole, output_shape[-count:])
        ]
    else:
        before, after = _pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    if before == after and all(
        e < max(s, d) for e, s, d in zip(extra, strides, dilations)
    ):
        return call.convolution(x, w, b, strides, before, dilations, True, extra, group)
    made = call.convolution(
        x, w, b, strides, [0] * count, dilations, True, [0] * count, group
    )
    made = _framed(made, [0] * count, extra)
    if b is not None and any(extra):
        made = _rest_is_bias(made, b, extra)
    return _framed(made, [-n for n in before], [-n for n in after])


def _rest_is_bias(made, b, extra):
    """Fills what was added at the end with the bias."""
    for at, more in enumerate(extra):
        if more:
            dim = 2 + at
            whole = made.narrow(dim, 0, made.shape[dim] - more)
            sizes = [*made.shape]
            sizes[dim] = more
            rest = b.reshape([1, -1, *[1] * (made.dim() - 2)]).expand(sizes)
            made = rl.cat([whole, rest], dim)
    return made


# -- pooling -----------------------------------------------------------------------------


def _windows(
    x, kernel, strides, dilations, before, after, ceil_mode, value, border=None
):
    """The windows of a value: dimensions of places, then one of what is in each.

    Args:
        value: what lies where windows go over the end.
        border: what lies in the border; the same by itself.
    """
    count = len(kernel)
    more = []
    for at in range(count):
        size = x.shape[2 + at] + before[at] + after[at]
        reach = (kernel[at] - 1) * dilations[at] + 1
        indices = (size - reach) / strides[at]
        indices = (math.ceil(indices) if ceil_mode else math.floor(indices)) + 1
        last_start = (indices - 1) * strides[at]
        if ceil_mode and last_start >= x.shape[2 + at] + before[at]:
            indices -= 1
        more.append(max((indices - 1) * strides[at] + reach - size, 0))
    framed = _framed(x, before, after, value if border is None else border)
    framed = _framed(framed, [0] * count, more, value)
    for at in range(count):
        reach = (kernel[at] - 1) * dilations[at] + 1
        framed = framed.unfold(2 + at, reach, strides[at])
        size = x.shape[2 + at] + before[at] + after[at]
        most = (size + more[at] - reach) // strides[at] + 1
        framed = framed.narrow(2 + at, 0, most)
    index = [slice(None)] * (2 + count) + [slice(None, None, d) for d in dilations]
    return framed[tuple(index)].flatten(2 + count)


@implements("MaxPool")
def max_pool(
    x, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=None, pads=None,
    storage_order=0, strides=None, outputs=1,
):  # fmt: skip
    """The largest of each window, and where it is in all."""
    count = len(kernel_shape)
    strides, dilations = strides or [1] * count, dilations or [1] * count
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    wide = x.dtype.is_floating_point
    values = x if wide else x.to(rl.float64)
    rest = kernel_shape, strides, dilations, before, after, ceil_mode
    windows = _windows(values, *rest, float("-inf"))
    if outputs == 1:
        return windows.amax(-1).to(x.dtype)
    best, at = windows.max(-1)
    numbers = rl.arange(x.numel(), dtype=rl.float64)
    if storage_order:
        spatial = x.shape[2:]
        plane = numbers[: math.prod(spatial)].reshape(list(spatial)[::-1])
        plane = plane.permute(list(range(count))[::-1]).reshape(spatial)
        step = math.prod(spatial)
        lead = rl.arange(x.shape[0] * x.shape[1], dtype=rl.float64) * step
        numbers = lead.reshape([*x.shape[:2], *[1] * count]) + plane
    else:
        numbers = numbers.reshape(x.shape)
    indices = _windows(numbers, *rest, -1.0)
    found = indices.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return best.to(x.dtype), found.to(rl.int64)


@implements("AveragePool")
def average_pool(
    x, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None,
    kernel_shape=None, pads=None, strides=None,
):  # fmt: skip
    """The mean of each window."""
    count = len(kernel_shape)
    strides, dilations = strides or [1] * count, dilations or [1] * count
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    ones = rl.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    rest = kernel_shape, strides, dilations, before, after, ceil_mode, 0.0
    counts = _windows(ones, *rest, border=float(count_include_pad)).sum(-1)
    return _windows(x, *rest).sum(-1) / counts


@implements("LpPool")
def lp_pool(
    x, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=None, p=2, pads=None,
    strides=None,
):  # fmt: skip
    """The norm of each window."""
    count = len(kernel_shape)
    strides, dilations = strides or [1] * count, dilations or [1] * count
    before, after = _pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    rest = kernel_shape, strides, dilations, before, after, ceil_mode, 0.0
    return _windows(x.abs().pow(p), *rest).sum(-1).pow(1 / p)


def _register_global(name, function):
    @implements(name)
    def apply(x, p=2):
        dims = list(range(2, x.dim()))
        return function(x, dims, p)


_register_global("GlobalAveragePool", lambda x, dims, p: x.mean(dims, keepdim=True))
_register_global("GlobalMaxPool", lambda x, dims, p: x.amax(dims, keepdim=True))
_register_global(
    "GlobalLpPool", lambda x, dims, p: x.abs().pow(p).sum(dims, keepdim=True).pow(1 / p)
)


@implements("Col2Im")
def col2im(x, image_shape, block_shape, dilations=None, pads=None, strides=None):
    """The sum of windows that are columns."""
    image, block = integers(image_shape), integers(block_shape)
    count = len(image)
    if count != 2:
        raise OnnxLoadError(f"Col2Im of {count} dimensions is not there; it is of two")
    dilations, strides = dilations or [1, 1], strides or [1, 1]
    pads = pads or [0] * 4
    if pads[:2] == pads[2:]:
        return F.fold(x, image, block, dilations, pads[:2], strides)
    whole = [n + pads[at] + pads[at + 2] for at, n in enumerate(image)]
    made = F.fold(x, whole, block, dilations, 0, strides)
    return _framed(made, [-n for n in pads[:2]], [-n for n in pads[2:]])


# -- normalization -----------------------------------------------------------------------


@implements("BatchNormalization", kept=(3, 4))
def batch_normalization(
    x, scale, b, mean, var, epsilon=1e-5, momentum=0.9, training_mode=0, outputs=1,
    spatial=1,
):  # fmt: skip
    """By statistics that are kept, or those of the batch."""
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, b, False, 0.0, epsilon)
    dims = [at for at in range(x.dim()) if at != 1]
    var_now, mean_now = rl.var_mean(x, dims, correction=0)
    made = F.batch_norm(x, None, None, scale, b, True, 0.0, epsilon)
    if outputs == 1:
        return made
    kept = (
        mean * momentum + mean_now * (1 - momentum),
        var * momentum + var_now * (1 - momentum),
    )
    return (made, *kept)[:outputs]


@implements("InstanceNormalization")
def instance_normalization(x, scale, b, epsilon=1e-5):
    """Over the places of each channel."""
    dims = list(range(2, x.dim()))
    var, mean = rl.var_mean(x, dims, correction=0, keepdim=True)
    sizes = [-1, *[1] * len(dims)]
    made = (x - mean) / (var + epsilon).sqrt()
    return made * scale.reshape(sizes) + b.reshape(sizes)


@implements("LayerNormalization")
def layer_normalization(
    x, scale, b=None, axis=-1, epsilon=1e-5, stash_type=1, outputs=1
):
    """Over the dimensions from an axis on."""
    sizes = list(x.shape[axis:])
    if outputs == 1:
        weight = scale if list(scale.shape) == sizes else scale.expand(sizes)
        bias = b if b is None or list(b.shape) == sizes else b.expand(sizes)
        return F.layer_norm(x, sizes, weight, bias, epsilon)
    dims = list(range(axis % x.dim(), x.dim()))
    var, mean = rl.var_mean(x, dims, correction=0, keepdim=True)
    inverse = (var + epsilon).rsqrt()
    made = (x - mean) * inverse * scale
    made = made if b is None else made + b
    return (made, mean, inverse)[:outputs]


@implements("RMSNormalization")
def rms_normalization(x, scale, axis=-1, epsilon=1e-5, stash_type=1):
    """Divided by the root of the mean square."""
    dims = list(range(axis % x.dim(), x.dim()))
    root = (x.square().mean(dims, keepdim=True) + epsilon).sqrt()
    return x / root * scale


@implements("GroupNormalization")
def group_normalization(
    x, scale, bias, epsilon=1e-5, num_groups=1, stash_type=1, opset=21
):
    """Over groups of channels; scales are for groups before version 21."""
    channels = x.shape[1]
    if opset < 21:
        scale, bias = (
            one.repeat_interleave(channels // num_groups) for one in (scale, bias)
        )
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@implements("LRN")
def lrn(x, size, alpha=0.0001, beta=0.75, bias=1.0):
    """By the squares of neighbouring channels."""
    squares = x.square().unsqueeze(1)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    rank = x.dim() - 2
    framed = F.pad(squares, [0, 0] * rank + [before, after])
    total = sum(framed.narrow(2, at, x.shape[1]) for at in range(size)).squeeze(1)
    return x / (bias + alpha / size * total).pow(beta)


@implements("LpNormalization")
def lp_normalization(x, axis=-1, p=2):
    """Divided by the norm."""
    length = x.abs().pow(p).sum(axis, keepdim=True).pow(1 / p)
    return rl.where(length == 0, rl.zeros_like(x), x / length)


@implements("MeanVarianceNormalization")
def mean_variance_normalization(x, axes=(0, 2, 3)):
    """Less the mean, by the deviation."""
    var, mean = rl.var_mean(x, list(axes), correction=0, keepdim=True)
    return (x - mean) / (var.sqrt() + 1e-9)


# -- other sizes -------------------------------------------------------------------------


@implements("GridSample")
def grid_sample(x, grid, align_corners=0, mode="linear", padding_mode="zeros"):
    """An image at places that are given."""
    words = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(
        x, grid, words.get(mode, mode), padding_mode, bool(align_corners)
    )


@implements("AffineGrid")
def affine_grid(theta, size, align_corners=0):
    """The places of an affine map."""
    return F.affine_grid(theta, integers(size), bool(align_corners))


def _original(indices, size, count, scale, transform, roi):
    """Where places of the result are in the original."""
    length = count if scale is None else size * scale
    scale = count / size if scale is None else scale
    if transform == "align_corners":
        if length == 1:
            return indices * 0.0
        return indices * (size - 1) / (length - 1)
    if transform == "asymmetric":
        return indices / scale
    if transform == "pytorch_half_pixel" and count == 1:
        return indices * 0.0 - 0.5
    if transform == "half_pixel_symmetric":
        adjustment = count / length
        center = size / 2
        return center * (1 - adjustment) + (indices + 0.5) / scale - 0.5
    if transform == "tf_crop_and_resize":
        start, end = roi
        if count == 1:
            return indices * 0.0 + 0.5 * (start + end) * (size - 1)
        return start * (size - 1) + indices * (end - start) * (size - 1) / (count - 1)
    return (indices + 0.5) / scale - 0.5


def _nearest(where, rounding):
    if rounding == "round_prefer_floor":
        return (where - 0.5).ceil()
    if rounding == "round_prefer_ceil":
        return (where + 0.5).floor()
    return where.floor() if rounding == "floor" else where.ceil()


def _cubic(distance, a):
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return rl.where(d <= 1, near, rl.where(d < 2, far, rl.zeros_like(d)))


def _weights(where, size, mode, rounding, cubic, exclude, antialias, scale):
    """How much of each element goes into each of the result: a matrix."""
    indices = rl.arange(size, dtype=rl.float64)[None, :]
    where = where[:, None]
    if mode == "nearest":
        chosen = _nearest(where, rounding).clamp(0, size - 1)
        return (indices == chosen).to(rl.float64)
    wide = max(1.0, 1 / scale) if antialias else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * wide) + 1
    base = where.floor()
    total = rl.zeros(where.shape[0], size, dtype=rl.float64)
    for offset in range(-reach, reach + 1):
        source = base + offset
        distance = (where - source) / wide
        weight = (
            _cubic(distance, cubic)
            if mode == "cubic"
            else (1 - distance.abs()).clamp(min=0)
        )
        if exclude:
            inside = (source >= 0) & (source < size)
            weight = rl.where(inside, weight, rl.zeros_like(weight))
        total = total + weight * (indices == source.clamp(0, size - 1))
    if exclude or antialias:
        total = total / total.sum(1, keepdim=True)
    return total


# What the operator's attributes are where a file does not say.
_RESIZE = {
    "antialias": 0, "axes": None, "coordinate_transformation_mode": "half_pixel",
    "cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0,
    "keep_aspect_ratio_policy": "stretch", "mode": "nearest",
    "nearest_mode": "round_prefer_floor",
}  # fmt: skip
_BEFORE_11 = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@implements("Resize", "Upsample", more=_RESIZE)
def resize(x, roi=None, scales=None, sizes=None, opset=13, **attributes):
    """In another size, along each dimension by a matrix of weights."""
    options = {**_RESIZE, **attributes}
    if opset < 11:  # the operator before, whose scales come second
        roi, scales = None, roi if scales is None else scales
        options.update(_BEFORE_11)
    axes = options["axes"]
    dims = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes]
    if scales is None or not len(scales):
        policy = options["keep_aspect_ratio_policy"]
        factors, counts = _fitted(x, dims, integers(sizes), policy)
    else:
        factors = [float(s) for s in scales]
        counts = [math.floor(x.shape[d] * f) for d, f in zip(dims, factors)]
    parts = [None] * len(dims)
    if roi is not None and len(roi):
        parts = [
            (float(roi[at]), float(roi[at + len(dims)])) for at in range(len(dims))
        ]
    made, outside = x.to(rl.float64), None
    for dim, count, factor, part in zip(dims, counts, factors, parts):
        made, beyond = _resized(made, dim, count, factor, part, options)
        if beyond is not None:
            outside = beyond if outside is None else outside | beyond
    if outside is not None:
        made = made.masked_fill(outside, options["extrapolation_value"])
    if not x.dtype.is_floating_point:
        info = rl.iinfo(x.dtype)
        made = made.round().clamp(info.min, info.max)
    return made.to(x.dtype)


def _resized(x, dim, count, factor, part, options):
    """One dimension in another size, and which of it lies outside of the original."""
    size, transform = x.shape[dim], options["coordinate_transformation_mode"]
    crops = transform == "tf_crop_and_resize"
    if size == count and factor in (None, 1.0) and not crops:
        return x, None
    indices = rl.arange(count, dtype=rl.float64)
    where = _original(indices, size, count, factor, transform, part)
    short = count / size if factor is None else factor
    matrix = _weights(
        where, size, options["mode"], options["nearest_mode"], options["cubic_coeff_a"],
        options["exclude_outside"], options["antialias"], short,
    )  # fmt: skip
    made = rl.tensordot(x, matrix, dims=([dim], [1])).movedim(-1, dim)
    if not crops:
        return made, None
    beyond = (where < 0) | (where > size - 1)
    return made, beyond.reshape([-1] + [1] * (x.dim() - 1 - dim))


def _fitted(x, dims, counts, policy):
    """Scales and sizes where sizes are given."""
    if policy == "stretch":
        return [None] * len(dims), counts
    choose = min if policy == "not_larger" else max
    scale = choose(n / x.shape[d] for n, d in zip(counts, dims))
    return [scale] * len(dims), [math.floor(scale * x.shape[d] + 0.5) for d in dims]


# -- losses ------------------------------------------------------------------------------


@implements("NegativeLogLikelihoodLoss")
def nll_loss(x, target, weight=None, ignore_index=None, reduction="mean"):
    """What a classifier gave the right class, negative."""
    ignored = -(2**31) if ignore_index is None else ignore_index
    return F.nll_loss(
        x, target.long(), weight, ignore_index=ignored, reduction=reduction
    )


@implements("SoftmaxCrossEntropyLoss")
def cross_entropy(
    x, target, weight=None, ignore_index=None, reduction="mean", outputs=1
):
    """The same of scores, and their logarithms."""
    logarithms = rl.log_softmax(x, 1)
    made = nll_loss(logarithms, target, weight, ignore_index, reduction)
    return (made, logarithms) if outputs > 1 else made

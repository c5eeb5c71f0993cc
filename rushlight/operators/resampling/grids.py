"""Images sampled at points of a grid, and the grids of affine maps.

A sample is a weighted sum of the elements around its point. All dimensions are treated
alike, so that images and volumes have one text; the gradients by image and grid follow.
"""

import math
from itertools import product

from rushlight.core.dtypes import int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call
from rushlight.operators.resampling import grid_kernels
from rushlight.operators.shared import differentiated, readable

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
_CUBIC = -0.75  # the slope that PyTorch's cubic has
_HALVES = {"float32": 2.0**12 + 1, "float64": 2.0**27 + 1}  # Veltkamp's factors


def _check(input, grid, mode):
    if input.size(0) != grid.size(0):
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got "
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.size(-1) != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last "
            f"dimension, but got grid with sizes {list(grid.shape)}"
        )
    for dim in range(2, input.dim()):
        if input.size(dim) == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but "
                f"input has sizes {list(input.shape)} with dimension {dim} being empty"
            )
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        expected = 4 if input.dim() == 4 else 5
        raise RuntimeError(
            f"grid_sampler(): expected {expected}D input and grid with same number of "
            f"dimensions, but got input with sizes {list(input.shape)} and grid with "
            f"sizes {list(grid.shape)}"
        )
    if mode == BICUBIC and input.dim() != 4:
        raise RuntimeError(
            "grid_sampler(): bicubic interpolation only supports 4D input"
        )
    if not input.is_floating_point():
        word = {"int64": "Long", "int32": "Int", "bool": "Bool", "uint8": "Byte"}
        raise NotImplementedError(
            '"grid_sampler_2d_cpu_kernel_impl" not implemented for '
            f"'{word.get(input.dtype.name, input.dtype.name)}'"
        )
    if input.dtype is not grid.dtype:
        names = {"float32": "Float", "float64": "Double", "float16": "Half"}
        raise RuntimeError(
            f"expected scalar type {names.get(input.dtype.name, input.dtype.name)} but "
            f"found {names.get(grid.dtype.name, grid.dtype.name)}"
        )


def _plain(input, grid):
    """Whether one kernel does it: numbers in memory, of a type that it sums in."""
    return input.dtype.itemsize >= 4 and readable(input) and readable(grid)


def _unnormalized(points, size, align_corners, flat):
    """From -1 to 1 to positions in a dimension."""
    if align_corners:
        return (points + 1) * ((size - 1) / 2)
    if flat:
        return -_left(0.5, points + 1, size / 2)
    return ((points + 1) * size - 1) / 2


def _clipped(points, size, flat):
    """Positions inside of the image; none of them has a gradient beyond its edge.

    What is no number is the first position of an image, and the last of a volume.
    """
    last = float(size - 1)
    points = call.where(points > 0 if flat else ~(points <= 0), points, 0.0)
    return call.where(points < last, points, last)


def _reflected(points, size, align_corners, flat):
    """Positions thrown back at the edges as often as it takes."""
    low, high = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
    if low == high:
        return call.zeros_like(points)
    return _clipped(_reflected_back(points, low, high, flat)[0], size, flat)


def _reflected_back(points, low, high, flat):
    """Positions between the halves of two bounds, and which are on their way back.

    In a volume by what is left of whole spans. In an image by what a rounded number of
    ways there and back leaves: far out those are as good as any, and PyTorch's.
    """
    start, both = low / 2, high - low
    distance = (points - start).abs()
    if flat:
        extra = _left(distance, (distance / both).trunc(), float(both))
        return call.minimum(extra, both - extra) + start, extra > both - extra
    extra, reflections = distance.fmod(both / 2), (distance / (both / 2)).floor()
    odd = (reflections < 2**31) & (
        reflections.remainder(2) != 0
    )  # PyTorch counts in 32 bits
    return call.where(odd, both / 2 - extra, extra) + start, odd


def _left(whole, times, part):
    """``whole - times * part`` of whole times; with one rounding, but in halves."""
    if times.dtype.name not in _HALVES:
        return whole - times * part
    cut = times * _HALVES[times.dtype.name]
    high = cut - (cut - times)
    high = call.where(high.isfinite(), high, times)  # half of the digits of `times`
    return (whole - high * part) - (times - high) * part


def _padded(points, size, padding, align_corners, flat):
    if padding == BORDER:
        return _clipped(points, size, flat)
    if padding == REFLECTION:
        return _reflected(points, size, align_corners, flat)
    return points


def _cubic_weights(t):
    """Weights of the four elements around a position, from its distance to the second."""
    a = _CUBIC

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _cubic_slopes(t):
    """By how much the four weights change with the position."""
    a = _CUBIC

    def near(x):
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x):
        return (3 * a * x - 10 * a) * x + 8 * a

    return far(t + 1), near(t), -near(1 - t), -far(2 - t)


def _taps(points, size, mode, padding, align_corners, flat):
    """For one dimension: positions of elements, and their weights (None for one)."""
    points = _unnormalized(points, size, align_corners, flat)
    if mode == BICUBIC:
        low = points.floor()
        weights = _cubic_weights(points - low)
        return [
            (
                _padded(low + (i - 1), size, padding, align_corners, flat).detach(),
                weight,
            )
            for i, weight in enumerate(weights)
        ]
    points = _padded(points, size, padding, align_corners, flat)
    if mode == NEAREST:
        return [(points.detach().round(), None)]
    low = points.detach().floor()
    above = points - low
    return [(low, (low + 1) - points), (low + 1, above)]


def _corners(input, taps):
    """For each combination of taps: which points have it, its places, its weights."""
    batch, channels, *sizes = input.shape
    flat = input.dim() == 4
    for corner in product(*taps):
        inside, index, weights = None, 0, []
        for (place, part), size in zip(corner, sizes):
            within = (place >= 0) & (place < size)
            inside = within if inside is None else inside & within
            safe = call.where(within, place, 0.0).to(int64)
            index = index * size + safe
            if part is not None:
                # an image's infinite weights stay: times zero they are NaN
                weights.append(part if flat else call.where(within, part, 0.0))
        count = index.numel() // max(batch, 1)
        index = index.reshape(batch, 1, count).expand(batch, channels, count)
        yield inside.unsqueeze(1), index, weights


def _found(input, grid, inside, index):
    """The elements at places; zeros outside."""
    batch, channels = input.shape[:2]
    found = input.reshape(batch, channels, math.prod(input.shape[2:])).gather(2, index)
    found = found.reshape(batch, channels, *grid.shape[1:-1])
    return call.where(inside, found, 0.0)


def _product(weights):
    total = weights[0]
    for weight in weights[1:]:
        total = total * weight
    return total.unsqueeze(1)


def _all_taps(input, grid, mode, padding, align_corners):
    points, flat = grid.contiguous().unbind(-1)[::-1], input.dim() == 4
    return [
        _taps(one, size, mode, padding, align_corners, flat)
        for one, size in zip(points, input.shape[2:])
    ]


def sample_linearly(input, grid, padding, align_corners):
    """The weighted elements around each point, two in each dimension."""
    return _weighted(BILINEAR, input, grid, padding, align_corners)


def sample_nearest(input, grid, padding, align_corners):
    """The element next to each point."""
    _check(input, grid, NEAREST)
    if _plain(input, grid):
        return grid_kernels.sample(input, grid, NEAREST, padding, align_corners)
    taps = _all_taps(input, grid, NEAREST, padding, align_corners)
    ((inside, index, _),) = _corners(input, taps)
    return _found(input, grid, inside, index).contiguous()


def sample_cubically(input, grid, padding, align_corners):
    """The elements around each point under a cubic's weights, four in each dimension."""
    return _weighted(BICUBIC, input, grid, padding, align_corners)


def _weighted(mode, input, grid, padding, align_corners):
    """The sum of the elements around each point by a mode's weights."""
    _check(input, grid, mode)
    if _plain(input, grid):
        return grid_kernels.sample(input, grid, mode, padding, align_corners)
    total = None
    taps = _all_taps(input, grid, mode, padding, align_corners)
    for inside, index, weights in _corners(input, taps):
        part = _found(input, grid, inside, index) * _product(weights)
        total = part if total is None else total + part
    return total.contiguous()


def nearest_image_gradient(grad, input, grid, padding, align_corners):
    """The sum over the points that an element is the nearest of."""
    return _image_gradient(grad, input, grid, NEAREST, padding, align_corners)


def linear_image_gradient(grad, input, grid, padding, align_corners):
    """Each element's share of the points that it weighs on."""
    return _image_gradient(grad, input, grid, BILINEAR, padding, align_corners)


def cubic_image_gradient(grad, input, grid, padding, align_corners):
    """Each element's share of the points that it weighs on."""
    return _image_gradient(grad, input, grid, BICUBIC, padding, align_corners)


def _image_gradient(grad, input, grid, mode, padding, align_corners):
    plain = _plain(input, grid) and _plain(input, grad) and grad.dtype is input.dtype
    rule = _image_gradient_by_taps
    if plain and not any(map(differentiated, (grad, input, grid))):
        rule = _image_gradient_by_kind
    return rule(grad, input, grid, mode, padding, align_corners)


def _image_gradient_by_taps(grad, input, grid, mode, padding, align_corners):
    points = math.prod(grad.shape[2:])
    flat = grad.reshape(*grad.shape[:2], points)
    total = grad.new_zeros([*input.shape[:2], math.prod(input.shape[2:])])
    taps = _all_taps(input, grid, mode, padding, align_corners)
    for inside, index, weights in _corners(input, taps):
        shares = flat
        if weights:
            weight = _product(weights).to(grad.dtype)
            shares = flat * weight.reshape(grad.shape[0], 1, points)
        # a point outside gives nothing, however large its gradient is
        shares = call.where(inside.reshape(grad.shape[0], 1, points), shares, 0.0)
        total = total.scatter_add(2, index, shares)
    return total.reshape(input.shape)


_image_gradient_by_kind = KernelTable(
    cpu=grid_kernels.spread, cuda=_image_gradient_by_taps, meta=_image_gradient_by_taps
)


def linear_grid_gradient(grad, input, grid, padding, align_corners):
    """Differences of neighbours, taken before they are weighed: they may cancel."""
    scales = [
        _scale(grid, axis, input, padding, align_corners)
        for axis in reversed(range(input.dim() - 2))
    ]
    if _plain(input, grid) and _plain(input, grad) and grad.dtype is input.dtype:
        if not any(map(differentiated, (grad, input, grid))):
            found = grid_kernels.slopes(grad, input, grid, padding, align_corners)
            parts = zip(found.unbind(-1), scales, strict=True)
            return call.stack([slope * scale for slope, scale in parts], -1)
    taps = _all_taps(input, grid, BILINEAR, padding, align_corners)
    corners = list(_corners(input, taps))
    values = [_found(input, grid, inside, index) for inside, index, _ in corners]
    slopes, axes = [], len(taps)
    for axis in range(axes):
        step, total = 1 << (axes - 1 - axis), None  # corners count in binary
        for number, (_, _, weights) in enumerate(corners):
            if number & step:
                continue
            change = values[number + step] - values[number]
            others = weights[:axis] + weights[axis + 1 :]
            change = change * _product(others)
            total = change if total is None else total + change
        slopes.append((total * grad).sum(1) * scales[-1 - axis])
    return call.stack(slopes[::-1], -1)


def cubic_grid_gradient(grad, input, grid, padding, align_corners):
    """The elements under the slopes of their weights, each term multiplied out."""
    sizes, flat = input.shape[2:], input.dim() == 4
    points = grid.contiguous().unbind(-1)[::-1]
    taps = _all_taps(input, grid, BICUBIC, padding, align_corners)
    slopes = []
    for point, size in zip(points, sizes):
        place = _unnormalized(point, size, align_corners, flat)
        slopes.append(_cubic_slopes(place - place.detach().floor()))
    totals = [None] * len(sizes)
    numbers = product(range(4), repeat=len(sizes))
    for number, (inside, index, weights) in zip(numbers, _corners(input, taps)):
        found = _found(input, grid, inside, index)
        for axis in range(len(sizes)):
            part = found * slopes[axis][number[axis]].unsqueeze(1)
            for weight in weights[:axis] + weights[axis + 1 :]:
                part = part * weight.unsqueeze(1)
            part = (part * grad).sum(1)
            totals[axis] = part if totals[axis] is None else totals[axis] + part
    scales = [(size - 1 if align_corners else size) / 2 for size in sizes]
    moved = [total * scale for total, scale in zip(totals, scales, strict=True)]
    return call.stack(moved[::-1], -1)


def _scale(grid, axis, input, padding, align_corners):
    """How positions move with the grid's numbers: back where they are reflected."""
    size, flat = input.shape[2 + axis], input.dim() == 4
    half = (size - 1 if align_corners else size) / 2
    if padding == ZEROS or padding not in (BORDER, REFLECTION):
        return half
    points = grid.detach().unbind(-1)[::-1][axis]
    points = _unnormalized(points, size, align_corners, flat)
    if padding == REFLECTION:
        low, high = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
        if low == high:
            return 0.0
        before = points < low / 2
        points, back = _reflected_back(points, low, high, flat)
        half = half * call.where(before ^ back, -1.0, 1.0)
    inside = (points > 0) & (points < size - 1)
    return call.where(inside, half, 0.0)


def sample_grid(input, grid, mode, padding, align_corners):
    """The elements of an image, or a volume, around the points of a grid, weighted."""
    if mode == NEAREST:
        return call._sample_nearest(input, grid, padding, align_corners)
    if mode == BICUBIC:
        return call._sample_cubically(input, grid, padding, align_corners)
    return call._sample_linearly(input, grid, padding, align_corners)


def sample_image(input, grid, interpolation_mode, padding_mode, align_corners):
    """``sample_grid`` for images."""
    return sample_grid(input, grid, interpolation_mode, padding_mode, align_corners)


def sample_volume(input, grid, interpolation_mode, padding_mode, align_corners):
    """``sample_grid`` for volumes."""
    return sample_grid(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_of_affine(theta, size, align_corners):
    """The points that an affine map sends the points of an image or volume to."""
    batch, _, *sizes = size
    axes = []
    for steps in sizes:
        if steps <= 1:
            axes.append(call.zeros([steps], dtype=theta.dtype, device=theta.device))
            continue
        axis = call.linspace(-1, 1, steps, dtype=theta.dtype, device=theta.device)
        axes.append(axis if align_corners else axis * (steps - 1) / steps)
    points = call.ones([*sizes, len(sizes) + 1], dtype=theta.dtype, device=theta.device)
    for k, axis in enumerate(axes):
        shape = [1] * len(sizes)
        shape[k] = -1
        points.select(-1, len(sizes) - 1 - k).copy_(axis.reshape(shape))
    base = points.reshape(1, -1, len(sizes) + 1)
    moved = base.expand(batch, -1, -1).bmm(theta.transpose(1, 2))
    return moved.reshape(batch, *sizes, len(sizes))

"""Enlarging and shrinking images by interpolation, one dimension after another."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.nn._functions import pooling

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
_SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resample the dimensions after the second to another size.

    Args:
        input: ``(N, C, *)`` with one, two or three dimensions in space.
        size: the sizes to reach, or one for all.
        scale_factor: factors instead of sizes.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"linear"``, ``"bilinear"``,
            ``"bicubic"``, ``"trilinear"`` or ``"area"``.
        align_corners: whether the outer elements' centres stay in place.
        recompute_scale_factor: derive the scale from the whole sizes reached.
        antialias: not offered; shrink with ``"area"`` instead.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not offered")
    sizes, scales = _target_sizes(
        input,
        size,
        scale_factor,
        recompute_scale_factor or mode == "area" and size is None,
    )
    if mode == "area":
        pools = {
            3: pooling.adaptive_avg_pool1d,
            4: pooling.adaptive_avg_pool2d,
            5: pooling.adaptive_avg_pool3d,
        }
        return pools[input.dim()](input, tuple(sizes))
    _check_mode(input.dim(), mode)
    for index, (wanted, scale) in enumerate(zip(sizes, scales)):
        input = _resample(input, 2 + index, wanted, scale, mode, align_corners)
    return input


def _check_mode(ndim, mode):
    if ndim not in _LINEAR or mode not in ("nearest", "nearest-exact", *_SMOOTH):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
            f"{ndim}D) for the modes: nearest | linear | bilinear | bicubic | "
            f"trilinear | area | nearest-exact (got {mode})"
        )
    if mode in _SMOOTH and mode != _LINEAR[ndim] and (mode, ndim) != ("bicubic", 4):
        needs = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}[mode]
        raise NotImplementedError(
            f"Got {ndim}D input, but {mode} mode needs {needs}D input"
        )


def _target_sizes(input, size, scale_factor, recompute):
    """The size of each spatial dimension, and the factor where one was given."""
    spatial = input.shape[2:]
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    many = isinstance(given, (tuple, list))
    if many and len(given) != len(spatial):
        name = "output size of" if size is not None else "scale_factor of shape"
        what = "output" if size is not None else "scale_factor"
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but "
            f"got input with spatial dimensions of {list(spatial)} and {name} "
            f"{given}."
        )
    values = tuple(given) if many else (given,) * len(spatial)
    if size is not None:
        if recompute:
            raise ValueError(
                "recompute_scale_factor is not meaningful with an explicit size."
            )
        return values, (None,) * len(values)
    sizes = tuple(math.floor(n * factor) for n, factor in zip(spatial, values))
    return sizes, (None,) * len(sizes) if recompute else values


def _source_positions(size, wanted, scale, align_corners, exact_centres):
    """Where in the source each output element lies, as fractions of elements."""
    if align_corners:
        step = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
        return [index * step for index in range(wanted)]
    step = 1.0 / scale if scale else size / wanted
    shift = 0.5 if exact_centres else 0.0
    return [(index + shift) * step - shift for index in range(wanted)]


def _cubic_weights(t):
    """Weights of the four neighbours for a fraction, by cubic convolution."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _resample(input, dim, wanted, scale, mode, align_corners):
    size = input.size(dim)
    last = size - 1
    if mode in ("nearest", "nearest-exact"):
        step = 1.0 / scale if scale else size / wanted
        shift = 0.5 if mode == "nearest-exact" else 0.0
        chosen = [min(int((index + shift) * step), last) for index in range(wanted)]
        return input.index_select(dim, rl.tensor(chosen))
    places = _source_positions(size, wanted, scale, align_corners, True)
    if mode == "bicubic":
        floors = [math.floor(place) for place in places]
        weights = [_cubic_weights(p - f) for p, f in zip(places, floors)]
        offsets = (-1, 0, 1, 2)
    else:
        places = [max(place, 0.0) for place in places]
        floors = [min(int(place), last) for place in places]
        weights = [(1 - (p - f), p - f) for p, f in zip(places, floors)]
        offsets = (0, 1)
    shape = [1] * input.dim()
    shape[dim] = wanted
    result = None
    for tap, offset in enumerate(offsets):
        chosen = [min(max(floor + offset, 0), last) for floor in floors]
        weight = rl.tensor([w[tap] for w in weights], dtype=input.dtype).view(shape)
        part = input.index_select(dim, rl.tensor(chosen)) * weight
        result = part if result is None else result + part
    return result


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of ``interpolate``."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` "
        "instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """The older name of ``interpolate`` with ``"nearest"``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use "
        "`nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """The older name of ``interpolate`` with ``"bilinear"`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use "
        "`nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)

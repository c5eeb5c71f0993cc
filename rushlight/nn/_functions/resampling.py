"""Enlarging and shrinking images by interpolation: checks, and the sizes to reach."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.nn._functions import pooling
from rushlight.ops import call

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
_SMOOTH = ("linear", "bilinear", "bicubic", "trilinear", "lanczos")
_NEEDS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
_LARGEST = 2**63


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
        antialias: let all elements count that an output covers when shrinking with
            ``"bilinear"`` or ``"bicubic"``.

    Raises:
        ValueError: sizes or factors don't fit, or options that exclude each other.
        NotImplementedError: the mode has no meaning for the input's rank.
        RuntimeError: an input or output without elements.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    sizes, factors = _given(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError(
            "recompute_scale_factor is not meaningful with an explicit size."
        )
    if antialias and not (
        mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4
    ):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes "
            "and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode == "area" and sizes is None:
        recompute_scale_factor = True
    if sizes is None:
        sizes = [_scaled(n, factor) for n, factor in zip(input.shape[2:], factors)]
    if recompute_scale_factor or factors is None:
        factors = [0.0] * len(sizes)
    _check_mode(input.ndim, mode)
    if mode == "area":
        pool = {
            3: pooling.adaptive_avg_pool1d,
            4: pooling.adaptive_avg_pool2d,
            5: pooling.adaptive_avg_pool3d,
        }[input.ndim]
        return pool(input, tuple(sizes))
    _check_elements(input, sizes, mode)
    return call._resample(
        input, sizes, [float(f) for f in factors], mode, bool(align_corners), antialias
    )


def _check_mode(ndim, mode):
    needs = _NEEDS.get(mode)
    if ndim in _LINEAR:
        if mode in ("nearest", "nearest-exact", "area") or needs == ndim:
            return
        if mode in ("linear", "bilinear", "trilinear"):
            raise NotImplementedError(
                f"Got {ndim}D input, but {mode} mode needs {needs}D input"
            )
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
        f"{ndim}D) for the modes: nearest | linear | bilinear | bicubic | "
        f"trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _check_elements(input, sizes, mode):
    own, ndim = list(input.shape[2:]), input.ndim
    if min(own) <= 0 or min(sizes) <= 0:
        names = {3: "W", 4: "HW", 5: "DHW"}[ndim]

        def told(values):
            return ", ".join(f"{name}: {n}" for name, n in zip(names, values))

        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({told(own)}) output ({told(sizes)})"
        )
    if input.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {ndim}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        )
    cells = math.prod(input.shape[:2]) * math.prod(sizes)
    if cells * input.element_size() >= _LARGEST:
        raise RuntimeError(
            "Storage size calculation overflowed with sizes="
            f"{[*input.shape[:2], *sizes]}"
        )
    bytes_too = mode.startswith("nearest") or mode in ("bilinear", "bicubic", "lanczos")
    if not input.is_floating_point() and not (input.dtype == rl.uint8 and bytes_too):
        raise NotImplementedError(
            f'"upsample_{mode}{ndim - 2}d" not implemented for '
            f"'{input.dtype.name.capitalize()}'"
        )


def _scaled(size, factor):
    """``size * factor`` as a whole number.

    Raises:
        RuntimeError: the product is no number of elements.
    """
    product = size * float(factor)
    if not math.isfinite(product) or abs(product) >= _LARGEST:
        raise RuntimeError(
            "value cannot be converted to type int64_t without overflow\n"
            f"  scale_factor: {factor}"
        )
    return math.trunc(product)


def _whole(value):
    """The number of a whole size, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, rl.Tensor):
        if value.numel() != 1 or value.is_floating_point():
            return None
        return int(value)
    try:
        return value.__index__()
    except AttributeError:
        return None


def _given(input, size, scale_factor):
    """The sizes or the factors that were given, one for each dimension in space."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    spatial = input.shape[2:]
    given = size if size is not None else scale_factor
    many = isinstance(given, (tuple, list))
    if many and len(given) != len(spatial):
        name = "output size of" if size is not None else "scale_factor of shape"
        what = "output" if size is not None else "scale_factor"
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but "
            f"got input with spatial dimensions of {list(spatial)} and {name} "
            f"{given}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{what} in (o1, o2, ...,oK) format."
        )
    values = list(given) if many else [given] * len(spatial)
    if size is not None:
        whole = [_whole(value) for value in values]
        if None in whole:
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types "
                f"{[type(value) for value in values]}"
            )
        return whole, None
    for value in values:
        if isinstance(value, rl.Tensor) or not isinstance(value, (int, float)):
            raise TypeError(
                "expected scale_factor to be a number or a tuple of numbers, but got "
                f"{type(value).__name__}"
            )
    return None, values


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

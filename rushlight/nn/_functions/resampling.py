"""Enlarging and shrinking images by interpolation: checks, and the sizes to reach."""

import warnings

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.ir.symbolic import SymInt
from rushlight.nn._functions import pooling
from rushlight.operators import call

# Dimensions of the inputs that a mode is for, samples and channels included.
_NEEDS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}


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

    >>> interpolate(rl.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> interpolate(rl.tensor([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
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
    if mode == "area" and sizes is None:
        recompute_scale_factor = True
    if recompute_scale_factor:
        sizes = [int(n * factor) for n, factor in zip(input.shape[2:], factors)]
        factors = None
    if antialias:
        _check_smoothed(input, mode)
    run = _operator(input.ndim, mode, align_corners, antialias)
    if mode == "area":
        return run(input, sizes)
    if mode in ("nearest", "nearest-exact"):
        return run(input, sizes, factors)
    return run(input, sizes, align_corners, factors)


def _check_smoothed(input, mode):
    """Refuses what has no kernel that lets all covered elements count."""
    if mode not in ("bilinear", "bicubic", "lanczos") or input.ndim != 4:
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes "
            "and requires a 4-D tensor as input"
        )


_AREA = {
    3: pooling.adaptive_avg_pool1d,
    4: pooling.adaptive_avg_pool2d,
    5: pooling.adaptive_avg_pool3d,
}


def _operator(ndim, mode, align_corners, antialias):
    """What resamples inputs of so many dimensions by a mode.

    Raises:
        NotImplementedError: the mode has no meaning for them.
        ValueError: the mode doesn't go with the other options.
    """
    if ndim in (3, 4, 5) and isinstance(mode, str):
        axes = ndim - 2
        if mode == "nearest":
            return getattr(call, f"upsample_nearest{axes}d")
        if mode == "nearest-exact":
            return getattr(call, f"_upsample_nearest_exact{axes}d")
        if mode == "area":
            return _AREA[ndim]
        if mode == "lanczos" and ndim == 4:
            if align_corners:
                raise ValueError("Lanczos mode does not support align_corners=True")
            if not antialias:
                raise ValueError("Lanczos mode requires antialias=True")
            return call._upsample_lanczos2d_aa
        if _NEEDS.get(mode) == ndim:
            name = f"upsample_{mode}{axes}d"
            return getattr(call, f"_{name}_aa" if antialias else name)
        if mode in ("linear", "bilinear", "trilinear"):
            raise NotImplementedError(
                f"Got {ndim}D input, but {mode} mode needs {_NEEDS[mode]}D input"
            )
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
        f"{ndim}D) for the modes: nearest | linear | bilinear | bicubic | "
        f"trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _whole(value):
    """The number of a whole size, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, SymInt):
        return value  # a size that stays open
    if isinstance(value, rl.Tensor):
        if value.numel() != 1 or value.is_floating_point():
            return None
        return int(value)
    if hasattr(value, "__len__"):  # an array, even without dimensions
        return None
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
    if size is None:
        return None, values
    if many:
        whole = [_whole(value) for value in values]
        if None in whole:
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types "
                f"{[type(value) for value in values]}"
            )
        return whole, None
    return values, None


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of ``interpolate``.

    Args:
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or
            ``"trilinear"``.
        align_corners: whether the centres of the corner pixels stay at the corners.

    >>> import pytest
    >>> with pytest.warns(UserWarning):
    ...     upsample(rl.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` "
        "instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """The older name of ``interpolate`` with ``"nearest"``.

    >>> import pytest
    >>> with pytest.warns(UserWarning):
    ...     upsample_nearest(rl.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use "
        "`nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """The older name of ``interpolate`` with ``"bilinear"`` and aligned corners.

    >>> import pytest
    >>> with pytest.warns(UserWarning):
    ...     upsample_bilinear(rl.tensor([[[[1.0, 3.0]]]]), size=(1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use "
        "`nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


describe_arguments(
    globals(),
    input="a batch of shape ``(N, C, ...)``.",
    size="the sizes of the result's last dimensions, or",
    scale_factor="the factors by which they grow.",
)

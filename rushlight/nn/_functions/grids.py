"""Sampling at the points of a grid, and grids of affine maps."""

import warnings

from rushlight.operators import call

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _say_default():
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False "
        "since 1.3.0. Please specify align_corners=True if the old behavior is desired. "
        "See the documentation of grid_sample for details.",
        stacklevel=3,
    )


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """An image or a volume sampled at the points of a grid.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, H', W', 2)`` or ``(N, D', H', W', 3)``; a point is x, y (and z), each
            -1 at one edge and 1 at the other.
        mode: bilinear, nearest or bicubic.
        padding_mode: what lies outside: zeros, the border, or a reflection.
        align_corners: whether -1 and 1 are the middles of the outermost elements, or
            their outer edges.

    Raises:
        ValueError: there is no such mode.
        RuntimeError: the shapes do not fit.

    >>> import rushlight as rl
    >>> image = rl.arange(4.0).reshape(1, 1, 2, 2)
    >>> grid_sample(image, rl.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[1.5000]]]])
    """
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or "
            f"'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', "
            f"or 'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        _say_default()
        align_corners = False
    return call.grid_sampler(
        input,
        grid,
        list(_MODES).index(mode),
        list(_PADDINGS).index(padding_mode),
        align_corners,
    )


def affine_grid(theta, size, align_corners=None):
    """The grid for ``grid_sample`` that moves an image or a volume by affine maps.

    Args:
        theta: ``(N, 2, 3)`` or ``(N, 3, 4)``, one map for each image.
        size: the sizes that the result is to have, ``(N, C, H, W)`` or
            ``(N, C, D, H, W)``.
        align_corners: as in ``grid_sample``.

    Raises:
        ValueError: the maps are of another kind than the sizes, or a size is not positive.
        NotImplementedError: the sizes are neither four nor five.

    >>> import rushlight as rl
    >>> same = rl.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> affine_grid(same, (1, 1, 2, 2), align_corners=True)
    tensor([[[[-1., -1.],
              [ 1., -1.]],
    <BLANKLINE>
             [[-1.,  1.],
              [ 1.,  1.]]]])
    """
    if align_corners is None:
        _say_default()
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(
            f"Expected theta to have floating point type, but got {theta.dtype}"
        )
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    space = len(size) - 2
    if theta.dim() != 3 or list(theta.shape[1:]) != [space, space + 1]:
        raise ValueError(
            f"Expected a batch of {space}D affine matrices of shape "
            f"Nx{space}x{space + 1} for size {size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids "
            "when align_corners=True. This is not an intended use case of affine_grid. See "
            "the documentation of affine_grid for details.",
            stacklevel=2,
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return call.affine_grid_generator(theta, list(size), align_corners)

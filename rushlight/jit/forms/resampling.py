"""What translated programs run for resampling; read as text, never imported."""

import math

import rushlight as torch
from rushlight import Tensor


def _sizes(input: Tensor, size: int | list[int]) -> list[int]:
    if isinstance(size, int):
        return [size] * (input.dim() - 2)
    return size


def _scales(input: Tensor, scale: float | list[float]) -> list[float]:
    if isinstance(scale, float):
        return [scale] * (input.dim() - 2)
    return scale


def _resample(
    input: Tensor,
    sizes: list[int] | None,
    scales: list[float] | None,
    mode: str,
    corners: bool,
) -> Tensor:
    dims = input.dim() - 2
    if mode == "nearest":
        if dims == 1:
            return torch.ops.aten.upsample_nearest1d(input, sizes, scales)
        if dims == 2:
            return torch.ops.aten.upsample_nearest2d(input, sizes, scales)
        return torch.ops.aten.upsample_nearest3d(input, sizes, scales)
    if mode == "nearest-exact":
        if dims == 1:
            return torch.ops.aten._upsample_nearest_exact1d(input, sizes, scales)
        if dims == 2:
            return torch.ops.aten._upsample_nearest_exact2d(input, sizes, scales)
        return torch.ops.aten._upsample_nearest_exact3d(input, sizes, scales)
    if mode == "linear":
        return torch.ops.aten.upsample_linear1d(input, sizes, corners, scales)
    if mode == "bilinear":
        return torch.ops.aten.upsample_bilinear2d(input, sizes, corners, scales)
    if mode == "trilinear":
        return torch.ops.aten.upsample_trilinear3d(input, sizes, corners, scales)
    if mode == "bicubic":
        return torch.ops.aten.upsample_bicubic2d(input, sizes, corners, scales)
    raise NotImplementedError(
        f"interpolate: mode {mode} of an input of {dims + 2} dimensions"
    )


def _resample_antialiased(
    input: Tensor,
    sizes: list[int] | None,
    scales: list[float] | None,
    mode: str,
    corners: bool,
) -> Tensor:
    if input.dim() != 4 or mode not in ["bilinear", "bicubic", "lanczos"]:
        raise ValueError(
            "Anti-alias option is only supported for bilinear, bicubic and lanczos"
        )
    if mode == "bilinear":
        return torch.ops.aten._upsample_bilinear2d_aa(input, sizes, corners, scales)
    if mode == "bicubic":
        return torch.ops.aten._upsample_bicubic2d_aa(input, sizes, corners, scales)
    return torch.ops.aten._upsample_lanczos2d_aa(input, sizes, corners, scales)


def interpolate(
    input: Tensor,
    size: int | list[int] | None = None,
    scale_factor: float | list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    sizes: list[int] | None = None
    scales: list[float] | None = None
    if size is not None:
        sizes = _sizes(input, size)
    elif scale_factor is not None:
        scales = _scales(input, scale_factor)
    else:
        raise ValueError("either size or scale_factor should be defined")
    recompute = mode == "area"
    if recompute_scale_factor is not None:
        recompute = recompute or recompute_scale_factor
    if recompute and scales is not None:
        made: list[int] = []
        for i in range(len(scales)):
            made.append(int(math.floor(float(input.size(i + 2)) * scales[i])))
        sizes = made
        scales = None
    corners = False
    if align_corners is not None:
        corners = align_corners
    if mode == "area":
        if sizes is None:
            raise ValueError("interpolate: mode area takes a size")
        if input.dim() == 3:
            return torch.ops.aten.adaptive_avg_pool1d(input, sizes)
        if input.dim() == 4:
            return torch.ops.aten.adaptive_avg_pool2d(input, sizes)
        return torch.ops.aten.adaptive_avg_pool3d(input, sizes)
    if antialias:
        return _resample_antialiased(input, sizes, scales, mode, corners)
    return _resample(input, sizes, scales, mode, corners)


def upsample(
    input: Tensor,
    size: int | list[int] | None = None,
    scale_factor: float | list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    return interpolate(input, size, scale_factor, mode, align_corners)

"""Enlarging images."""

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resamples the dimensions after the second; arguments as in ``interpolate``.

    Args:
        size: the sizes of the result's last dimensions, or
        scale_factor: the factors by which they grow.
        mode: as in ``interpolate``.
        align_corners: whether the centres of the corner pixels stay at the corners.
        recompute_scale_factor: whether factors follow from the sizes once these are
            rounded.
    """

    def __init__(
        self,
        size=None,
        scale_factor=None,
        mode="nearest",
        align_corners=None,
        recompute_scale_factor=None,
    ):
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self):
        if self.scale_factor is not None:
            amount = f"scale_factor={self.scale_factor!r}"
        else:
            amount = f"size={self.size!r}"
        return f"{amount}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """``Upsample`` by copying the nearest element."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` by linear interpolation with aligned corners."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)

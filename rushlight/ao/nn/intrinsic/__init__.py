"""Modules that belong together as one: what `fuse_modules` makes."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.ao.nn.intrinsic.fused import (
    BNReLU2d,
    BNReLU3d,
    ConvAdd2d,
    ConvAddReLU2d,
    ConvBn1d,
    ConvBn2d,
    ConvBn3d,
    ConvBnReLU1d,
    ConvBnReLU2d,
    ConvBnReLU3d,
    ConvReLU1d,
    ConvReLU2d,
    ConvReLU3d,
    LinearBn1d,
    LinearLeakyReLU,
    LinearReLU,
    LinearTanh,
    _FusedModule,
)


__getattr__ = _lazy_getattr(__name__, ("modules", "qat", "quantized"))

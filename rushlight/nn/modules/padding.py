"""Padding as modules; what they compute is described in ``nn.functional.pad``."""

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """What all paddings keep: two numbers for each of the last dimensions."""

    __constants__ = ["padding"]
    _dims = 0
    _mode = ""

    def __init__(self, padding):
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    """Padding with elements of the opposite edge."""

    _mode = "circular"

    def forward(self, input):
        self._check_input_dim(input)
        return F.pad(input, self.padding, self._mode)

    def _check_input_dim(self, input):
        few, many = self._dims + 1, self._dims + 2
        if input.dim() not in (few, many):
            raise ValueError(
                f"expected {few}D or {many}D input (got {input.dim()}D input)"
            )


class _ConstantPadNd(_Pad):
    """Padding with one value."""

    __constants__ = ["padding", "value"]
    _mode = "constant"

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_Pad):
    """Padding with the elements next to the edge, mirrored."""

    _mode = "reflect"


class _ReplicationPadNd(_Pad):
    """Padding with the element at the edge."""

    _mode = "replicate"


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with elements of the opposite edge."""

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with elements of the opposite edge."""

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with elements of the opposite edge."""

    _dims = 3


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with one value."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with one value."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with one value."""

    _dims = 3


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with the elements next to the edge, mirrored."""

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with the elements next to the edge, mirrored."""

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with the elements next to the edge, mirrored."""

    _dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with the element at the edge."""

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with the element at the edge."""

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with the element at the edge."""

    _dims = 3


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"

"""Containers of modules that are quantized as one."""

from rushlight import nn
from rushlight.nn.utils.parametrize import type_before_parametrizations


class _FusedModule(nn.Sequential):
    pass


def _fused(name, *kinds):
    """A container of modules of some kinds, called after them."""

    def __init__(self, *modules):
        found = [type_before_parametrizations(module) for module in modules]
        if len(found) != len(kinds) or not all(map(issubclass, found, kinds)):
            raise AssertionError(
                f"Incorrect types for input modules{''.join(map(str, found))}"
            )
        _FusedModule.__init__(self, *modules)

    words = ", ".join(kind.__name__ for kind in kinds)
    return type(
        name,
        (_FusedModule,),
        {
            "__init__": __init__,
            "_PARTS": kinds,
            "__doc__": f"{words}, one after another.",
            "__module__": __name__,
        },
    )


class _Summed(_FusedModule):
    """A module whose result is added to another value."""

    def __init__(self, conv, add, *rest):
        super().__init__(conv)
        self.add = add
        for module in rest:
            self.relu = module

    def forward(self, x1, x2):
        """The sum of a convolution's result and another value."""
        found = self.add(self[0](x1), x2)
        return self.relu(found) if hasattr(self, "relu") else found


class ConvAdd2d(_Summed):
    """A convolution and a sum."""


class ConvAddReLU2d(_Summed):
    """A convolution, a sum, and what is below zero becomes zero."""


ConvReLU1d = _fused("ConvReLU1d", nn.Conv1d, nn.ReLU)
ConvReLU2d = _fused("ConvReLU2d", nn.Conv2d, nn.ReLU)
ConvReLU3d = _fused("ConvReLU3d", nn.Conv3d, nn.ReLU)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
ConvBn1d = _fused("ConvBn1d", nn.Conv1d, nn.BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", nn.Conv2d, nn.BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", nn.Conv3d, nn.BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, nn.ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, nn.ReLU)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
LinearLeakyReLU = _fused("LinearLeakyReLU", nn.Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", nn.Linear, nn.Tanh)

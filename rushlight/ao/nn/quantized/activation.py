"""Activations, norms and dropout of integers."""

import warnings

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn.quantized.common import (
    inner_of,
    output_parameters,
    weight_observer,
)


class _Scaled:
    """A module with a scale and a zero point of its results, as attributes."""

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """A module made of one of numbers.

        Args:
            mod: the module of numbers.
            scale, zero_point: of the results.
        """
        return cls._made(mod, float(scale), int(zero_point))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A module made of one that was observed."""
        return cls._made(mod, *output_parameters(mod))

    def _get_name(self):
        return f"Quantized{type(self).__name__}"


class ReLU6(nn.ReLU):
    """Numbers held between 0 and 6."""

    def __init__(self, inplace=False):
        super().__init__(inplace)

    def forward(self, input):
        """The numbers, held."""
        return rl.ops.quantized.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """A module made of one of numbers."""
        return ReLU6(mod.inplace)


def _buffered(module, scale, zero_point):
    module.register_buffer("scale", rl.tensor(float(scale)))
    module.register_buffer("zero_point", rl.tensor(int(zero_point)))


class Hardswish(_Scaled, nn.Hardswish):
    """``x * relu6(x + 3) / 6`` of integers.

    Args:
        scale, zero_point: of the results.
        device, dtype: taken, and not used.
    """

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        _buffered(self, scale, zero_point)

    def forward(self, input):
        """The function, quantized."""
        return rl.ops.quantized.hardswish(
            input, self.scale.item(), self.zero_point.item()
        )

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(scale, zero_point)


class ELU(_Scaled, nn.ELU):
    """Exponentials of numbers below zero.

    Args:
        scale, zero_point: of the results.
        alpha: what results approach, but for the sign.
    """

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        """The function, quantized."""
        return rl.ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(scale, zero_point, mod.alpha)


class LeakyReLU(_Scaled, nn.LeakyReLU):
    """Numbers below zero times a slope.

    Args:
        scale, zero_point: of the results.
        negative_slope: the slope.
        inplace: taken as for numbers.
        device, dtype: taken, and not used.
    """

    def __init__(
        self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None,
        dtype=None,
    ):  # fmt: skip
        super().__init__(negative_slope, inplace)
        _buffered(self, scale, zero_point)

    def forward(self, input):
        """The function, quantized."""
        return rl.ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, self.scale.item(),
            self.zero_point.item(),
        )  # fmt: skip

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(scale, zero_point, mod.negative_slope, mod.inplace)


class Sigmoid(_Scaled, nn.Sigmoid):
    """Between zero and one.

    Args:
        output_scale, output_zero_point: of the results.
    """

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale = output_scale
        self.output_zero_point = output_zero_point

    def forward(self, input):
        """The function, quantized."""
        return rl.ops.quantized.sigmoid(
            input, self.output_scale, self.output_zero_point
        )

    def _get_name(self):
        return "Sigmoid"

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(scale, zero_point)


class Softmax(_Scaled, nn.Softmax):
    """Shares of exponentials along a dimension.

    Args:
        dim: the dimension.
        scale, zero_point: of the results.
    """

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__(dim)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        """The shares, quantized."""
        dim = self.dim
        if dim is None:
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return rl.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(mod.dim, scale, zero_point)


class PReLU(_Scaled, nn.Module):
    """Numbers below zero times a weight that was learnt.

    Args:
        output_scale, output_zero_point: of the results.
        num_parameters: one weight, or one for each channel.
    """

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        weight = rl.randn(num_parameters, dtype=rl.float32)
        self.weight = rl.quantize_per_tensor(weight, 1.0, 0, rl.quint8)

    def set_weight(self, w):
        """Sets the quantized weight."""
        self.weight = w

    def forward(self, input):
        """The function, quantized."""
        return rl.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    @classmethod
    def _made(cls, mod, scale, zero_point):
        found = cls(scale, zero_point, mod.num_parameters)
        weight = mod.weight.detach().float()
        observer = weight_observer(mod)
        observer(weight)
        if observer.dtype != rl.quint8:
            warnings.warn(
                "PReLU's weight observer should have dtype quint8 but got "
                f"{observer.dtype}",
                stacklevel=2,
            )
        own_scale, own_point = map(float, observer.calculate_qparams())
        found.set_weight(
            rl.quantize_per_tensor(weight, own_scale, int(own_point), rl.quint8)
        )
        return found


class Dropout(nn.Dropout):
    """The integers as they are: models of integers do not train."""

    def forward(self, input):
        """The value."""
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A module made of one of numbers."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """A module made of one of numbers.

        Args:
            mod: the module of numbers.
            scale, zero_point: of the results.
        """
        return cls(mod.p, mod.inplace)


class LayerNorm(_Scaled, nn.LayerNorm):
    """Rows with mean zero and variance one.

    Args:
        normalized_shape, eps, elementwise_affine: as for numbers.
        weight, bias: numbers.
        scale, zero_point: of the results.
        device, dtype: taken, and not used.
    """

    def __init__(
        self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5,
        elementwise_affine=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine)
        self.weight, self.bias = weight, bias
        _buffered(self, scale, zero_point)

    def forward(self, input):
        """The normalized rows, quantized."""
        return rl.ops.quantized.layer_norm(
            input, list(self.normalized_shape), self.weight, self.bias, self.eps,
            self.scale.item(), self.zero_point.item(),
        )  # fmt: skip

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, scale, zero_point, mod.eps,
            mod.elementwise_affine,
        )  # fmt: skip


class GroupNorm(_Scaled, nn.GroupNorm):
    """Groups of channels with mean zero and variance one.

    Args:
        num_groups, num_channels, eps, affine: as for numbers.
        weight, bias: numbers.
        scale, zero_point: of the results.
        made: ``device`` and ``dtype``: taken, and not used.
    """

    def __init__(
        self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5,
        affine=True, **made,
    ):  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        _buffered(self, scale, zero_point)

    def forward(self, input):
        """The normalized groups, quantized."""
        return rl.ops.quantized.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, self.scale.item(),
            self.zero_point.item(),
        )  # fmt: skip

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, scale, zero_point,
            mod.eps, mod.affine,
        )  # fmt: skip


class _InstanceNorm(_Scaled):
    """What norms of images' channels share.

    Args:
        num_features, eps, momentum, affine: as for numbers.
        weight, bias: numbers.
        scale, zero_point: of the results.
        made: ``device`` and ``dtype``: taken, and not used.
    """

    def __init__(
        self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1,
        affine=False, **made,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine)
        self.weight, self.bias = weight, bias
        _buffered(self, scale, zero_point)

    def forward(self, input):
        """The normalized channels, quantized."""
        return rl.ops.quantized.instance_norm(
            input, self.weight, self.bias, self.eps, self.scale.item(),
            self.zero_point.item(),
        )  # fmt: skip

    @classmethod
    def _made(cls, mod, scale, zero_point):
        return cls(
            mod.num_features, mod.weight, mod.bias, scale, zero_point, mod.eps,
            affine=mod.affine,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """Channels of each sequence with mean zero and variance one."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """Channels of each image with mean zero and variance one."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """Channels of each volume with mean zero and variance one."""


class _BatchNorm(_Scaled):
    """What norms by known statistics share.

    Args:
        num_features, eps, momentum: as for numbers.
        device, dtype: of the parameters.
    """

    _RELU = False

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(num_features, eps, momentum, True, True, **made)
        _buffered(self, 1.0, 0)

    def forward(self, input):
        """The normalized channels, quantized."""
        word = "_relu" if self._RELU else ""
        return getattr(rl.ops.quantized, f"batch_norm{self._COUNT}d{word}")(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale.item(), self.zero_point.item(),
        )  # fmt: skip

    @classmethod
    def _made(cls, mod, scale, zero_point):
        bn = inner_of(mod)
        found = cls(bn.num_features, bn.eps)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(found, name, getattr(bn, name))
        found.scale = rl.tensor(scale)
        found.zero_point = rl.tensor(zero_point)
        return found


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """Channels of images, normalized by known statistics."""

    _COUNT = 2


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """Channels of volumes, normalized by known statistics."""

    _COUNT = 3


class BNReLU2d(BatchNorm2d):
    """The same; what is below zero becomes zero."""

    _RELU = True


class BNReLU3d(BatchNorm3d):
    """The same; what is below zero becomes zero."""

    _RELU = True

"""Linear maps."""

import math

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.operators import call

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments.

    >>> Identity(54, unused=True)(rl.ones(1))
    tensor([1.])
    """

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether there is a ``bias``.

    Shape: ``(*, in_features)`` in, ``(*, out_features)`` out. Both parameters start
    uniformly between ``-1 / sqrt(in_features)`` and ``1 / sqrt(in_features)``.

    >>> Linear(3, 2)
    Linear(in_features=3, out_features=2, bias=True)
    """

    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(rl.empty((out_features, in_features), **options))
        self.register_parameter(
            "bias", Parameter(rl.empty(out_features, **options)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return call.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A ``Linear`` that tools for quantized layers leave alone."""


class Bilinear(Module):
    """``input1 @ weight[o] @ input2 + bias[o]`` for each output feature ``o``.

    Args:
        in1_features: size of the first input's last dimension.
        in2_features: size of the second input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether there is a ``bias``.
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features,
        in2_features,
        out_features,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            rl.empty((out_features, in1_features, in2_features), **options)
        )
        if bias:
            self.bias = Parameter(rl.empty(out_features, **options))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the parameters anew."""
        if self.in1_features <= 0:
            raise ValueError(
                f"in1_features must be > 0, but got (in1_features={self.in1_features})"
            )
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` whose ``in_features`` is the first input's last size.

    Args:
        out_features: size of the output's last dimension.
        bias: whether there is a ``bias``.
    """

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(**options)

    def reset_parameters(self):
        """Draw the parameters anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take ``in_features`` from an input.

        Raises:
            AssertionError: a weight was loaded that does not fit the input.
        """
        size = input.shape[-1]
        if self.has_uninitialized_params():
            with rl.no_grad():
                self.in_features = size
                self.weight.materialize((self.out_features, size))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the weight was loaded
            if size != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {size} is not equal to "
                    f"in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = size

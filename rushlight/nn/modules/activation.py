"""Activations as modules."""

import warnings

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.operators import call

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _MaybeInPlace(Module):
    """An activation whose only choice is whether to change its input."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class ReLU(_MaybeInPlace):
    """``max(x, 0)``.

    >>> ReLU()(rl.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, input):
        return call.relu_(input) if self.inplace else call.relu(input)


class SELU(_MaybeInPlace):
    """A scaled ``ELU`` that keeps activations normalised."""

    def forward(self, input):
        return F.selu(input, inplace=self.inplace)


class SiLU(_MaybeInPlace):
    """``x * sigmoid(x)``."""

    def forward(self, input):
        return F.silu(input, inplace=self.inplace)


class Mish(_MaybeInPlace):
    """``x * tanh(softplus(x))``."""

    def forward(self, input):
        return F.mish(input, inplace=self.inplace)


class Hardsigmoid(_MaybeInPlace):
    """``clamp(x / 6 + 1 / 2, 0, 1)``."""

    def forward(self, input):
        return F.hardsigmoid(input, inplace=self.inplace)

    def extra_repr(self):
        return ""


class Hardswish(_MaybeInPlace):
    """``x * hardsigmoid(x)``."""

    def forward(self, input):
        return F.hardswish(input, inplace=self.inplace)

    def extra_repr(self):
        return ""


class Threshold(Module):
    """``x`` where greater than ``threshold``, else ``value``.

    Args:
        threshold: what elements must be above to stay.
        value: what the others become.
        inplace: whether the input itself is written to.
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self):
        end = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{end}"


class RReLU(Module):
    """``LeakyReLU`` with slopes drawn at random in training.

    Args:
        lower: the smallest slope.
        upper: the largest slope.
        inplace: whether the input itself is written to.
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input):
        return F.rrelu(
            input, self.lower, self.upper, self.training, inplace=self.inplace
        )

    def extra_repr(self):
        end = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{end}"


class Hardtanh(Module):
    """Keeps values between ``min_val`` and ``max_val``.

    Args:
        min_val: the lower bound.
        max_val: the upper bound.
        inplace: whether the input itself is written to.
        min_value: replaced by ``min_val``.
        max_value: replaced by ``max_val``.
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None
    ):
        super().__init__()
        for old, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}_value` is deprecated and renamed to "
                    f"`{old}_val`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        if max_val <= min_val:
            raise AssertionError(
                f"max_val ({max_val}) must be greater than min_val ({min_val})"
            )
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self):
        end = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{end}"


class ReLU6(Hardtanh):
    """Keeps values between 0 and 6."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input):
        return call.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input):
        return call.tanh(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input):
        return F.tanhshrink(input)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input):
        return F.softsign(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input):
        return F.logsigmoid(input)


class ELU(Module):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return F.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self):
        end = ", inplace=True" if self.inplace else ""
        return f"alpha={self.alpha}{end}"


class CELU(ELU):
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``."""

    def forward(self, input):
        return F.celu(input, self.alpha, inplace=self.inplace)


class GELU(Module):
    """``x`` times the normal distribution's probability of values below ``x``.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for a formula with ``tanh``.
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return call.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The first half along a dimension, times the sigmoid of the second."""

    __constants__ = ["dim"]

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Hardshrink(Module):
    """``x`` where ``|x|`` is greater than ``lambd``, else 0."""

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.hardshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """``x`` moved towards 0 by ``lambd``."""

    def forward(self, input):
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """``x`` where positive, else ``negative_slope * x``."""

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self):
        end = ", inplace=True" if self.inplace else ""
        return f"negative_slope={self.negative_slope}{end}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; linear above ``threshold``."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """Keeps positive values and scales negative ones by a learned slope.

    Shape: ``(N, C, *)`` in and out; one slope for all, or one for each of ``C``.

    Args:
        num_parameters: 1, or the number of channels.
        init: the first value of the slopes.
        device: where the parameters lie.
        dtype: their data type.

    >>> PReLU(init=0.5)(rl.tensor([-4.0, 2.0])).tolist()
    [-2.0, 2.0]
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(rl.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set all slopes to their first value."""
        with rl.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    """An activation along one dimension."""

    __constants__ = ["dim"]

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """``Softmax`` of the negated input."""

    def forward(self, input):
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """Exponentials along a dimension, scaled to the sum 1."""

    def forward(self, input):
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """Logarithm of ``Softmax``."""

    def forward(self, input):
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """``Softmax`` over the channels of ``(N, C, H, W)`` or ``(C, H, W)``."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)

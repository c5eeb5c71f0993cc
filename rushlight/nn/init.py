"""Ways to fill parameters with their first values.

All functions change the tensor in place, without recording it, and return it. The
random stream is consumed exactly as PyTorch consumes it, so that one seed gives the
same weights.
"""

import functools
import math
import warnings

import rushlight as rl
from rushlight.core import naming
from rushlight.core.docstrings import describe_arguments
from rushlight.dispatch.overridable import open_functions

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = {
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
}


def calculate_gain(nonlinearity, param=None):
    """The factor by which weights are scaled in front of a nonlinearity.

    Args:
        nonlinearity: name in ``nn.functional``, such as ``"relu"``.
        param: the negative slope of ``"leaky_relu"``.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR or nonlinearity == "sigmoid":
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill with values between ``a`` and ``b``, all equally likely.

    Args:
        a: the lower end.
        b: the upper end.

    >>> _ = rl.manual_seed(0)
    >>> uniform_(rl.empty(3))
    tensor([0.4963, 0.7682, 0.0885])
    """
    with rl.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill with values of a normal distribution.

    Args:
        mean: the mean.

    >>> _ = rl.manual_seed(0)
    >>> normal_(rl.empty(3))
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    with rl.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fill with values of a normal distribution, drawn anew outside ``[a, b]``.

    Args:
        mean: the mean.
        a: the lower end.
        b: the upper end.

    >>> _ = rl.manual_seed(0)
    >>> trunc_normal_(rl.empty(3))
    tensor([ 1.5410, -0.2934, -1.3986])
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def mass_below(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    inside = mass_below((b - mean) / std) - mass_below((a - mean) / std)
    with rl.no_grad():
        if inside > 0.3:
            return _redraw_normal(tensor, mean, std, a, b, generator)
        return _redraw_uniform(tensor, mean, std, a, b, generator)


def _redraw_normal(tensor, mean, std, a, b, generator):
    """Draw normal values until all lie inside: most do at once."""
    # The bounds as the dtype holds them, so that a rounded value counts as inside.
    low = tensor.new_tensor(a).item()
    high = tensor.new_tensor(b).item()
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        fresh = rl.empty_like(result).normal_(mean, std, generator=generator)
        result = rl.where(outside, fresh, result)
    return tensor if tensor is result else tensor.copy_(result)


def _redraw_uniform(tensor, mean, std, a, b, generator):
    """Accept uniform values with the density's odds, where [a, b] is far from mean."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2
    chance = rl.empty_like(tensor)

    def refused(values):
        log_density = values.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return chance.uniform_(generator=generator).log_().gt(log_density)

    result = tensor.uniform_(a, b, generator=generator)
    pending = refused(result)
    while pending.any():
        candidates = rl.empty_like(tensor).uniform_(a, b, generator=generator)
        result = rl.where(pending, candidates, result)
        pending = rl.where(pending, refused(candidates), pending)
    return tensor if tensor is result else tensor.copy_(result)


def constant_(tensor, val):
    """Fill with one value.

    Args:
        tensor: the tensor, which is changed.
        val: the value.

    >>> constant_(rl.empty(3), 7.0)
    tensor([7., 7., 7.])
    """
    with rl.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fill with ones.

    Args:
        tensor: the tensor, which is changed.

    >>> ones_(rl.empty(3))
    tensor([1., 1., 1.])
    """
    with rl.no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor):
    """Fill with zeros.

    Args:
        tensor: the tensor, which is changed.

    >>> zeros_(rl.empty(3))
    tensor([0., 0., 0.])
    """
    with rl.no_grad():
        return tensor.zero_()


def eye_(tensor):
    """Make a matrix the identity, as far as its shape allows.

    Args:
        tensor: the matrix, which is changed.

    >>> eye_(rl.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with rl.no_grad():
        return tensor.copy_(rl.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor, groups=1):
    """Make a convolution's weight pass its input channels on unchanged.

    Args:
        tensor: weight of 3, 4 or 5 dimensions.
        groups: how many groups of channels each do so.

    >>> dirac_(rl.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = out_channels // groups
    centre = tuple(size // 2 for size in kernel)
    with rl.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, in_channels)):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """How many values a weight's outputs depend on, and how many inputs influence."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 "
            "dimensions"
        )
    out_features, in_features, *kernel = tensor.shape
    window = math.prod(kernel)
    return in_features * window, out_features * window


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fill uniformly so that variance survives both passes (Glorot and Bengio).

    >>> _ = rl.manual_seed(0)
    >>> xavier_uniform_(rl.empty(2, 2))
    tensor([[-0.0092,  0.6570],
            [-1.0080, -0.9013]])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fill normally so that variance survives both passes (Glorot and Bengio).

    >>> _ = rl.manual_seed(0)
    >>> xavier_normal_(rl.empty(2, 2))
    tensor([[ 1.0896, -0.2075],
            [-1.5406,  0.4019]])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _warn_if_empty(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None
):
    """Fill uniformly so that variance survives rectifiers (He et al.).

    Args:
        tensor: the weight.
        a: negative slope of the rectifier that follows.
        mode: ``"fan_in"`` keeps variance forward, ``"fan_out"`` backward.
        nonlinearity: what follows; see ``calculate_gain``.
        generator: source of random numbers.

    >>> _ = rl.manual_seed(0)
    >>> kaiming_uniform_(rl.empty(2, 2))
    tensor([[-0.0130,  0.9291],
            [-1.4256, -1.2747]])
    """
    if _warn_if_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None
):
    """Fill normally so that variance survives rectifiers (He et al.).

    Args:
        a: the slope of a leaky ReLU that follows.
        mode: ``"fan_in"`` keeps the variance forwards, ``"fan_out"`` backwards.
        nonlinearity: the name of the function that follows, for its gain.

    >>> _ = rl.manual_seed(0)
    >>> kaiming_normal_(rl.empty(2, 2))
    tensor([[ 1.5410, -0.2934],
            [-2.1788,  0.5684]])
    """
    if _warn_if_empty(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Fill with a matrix whose rows, or columns, are orthogonal and of length gain.

    >>> _ = rl.manual_seed(0)
    >>> x = orthogonal_(rl.empty(2, 2))
    >>> rl.dist(x @ x.t(), rl.eye(2)) < 1e-5
    tensor(True)
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    with rl.no_grad():
        q, r = rl.linalg.qr(drawn.t() if rows < columns else drawn)
        # The signs make the result uniform among all orthogonal matrices.
        q = q * rl.diag(r, 0).sign()
        if rows < columns:
            q = q.t()
        tensor.view_as(q).copy_(q)
        return tensor.mul_(gain)


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fill a matrix normally and set a share of every column to zero.

    Args:
        sparsity: which part of each column is zero.

    >>> _ = rl.manual_seed(0)
    >>> sparse_(rl.empty(4, 1), sparsity=0.5).count_nonzero()
    tensor(2)
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with rl.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[rl.randperm(rows)[:zeros], column] = 0
    return tensor


# What PyTorch lets types and modes take: the others are made of operators.
open_functions(
    globals(),
    ("constant_", "kaiming_uniform_", "normal_", "uniform_"),
    f"{naming.package}.nn.init",
    by_name=True,
)


def _deprecated(function):
    """The old name, without underscore, of a function."""
    new_name = function.__name__
    old_name = new_name[:-1]

    @functools.wraps(function)
    def renamed(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = old_name
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)


describe_arguments(
    globals(),
    tensor="what is filled, in place.",
    generator="where the random numbers come from; by default the device's own.",
    std="the standard deviation.",
    gain="the factor of the standard deviation.",
)

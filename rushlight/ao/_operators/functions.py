"""Functions of quantized tensors: of bytes by a table, of rows by their numbers."""

from rushlight.ao._operators.arithmetic import limits
from rushlight.operators import call as ops
from rushlight.operators.quantized.quantized import made, parts, steps_of
from rushlight.operators.quantized.quantized_operators import tabled


def elementwise(function, count=0):
    """The quantized form of a function of numbers.

    Args:
        count: how many arguments of the function come after the scale and zero point.
    """

    def apply(x, scale, point, *settings):
        settings = settings[:count]
        return tabled(x, lambda numbers: function(numbers, *settings), scale, point)

    return apply


def leaky_relu(x, slope, inplace, scale, point):
    """Numbers below zero times a slope."""
    result = tabled(x, lambda numbers: ops.leaky_relu(numbers, slope), scale, point)
    if not inplace:
        return result
    return ops.copy_(x, result)


def elu(x, scale, point, alpha=1, factor=1, input_scale=1):
    """Exponentials of numbers below zero."""

    def function(numbers):
        return ops.elu(numbers, alpha, factor, input_scale)

    return tabled(x, function, scale, point)


def dropout(x, scale, point, p=0.5, training=False):
    """The integers as they are, in another scale."""
    return made(ops.clone(parts(x)[0], memory_format=None), scale, point)


def of_numbers(function):
    """A function of rows, of the numbers, quantized by a scale that is given.

    Args:
        function: of the numbers and all arguments but the last two.
    """

    def apply(x, *args):
        *settings, scale, point = args
        numbers = function(ops.dequantize(x), *settings)
        levels = steps_of(numbers, parts(x)[0].dtype, scale, point, True)
        return made(levels, float(scale), int(point))

    return apply


def softmax(numbers, dim):
    """Shares of exponentials along a dimension."""
    return ops.softmax(numbers, dim)


def layer_norm(numbers, shape, weight, bias, eps):
    """Rows with mean zero and variance one."""
    return ops.layer_norm(numbers, shape, weight, bias, eps)


def group_norm(numbers, groups, weight, bias, eps):
    """Groups of channels with mean zero and variance one."""
    return ops.group_norm(numbers, groups, weight, bias, eps)


def instance_norm(numbers, weight, bias, eps):
    """Channels of each image with mean zero and variance one."""
    return ops.group_norm(numbers, numbers.shape[1], weight, bias, eps)


def batch_norm(relu=False, dims=None):
    """Normalization by known statistics: a scale and a shift for each channel.

    Args:
        dims: of inputs that are taken; None for any.
    """

    def apply(x, weight, bias, mean, var, eps, scale, point):
        if dims is not None and x.ndim not in dims:
            expected = " or ".join(map(str, dims))
            raise RuntimeError(
                f"Expected an input of {expected} dimensions, got {x.ndim}\n"
                f"  input: {list(x.shape)}"
            )
        _, x_scale, x_point, _ = parts(x)
        inverse = 1 / ops.sqrt(var + eps)
        alpha = inverse if weight is None else inverse * weight
        beta = -mean * alpha
        beta = beta if bias is None else beta + bias
        across = [1, -1] + [1] * (x.ndim - 2)
        levels = parts(x)[0]
        value = alpha * (x_scale / scale), beta / scale
        steps = (levels.float() - x_point) * value[0].reshape(across)
        steps = ops.round(steps + value[1].reshape(across)) + point
        low, high = limits(x)
        low = max(low, point) if relu else low
        return made(ops.clamp(steps, low, high).to(levels.dtype), scale, point)

    return apply


def max_pool(count):
    """The largest number of each window."""
    pool = {1: ops.quantized_max_pool1d, 2: ops.quantized_max_pool2d}[count]

    def apply(x, kernel_size, stride, padding, dilation, ceil_mode):
        return pool(x, kernel_size, stride, padding, dilation, ceil_mode)

    return apply

"""Pooling: the operators with PyTorch's defaults, and what is built upon them."""

import math
from collections.abc import Iterable

import rushlight
from rushlight.core.docstrings import describe_arguments
from rushlight.operators import call

_EXTENTS = {1: "dimension", 2: "two dimensions", 3: "three dimensions"}
_FRACTIONAL_ERRORS = """

    Raises:
        ValueError: neither a size nor a ratio is given."""


def _named(function, name, summary, example, result):
    """A function that was made for a number of dimensions, under its name for them."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{summary}\n\n    >>> torch.nn.functional.{name}({example}\n    {result}\n    "
    )
    return function


def _counted(dims):
    """The first numbers, two along each dimension of a channel."""
    return f"torch.arange({2**dims}.0).reshape(1{', 2' * dims})"


def _result(dims, number):
    """The text of a tensor of one number, in a channel of so many dimensions."""
    return f"tensor({'[' * (dims + 1)}{number}{']' * (dims + 1)})"


def _pools(values, with_indices, name, summary, dims, size):
    """A pool of largest values under its name, and that which returns places, too."""
    example = f"{_counted(dims)}, {size})"
    shown, place = _result(dims, f"{2**dims - 1}."), _result(dims, 2**dims - 1)
    positions = f"``{name}`` together with the places of the largest values."
    both = f"({shown}, {place})"
    return (
        _named(values, name, summary, example, shown),
        _named(with_indices, f"{name}_with_indices", positions, example, both),
    )


def _max_pools(dims):
    """``max_pool`` of so many dimensions, and the same that always returns places."""
    name = f"max_pool{dims}d"
    values, both = getattr(call, name), getattr(call, f"{name}_with_indices")

    def max_pool(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        stride = () if stride is None else stride
        pool = both if return_indices else values
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    def with_indices(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    summary = f"Largest value of each window along the last {_EXTENTS[dims]}."
    return _pools(max_pool, with_indices, name, summary, dims, 2)


max_pool1d, max_pool1d_with_indices = _max_pools(1)
max_pool2d, max_pool2d_with_indices = _max_pools(2)
max_pool3d, max_pool3d_with_indices = _max_pools(3)


def _spread(value, count):
    """One number for each of ``count`` dimensions."""
    values = tuple(value) if isinstance(value, Iterable) else (value,) * count
    for item in values:
        if isinstance(item, (str, bytes)) or item is None:
            raise TypeError(f"expected an int or ints, but got {value!r}")
    return values


def avg_pool1d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
):
    """Mean of each window along the last dimension.

    Args:
        count_include_pad: whether zeros of the padding count in the divisor.

    >>> avg_pool1d(rl.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[2., 3.]])
    """
    stride = () if stride is None else stride
    return call.avg_pool1d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def _avg_pool(dims):
    """``avg_pool`` of so many dimensions."""
    pool = getattr(call, f"avg_pool{dims}d")

    def avg_pool(
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
        *,
        out=None,
    ):
        stride = () if stride is None else stride
        if out is None:
            return pool(
                input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override,
            )  # fmt: skip
        settings = stride, padding, ceil_mode, count_include_pad, divisor_override
        return pool(input, kernel_size, *settings, out=out)

    return _named(
        avg_pool,
        f"avg_pool{dims}d",
        f"Mean of each window along the last {_EXTENTS[dims]}.",
        f"{_counted(dims)}, 2)",
        _result(dims, f"{(2**dims - 1) / 2:.4f}"),
    )


avg_pool2d = _avg_pool(2)
avg_pool3d = _avg_pool(3)


def _filled_size(output_size, input, count):
    """The output size with None replaced by the input's own size."""
    if isinstance(output_size, int):
        return (output_size,) * count
    try:
        dims = input.dim()
    except AttributeError:
        raise TypeError(
            f"argument 'input' must be Tensor, not {type(input).__name__}"
        ) from None
    if dims <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    sizes = input.shape[-len(output_size) :]
    return tuple(
        own if wanted is None else wanted for wanted, own in zip(output_size, sizes)
    )


def adaptive_avg_pool1d(input, output_size):
    """Mean over windows that divide the last dimension evenly.

    Args:
        input: of shape ``(N, C, L)``; without ``N`` as well.
        output_size: the sizes of the result, or one for all.

    >>> adaptive_avg_pool1d(rl.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[2., 3.]])
    """
    return call.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input, output_size):
    """Means of so many planes; arguments as in ``adaptive_avg_pool1d``.

    >>> adaptive_avg_pool2d(rl.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return call.adaptive_avg_pool2d(input, _filled_size(output_size, input, 2))


def adaptive_avg_pool3d(input, output_size):
    """Means of so many volumes; arguments as in ``adaptive_avg_pool1d``.

    >>> adaptive_avg_pool3d(rl.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return call.adaptive_avg_pool3d(input, _filled_size(output_size, input, 3))


def _adaptive_max_pools(dims):
    """``adaptive_max_pool`` of so many dimensions, and that which returns places."""
    name = f"adaptive_max_pool{dims}d"
    pool = getattr(call, name)

    def adaptive_max_pool(input, output_size, return_indices=False):
        if dims > 1:
            output_size = _filled_size(output_size, input, dims)
        values, indices = pool(input, output_size)
        return (values, indices) if return_indices else values

    def with_indices(input, output_size, return_indices=False):
        return adaptive_max_pool(input, output_size, True)

    summary = f"Largest value of windows that divide the last {_EXTENTS[dims]} evenly."
    return _pools(adaptive_max_pool, with_indices, name, summary, dims, 1)


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pools(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pools(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pools(3)


def _lp_pool(dims, most, mean):
    """``lp_pool`` of so many dimensions, by two pools of as many."""

    def lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        if isinstance(norm_type, (int, float)) and abs(norm_type) == float("inf"):
            sign = 1 if norm_type > 0 else -1
            return sign * most(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        kernel = _spread(kernel_size, dims)
        stride = _spread(kernel if stride is None else stride, dims)
        means = mean(input.pow(norm_type), kernel, stride, 0, ceil_mode)
        powers = means.sign() * means.abs().relu() * math.prod(kernel)
        return powers.pow(1.0 / norm_type)

    return _named(
        lp_pool,
        f"lp_pool{dims}d",
        f"``norm_type``-norm of each window along the last {_EXTENTS[dims]}.",
        f"torch.ones(1{', 2' * dims}), 1, 2)",
        _result(dims, f"{2**dims}."),
    )


lp_pool1d = _lp_pool(1, max_pool1d, avg_pool1d)
lp_pool2d = _lp_pool(2, max_pool2d, avg_pool2d)
lp_pool3d = _lp_pool(3, max_pool3d, avg_pool3d)


def _unpooled_size(input, kernel, stride, padding, output_size):
    """The sizes to unpool to: those wanted, or those that pooling just fits.

    Raises:
        ValueError: a size wanted is a stride or more away from what fits.
    """
    count = len(kernel)
    own = input.shape[-count:]
    fits = [(own[d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(count)]
    if output_size is None:
        return fits
    if len(output_size) == count + 2:
        output_size = output_size[2:]
    if len(output_size) != count:
        raise ValueError(
            f"output_size should be a sequence containing {count} or {count + 2} "
            f"elements, but it has a length of '{len(output_size)}'"
        )
    for d in range(count):
        low, high = fits[d] - stride[d], fits[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} '
                f"and {high})"
            )
    return output_size


def _unpooling(input, kernel_size, stride, padding, output_size, count):
    """Checked sizes, strides and paddings of an unpooling.

    Raises:
        TypeError: the input is no tensor.
    """
    if not isinstance(input, rushlight.Tensor):
        name = type(input).__name__
        raise TypeError(
            f"max_unpool{count}d(): argument 'input' (position 1) must be Tensor, not {name}"
        )
    kernel = _spread(kernel_size, count)
    stride = kernel if stride is None else _spread(stride, count)
    padding = _spread(padding, count)
    sizes = list(_unpooled_size(input, kernel, stride, padding, output_size))
    for d, size in enumerate(sizes):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial "
                f"dimensions, but got output_size[{d}]={size}"
            )
    return sizes, stride, padding


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool1d`` found them, zeros elsewhere.

    Args:
        output_size: the size of the result; by default what pooling just fits.

    >>> max_unpool1d(rl.tensor([[[3.0, 4.0]]]), rl.tensor([[[1, 3]]]), 2)
    tensor([[[0., 3., 0., 4.]]])
    """
    sizes, _, _ = _unpooling(input, kernel_size, stride, padding, output_size, 1)
    lines = call.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1])
    return lines.squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool2d`` found them, zeros elsewhere.

    Args:
        output_size: the sizes of the result; by default what pooling just fits.

    >>> max_unpool2d(rl.tensor([[[3.0]]]), rl.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    sizes, _, _ = _unpooling(input, kernel_size, stride, padding, output_size, 2)
    return call.max_unpool2d(input, indices, sizes)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool3d`` found them, zeros elsewhere.

    Args:
        output_size: the sizes of the result; by default what pooling just fits.

    >>> max_unpool3d(rl.tensor([[[[3.0]]]]), rl.tensor([[[[7]]]]), 2)
    tensor([[[[0., 0.],
              [0., 0.]],
    <BLANKLINE>
             [[0., 0.],
              [0., 3.]]]])
    """
    sizes, stride, padding = _unpooling(
        input, kernel_size, stride, padding, output_size, 3
    )
    return call.max_unpool3d(input, indices, sizes, stride, padding)


def _fractional(dims, input, kernel_size, output_size, output_ratio, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(
            f"fractional_max_pool{dims}d requires specifying either an output_size or "
            "an output_ratio"
        )
    if output_size is None:
        ratio = output_ratio
        ratio = (ratio,) * dims if isinstance(ratio, (int, float)) else ratio
        if len(ratio) > dims:
            what = f"fractional_max_pool{dims}d requires output_ratio to either be"
            raise ValueError(f"{what} a single Int or tuple of Ints.")
        output_size = [int(input.size(k - dims) * ratio[k]) for k in range(dims)]
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        shape = [batch, input.size(-dims - 1), dims]
        samples = call.rand(shape, dtype=input.dtype, device=input.device)
    pool = call.fractional_max_pool2d if dims == 2 else call.fractional_max_pool3d
    return pool(input, kernel_size, output_size, samples)


def _fractional_max_pools(dims):
    """``fractional_max_pool`` of so many dimensions, and that which returns places."""
    name = f"fractional_max_pool{dims}d"

    def with_indices(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        return _fractional(
            dims, input, kernel_size, output_size, output_ratio, _random_samples
        )

    def fractional_max_pool(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        both = _fractional(
            dims, input, kernel_size, output_size, output_ratio, _random_samples
        )
        return both if return_indices else both[0]

    summary = (
        f"Largest value of windows at random places, along the last {_EXTENTS[dims]}."
    )
    positions = f"``{name}`` together with the places of the largest values."
    example = f"torch.ones({'4, ' * dims}4), 2, 2)"
    sizes = f"rushlight.Size([4{', 2' * dims}])"
    return (
        _named(
            fractional_max_pool,
            name,
            summary + _FRACTIONAL_ERRORS,
            f"{example}.shape",
            sizes,
        ),
        _named(
            with_indices,
            f"{name}_with_indices",
            positions + _FRACTIONAL_ERRORS,
            f"{example}[1].shape",
            sizes,
        ),
    )


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pools(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pools(3)


describe_arguments(
    globals(),
    input="a batch ``(N, C, ...)``, or one of it without ``N``.",
    kernel_size="size of the window, one number or one for each dimension.",
    stride="step of the window; the window's size where it is left out.",
    output_size="how many windows; None keeps the input's size.",
    return_indices="also return where the largest were.",
    padding="how far windows reach over the edges, at most half the window.",
    ceil_mode="whether a last, partly covered window counts.",
    norm_type="the order of the norm.",
    indices="where the values were, as pooling gave them.",
    dilation="step between the elements of a window.",
    count_include_pad="whether zeros of the padding count in the divisor.",
    divisor_override="what sums are divided by instead of the number of elements.",
    out="where the result is written, or None.",
    output_ratio="how many windows for each element of the input, between 0 and 1.",
)

"""Padding, and other ways of rearranging elements in space."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight.ops.formats import format_of


def pad(input, pad, mode="constant", value=None):
    """Add elements before and after the last dimensions.

    Args:
        input: any tensor; the modes other than ``"constant"`` pad the last one, two
            or three dimensions of a sample.
        pad: ``(before, after)`` of the last dimension, then of the one before it, and
            so on; negative numbers cut off.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: what ``"constant"`` puts there; 0 where it is left out.
    """
    pad = _whole_numbers(pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input "
            f"dimension but got padding length {len(pad)} and input of dimension "
            f"{input.dim()}"
        )
    if mode == "constant":
        return _pad_constant(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if not isinstance(mode, str):
        raise TypeError(
            f"pad(): argument 'mode' must be str, not {type(mode).__name__}"
        )
    places = {
        "reflect": _reflected,
        "replicate": _replicated,
        "circular": _wrapped,
    }.get(mode)
    if places is None:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if input.dim() - len(pad) // 2 not in (1, 2) or not 2 <= len(pad) <= 6:
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for "
            "now"
        )
    _check_padded(input, pad, mode)
    format = format_of(input) if mode != "circular" else None
    for index in range(0, len(pad), 2):
        dim = input.dim() - 1 - index // 2
        before, after = pad[index : index + 2]
        if before or after:
            chosen = places(input, dim, before, after)
            input = input.index_select(dim, rl.tensor(chosen, dtype=rl.int64))
    return input if format is None else input.contiguous(memory_format=format)


def _whole_numbers(pad):
    """The paddings as a tuple of int.

    Raises:
        TypeError: they are no sequence of whole numbers.
    """
    try:
        return tuple(value.__index__() for value in pad)
    except (AttributeError, TypeError):
        raise TypeError(
            "pad(): argument 'pad' (position 2) must be tuple of ints, not "
            f"{type(pad).__name__}"
        ) from None


def _check_padded(input, pad, mode):
    """Refuses samples without elements, and paddings that leave none."""
    spatial = len(pad) // 2
    first = input.dim() - spatial - 1
    if mode != "circular" and 0 in input.shape[first:]:
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly "
            "0 batch size and other non-zero dimensions for input, but got: "
            f"{list(input.shape)}"
        )
    for index in range(0, len(pad), 2):
        dim = input.dim() - 1 - index // 2
        size = input.size(dim) + pad[index] + pad[index + 1]
        if size < 1 and mode != "circular" or size < 0:
            raise RuntimeError(
                f"input (size {input.size(dim)} at dimension {dim}) is too small: padded "
                f"by {pad[index]} and {pad[index + 1]} its size would be {size}"
            )


def _pad_constant(input, pad, value):
    sizes = list(input.shape)
    source, target = input, []
    for index in range(0, len(pad), 2):
        dim = input.dim() - 1 - index // 2
        before, after = pad[index : index + 2]
        size = sizes[dim] + before + after
        if size < 0:
            raise RuntimeError(
                f"The input size {sizes[dim]}, plus negative padding {before} and "
                f"{after} resulted in a negative output size, which is invalid. Check "
                f"dimension {dim} of your input."
            )
        start = min(max(-before, 0), sizes[dim])
        stop = max(sizes[dim] - max(-after, 0), start)
        if (start, stop) != (0, sizes[dim]):
            source = source.narrow(dim, start, stop - start)
        target.append((dim, max(before, 0), source.size(dim)))
        sizes[dim] = size
    result = input.new_empty(sizes)
    format = format_of(input)
    if format is not None:
        result = rl.empty_like(result, memory_format=format)
    result = result.fill_(value)
    window = result
    for dim, start, length in target:
        window = window.narrow(dim, min(start, window.size(dim)), length)
    window.copy_(source)
    return result


def _reflected(input, dim, before, after):
    size = input.size(dim)
    if before >= size or after >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input "
            f"dimension, but got: padding ({before}, {after}) at dimension {dim} of "
            f"input {list(input.shape)}"
        )
    last = size - 1
    return [last - abs(last - abs(place)) for place in range(-before, size + after)]


def _replicated(input, dim, before, after):
    last = input.size(dim) - 1
    return [min(max(place, 0), last) for place in range(-before, last + 1 + after)]


def _wrapped(input, dim, before, after):
    size = input.size(dim)
    if before > size or after > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    # What is cut off at one edge is not there to wrap around to the other.
    kept = range(max(-before, 0), size - max(-after, 0))
    before, after = max(before, 0), max(after, 0)
    return [kept[place % len(kept)] for place in range(-before, len(kept) + after)]


def one_hot(input, num_classes=-1):
    """A last dimension with 1 at each class number and 0 elsewhere.

    >>> one_hot(rl.tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        raise TypeError(
            "one_hot(): argument 'num_classes' (position 2) must be int, not "
            f"{type(num_classes).__name__}"
        )
    if input.dtype != rl.int64:
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor."
        )
    if input.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError(
                "Can not infer total number of classes from empty input."
            )
        return input.new_empty((*input.shape, num_classes))
    if input.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(input.max())
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    result = input.new_zeros((*input.shape, num_classes))
    return result.scatter_(-1, input.unsqueeze(-1), 1)


def pixel_shuffle(input, upscale_factor):
    """Move channels ``(C * r * r, H, W)`` into space: ``(C, H * r, W * r)``."""
    factor = upscale_factor
    if factor <= 0:
        raise RuntimeError(
            f"pixel_shuffle expects a positive upscale_factor, but got {factor}"
        )
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input "
            f"with {input.dim()} dimension(s)"
        )
    *lead, channels, height, width = input.shape
    if channels % (factor * factor):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
            f"the square of upscale_factor, but input.size(-3)={channels} is not "
            f"divisible by {factor * factor}"
        )
    planes = input.reshape(
        math.prod(lead), channels // factor**2, factor, factor, height, width
    )
    moved = planes.permute(0, 1, 4, 2, 5, 3).clone(memory_format=rl.contiguous_format)
    moved = moved.view(*lead, channels // factor**2, height * factor, width * factor)
    return _formatted_alike(moved, input)


def pixel_unshuffle(input, downscale_factor):
    """Move blocks of ``(C, H * r, W * r)`` into channels: ``(C * r * r, H, W)``."""
    factor = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input "
            f"with {input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(
            f"pixel_unshuffle expects a positive downscale_factor, but got {factor}"
        )
    *lead, channels, height, width = input.shape
    if height % factor or width % factor:
        raise RuntimeError(
            "pixel_unshuffle expects height and width to be divisible by "
            f"downscale_factor, but input of size {height}x{width} is not divisible "
            f"by {factor}"
        )
    rows, columns = height // factor, width // factor
    planes = input.reshape(math.prod(lead), channels, rows, factor, columns, factor)
    moved = planes.permute(0, 1, 3, 5, 2, 4).clone(memory_format=rl.contiguous_format)
    moved = moved.view(*lead, channels * factor**2, rows, columns)
    return _formatted_alike(moved, input)


def _formatted_alike(result, input):
    format = format_of(input)
    return result if format is None else result.contiguous(memory_format=format)


def channel_shuffle(input, groups):
    """Interleave the channels of ``groups`` groups."""
    samples, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels "
            f"and {groups} groups."
        )
    grouped = input.reshape(samples, groups, channels // groups, *rest)
    return grouped.transpose(1, 2).reshape(input.shape)


def _two(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def _blocks(size, kernel, dilation, padding, stride):
    """How many positions a window takes along each of two dimensions."""
    counts = tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, d, p, t in zip(size, kernel, dilation, padding, stride)
    )
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(size)}, kernel_size={kernel}, "
            f"dilation={dilation}, padding={padding}, calculated shape of the array "
            f"of sliding blocks as {counts}, but its components must be at least one."
        )
    return counts


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns: ``(N, C * kh * kw, L)``."""
    kernel, dilation, padding, stride = map(
        _two, (kernel_size, dilation, padding, stride)
    )
    batched = input.dim() == 4
    image = input if batched else input.unsqueeze(0)
    rows, columns = _blocks(image.shape[-2:], kernel, dilation, padding, stride)
    if padding != (0, 0):
        image = pad(image, (padding[1], padding[1], padding[0], padding[0]))
    down = [
        i * dilation[0] + r * stride[0] for i in range(kernel[0]) for r in range(rows)
    ]
    across = [
        j * dilation[1] + c * stride[1]
        for j in range(kernel[1])
        for c in range(columns)
    ]
    picked = image.index_select(2, rl.tensor(down)).index_select(3, rl.tensor(across))
    samples, channels = image.shape[:2]
    picked = picked.view(samples, channels, kernel[0], rows, kernel[1], columns)
    result = picked.permute(0, 1, 2, 4, 3, 5).reshape(
        samples, channels * kernel[0] * kernel[1], rows * columns
    )
    return result if batched else result.squeeze(0)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns ``(N, C * kh * kw, L)`` into the image that they are windows of."""
    size, kernel, dilation, padding, stride = map(
        _two, (output_size, kernel_size, dilation, padding, stride)
    )
    batched = input.dim() == 3
    columns_in = input if batched else input.unsqueeze(0)
    rows, columns = _blocks(size, kernel, dilation, padding, stride)
    samples, depth, length = columns_in.shape
    if length != rows * columns or depth % (kernel[0] * kernel[1]):
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension "
            f"2 to match the calculated number of sliding blocks {rows} * {columns} = "
            f"{rows * columns}, but got input.size(2)={length}."
        )
    channels = depth // (kernel[0] * kernel[1])
    blocks = columns_in.reshape(samples, channels, kernel[0], kernel[1], rows, columns)
    result = input.new_zeros(
        (samples, channels, size[0] + 2 * padding[0], size[1] + 2 * padding[1])
    )
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            window = result[
                :,
                :,
                top : top + rows * stride[0] : stride[0],
                left : left + columns * stride[1] : stride[1],
            ]
            window[:, :, :rows, :columns].add_(blocks[:, :, i, j])
    result = result[
        :, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]
    ]
    return result if batched else result.squeeze(0)

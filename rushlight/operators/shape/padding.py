"""Padding by other elements than one value, and windows as columns."""

import itertools

from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import require
from rushlight.operators.shape.padding_kernels import MODES
from rushlight.operators.type_groups import COMPLEX, FLOATS, codes

# What the windows of an image are taken of.
WINDOWED = FLOATS | COMPLEX | codes("bool")

LARGEST = 2**63 - 1


def pad(self, pad, mode, value):
    """Elements added before and after the last dimensions.

    Raises:
        NotImplementedError: there is no such mode, or none for so many dimensions.
        RuntimeError: an odd number of widths, too many, or too wide for the mode.
    """
    if mode != "constant" and mode not in MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > self.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input "
            f"dimension but got padding length {len(pad)} and input of dimension "
            f"{self.ndim}"
        )
    if mode == "constant":
        return ops.constant_pad_nd(self, pad, 0 if value is None else float(value))
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if self.ndim - len(pad) // 2 not in (1, 2) or not 2 <= len(pad) <= 6:
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for "
            "now"
        )
    _check_padded(self, pad, mode)
    for index in range(0, len(pad), 2):
        before, after = pad[index : index + 2]
        if before or after:
            _check_reach(mode, self, self.ndim - 1 - index // 2, before, after)
    if not any(pad):
        return self.clone()
    return ops._pad_around(self, pad, mode)


def reflection_pad(self, padding):
    """The tensor with borders that mirror it."""
    return pad(self, padding, "reflect", None)


def replication_pad(self, padding):
    """The tensor with borders of its outermost elements."""
    return pad(self, padding, "replicate", None)


def _check_padded(input, pad, mode):
    """Refuses samples without elements, and paddings that leave none."""
    spatial = len(pad) // 2
    first = input.ndim - spatial - 1
    if mode != "circular" and 0 in input.shape[first:]:
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly "
            "0 batch size and other non-zero dimensions for input, but got: "
            f"{list(input.shape)}"
        )
    sizes = []
    for index in range(0, len(pad), 2):
        before, after = pad[index : index + 2]
        sizes.append(input.shape[input.ndim - 1 - index // 2] + before + after)
    none = max(sizes) < 1 and mode != "circular"  # one dimension may lose all
    if none or min(sizes) < 0 or max(sizes) > LARGEST:
        raise RuntimeError(
            f"input ({list(input.shape)}) is too small: padded by {list(pad)} its last "
            f"sizes would be {sizes[::-1]}"
        )


def _check_reach(mode, input, dim, before, after):
    """Refuses what reaches further than there are elements to take."""
    size = input.shape[dim]
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input "
            f"dimension, but got: padding ({before}, {after}) at dimension {dim} of "
            f"input {list(input.shape)}"
        )
    if mode == "replicate":
        check_storage([*input.shape[:dim], size + before + after])
    if mode == "circular":
        if before > size or after > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        # What is cut off at one edge is not there to wrap around to the other.
        length = size + min(before, 0) + min(after, 0)
        if max(before, after) > length and input.numel():
            raise RuntimeError(
                "Padding value causes wrapping around more than once: "
                f"({before}, {after}) around the {length} elements that are left of "
                f"dimension {dim} of input {list(input.shape)}"
            )


def check_storage(sizes):
    """Refuses sizes that no memory has.

    Raises:
        RuntimeError: their product has more than 48 bits.
    """
    count = 1
    for size in sizes:
        count *= size
    if count >> 48:
        raise RuntimeError(f"can't allocate memory for a tensor of sizes {list(sizes)}")


# Windows as columns


def blocks(size, kernel, dilation, padding, stride):
    """How many positions a window takes along each of two dimensions.

    Raises:
        RuntimeError: it takes none.
    """
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


def check_windows(kernel, dilation, padding, stride):
    """Refuses windows of no size, and steps that lead nowhere.

    Raises:
        RuntimeError: a value is too small, or there aren't two.
    """
    named = (
        ("kernel_size", kernel, 1, "greater than zero"),
        ("dilation", dilation, 1, "greater than zero"),
        ("padding", padding, 0, "non-negative"),
        ("stride", stride, 1, "greater than zero"),
    )
    for name, values, *_ in named:
        if len(values) != 2:
            raise RuntimeError(
                f"It is expected {name} equals to 2, but got size {len(values)}"
            )
    for name, values, least, words in named:
        if min(values) < least:
            raise RuntimeError(f"{name} should be {words}, but got {tuple(values)}")


def im2col(self, kernel_size, dilation, padding, stride):
    """The windows of an image as columns: ``(N, C * kh * kw, L)``.

    Raises:
        RuntimeError: the image has no elements, or the windows don't fit.
    """
    kernel, dilation, padding, stride = (
        tuple(values) for values in (kernel_size, dilation, padding, stride)
    )
    check_windows(kernel, dilation, padding, stride)
    wrong = self.ndim not in (3, 4) or 0 in self.shape[self.ndim - 3 :]
    if wrong and self.ndim < 3:
        self.size(2 if self.size(1) else 1)  # what is missing is out of range
    if wrong:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(self.shape)}"
        )
    image = self if self.ndim == 4 else self.unsqueeze(0)
    rows, columns = blocks(image.shape[-2:], kernel, dilation, padding, stride)
    check_storage([*self.shape[:-2], rows, columns, *kernel])
    require("im2col_out_cpu", self.dtype, WINDOWED, self)
    if any(padding):
        image = ops.constant_pad_nd(
            image, [padding[1], padding[1], padding[0], padding[0]], 0
        )
    samples, channels = image.shape[:2]
    *outer, down, across = image.stride()
    within = dilation[0] * down, dilation[1] * across
    windows = ops.as_strided(
        image,
        [samples, channels, *kernel, rows, columns],
        [*outer, *within, stride[0] * down, stride[1] * across],
        image.storage_offset(),
    )
    result = windows.reshape(samples, channels * kernel[0] * kernel[1], rows * columns)
    return result if self.ndim == 4 else result.squeeze(0)


def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """Sums columns ``(N, C * kh * kw, L)`` in the image that they are windows of.

    Raises:
        RuntimeError: the columns aren't those of such an image.
    """
    size, kernel, dilation, padding, stride = (
        tuple(v) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    check_windows(kernel, dilation, padding, stride)
    if self.ndim not in (2, 3) or 0 in self.shape[self.ndim - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size "
            f"and non-zero dimensions for input, but got: {list(self.shape)}"
        )
    require("col2im_out_cpu", self.dtype, WINDOWED, self)
    columns_in = self if self.ndim == 3 else self.unsqueeze(0)
    samples, depth, length = columns_in.shape
    window = kernel[0] * kernel[1]
    if depth % window:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size, but got input.size(1)={depth} and kernel_size={kernel}."
        )
    rows, columns = blocks(size, kernel, dilation, padding, stride)
    if length != rows * columns:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension "
            f"2 to match the calculated number of sliding blocks {rows} * {columns} = "
            f"{rows * columns}, but got input.size(2)={length}."
        )
    channels = depth // window
    parts = columns_in.reshape([samples, channels, *kernel, rows, columns])
    wide = [n + 2 * p for n, p in zip(size, padding)]
    result = ops.new_zeros(self, [samples, channels, *wide])
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        top, left = i * dilation[0], j * dilation[1]
        down = slice(top, top + (rows - 1) * stride[0] + 1, stride[0])
        across = slice(left, left + (columns - 1) * stride[1] + 1, stride[1])
        result[:, :, down, across].add_(parts[:, :, i, j])
    for dim, (n, p) in enumerate(zip(size, padding), 2):
        result = result.narrow(dim, p, n)
    result = result.contiguous()
    return result if self.ndim == 3 else result.squeeze(0)

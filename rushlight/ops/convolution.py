"""Convolutions of one to three dimensions, transposed ones, and their gradients."""

from __future__ import annotations

import functools
import itertools
import math

import rushlight
from rushlight.backends.cpu.launch import launch
from rushlight.ops import call as ops
from rushlight.ops.native import brief, fresh

COMPUTED = {"float16": "float32", "bfloat16": "float32", "int16": "int32",
            "int8": "int32", "uint8": "int32"}
COLUMNS = 320           # positions in a block of patches, see `convolution_kernels`
SMALL_PLANE = 160       # planes below this size share blocks with other images
BAND = 192              # output channels of a buffered block
PARALLEL_WORK = 1 << 19  # multiplications worth a second thread
LARGE_WEIGHT = 1 << 18  # weights of this size are cut by rows, not summed from parts


def spread(values, count):
    """Spatial values as a triple, ones in front.

    >>> spread((3, 5), 1)
    (1, 3, 5)
    """
    return (count,) * (3 - len(values)) + tuple(values)


def output_size(size, kernel, stride, padding, dilation):
    """Positions that a kernel takes along one dimension."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


# Plans: the kernels' integers, by geometry


class Geometry:
    """Sizes of a convolution, with three spatial dimensions.

    Args:
        input, weight: shapes.
        output: the output's spatial sizes.
    """

    def __init__(self, input, weight, output, stride, padding, dilation, groups):
        self.images, self.channels = input[:2]
        self.rows = weight[0]
        self.groups = groups
        self.group_rows = weight[0] // groups
        self.group_channels = weight[1]
        self.input, self.kernel = spread(input[2:], 1), spread(weight[2:], 1)
        self.output, self.stride = spread(output, 1), spread(stride, 1)
        self.padding, self.dilation = spread(padding, 0), spread(dilation, 1)
        self.taps = math.prod(self.kernel)
        self.work = (self.images * math.prod(self.output) * self.rows
                     * self.group_channels * self.taps)
        self.simple = (
            self.taps == 1 and set(self.stride) == {1} and not any(self.padding))
        if self.simple:
            self.input = self.output = (1, 1, math.prod(self.output))

    @property
    def depth(self):
        """Weights of one output channel."""
        return self.group_channels * self.taps

    def patches(self):
        """Margins that the input needs, and the walk over its patches."""
        first = [-p for p in self.padding]
        margins = tuple(itertools.starmap(reach, zip(
            self.input, self.output, self.stride, first, self.dilation, self.kernel,
            strict=True)))
        return margins, patch_ints(
            self.channels, grown(self.input, margins), self.group_channels, self.kernel,
            [low + f for (low, _), f in zip(margins, first, strict=True)], self.dilation,
            self.output, self.stride)


def grown(sizes, margins):
    """Sizes with their margins."""
    return tuple(size + low + high
                 for size, (low, high) in zip(sizes, margins, strict=True))


def patch_ints(channels, sizes, group_channels, taps, first, step, grid, stride,
               channels_last=0):
    """The walk over the patches of row-major images of ``channels`` planes."""
    plane = sizes[1] * sizes[2]
    volume = sizes[0] * plane
    return (channels * volume, volume, plane, sizes[2], group_channels, *taps,
            *first, *step, channels_last, *grid, *stride)


def reach(size, grid, step, first, tap, taps):
    """Elements that an axis needs before and after its ``size``.

    >>> reach(28, 28, 1, -2, 1, 5)
    (2, 2)
    """
    ends = (first, first + (taps - 1) * tap)
    last = max(ends) + (grid - 1) * step
    return max(0, -min(ends)), max(0, last - size + 1)


def pad(input, sizes, margins):
    """The input with zeros around its planes, where any are needed."""
    if not any(low or high for low, high in margins):
        return input
    wide = grown(sizes, margins)
    planes = input.shape[0] * input.shape[1]
    out = fresh(input, (planes, *wide))
    ints = (*sizes, *wide, *(low for low, _ in margins))
    launch(_kernel("padded", input), (out, input), ints, planes,
           max(1, 16384 // math.prod(wide)))
    return out


def blocks(images, positions, rows, groups, work, buffered, simple):
    """How images, positions and rows are cut, and the number of chunks.

    Args:
        buffered: whether results are spread over the output.
        simple: whether patches are the input itself: one tap, no step.
    """
    held = together(images, positions) if positions < SMALL_PLANE else 1
    across = -(-held * positions // COLUMNS)
    width = min(COLUMNS, -(-held * positions // (across * 64)) * 64)
    if held > 1:
        across, width = 1, held * positions
    buffered = buffered or held > 1
    chunks = groups * across * -(-images // held)
    bands = -(-rows // BAND) if buffered else 1
    if chunks * bands < 8 and work > 8 * PARALLEL_WORK:
        bands = max(bands, min(-(-8 // chunks), -(-rows // 24)))
    band = -(-rows // (bands * 6)) * 6
    chunks *= -(-rows // band)
    packed = int(held > 1 or not simple)
    return (packed, images, held, width, rows, band, groups), int(buffered), chunks


def together(images, positions):
    """Images that share a block of positions, as evenly as they can."""
    most = max(1, COLUMNS // positions)
    return -(-images // -(-images // most))


@functools.lru_cache(maxsize=512)
def forward_plan(input, weight, output, stride, padding, dilation, groups, biased):
    """Margins of the input, and the forward kernel's integers, chunks and grain."""
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    positions = math.prod(g.output)
    cut, buffered, chunks = blocks(
        g.images, positions, g.group_rows, groups, g.work, False, g.simple)
    margins, walk = g.patches()
    ints = (
        *walk, *cut, g.group_rows, g.group_channels, 2 if biased else 0, buffered,
        g.rows * positions, positions, 1, 1, positions, positions, positions, 1)
    return g.input, margins, ints, chunks, grain_of(g.work, chunks)


def grain_of(work, chunks):
    """Chunks that one thread takes at a time; all of them where there is little work."""
    return chunks if work < PARALLEL_WORK else max(1, chunks // 64)


@functools.lru_cache(maxsize=512)
def input_plan(input, weight, output, stride, padding, dilation, groups):
    """One kernel run for each phase of the stride: where input positions share taps.

    Returns:
        Whether some positions have no tap; sizes and margins of the output's gradient;
        a `phase_run` for each phase.
    """
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    phases, gaps = [], False
    for phase in itertools.product(*map(range, g.stride)):
        axes = [PhaseAxis(*values) for values in zip(
            phase, g.input, g.kernel, g.stride, g.padding, g.dilation, strict=True)]
        gaps = gaps or any(axis.taps == 0 for axis in axes)
        if all(axis.taps and axis.count for axis in axes):
            phases.append((phase, axes))
    reaches = [[axis.reach(size) for axis, size in zip(axes, g.output, strict=True)]
               for _, axes in phases]
    margins = tuple(tuple(max(r[d][side] for r in reaches) for side in (0, 1))
                    for d in range(3)) if reaches else ()
    return gaps, g.output, margins, [
        phase_run(g, phase, axes, margins) for phase, axes in phases]


def phase_run(g, phase, axes, margins):
    """Slices of taps, first position, integers, chunks and grain of one phase."""
    grid = [axis.count for axis in axes]
    strided = set(g.stride) != {1}
    volume = math.prod(g.input)
    cut, buffered, chunks = blocks(
        g.images, math.prod(grid), g.group_channels, g.groups, g.work, strided, g.simple)
    runs = (*grid, g.stride[0] * g.input[1] * g.input[2], g.stride[1] * g.input[2],
            g.stride[2]) if strided else (1, 1, volume, volume, volume, 1)
    ints = (
        *patch_ints(g.rows, grown(g.output, margins), g.group_rows,
                    [axis.taps for axis in axes],
                    [low + axis.first for axis, (low, _) in zip(
                        axes, margins, strict=True)],
                    [axis.step for axis in axes], grid, (1, 1, 1), 1),
        *cut, g.group_channels, g.group_rows, 0, buffered,
        g.channels * volume, volume, *runs)
    offset = (phase[0] * g.input[1] + phase[1]) * g.input[2] + phase[2]
    slices = [axis.slice for axis in axes]
    return slices, offset, ints, chunks, grain_of(g.work, chunks)


class PhaseAxis:
    """Positions ``phase, phase + stride ...`` of one input axis and the taps they see."""

    def __init__(self, phase, size, kernel, stride, padding, dilation):
        self.count = -(-(size - phase) // stride) if phase < size else 0
        period = stride // math.gcd(stride, dilation)
        start = next((k for k in range(min(period, kernel))
                      if (phase + padding - k * dilation) % stride == 0), kernel)
        self.slice = slice(start, None, period)
        self.taps = len(range(start, kernel, period))
        self.first = (phase + padding - start * dilation) // stride
        self.step = -(period * dilation // stride)

    def reach(self, size):
        """Margins that the output's gradient needs."""
        return reach(size, self.count, 1, self.first, self.step, self.taps)


@functools.lru_cache(maxsize=512)
def weight_plan(input, weight, output, stride, padding, dilation, groups):
    """Margins of the input; integers, chunks and shape of parts of the gradient."""
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    positions = math.prod(g.output)
    held = together(g.images, positions)
    width = min(COLUMNS, held * positions)
    columns = g.group_rows
    across = -(-columns // 256)
    size = g.rows * g.depth
    if g.work < PARALLEL_WORK:
        parts = bands = 1
    elif size >= LARGE_WEIGHT:
        parts, bands = 1, max(1, min(8 // (groups * across), g.depth // BAND))
    else:
        parts, bands = min(-(-g.images // held), max(1, 8 // (groups * across))), 1
    per_part = -(-g.images // (parts * held)) * held
    parts = -(-g.images // per_part)
    margins, walk = g.patches()
    ints = (
        *walk, 1, g.images, held, width, g.depth, BAND, groups, g.group_channels, parts, per_part,
        columns, bands, g.rows * positions, positions)
    chunks = parts * groups * across * bands
    return g.input, margins, ints, chunks, (parts, groups, g.depth + 1, columns)


# Kernels on row-major operands of one computed dtype


def run_forward(input, weight, bias, output, stride, padding, dilation, groups):
    """The convolution's output."""
    out = fresh(input, (input.shape[0], weight.shape[0], *output))
    if out.numel() == 0 or out.is_meta:
        return out
    if weight.numel() == 0:
        return ops.zeros_like(out) if bias is None else out.copy_(
            bias.reshape(-1, *[1] * len(output)))
    sizes, margins, ints, chunks, grain = forward_plan(
        tuple(input.shape), tuple(weight.shape), tuple(output), stride, padding, dilation,
        groups, bias is not None)
    source = pad(input, sizes, margins)
    launch(_kernel("forward", input), (out, weight, source, bias), ints, chunks, grain)
    return out


def run_input_gradient(grad, shape, weight, stride, padding, dilation, groups):
    """The gradient of an input of ``shape``; also the transposed convolution."""
    if grad.is_meta:
        return fresh(grad, shape)
    if grad.numel() == 0 or weight.numel() == 0:
        return ops.new_zeros(grad, shape)
    gaps, sizes, margins, phases = input_plan(
        tuple(shape), tuple(weight.shape), tuple(grad.shape[2:]), stride, padding,
        dilation, groups)
    result = ops.new_zeros(grad, shape) if gaps else fresh(grad, shape)
    turned = turn_weight(weight, groups)
    source = pad(grad, sizes, margins)
    kernel = _kernel("forward", grad)
    for taps, offset, ints, chunks, grain in phases:
        matrix = turned
        if any(s.step != 1 for s in taps):
            matrix = turned[(slice(None), *taps)].contiguous()
        address = result.data_ptr() + offset * grad.itemsize
        launch(kernel, (address, matrix, source, None), ints, chunks, grain)
    return result


def turn_weight(weight, groups):
    """Weights as ``[input channel, z, y, x, output channel of the group]``."""
    rows = weight.shape[0] // groups
    depth = weight.numel() // weight.shape[0]
    kernel = spread(weight.shape[2:], 1)
    out = fresh(weight, (groups * weight.shape[1], *kernel, rows))
    size = rows * depth
    _turn(out, weight, (rows, depth, depth, rows, 1, 0, size, size), groups)
    return out


def _turn(out, source, ints, batch):
    """Runs `turned_sum` over a batch; ``out`` and ``source`` may be addresses."""
    from rushlight.ops.contraction import matrix_kernel
    tensor = source if hasattr(source, "dtype") else out
    name = tensor.dtype.name
    kernel = matrix_kernel("turned_sum", name, name, name)
    chunks = batch * -(-ints[0] // _lanes(name))
    launch(kernel, (out, source), ints, chunks, 4)


@functools.cache
def _lanes(name):
    from rushlight.backends.cpu.cache import cpu_identity
    from rushlight.compiler.schedules.contraction import matrix_tile
    return matrix_tile(name, cpu_identity()).lanes


def run_weight_gradient(grad, input, shape, stride, padding, dilation, groups):
    """The gradients of a weight of ``shape`` and of the bias."""
    weight, bias = fresh(grad, shape), fresh(grad, shape[:1])
    if grad.is_meta:
        return weight, bias
    if grad.numel() == 0 or input.numel() == 0:
        return weight.zero_(), ops.sum(grad, [d for d in range(grad.ndim) if d != 1])
    sizes, margins, ints, chunks, parts = weight_plan(
        tuple(input.shape), tuple(shape), tuple(grad.shape[2:]), stride, padding,
        dilation, groups)
    sums, source = fresh(grad, parts), pad(input, sizes, margins)
    launch(_kernel("weight_gradient", grad), (sums, grad, source), ints, chunks, 1)
    count, _, rows, columns = parts
    depth, block = rows - 1, rows * columns
    _turn(weight, sums, (depth, columns, columns, depth, count, groups * block, block,
                         columns * depth), groups)
    address = sums.data_ptr() + depth * columns * grad.itemsize
    _turn(bias, address, (1, columns, columns, 1, count, groups * block, block, columns),
          groups)
    return weight, bias


def _kernel(kind, tensor):
    from rushlight.ops.convolution_kernels import convolution_kernel
    return convolution_kernel(kind, tensor.dtype.name)


# Operators


def convolution(input, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups):
    """Convolution of a batch, or its transpose."""
    n = input.ndim - 2
    stride, padding, dilation, output_padding = (
        expand(name, values, n) for name, values in (
            ("stride", stride), ("padding", padding), ("dilation", dilation),
            ("output_padding", output_padding)))
    check_convolution(input, weight, bias, stride, padding, dilation, transposed,
                      output_padding, groups)
    x, w, b = prepared(input, weight, bias)
    if not transposed:
        output = [output_size(*values) for values in zip(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)]
        return back(run_forward(x, w, b, output, stride, padding, dilation, groups), input)
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + extra + 1 for size, k, s, p, d, extra in zip(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding,
            strict=True)]
    shape = (input.shape[0], weight.shape[1] * groups, *sizes)
    result = run_input_gradient(x, shape, w, stride, padding, dilation, groups)
    if b is not None:
        result = result.add_(b.reshape(-1, *[1] * n))
    return back(result, input)


def convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
                         transposed, output_padding, groups, output_mask):
    """Gradients of input, weight and bias; None where the mask is False."""
    n = input.ndim - 2
    stride, padding, dilation = (expand("stride", v, n)
                                 for v in (stride, padding, dilation))
    grad, x, w = prepared(grad_output, input, weight)
    geometry = (stride, padding, dilation, groups)
    d_input = d_weight = d_bias = None
    if output_mask[0]:
        if transposed:
            d_input = run_forward(grad, w, None, input.shape[2:], *geometry)
        else:
            d_input = run_input_gradient(grad, tuple(input.shape), w, *geometry)
        d_input = back(d_input, input)
    if output_mask[1] and not transposed:
        d_weight, d_bias = run_weight_gradient(grad, x, tuple(weight.shape), *geometry)
        d_weight, d_bias = back(d_weight, weight), back(d_bias, weight)
    elif output_mask[1]:
        d_weight, _ = run_weight_gradient(x, grad, tuple(weight.shape), *geometry)
        d_weight = back(d_weight, weight)
    if not output_mask[2]:
        d_bias = None
    elif d_bias is None:
        d_bias = back(ops.sum(grad, [d for d in range(grad.ndim) if d != 1]), weight)
    return d_input, d_weight, d_bias


def prepared(*tensors):
    """Row-major tensors of the dtype that convolutions compute in."""
    name = COMPUTED.get(tensors[0].dtype.name)
    result = []
    for tensor in tensors:
        if tensor is not None and name is not None:
            tensor = tensor.to(getattr(rushlight, name))
        if tensor is not None and not tensor.is_contiguous():
            tensor = tensor.contiguous()
        result.append(tensor)
    return result


def back(result, tensor):
    """The result in the dtype of an operand."""
    return result if result.dtype is tensor.dtype else result.to(tensor.dtype)


def expand(name, values, count):
    """One value for each spatial dimension.

    Raises:
        RuntimeError: neither one value nor ``count`` of them.

    >>> expand("stride", [2], 3)
    (2, 2, 2)
    """
    if isinstance(values, int):
        return (values,) * count
    if len(values) == 1:
        return (values[0],) * count
    if len(values) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values "
            f"to match the convolution dimensions, but got {name}={list(values)}")
    return tuple(values)


def check_convolution(input, weight, bias, stride, padding, dilation, transposed,
                      output_padding, groups):
    """Refuses operands and settings that no convolution has.

    Raises:
        RuntimeError: a size, setting or dtype does not fit.
    """
    operands = f"\n  input: {brief(input)}\n  weight: {brief(weight)}"
    for values, least, text in (
            (padding, 0, "negative padding is not supported"),
            (output_padding, 0, "negative output_padding is not supported"),
            (stride, 1, "non-positive stride is not supported"),
            (dilation, 1, "dilation should be greater than zero")):
        if min(values, default=least) < least:
            raise RuntimeError(f"{text}, but got {list(values)}{operands}")
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported, but got {groups}")
    if weight.ndim != input.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional "
            f"weight {list(weight.shape)}, but got {input.ndim}-dimensional input of "
            f"size {list(input.shape)} instead")
    _check_channels(input, weight, bias, transposed, groups)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.dtype is not input.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype.name}) and {name} type ({tensor.dtype.name}) "
                f"should be the same{operands}")
    if transposed:
        _check_output_padding(output_padding, stride, dilation)
    else:
        _check_kernel(input, weight, padding, dilation, operands)


def _check_channels(input, weight, bias, transposed, groups):
    sizes = list(weight.shape)
    if sizes[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension "
            f"0, but got weight of size {sizes} instead")
    if sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at "
            f"dimension 0, but got weight of size {sizes} instead")
    wanted = sizes[0] if transposed else sizes[1] * groups
    if input.shape[1] != wanted:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {given}, weight of size {sizes}, expected input{list(input.shape)} to "
            f"have {wanted} channels, but got {input.shape[1]} channels instead")
    rows = sizes[1] * groups if transposed else sizes[0]
    if bias is not None and tuple(bias.shape) != (rows,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {sizes}, "
            f"expected bias to be 1-dimensional with {rows} elements, but got bias of "
            f"size {list(bias.shape)} instead")


def _check_kernel(input, weight, padding, dilation, operands):
    padded = [size + 2 * p for size, p in zip(input.shape[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(size < k for size, k in zip(padded, reach, strict=True)):
        texts = [" x ".join(map(str, sizes)) for sizes in (padded, reach)]
        raise RuntimeError(
            f"Calculated padded input size per channel: ({texts[0]}). Kernel size: "
            f"({texts[1]}). Kernel size can't be greater than actual input size{operands}")


def _check_output_padding(output_padding, stride, dilation):
    for extra, s, d in zip(output_padding, stride, dilation, strict=True):
        if extra >= s and extra >= d:
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                f"output_padding={list(output_padding)}, stride={list(stride)}, "
                f"dilation={list(dilation)}")


# The functions that users call


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over one dimension."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over two dimensions."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over three dimensions."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0,
                     groups=1, dilation=1):
    """Transposed convolution over one dimension."""
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups,
                      dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0,
                     groups=1, dilation=1):
    """Transposed convolution over two dimensions."""
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups,
                      dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0,
                     groups=1, dilation=1):
    """Transposed convolution over three dimensions."""
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups,
                      dilation)


def batched(input, n, name):
    """The input with a batch dimension, and whether it had one.

    Raises:
        RuntimeError: the input has neither ``n + 1`` nor ``n + 2`` dimensions.
    """
    if input.ndim == n + 2:
        return input, True
    if input.ndim != n + 1:
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but "
            f"got input of size: {list(input.shape)}")
    return input.unsqueeze(0), False


def _convolve(n, input, weight, bias, stride, padding, dilation, groups):
    x, is_batch = batched(input, n, f"conv{n}d")
    stride, dilation = expand("stride", stride, n), expand("dilation", dilation, n)
    if isinstance(padding, str):
        x, padding = pad_by_name(x, weight, padding, stride, dilation)
    result = ops.convolution(x, weight, bias, stride, expand("padding", padding, n),
                             dilation, False, (0,) * n, groups)
    return result if is_batch else result.squeeze(0)


def pad_by_name(input, weight, padding, stride, dilation):
    """The padding called ``same`` or ``valid``; odd amounts go onto the input.

    Raises:
        RuntimeError: another name, or ``same`` with a stride.
    """
    if padding == "valid":
        return input, (0,) * len(stride)
    if padding != "same":
        raise RuntimeError(
            f"Invalid padding string: '{padding}'; expected 'same' or 'valid'")
    if set(stride) != {1}:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(amount % 2 for amount in total):
        extra = [value for amount in reversed(total) for value in (0, amount % 2)]
        input = ops.constant_pad_nd(input, extra, 0)
    return input, tuple(amount // 2 for amount in total)


def _transpose(n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    x, is_batch = batched(input, n, f"conv_transpose{n}d")
    stride, padding, output_padding, dilation = (
        expand(name, values, n) for name, values in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding),
            ("dilation", dilation)))
    result = ops.convolution(x, weight, bias, stride, padding, dilation, True,
                             output_padding, groups)
    return result if is_batch else result.squeeze(0)

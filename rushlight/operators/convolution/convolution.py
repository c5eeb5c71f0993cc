"""Convolutions of one to three dimensions, transposed ones, and their gradients."""

import functools
import itertools
import math

from rushlight.codegen.schedule.contraction import ITEMSIZES
from rushlight.core import dtypes
from rushlight.core.dtype import can_cast
from rushlight.core.dtypes import bfloat16, complex64, float32
from rushlight.core.layout import contiguous_format
from rushlight.core.roles import host
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.conv.conv_geometry import (
    forward_plan,
    grown,
    input_plan,
    output_size,
    spread,
)
from rushlight.kernels.conv.weight_geometry import weight_plan
from rushlight.operators import call as ops
from rushlight.operators.convolution import conv_channels_last as by_pixels
from rushlight.operators.convolution import conv_cudnn as by_library
from rushlight.operators.convolution import conv_depthwise as depthwise
from rushlight.operators.convolution import conv_im2col as by_products
from rushlight.operators.convolution import conv_winograd as minimal
from rushlight.operators.convolution.conv_weight_layouts import (
    COMPUTED,
    computed,
    transpose_blocks,
    transpose_weight,
)
from rushlight.operators.convolution.conv_winograd import host_kernel, is_finite
from rushlight.operators.functions import result_type
from rushlight.operators.loop_calls import brief, host_address, scalar_name
from rushlight.operators.matmul import embedding_of_complex
from rushlight.operators.shape.formats import format_of, laid_out, lines_channels_last
from rushlight.operators.shared import has_elements, recorded_ahead

launch, fresh = host.launch.launch, host.matmul.fresh
MOST_PLANS = 1024


# Kernels on row-major operands of one computed dtype


class Padding:
    """Zeros around the planes of an input, where any are needed."""

    def __init__(self, images, channels, sizes, margins):
        wide = grown(sizes, margins)
        self.planes = images * channels
        self.shape = None if wide == tuple(sizes) else (self.planes, *wide)
        self.ints = (*sizes, *wide, *(low for low, _ in margins))
        self.grain = max(1, 16384 // max(1, math.prod(wide)))

    def run(self, input):
        """The padded input; the input itself where nothing is added."""
        if self.shape is None:
            return input
        out = fresh(input, self.shape)
        kernel = host_kernel("padded", input.dtype)
        launch(kernel, (out, input), self.ints, self.planes, self.grain)
        return out


class Forward:
    """A checked convolution of one geometry and dtype, ready to run."""

    def __init__(
        self,
        input,
        weight,
        biased,
        stride,
        padding,
        dilation,
        groups,
        dtype,
        fused=False,
    ):
        output = [
            output_size(*values)
            for values in zip(
                input[2:], weight[2:], stride, padding, dilation, strict=True
            )
        ]
        # PyTorch's: of no channels nothing is made, whatever the weight has
        self.shape = (input[0], weight[0] if input[1] else 0, *output)
        self.empty = 0 in self.shape or 0 in weight
        self.settings = stride, padding, dilation, groups
        self.transform = None
        if self.empty:
            return
        if not fused:
            geometry = input, weight, tuple(output), *self.settings
            self.transform = minimal.plan(dtype, geometry, biased)
        kind, sizes, margins, self.ints, self.chunks, self.grain = forward_plan(
            input,
            weight,
            tuple(output),
            stride,
            padding,
            dilation,
            groups,
            biased,
            fused,
            host.pool.get_num_threads(),
        )
        self.kind, self.dtype = kind, dtype
        self.by_threads = kind.startswith(("depthwise", "planes"))
        self.padding = Padding(*input[:2], sizes, margins)

    def run(self, input, weight, bias):
        """The output for row-major operands."""
        if not self.empty:
            return _output(input, self, weight, bias)
        out = fresh(input, self.shape).zero_()
        if bias is None or not out.numel():
            return out
        return out.add_(bias.reshape(-1, *[1] * (len(self.shape) - 2)))

    def run_on_host(self, input, weight, bias):
        """The same by kernels of the host's."""
        out = fresh(input, self.shape)
        if self.transform is not None:
            return self.transform.run(out, input, weight, bias)
        source = self.padding.run(input)
        operands = out, weight, source, bias
        kernel = host_kernel(self.kind, self.dtype)
        launch(kernel, operands, self.ints, self.chunks, self.grain)
        return out

    def run_with_epilogue(self, input, weight, bias, find, others, out):
        """Writes to ``out`` what is behind the convolution of row-major operands.

        Args:
            find: from a kind of kernel to the kernel, as `contraction_after.EpilogueSpec` has it.
            others: further operands: as dense as the output, or a value for each channel.
        """
        if self.transform is not None:
            self.transform.run(out, input, weight, bias, find("winograd"), others)
            return
        source = self.padding.run(input)
        operands = out, weight, source, bias, *others
        launch(find(self.kind), operands, self.ints, self.chunks, self.grain)


_output = KernelTable(
    cpu=lambda input, plan, weight, bias: plan.run_on_host(input, weight, bias),
    cuda=lambda input, plan, weight, bias: (
        depthwise.forward_on_device if plan.by_threads else by_products.forward
    )(input, weight, bias, plan.shape, *plan.settings),
    meta=lambda input, plan, weight, bias: fresh(input, plan.shape),
)
_forwards: dict = {}


def run_forward(input, weight, bias, output, stride, padding, dilation, groups):
    """The convolution's output, whatever its sizes; operands as they are."""
    plan = Forward(
        tuple(input.shape),
        tuple(weight.shape),
        bias is not None,
        stride,
        padding,
        dilation,
        groups,
        input.dtype,
    )
    if tuple(output) != plan.shape[2:]:
        raise RuntimeError(f"convolution: no output of size {list(output)}")
    return plan.run(input, weight, bias)


def run_input_gradient(grad, shape, weight, stride, padding, dilation, groups):
    """The gradient of an input of ``shape``; also the transposed convolution."""
    if grad.numel() == 0 or weight.numel() == 0:
        return ops.new_zeros(grad, shape)
    return _input_gradient(grad, shape, weight, stride, padding, dilation, groups)


def _input_gradient_on_host(grad, shape, weight, stride, padding, dilation, groups):
    one = math.prod(grad.shape[2:]) == 1 and not any(padding)
    if one and groups == 1 and tuple(shape[2:]) == tuple(weight.shape[2:]):
        # one position sees all of the input: patches would be zeros but for one element
        return ops.mm(grad.flatten(1), weight.flatten(1)).view(shape)
    around = depthwise.transposed_padding(
        shape, weight, stride, padding, dilation, groups
    )
    if around is not None and is_finite(weight):
        flipped = weight.flip(list(range(2, weight.ndim)))
        if max(stride) > 1:
            grad = depthwise.dilate_gradient(
                grad, shape, weight, stride, padding, dilation
            )
        settings = (1, 1), around, dilation, groups
        return run_forward(grad, flipped, None, shape[2:], *settings)
    gaps, sizes, margins, phases = input_plan(
        tuple(shape),
        tuple(weight.shape),
        tuple(grad.shape[2:]),
        stride,
        padding,
        dilation,
        groups,
        host.pool.get_num_threads(),
    )
    if not phases:
        return ops.new_zeros(grad, shape)
    settings = stride, padding, dilation, groups
    # Zeros around the gradient are multiplied: by an infinite weight they are NaN, which is
    # looked for where there are fewer elements.
    padded = any(map(any, margins))
    small = weight.numel() <= math.prod(shape) or recorded_ahead()
    if padded and small and not is_finite(weight):
        return by_products.input_gradient(grad, shape, weight, *settings)
    result = ops.new_zeros(grad, shape) if gaps else fresh(grad, shape)
    transform = minimal.gradient_plan(grad, shape, weight, *settings)
    if transform is not None:
        transform.run(result, grad, weight, None)
    else:
        source = Padding(*grad.shape[:2], sizes, margins).run(grad)
        _run_phases(phases, result, source, weight, groups)
    if padded and not small and not is_finite(result) and not is_finite(weight):
        return by_products.input_gradient(grad, shape, weight, *settings)
    return result


def _run_phases(phases, result, source, weight, groups):
    """The gradient of an input, of positions that see the same taps at a time."""
    transposed_weight = None
    if any(taps is not None for _, taps, *_ in phases):
        transposed_weight = transpose_weight(weight, groups)
    for kind, taps, offset, ints, chunks, grain in phases:
        matrix = weight if taps is None else transposed_weight
        if taps is not None and any(s.step != 1 for s in taps):
            matrix = transposed_weight[(slice(None), *taps)].contiguous()
        start = ops.as_strided(result, (1,), (1,), offset) if offset else result
        launch(
            host_kernel(kind, source.dtype),
            (start, matrix, source, None),
            ints,
            chunks,
            grain,
        )


_input_gradient = KernelTable(
    cpu=_input_gradient_on_host,
    cuda=by_products.input_gradient,
    meta=lambda grad, shape, *_: fresh(grad, shape),
)


def run_weight_gradient(grad, input, shape, stride, padding, dilation, groups):
    """The gradients of a weight of ``shape`` and of the bias."""
    if grad.numel() == 0 or input.numel() == 0:
        bias = ops.sum(grad, [d for d in range(grad.ndim) if d != 1])
        return ops.new_zeros(grad, shape), bias
    return _weight_gradient(grad, input, shape, stride, padding, dilation, groups)


def _weight_gradient_on_host(grad, input, shape, stride, padding, dilation, groups):
    weight, bias = fresh(grad, shape), fresh(grad, shape[:1])
    kind, sizes, margins, ints, chunks, parts = weight_plan(
        tuple(input.shape),
        tuple(shape),
        tuple(grad.shape[2:]),
        stride,
        padding,
        dilation,
        groups,
        _weight_block(grad.dtype),
        host.pool.get_num_threads(),
    )
    sums, source = (
        fresh(grad, parts),
        Padding(*input.shape[:2], sizes, margins).run(input),
    )
    launch(host_kernel(kind, grad.dtype), (sums, grad, source), ints, chunks, 1)
    count, _, rows, columns = parts
    depth, block = rows - 1, rows * columns
    transpose_blocks(
        weight,
        sums,
        (depth, columns, columns, depth, count, groups * block, block, columns * depth),
        groups,
    )
    address = host_address(sums) + depth * columns * grad.itemsize
    transpose_blocks(
        bias,
        address,
        (1, columns, columns, 1, count, groups * block, block, columns),
        groups,
    )
    return weight, bias


_weight_gradient = KernelTable(
    cpu=_weight_gradient_on_host,
    cuda=by_products.weight_gradient,
    meta=lambda grad, input, shape, *_: (fresh(grad, shape), fresh(grad, shape[:1])),
)


@functools.cache
def _weight_block(dtype):
    from rushlight.codegen.target import current
    from rushlight.kernels.conv.implicit_gemm import convolution_tile, weight_block

    return weight_block(convolution_tile(dtype.name, current()))


# Operators


def convolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    """Convolution of a batch, or its transpose."""
    if input.dtype.is_complex:
        settings = stride, padding, dilation, transposed, output_padding, groups
        return complex_convolution(input, weight, bias, *settings)
    kinds = None if bias is None else (bias.shape, bias.dtype)
    key = (
        *(input.shape, weight.shape, kinds, input.dtype, weight.dtype, transposed),
        *(
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            tuple(output_padding),
            groups,
        ),
        host.pool.get_num_threads(),
    )
    plan = _forwards.get(key)
    if plan is None:
        plan = _forwards[key] = planned(input, weight, bias, *key[5:-1])
        if len(_forwards) > MOST_PLANS:
            _forwards.clear()
    layout = layout_of(input, weight, stride, dilation, groups)
    if transposed and input.ndim == 5 and padded_far(output_padding, stride):
        layout = None
    how = input, weight, bias, plan, transposed, layout
    result = by_library.forward(*how)
    if result is None:
        result = by_pixels.forward(*how)
    if result is not None:
        return result
    x, w, b = prepared(input, weight, bias)
    if not transposed:
        result = plan.run(x, w, b)
    else:
        shape, *settings = plan
        result = run_input_gradient(x, shape, w, *settings)
        if b is not None:
            result = result.add_(b.reshape(-1, *[1] * (input.ndim - 2)))
    if layout is not None and 1 < groups == math.prod(result.shape[1:]):
        # PyTorch joins results of one element each, unless one kernel has all groups
        layout = layout if blocked(input, weight, stride, dilation, groups) else None
    return laid_out(back(result, input), layout)


def forward_with_epilogue(
    input, weight, bias, stride, padding, dilation, groups, fused, others, dtype, out
):
    """See `contraction_after.conv_with_epilogue`."""
    n = weight.ndim - 2
    settings = [
        expand(name, [values] if isinstance(values, int) else values, n)
        for name, values in (
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
        )
    ]
    _check_ranks(input, weight)
    check_convolution(input, weight, bias, *settings, False, (0,) * n, groups)
    name = COMPUTED.get(input.dtype.name, input.dtype.name)
    kind = input.dtype if dtype is None else dtype
    # sums of another type, or in an operand's place, go through a block of their own
    separate = kind.name != name or (
        out is not None and any(other.data_ptr() == out.data_ptr() for other in others)
    )
    plan = Forward(
        *(tuple(input.shape), tuple(weight.shape), bias is not None, *settings),
        *(groups, getattr(dtypes, name), separate),
    )
    result = fresh(input, plan.shape, kind) if out is None else out
    if plan.empty and result.numel():
        raise NotImplementedError("nothing is traced behind a sum of no elements")
    if not has_elements(result):
        return result
    seen = [per_channel(other, plan.shape) for other in others]
    kinds = tuple((other.dtype.name, along) for other, along in seen)
    find = fused.convolutions(input.dtype.name, kinds, kind.name)
    operands = prepared(input, weight, bias)
    plan.run_with_epilogue(*operands, find, [other for other, _ in seen], result)
    return result


def per_channel(other, shape):
    """An operand with a value for each channel, or as dense as the output; and which."""
    sizes = (1,) * (len(shape) - other.ndim) + tuple(other.shape)
    if all(size == 1 for d, size in enumerate(sizes) if d != 1):
        return other.reshape(-1).expand(shape[1]).contiguous(), False
    return other.expand(shape).contiguous(), True


def layout_of(input, weight, stride, dilation, groups):
    """The memory format of a convolution's results: None for rows.

    Channels last comes from either operand; that of lines from the weight, or from an
    input that is row-major as well; that of volumes only where PyTorch has a kernel.
    """
    if input.ndim == 3:
        alike = input.is_contiguous() and not input.is_complex()  # of parts with gaps
        alike = alike and lines_channels_last(input)
        return "lines" if alike or lines_channels_last(weight) else None
    found = format_of(input) or format_of(weight)
    if found is None or input.ndim == 4:
        return found
    kept = _keeps_volumes(input.device, input, weight, stride, dilation, groups)
    return found if kept else None


def padded_far(output_padding, stride):
    """Whether an output is padded by a step or more, which oneDNN cannot do."""
    steps = expand("stride", stride, 3)
    return any(n >= s for n, s in zip(expand("padding", output_padding, 3), steps))


def blocked(input, weight, stride, dilation, groups):
    """Whether PyTorch gives a convolution of volumes to oneDNN, on one thread."""
    if input.dtype is bfloat16:  # whatever the sizes are
        return True
    if input.dtype not in (float32, complex64):
        return False
    batch, height, width = input.shape[0], *weight.shape[-2:]
    plain = all(n == 1 for n in (height, width, *stride, *dilation))
    if plain and batch < 16:
        return False
    large = math.prod(input.shape[:4]) > 20_480
    return groups > 1 or batch > 1 or (height > 3 and width > 3) or large


_keeps_volumes = KernelTable(
    cpu=lambda device, *operands: blocked(*operands),
    cuda=lambda *_: True,
    meta=lambda *_: True,
)


def complex_convolution(input, weight, bias, *settings):
    """One real convolution of twice the channels."""
    parts = [None if t is None else ops.real(t) for t in (input, weight, bias)]
    expanded = [expand("stride", v, input.ndim - 2) for v in settings[:3]]
    check_convolution(*parts, *expanded, *settings[3:])
    result = embedding_of_complex.convolution(
        input,
        weight,
        bias,
        settings[3],
        lambda x, w, b: convolution(x, w, b, *settings),
    )
    result = laid_out(result, layout_of(input, weight, *expanded[::2], settings[-1]))
    if (
        result.is_contiguous()
    ):  # PyTorch's sum of its parts is row-major where it can be
        return result.clone(memory_format=contiguous_format)
    return result


def planned(
    input, weight, bias, transposed, stride, padding, dilation, output_padding, groups
):
    """A `Forward`, or output shape and settings of a transpose, once they are checked."""
    n = weight.ndim - 2
    if n < 1:
        raise RuntimeError("weight should have at least three dimensions")
    _check_ranks(input, weight)
    stride, padding, dilation, output_padding = (
        expand(name, values, n)
        for name, values in (
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
            ("output_padding", output_padding),
        )
    )
    check_convolution(
        *(input, weight, bias, stride, padding, dilation),
        *(transposed, output_padding, groups),
    )
    shapes = tuple(input.shape), tuple(weight.shape)
    settings = stride, padding, dilation, groups
    if 0 in input.shape[2:] and 0 not in input.shape[:2]:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(input.shape)}"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(
            "kernel size should be greater than zero, but got kernel sizes "
            f"{list(weight.shape[2:])}"
        )
    if not transposed:
        return Forward(*shapes, bias is not None, *settings, computed(input.dtype))
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + extra + 1
        for size, k, s, p, d, extra in zip(
            *(shape[2:] for shape in shapes),
            *(stride, padding, dilation, output_padding),
            strict=True,
        )
    ]
    if min(sizes) < 1 or max(sizes) >= 2**63:
        given, made = (" x ".join(map(str, t)) for t in (input.shape[2:], sizes))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per "
            f"channel: ({made}). Output size is too "
            + ("small" if min(sizes) < 1 else "large")
        )
    return (input.shape[0], weight.shape[1] * groups, *sizes), *settings


_checked: set = set()


def check_gradient(grad, input, weight, *settings):
    """Refuses a gradient that isn't one of this convolution's output.

    Raises:
        RuntimeError: a size, setting or dtype does not fit.
    """
    key = (
        *(grad.shape, input.shape, weight.shape, grad.dtype, input.dtype),
        *(weight.dtype, *settings),
    )
    if key in _checked:
        return
    if grad.ndim != input.ndim:
        raise RuntimeError(
            "Expected input and grad_output to have the same number of dimensions, but"
            f" got: {input.ndim} and {grad.ndim}"
        )
    if grad.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.name} but found {grad.dtype.name}"
            f"\n  grad_output: {brief(grad)}\n  input: {brief(input)}"
        )
    stride, padding, dilation, transposed, output_padding, groups = settings
    plan = planned(
        *(input, weight, None, transposed, stride, padding, dilation),
        *(output_padding, groups),
    )
    shape = tuple(plan[0]) if transposed else plan.shape
    if tuple(grad.shape) != shape:
        raise RuntimeError(
            f"convolution_backward: expected grad_output to have shape {list(shape)},"
            f" but got {list(grad.shape)}\n  grad_output: {brief(grad)}"
        )
    if len(_checked) > MOST_PLANS:
        _checked.clear()
    _checked.add(key)


def transposed_input_gradient(grad, input, weight, stride, padding, dilation, groups):
    """The convolution of ``grad``; output padding of a stride or more adds to its end."""
    sizes = [
        (g + 2 * p - d * (k - 1) - 1) // s + 1
        for g, k, s, p, d in zip(
            grad.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    result = run_forward(grad, weight, None, sizes, stride, padding, dilation, groups)
    for dim, size in enumerate(input.shape[2:], 2):
        if result.shape[dim] != size:
            result = result.narrow(dim, 0, size)
    return result.contiguous()


def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    """Gradients of input, weight and bias; None where the mask is False."""
    if input.dtype.is_complex:
        settings = (
            *(None, stride, padding, dilation, transposed, output_padding),
            *(groups, output_mask),
        )
        return embedding_of_complex.convolution_backward(
            grad_output, input, weight, transposed,
            lambda grad, x, w: convolution_backward(grad, x, w, *settings),
        )  # fmt: skip
    n = input.ndim - 2
    stride, padding, dilation = (
        expand("stride", v, n) for v in (stride, padding, dilation)
    )
    check_gradient(
        grad_output, input, weight, stride, padding, dilation, transposed,
        tuple(output_padding), groups,
    )  # fmt: skip
    layout = layout_of(input, weight, stride, dilation, groups)
    geometry = (stride, padding, dilation, groups)
    operands = grad_output, input, weight
    d_input = d_weight = d_bias = None
    how = *operands, transposed, layout, geometry
    for makers in (by_library, by_pixels):
        if output_mask[0] and d_input is None:
            d_input = makers.input_gradient(*how)
        if output_mask[1] and d_weight is None:
            d_weight = makers.weight_gradient(*how)
    left = [m and g is None for m, g in zip(output_mask, (d_input, d_weight, None))]
    grad, x, w = prepared(*operands) if any(left[:2]) else operands
    if left[0]:
        if transposed:
            d_input = transposed_input_gradient(grad, input, w, *geometry)
        else:
            d_input = run_input_gradient(grad, tuple(input.shape), w, *geometry)
        d_input = back(d_input, input)
    if left[1] and not transposed:
        d_weight, d_bias = run_weight_gradient(grad, x, tuple(weight.shape), *geometry)
        d_weight, d_bias = back(d_weight, weight), back(d_bias, weight)
    elif left[1]:
        d_weight, _ = run_weight_gradient(x, grad, tuple(weight.shape), *geometry)
        d_weight = back(d_weight, weight)
    if not output_mask[2]:
        d_bias = None
    elif d_bias is None:
        d_bias = back(ops.sum(grad, [d for d in range(grad.ndim) if d != 1]), weight)
    if layout is not None:
        if d_input is not None:
            d_input = laid_out(d_input, layout)
        if d_weight is not None and layout == "lines":
            d_weight = laid_out(d_weight, layout)
        elif d_weight is not None:
            d_weight = d_weight.contiguous(memory_format=layout)
    return d_input, d_weight, d_bias


def prepared(*tensors):
    """Row-major tensors of the dtype that convolutions compute in."""
    name = COMPUTED.get(tensors[0].dtype.name)
    result = []
    for tensor in tensors:
        if tensor is not None:
            if name is not None:
                tensor = tensor.to(getattr(dtypes, name))
            if not tensor.is_contiguous():
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
            f"to match the convolution dimensions, but got {name}={list(values)}"
        )
    return tuple(values)


def check_convolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    """Refuses operands and settings that no convolution has.

    Raises:
        RuntimeError: a size, setting or dtype does not fit.
    """
    operands = f"\n  input: {brief(input)}\n  weight: {brief(weight)}"
    for values, least, text in (
        (padding, 0, "negative padding is not supported"),
        (output_padding, 0, "negative output_padding is not supported"),
        (stride, 1, "non-positive stride is not supported"),
        (dilation, 1, "dilation should be greater than zero"),
    ):
        if min(values, default=least) < least:
            raise RuntimeError(f"{text}, but got {list(values)}{operands}")
    if max(padding, default=0) >= 2**61:
        raise RuntimeError(
            f"Given padding={max(padding)}, expected padding to be at most {2**61 - 1}"
            f"{operands}"
        )
    unknown = input.dtype.name not in COMPUTED and input.dtype.name not in ITEMSIZES
    if unknown and (transposed or weight.dtype is input.dtype):
        raise NotImplementedError(
            f"convolution not implemented for '{scalar_name(input.dtype)}'{operands}"
        )
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported, but got {groups}")
    if len(stride) != weight.ndim - 2:
        raise RuntimeError(
            f"Expected {len(stride) + 2}-dimensional weight, and input of as many or "
            f"one fewer, but got a {weight.ndim}-dimensional one{operands}"
        )
    _check_channels(input, weight, bias, transposed, groups)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.dtype is not input.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype.name}) and {name} type "
                f"({tensor.dtype.name}) should be the same{operands}"
            )
    if transposed:
        _check_output_padding(output_padding, stride, dilation)
    else:
        _check_kernel(input, weight, padding, dilation, operands)


def _check_ranks(input, weight):
    if weight.ndim != input.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional "
            f"weight{list(weight.shape)}, but got {input.ndim}-dimensional input of "
            f"size {list(input.shape)} instead"
        )


def _check_channels(input, weight, bias, transposed, groups):
    sizes = list(weight.shape)
    if transposed and 0 in sizes[1:]:
        raise RuntimeError(
            f"non-empty {weight.ndim}D weight tensor expected, but got: {sizes}"
        )
    if sizes[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at "
            f"dimension 0, but got weight of size {sizes} instead"
        )
    if sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at "
            f"dimension 0, but got weight of size {sizes} instead"
        )
    wanted = sizes[0] if transposed else sizes[1] * groups
    if input.shape[1] != wanted:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {given}, weight of size {sizes}, expected "
            f"input{list(input.shape)} to have {wanted} channels, "
            f"but got {input.shape[1]} channels instead"
        )
    rows = sizes[1] * groups if transposed else sizes[0]
    if bias is not None and tuple(bias.shape) != (rows,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {sizes}, "
            f"expected bias to be 1-dimensional with {rows} elements, but got bias of "
            f"size {list(bias.shape)} instead"
        )


def _check_kernel(input, weight, padding, dilation, operands):
    padded = [size + 2 * p for size, p in zip(input.shape[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(size < k for size, k in zip(padded, reach, strict=True)):
        texts = [" x ".join(map(str, sizes)) for sizes in (padded, reach)]
        raise RuntimeError(
            f"Calculated padded input size per channel: ({texts[0]}). Kernel size: "
            f"({texts[1]}). Kernel size can't be greater than actual input size"
            f"{operands}"
        )


def _check_output_padding(output_padding, stride, dilation):
    for extra, s, d in zip(output_padding, stride, dilation, strict=True):
        if extra >= s and extra >= d:
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, "
                f"but got output_padding={list(output_padding)}, "
                f"stride={list(stride)}, dilation={list(dilation)}"
            )


# The operators that users call: they come with all their arguments, in the schemas' order


def conv1d(input, weight, *given):
    """Convolution over one dimension."""
    return _convolve(1, input, weight, *given)


def conv2d(input, weight, *given):
    """Convolution over two dimensions."""
    return _convolve(2, input, weight, *given)


def conv3d(input, weight, *given):
    """Convolution over three dimensions."""
    return _convolve(3, input, weight, *given)


def conv_transpose1d(input, weight, *given):
    """Transposed convolution over one dimension."""
    return _transpose(1, input, weight, *given)


def conv_transpose2d(input, weight, *given):
    """Transposed convolution over two dimensions."""
    return _transpose(2, input, weight, *given)


def conv_transpose3d(input, weight, *given):
    """Transposed convolution over three dimensions."""
    return _transpose(3, input, weight, *given)


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
            f"got input of size: {list(input.shape)}"
        )
    return input.unsqueeze(0), False


def _convolve(n, input, weight, bias, stride, padding, dilation, groups):
    x, is_batch = batched(input, n, f"conv{n}d")
    if isinstance(padding, str):
        stride = expand("stride", stride, n)
        dilation = expand("dilation", dilation, n)
        x, padding = pad_by_name(x, weight, padding, stride, dilation)
    result = ops.convolution(
        x,
        weight,
        bias,
        near(stride, x, padding, n),
        (padding,) if isinstance(padding, int) else padding,
        (dilation,) if isinstance(dilation, int) else dilation,
        False,
        (0,),
        groups,
    )
    return result if is_batch else result.squeeze(0)


def near(stride, input, padding, n):
    """Strides that leave the padded input, as if they just left it: they lead nowhere."""
    stride = (stride,) if isinstance(stride, int) else stride
    if max(stride, default=1) < 2**31:
        return stride
    sizes = zip(input.shape[2:], expand("padding", padding, n), strict=True)
    padded = [max(size + 2 * p, 1) for size, p in sizes]
    return tuple(map(min, expand("stride", stride, n), padded))


def pad_by_name(input, weight, padding, stride, dilation):
    """The padding called ``same`` or ``valid``; odd amounts go onto the input.

    Raises:
        RuntimeError: another name, or ``same`` with a stride.
    """
    if padding == "valid":
        return input, (0,) * len(stride)
    if padding != "same":
        raise RuntimeError(
            f"Invalid padding string: '{padding}'; expected 'same' or 'valid'"
        )
    if set(stride) != {1}:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    _check_ranks(input, weight)
    total = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(amount >> 63 for amount in total):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({list(input.shape[2:])} and "
            f"{total} around them). Kernel size can't be greater than actual input size"
        )
    if any(amount % 2 for amount in total):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created"
        )
        extra = [value for amount in reversed(total) for value in (0, amount % 2)]
        input = ops.constant_pad_nd(input, extra, 0)
    return input, tuple(amount // 2 for amount in total)


def _transpose(
    n, input, weight, bias, stride, padding, output_padding, groups, dilation
):
    x, is_batch = batched(input, n, f"conv_transpose{n}d")
    stride, padding, output_padding, dilation = (
        expand(name, values, n)
        for name, values in (
            ("stride", stride),
            ("padding", padding),
            ("output_padding", output_padding),
            ("dilation", dilation),
        )
    )
    if bias is not None and bias.dtype is not x.dtype and n < 3:
        bias = castable_bias(x, bias)
    result = ops.convolution(
        x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )
    return result if is_batch else result.squeeze(0)


def castable_bias(input, bias):
    """A bias that is added to results of the input's type, of whatever type it is.

    Raises:
        RuntimeError: what it is would be lost.
    """
    if input.dtype.name not in ("float32", "float64", "int64"):
        return bias  # refused later, with all the operands
    if not can_cast(result_type(input, bias), input.dtype):
        raise RuntimeError(
            f"result type {scalar_name(bias.dtype)} can't be cast to the desired output "
            f"type {scalar_name(input.dtype)}"
        )
    return bias.to(input.dtype)

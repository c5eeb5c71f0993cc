"""Operators that quantized tensors share with dense ones: on integers, or on numbers."""

from rushlight.core import sparse
from rushlight.core.dtypes import uint8
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format, preserve_format
from rushlight.core.tensor import Tensor
from rushlight.core.views import set_source
from rushlight.operators import call as ops
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import (
    KINDS,
    dequantize,
    like,
    made,
    parts,
    per_tensor,
    quantize_per_channel,
    quantize_per_tensor,
    single,
    steps_of,
)

# ---- operators on the integers


def on_integers(name):
    """An operator that moves elements, applied to the integers."""
    function = getattr(ops, name)

    def apply(self, *args):
        integers, scale, zero_point = per_tensor(self, NO_STRIDES)
        return made(function(integers, *args), scale, zero_point)

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the integers."
    return apply


NO_STRIDES = "Setting strides is possible only on uniformly quantized tensor"


def view_of_integers(name):
    """A view of the integers; it shows some channels, or one, whose numbers stay theirs."""
    function = getattr(ops, name)

    def apply(self, *args):
        integers, *found = parts(self)
        moved = function(integers, *args)
        several = isinstance(moved, (tuple, list))
        views = list(moved) if several else [moved]
        kept = [found] * len(views)
        if found[2] is not None:
            kept = _shown(self, function, args, views)
        results = tuple(made(*pair) for pair in zip(views, *zip(*kept, strict=True)))
        return results if several else results[0]

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the integers."
    return apply


def _shown(self, function, args, views):
    """Scales, zero points and axes of views.

    What is viewed along with the integers is a number for each channel: strides of zero
    tell apart which dimension they lie along afterwards.

    Raises:
        RuntimeError: channels do not lie along one dimension.
    """
    _, scale, zero_point, axis = parts(self)
    count = scale.numel()
    strides = [int(dim == axis) for dim in range(self.ndim)]
    channels = ops.as_strided(ops.arange(count), list(self.shape), strides)
    try:
        channels = function(channels, *args)
    except RuntimeError:  # they would have to be copied
        channels = None
    if isinstance(channels, Tensor):
        channels = [channels]
    found = []
    for place, view in enumerate(views):
        steps = channels and channels[place].stride()
        along = [dim for dim, step in enumerate(steps or ()) if step]
        if not steps or len(along) > 1 or (along and view.shape[along[0]] > count):
            raise RuntimeError(
                "length of scales must equal to channel, expected "
                f"{view.shape[min(axis, view.ndim - 1)]} got, {count}"
            )
        first = channels[place].storage_offset()
        if not along or (view.shape[along[0]] == 1 and count > 1):
            found.append((scale[first].item(), zero_point[first].item(), None))
        else:
            size, step = view.shape[along[0]], steps[along[0]]
            kept = slice(first, first + size * step, step)
            found.append((scale[kept].clone(), zero_point[kept].clone(), along[0]))
    return found


def expand(self, size, implicit):
    """The integers expanded."""
    integers, scale, zero_point = per_tensor(self, NO_STRIDES)
    return made(ops.expand(integers, size), scale, zero_point)


def in_place(name):
    """The form in place of an operator that keeps scale and zero point."""
    function = getattr(ops, name)

    def apply(self, *args):
        return copy_(self, function(self, *args), False)

    apply.__name__ = f"{name}_"
    apply.__doc__ = f"``{name}`` written over its operand."
    return apply


def resize_(self, size, memory_format):
    """Other sizes on the same memory, which grows as it has to."""
    refusal = "Can only resize quantized tensors with per-tensor schemes!"
    integers, scale, zero_point = per_tensor(self, refusal)
    resized = ops.resize_(ops.alias(integers), size, memory_format=memory_format)
    return set_source(self, made(resized, scale, zero_point))


def contiguous(self, memory_format):
    """Without gaps, in the order that is asked for: the tensor itself if it is."""
    if self.is_contiguous(memory_format=memory_format):
        return self
    return like(self, parts(self)[0].contiguous(memory_format=memory_format))


def clone(self, memory_format):
    """The integers are copied."""
    integers = parts(self)[0]
    order = memory_format or contiguous_format
    if order is preserve_format:
        order = affine_kernels.kept_format(integers)
    return like(self, ops.clone(integers, memory_format=order))


def relu(self):
    """Integers below the zero point become it."""
    integers, scale, zero_point = per_tensor(self)
    integers = affine_kernels.in_format(integers)
    return made(ops.clamp(integers, min=zero_point), scale, zero_point)


def clamp(self, min, max):
    """Bounds are quantized too."""
    integers, scale, zero_point = per_tensor(self)
    _, low, high = KINDS[self.dtype.name]

    def step(bound):
        if bound is None:
            return None
        return builtin_min(builtin_max(round(bound / scale) + zero_point, low), high)

    integers = affine_kernels.in_format(integers)
    return made(ops.clamp(integers, step(min), step(max)), scale, zero_point)


builtin_min, builtin_max = min, max


def copy_(self, src, non_blocking):
    """Numbers are quantized by the target's parameters; integers are taken over.

    Raises:
        RuntimeError: the target is not quantized, or the types differ.
    """
    if not self.is_quantized:
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, "
            "please use dequantize to get a float Tensor from a quantized Tensor"
        )
    integers, scale, zero_point, axis = parts(self)
    if src.is_quantized:
        if src.dtype is not self.dtype:
            raise RuntimeError(
                "Quantized Copy only works with Tensors of the same type"
            )
        taken, found = parts(src), sparse.parts_of(self)
        integers.copy_(taken[0])
        found.scale, found.zero_point, found.axis = taken[1:]
        return self
    if axis is None:
        fresh = quantize_per_tensor(src.float(), scale, zero_point, self.dtype)
    else:
        fresh = quantize_per_channel(src.float(), scale, zero_point, axis, self.dtype)
    integers.copy_(parts(fresh)[0])
    return self


def fill_(self, value):
    """One number everywhere."""
    return copy_(self, ops.full(list(self.shape), float(value)), False)


def refuse_conversion(
    self, dtype, layout, device, pin_memory, non_blocking, memory_format
):
    """Only between quantized types, or none.

    Raises:
        RuntimeError: another type is asked for.
    """
    if dtype is not None and dtype is not self.dtype:
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8"
        )
    return clone(self, memory_format)


def equal(self, other):
    """Whether parameters and integers are equal."""
    if not self.is_quantized or not other.is_quantized:
        return False
    one, two = parts(self), parts(other)
    if self.dtype is not other.dtype or one[3] != two[3] or self.shape != other.shape:
        return False
    if one[3] is None:
        same = one[1] == two[1] and one[2] == two[2]
    else:
        same = ops.equal(one[1], two[1]) and ops.equal(one[2], two[2])
    return bool(same and ops.equal(one[0], two[0]))


def compared(name):
    """A comparison of the numbers."""
    function = getattr(ops, name)

    def compare(self, other):
        other = dequantize(other) if isinstance(other, Tensor) else other
        return function(dequantize(self), other)

    compare.__name__ = name
    compare.__doc__ = f"``{name}`` of the numbers."
    return compare


def cat(tensors, dim):
    """All in the first tensor's parameters.

    Raises:
        NotImplementedError: a tensor is not quantized.
        RuntimeError: the types differ, or each channel has its own scale.
    """
    first = next(tensor for tensor in tensors if tensor.is_quantized)
    if not all(tensor.is_quantized for tensor in tensors):
        raise NotImplementedError(
            "Could not run 'aten::qscheme' with arguments from the 'CPU' backend.\n"
            "  remedy: quantize all tensors, or dequantize those that are"
        )
    if any(tensor.dtype is not first.dtype for tensor in tensors):
        raise RuntimeError("All dtypes must be the same.")
    for tensor in tensors:
        per_tensor(tensor, "Only per-tensor quantization is supported in 'cat'!")
    integers, scale, zero_point = per_tensor(first)
    steps = [
        each[0]
        if each[1:] == (scale, zero_point)
        else steps_of(ops._dequantize(tensor), integers.dtype, scale, zero_point)
        for tensor, each in zip(tensors, map(per_tensor, tensors))
    ]
    return made(ops.cat(steps, dim), scale, zero_point)


def stack(tensors, dim):
    """All in the first tensor's parameters, in a dimension more."""
    dim = wrap_dim(dim, tensors[0].ndim + 1)
    return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


def masked_fill(self, mask, value):
    """A number where a mask is true, as the integer that stands for it."""
    integers, scale, zero_point = per_tensor(
        self,
        "masked_fill__quantized_cpu for quantized tensors is currently only supported "
        "for per tensor quantized tensors",
    )
    step = _step(integers, value, scale, zero_point)
    return like(self, ops.masked_fill(integers, mask, step))


def _step(integers, value, scale, zero_point):
    return steps_of(ops.full([], value), integers.dtype, scale, zero_point).item()


def pad(self, pad, value):
    """A number around, as the integer that stands for it."""
    integers, scale, zero_point = per_tensor(
        self, "Only per-tensor padding is supported."
    )
    step = _step(integers, value, scale, zero_point)
    return like(self, ops.constant_pad_nd(integers, pad, step))


def largest(self):
    """The largest element."""
    return like(self, ops.max(per_tensor(self, ONE_SCALE.format("Max"))[0]))


def smallest(self):
    """The smallest element."""
    return like(self, ops.min(per_tensor(self, ONE_SCALE.format("Min"))[0]))


ONE_SCALE = (
    "{} operator for quantized tensors only works for per tensor quantized tensors. "
    "Please open an issue on https://github.com/pytorch/pytorch/issues if you need per "
    "channel quantized tensor support."
)


def mean(self, dtype):
    """The mean, quantized again."""
    integers = per_tensor(self)[0]
    return like(self, ops.round(integers.double().mean()).to(integers.dtype))


def mean_of_dims(self, dim, keepdim, dtype):
    """The means along some dimensions, in the same parameters."""
    integers, scale, zero_point = per_tensor(self)
    numbers = ops.mean(dequantize(self), dim, keepdim)
    steps = steps_of(numbers, integers.dtype, scale, zero_point)
    return made(steps, scale, zero_point)


def sigmoid(self):
    """Between zero and one, which takes all integers of eight bits."""
    per_tensor(self)
    _, low, high = KINDS[self.dtype.name]
    scale = 1 / 256 if high - low == 255 else 1.0 / (1 << 32)
    return quantize_per_tensor(dequantize(self).sigmoid(), scale, low, self.dtype)


def on_numbers(name):
    """A linear operator applied to the steps, its result in the same parameters."""
    function = getattr(ops, name)

    def apply(self, *args):
        integers, scale, zero_point = per_tensor(self)
        result = function(affine_kernels.dequantize(integers, 1.0, zero_point), *args)
        steps = steps_of(result, integers.dtype, 1.0, zero_point)
        return made(steps, scale, zero_point)

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the numbers, quantized again."
    return apply


def of_each(name):
    """A function of each element, its results in the same parameters.

    Of bytes it is looked up in a table; those of `hardsigmoid` and `tanh` have a scale
    of their own.
    """
    function = getattr(ops, name)

    def apply(self, *args):
        integers, scale, zero_point = per_tensor(self)
        given = scale, zero_point
        if name in OWN_RANGES and integers.dtype.itemsize == 1:
            given = OWN_RANGES[name][integers.dtype.name]
        return tabled(self, lambda numbers: function(numbers, *args), *given)

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the numbers, quantized again."
    return apply


def gelu(self, approximate):
    """``gelu`` of the numbers, quantized again."""
    _, scale, zero_point = per_tensor(self)

    def function(numbers):
        return ops.gelu(numbers, approximate=approximate)

    return tabled(self, function, single(scale), zero_point)


OWN_RANGES = {
    "tanh": {"uint8": (2 / 256, 128), "int8": (2 / 256, 0)},
    "hardsigmoid": {"uint8": (1 / 256, 0), "int8": (1 / 256, -128)},
}


def tabled(self, function, scale, zero_point):
    """A function of each number, quantized; of bytes by a table of all 256."""
    integers, own_scale, own_point = per_tensor(self)
    kind = integers.dtype
    if kind.itemsize > 1:
        steps = steps_of(function(dequantize(self)), kind, scale, zero_point, True)
        return made(steps, scale, zero_point)
    each = ops.arange(256).to(uint8).view(kind)
    start = -single(single(own_scale) * own_point)  # as vectors have it: one rounding
    numbers = (each.double() * single(own_scale) + start).float()
    table = steps_of(function(numbers), kind, scale, zero_point, True)
    integers = affine_kernels.in_format(integers)
    return made(affine_kernels.look_up(integers, table), scale, zero_point)


def with_indices(name):
    """An operator that moves elements and says from where."""
    function = getattr(ops, name)

    def apply(self, *args):
        values, positions = function(per_tensor(self)[0], *args)
        return like(self, values), positions

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the integers."
    return apply

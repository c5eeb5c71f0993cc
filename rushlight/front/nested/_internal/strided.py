"""Strided nested tensors: parts that may differ in several dimensions, each by itself."""

import math

import rushlight as rl
from rushlight._value_types import (
    KEY,
    Written,
    among,
    dropped,
    is_elementwise,
    is_reduction,
    one_element,
    writes,
)
from rushlight.autograd.function import Function
from rushlight.core.layout import Size
from rushlight.core.subclass import make_wrapper
from rushlight.dispatch.declared import says
from rushlight.nested._internal.nested_int import NestedInt
from rushlight.nested._internal.padding import pad_to
from rushlight.nested._internal.rules import Rules

RULES = Rules()

# What stands for an irregular size where sizes are compared; rules look at the parts'.
IRREGULAR = 1 << 15


class _Irregular(NestedInt):
    """The size of a dimension in which parts differ."""

    __slots__ = ()

    def _as_argument(self):
        return IRREGULAR

    def __repr__(self):
        return "*"

    __str__ = __repr__


_ANY = _Irregular(-1)


class _Buffer(Function):
    """The elements of all parts, through which gradients flow back."""

    @staticmethod
    def forward(ctx, nested):
        ctx.set_materialize_grads(False)
        ctx.sizes = nested._part_sizes
        return nested._buffer.view_as(nested._buffer)

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else of_buffer(grad, ctx.sizes)


class _OfBuffer(Function):
    """Elements as a nested tensor, from which gradients flow back to them."""

    @staticmethod
    def forward(ctx, buffer, sizes):
        ctx.set_materialize_grads(False)
        return _made(buffer.detach(), sizes)

    @staticmethod
    def backward(ctx, grad):
        return (None if grad is None else buffer_of(grad)), None


def _made(buffer, sizes):
    """A nested tensor without history."""
    regular = [n[0] if len(set(n)) == 1 else IRREGULAR for n in zip(*sizes)]
    made = make_wrapper(
        StridedNestedTensor,
        (len(sizes), *regular),
        None,
        0,
        buffer.dtype,
        rl.strided,
        buffer.device,
        buffer.untyped_storage().nbytes(),
    )
    made._buffer, made._part_sizes = buffer, sizes
    return made


def of_buffer(buffer, sizes):
    """Elements of parts, one behind another, as a nested tensor.

    Args:
        buffer: one dimension.
        sizes: those of each part.
    """
    buffer = buffer.contiguous()
    if buffer.requires_grad and rl.is_grad_enabled():
        return _OfBuffer.apply(buffer, sizes)
    return _made(buffer.detach() if buffer.requires_grad else buffer, sizes)


def buffer_of(nested):
    """The elements of a nested tensor, with its history where one is recorded."""
    if nested.requires_grad and rl.is_grad_enabled():
        return _Buffer.apply(nested)
    return nested._buffer


def parts_of(nested):
    """The parts, as views of the elements."""
    sizes = nested._part_sizes
    if not sizes:
        return ()
    pieces = buffer_of(nested).split([math.prod(each) for each in sizes])
    return tuple(piece.view(each) for piece, each in zip(pieces, sizes))


def of_parts(parts):
    """A nested tensor of parts, through which gradients flow back to them.

    Args:
        parts: tensors of one type and number of dimensions.
    """
    buffer = rl.cat([part.reshape(-1) for part in parts]) if parts else rl.empty(0)
    return of_buffer(buffer, tuple(tuple(part.shape) for part in parts))


def strided_from_list(parts, dtype, device):
    """A nested tensor of parts.

    Args:
        parts: tensors.
        dtype: the type to convert to; that of the first by default.
        device: the device to go to.

    Raises:
        RuntimeError: the parts differ in their number of dimensions.
    """
    for i, part in enumerate(parts):
        if part.dim() != parts[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found "
                f"dimension {part.dim()} for Tensor at index {i} and dimension "
                f"{parts[0].dim()} for Tensor at index 0."
            )
    if parts:
        dtype = parts[0].dtype if dtype is None else dtype
        device = parts[0].device if device is None else device
    return of_parts([part.to(dtype=dtype, device=device) for part in parts])


class StridedNestedTensor(rl.Tensor):
    """Parts of any sizes, each computed with by itself.

    Args:
        parts: tensors of one type and number of dimensions.
    """

    _dispatch_keys = KEY
    is_nested = True
    __torch_function__ = rl._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, parts):
        return of_parts(parts)

    @staticmethod
    def _run_operator(op, args):
        return run(op, args)

    @property
    def shape(self):
        """The sizes; where parts differ stands what no integer equals."""
        regular = [n[0] if len(set(n)) == 1 else _ANY for n in zip(*self._part_sizes)]
        return Size((len(self._part_sizes), *regular))

    def size(self, dim=None):
        """The sizes, or that of one dimension.

        Raises:
            RuntimeError: parts differ in it.
        """
        if dim is None:
            return self.shape
        n = self.dim()
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], "
                f"but got {dim})"
            )
        found = self.shape[dim % n]
        if found is _ANY:
            raise RuntimeError(
                f"Given dimension {dim % n} is irregular and does not have a size."
            )
        return found

    def stride(self, dim=None):
        """There are none.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support strides. Please file an "
            "issue.\n  remedy: ask the parts of unbind()"
        )

    def __len__(self):
        return len(self._part_sizes)

    def __iter__(self):
        return iter(self.unbind())

    def _nested_tensor_size(self):
        """The sizes of all parts, as a tensor."""
        return rl.tensor(self._part_sizes, dtype=rl.int64)

    def _of_parts(self, parts):
        """Results of `vmap`, one for each part."""
        return of_parts(parts)

    def numel(self):
        """How many elements there are."""
        return self._buffer.numel()

    nelement = numel

    def is_contiguous(self, memory_format=rl.contiguous_format):
        """That elements lie one behind another: they always do."""
        return True

    def values(self):
        """The elements of all parts, one behind another."""
        return buffer_of(self)

    def _nested_tensor_strides(self):
        """The strides of all parts, as a tensor."""
        strides = [part.stride() for part in parts_of(self)]
        return rl.tensor(strides, dtype=rl.int64)

    def _nested_tensor_storage_offsets(self):
        """Where each part begins in the elements, as a tensor."""
        counts = [math.prod(each) for each in self._part_sizes]
        return rl.tensor([0, *counts[:-1]], dtype=rl.int64).cumsum(0)[: len(counts)]

    def item(self):
        """The one element.

        Raises:
            RuntimeError: there are more, or none.
        """
        return one_element(self, self._buffer)

    def to_padded_tensor(self, padding, output_size=None):
        """The parts as rows of one tensor, filled up at the ends.

        Args:
            padding: the number to fill with.
            output_size: sizes of the result, where it is to be larger.

        Raises:
            RuntimeError: a size is smaller than the parts need.
        """
        parts = parts_of(self)
        sizes = [max(each) for each in zip(*self._part_sizes)]
        wanted = sizes if output_size is None else [int(n) for n in output_size[1:]]
        return rl.stack([pad_to(part, wanted, padding) for part in parts])

    def __repr__(self, *, tensor_contents=None):
        lines = []
        for part in parts_of(self):
            shown = repr(part.detach().requires_grad_(self.requires_grad))
            lines.append("  " + shown.replace("\n", "\n  "))
        tail = ", requires_grad=True" if self.requires_grad else ""
        if self.grad_fn is not None:
            tail = f", grad_fn=<{self.grad_fn.name()}>"
        return "nested_tensor([\n" + ",\n".join(lines) + "\n]" + tail + ")"

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = of_buffer(self._buffer.clone(), self._part_sizes)
            found.requires_grad_(self.requires_grad)
            memo[id(self)] = found
        return found

    def __reduce_ex__(self, protocol):
        return _rebuilt, (self._buffer, self._part_sizes, self.requires_grad)


def _rebuilt(buffer, sizes, requires_grad):
    return of_buffer(buffer, sizes).requires_grad_(requires_grad)


# -- operators -----------------------------------------------------------------------------


@RULES("unbind")
def _unbind(op, nested, dim=0):
    if dim not in (0, -nested.dim()):
        raise RuntimeError(
            f"NestedTensor can only be unbound along dimension 0 got dimension {dim} "
            "instead."
        )
    return list(parts_of(nested))


@RULES("select")
def _select(op, nested, dim, index):
    if dim % nested.dim() == 0:
        return parts_of(nested)[index]
    return _by_parts(op, nested, dim, index)


@RULES("detach")
def _detach(op, nested):
    return of_buffer(nested._buffer.detach(), nested._part_sizes)


@RULES("clone", "contiguous", "_to_copy", "alias", "lift_fresh")
def _on_buffer(op, nested, *rest):
    """What makes one element of one, or of none."""
    return of_buffer(op.redispatch(None, buffer_of(nested), *rest), nested._part_sizes)


@RULES("view", "reshape", "_unsafe_view")
def _reshape(op, nested, size):
    """Sizes of each part: -1, or an irregular one of old, is that of the part.

    Raises:
        RuntimeError: the batch would not stay.
    """
    size = list(size)
    if not size or size[0] not in (-1, len(nested._part_sizes)):
        raise RuntimeError(
            "For now nested_view cannot change or infer the implicit batch dimension"
        )
    made = []
    for part in parts_of(nested):
        own = [
            (part.shape[d] if d < part.dim() else -1) if n in (-1, IRREGULAR) else n
            for d, n in enumerate(size[1:])
        ]
        made.append(part.reshape(own))
    return of_parts(made)


def _inner(op, args):
    """The arguments for a part: dimensions count without that of the batch.

    Raises:
        RuntimeError: the batch is among them.
    """
    n = next(each for each in among(StridedNestedTensor, args)).dim()
    n += op._opname in ("unsqueeze", "stack")
    found = list(args)
    for i, each in enumerate(op._schema.arguments):
        if each.name not in ("dim", "dim0", "dim1", "dims") or args[i] is None:
            continue
        many = isinstance(args[i], (list, tuple))
        dims = [d % n if -n <= d < n else d for d in (args[i] if many else [args[i]])]
        if op._opname == "permute" and dims and dims[0] == 0:
            dims = dims[1:]
        if 0 in dims:
            raise RuntimeError(
                f"{op._opname}(): not supported on the batch dimension of a nested "
                "tensor\n  remedy: compute on the parts of unbind()"
            )
        found[i] = [d - 1 for d in dims] if many else dims[0] - 1
    return found


def _split(value, parts):
    """An argument for each part."""
    if isinstance(value, StridedNestedTensor):
        return parts_of(value)
    if (
        isinstance(value, list)
        and next(among(StridedNestedTensor, value), None) is not None
    ):
        return list(zip(*(_split(each, parts) for each in value)))
    return [value] * parts


@RULES("native_layer_norm")
def _layer_norm(op, nested, normalized_shape, *rest):
    made = [
        op.redispatch(None, part, normalized_shape, *rest) for part in parts_of(nested)
    ]
    return _joined(made)


def _by_parts(op, *args):
    """Compute on each part by itself."""
    tensors = list(among(StridedNestedTensor, args))
    count = len(tensors[0]._part_sizes)
    if any(len(each._part_sizes) != count for each in tensors):
        counts = [len(each._part_sizes) for each in tensors]
        raise RuntimeError(
            f"{op}: nested tensors of as many parts are expected, got {counts}"
        )
    rows = zip(*(_split(each, count) for each in _inner(op, args)))
    made = [op.redispatch(None, *row) for row in rows]
    return _joined(made)


def _joined(made):
    if made and isinstance(made[0], (tuple, list)):
        return type(made[0])(of_parts(list(each)) for each in zip(*made))
    return of_parts(made)


def _whole(op, nested, *rest):
    """A reduction of all elements, or one of each part along some dimensions."""
    names = [each.name for each in op._schema.arguments]
    if "dim" not in names or args_are_whole(rest, names):
        return op.redispatch(None, buffer_of(nested), *rest)
    return _by_parts(op, nested, *rest)


def args_are_whole(rest, names):
    """Whether no dimension is named."""
    dim = rest[names.index("dim") - 1]
    return dim is None or (isinstance(dim, (list, tuple)) and not dim)


@RULES("matmul", "bmm")
def _matmul(op, one, other):
    """Products of parts, one by one; a matrix goes with each."""
    count = len(next(among(StridedNestedTensor, (one, other)))._part_sizes)
    ones, others = (_factors(each, count) for each in (one, other))
    if len(ones) != len(others):
        raise RuntimeError(
            f"{op}: as many parts are expected on both sides, got {len(ones)} and "
            f"{len(others)}"
        )
    return of_parts([a @ b for a, b in zip(ones, others)])


def _factors(value, count):
    if isinstance(value, StridedNestedTensor):
        return parts_of(value)
    return [value] * count if value.dim() == 2 else value.unbind()


@RULES("dropout", "dropout_")
def _dropout(op, nested, p, train):
    """PyTorch's draws: one for each element, whatever the probability is."""
    found = dropped(buffer_of(nested), p, train)
    if not writes(op):
        return of_buffer(found, nested._part_sizes)
    return Written.apply(nested, found, "_buffer", buffer_of)


@RULES("equal")
def _equal(op, one, other):
    return one._part_sizes == other._part_sizes and rl.equal(one._buffer, other._buffer)


@RULES("cat")
def _cat(op, tensors, dim=0):
    if dim == 0:
        return of_parts([part for each in tensors for part in parts_of(each)])
    return _by_parts(op, tensors, dim)


# Arguments that say what sizes a result has: those of the whole.
_SIZES = frozenset(("size", "shape", "repeats", "sizes", "normalized_shape"))


def _same_sizes(op, args):
    """Refuse a dense operand, and parts that would broadcast.

    Raises:
        RuntimeError: sizes of parts differ.
    """
    first = next(among(StridedNestedTensor, args))
    for each in args:
        if isinstance(each, StridedNestedTensor):
            if each._part_sizes != first._part_sizes:
                raise RuntimeError(
                    f"{op._opname} does not support broadcasting when given a "
                    "NestedTensor"
                )
        elif isinstance(each, rl.Tensor) and each.dim():
            raise RuntimeError(
                "Expected both self and other to be nested, but got a nested self and "
                "non-nested other"
            )
    return first


@RULES("fill_")
def elementwise(op, *args):
    """Compute on all elements at once; in place where the operator does."""
    first = _same_sizes(op, args)
    operands = [
        buffer_of(each) if isinstance(each, StridedNestedTensor) else each
        for each in args
    ]
    if not writes(op):
        found = op.redispatch(None, *operands)
        if isinstance(found, (tuple, list)):
            return type(found)(of_buffer(each, first._part_sizes) for each in found)
        return of_buffer(found, first._part_sizes)
    grads = any(isinstance(a, rl.Tensor) and a.requires_grad for a in args)
    if rl.is_grad_enabled() and grads:
        written = op.redispatch(None, operands[0].clone(), *operands[1:])
        return Written.apply(args[0], written, "_buffer", buffer_of)
    op.redispatch(None, *operands)
    return args[0]


def _attention(op, query, key, value, attn_mask=None, *rest):
    """Each part by itself, without a mask.

    Raises:
        RuntimeError: there is a mask, or some operands are not nested.
    """
    if attn_mask is not None:
        raise RuntimeError(
            "Scaled_dot_product_attention: Nested tensors for query / key are not "
            "supported when an explicit attn_mask is set"
        )
    nested = [isinstance(each, StridedNestedTensor) for each in (query, key, value)]
    if not all(nested):
        words = ("a nested", "non-nested") if nested[0] else ("a non-nested", "nested")
        raise RuntimeError(
            f"Expected both to be nested, but got {words[0]} self and {words[1]} other"
        )
    return _by_parts(op, query, key, value, None, *rest)


def run(op, args):
    """Compute an operator of which an argument is nested.

    Args:
        op: the operator.
        args: all of its arguments.

    Raises:
        NotImplementedError: it takes sizes, which are not those of a part.
    """
    rule = RULES.get(op._opname)
    if rule is None and says(op, "like"):
        rule = _on_buffer
    elif rule is None and is_reduction(op):
        rule = _whole
    elif rule is None and is_elementwise(op):
        rule = elementwise
    if rule is None:
        names = {each.name for each in op._schema.arguments}
        if "attn_mask" in names:
            return _attention(op, *args)
        if names & _SIZES:
            raise NotImplementedError(
                f"{op}: sizes of a strided nested tensor differ from part to part\n"
                "  remedy: compute on the parts of unbind()"
            )
        rule = _by_parts
    return rule(op, *args)

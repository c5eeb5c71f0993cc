"""``NestedTensor``: parts of different lengths, one behind another in one tensor."""

import rushlight as rl
from rushlight._value_types import KEY, Written, one_element
from rushlight.autograd.function import Function
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import Size
from rushlight.core.subclass import make_wrapper, take_geometry
from rushlight.nested._internal.nested_int import FIRST, nested_int_of

__all__ = [
    "NestedTensor",
    "buffer_from_jagged",
    "jagged_from_list",
    "jagged_from_tensor_and_lengths",
    "nested_from_padded",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


_PARTS = (
    *("_values", "_offsets", "_lengths"),
    *("_ragged_idx", "_metadata_cache", "_ragged"),
)


class _Values(Function):
    """The values of a nested tensor, through which gradients flow back to it."""

    @staticmethod
    def forward(ctx, nested):
        ctx.set_materialize_grads(False)
        ctx.like = nested.raggedness
        return nested._values.view_as(nested._values)

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else wrapped(grad, *ctx.like)


class _Wrapped(Function):
    """Values as a nested tensor, from which gradients flow back to them."""

    @staticmethod
    def forward(ctx, values, *raggedness):
        ctx.set_materialize_grads(False)
        return _made(NestedTensor, values.detach(), *raggedness)

    @staticmethod
    def backward(ctx, grad):
        return (None if grad is None else values_of(grad)), None, None, None, None


def _made(cls, values, offsets, lengths, ragged_idx, cache):
    """A nested tensor without history."""
    at = ragged_idx - 1
    ragged = nested_int_of(offsets if lengths is None else lengths)
    sizes, strides = values.shape, values.stride()
    number = FIRST + ragged.number
    made = make_wrapper(
        cls,
        (offsets.shape[0] - 1, *sizes[:at], number, *sizes[at + 1 :]),
        (number * strides[at], *strides),
        0,
        values.dtype,
        rl.jagged,
        values.device,
        values.untyped_storage().nbytes(),
    )
    made._values, made._offsets, made._lengths = values, offsets, lengths
    made._ragged_idx, made._metadata_cache = ragged_idx, cache
    made._ragged = ragged
    return made


def wrapped(values, offsets, lengths=None, ragged_idx=1, cache=None):
    """Values as a nested tensor; their history goes on in it.

    Args:
        values: the parts, one behind another along dimension ``ragged_idx - 1``.
        offsets: where each begins, and where the last ends.
        lengths: of the parts, where there are gaps between them.
        ragged_idx: the dimension of the nested tensor that is ragged.
        cache: the longest and the shortest length, as far as they are known.
    """
    raggedness = (offsets, lengths, ragged_idx, {} if cache is None else cache)
    if values.requires_grad and rl.is_grad_enabled():
        return _Wrapped.apply(values, *raggedness)
    values = values.detach() if values.requires_grad else values
    return _made(NestedTensor, values, *raggedness)


def values_of(nested):
    """The values of a nested tensor, with its history where one is recorded."""
    if nested.requires_grad and rl.is_grad_enabled():
        return _Values.apply(nested)
    return nested._values


def write(nested, values):
    """Replace the values of a nested tensor in place.

    Args:
        nested: the tensor.
        values: the new ones.
    """
    if rl.is_grad_enabled() and (nested.requires_grad or values.requires_grad):
        return Written.apply(nested, values, "_values", values_of)
    nested._values.copy_(values)
    return nested


class NestedTensor(rl.Tensor):
    """Parts that differ in the length of one dimension, kept one behind another.

    Its sizes are ``(B, …, j, …)`` with the ragged ``j`` in place of a number. Operators
    compute on the values; there is no padding.

    Args:
        values: the parts along dimension ``_ragged_idx - 1``.
        offsets: (B + 1,) int64, where each part begins, and where the last ends.
        lengths: (B,) where there are gaps between parts.
        kwargs: ``_ragged_idx``, ``_metadata_cache`` and ``requires_grad``.
    """

    _dispatch_keys = KEY
    is_nested = True
    __torch_function__ = rl._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values, offsets, *, lengths=None, **kwargs):
        _check_offsets(values, offsets, lengths)
        cache = kwargs.get("_metadata_cache") or {}
        ragged_idx = kwargs.get("_ragged_idx", 1)
        made = _made(cls, values.detach(), offsets, lengths, ragged_idx, cache)
        return with_requires_grad(made, kwargs.get("requires_grad"))

    def __init__(self, *args, **kwargs):
        super().__init__()

    @staticmethod
    def _run_operator(op, args):
        return rl.nested._internal.ops.run(op, *args)

    def _of_parts(self, parts):
        """Results of `vmap`, one for each part: a strided nested tensor, as PyTorch's."""
        return rl.nested._internal.strided.of_parts(parts)

    @property
    def raggedness(self):
        """What its values are cut by: offsets, lengths, the ragged dimension, a cache."""
        return self._offsets, self._lengths, self._ragged_idx, self._metadata_cache

    @property
    def data(self):
        """The same values without history."""
        return self.detach()

    @data.setter
    def data(self, other):
        take_geometry(self, other)
        for name in _PARTS:
            setattr(self, name, getattr(other, name))

    # -- sizes ---------------------------------------------------------------------------

    @property
    def _size(self):
        return tuple(self.shape)

    @property
    def shape(self):
        """The sizes, of which one is ragged."""
        at, sizes = self._ragged_idx - 1, self._values.shape
        rows = self._offsets.shape[0] - 1
        return Size((rows, *sizes[:at], self._ragged, *sizes[at + 1 :]))

    def size(self, dim=None):
        """The sizes, or that of one dimension."""
        return self.shape if dim is None else self.shape[_wrap_dim(self, dim)]

    def stride(self, dim=None):
        """The strides, or that of one dimension."""
        strides = self._values.stride()
        strides = (self._ragged * strides[self._ragged_idx - 1], *strides)
        return strides if dim is None else strides[_wrap_dim(self, dim)]

    _strides = property(stride)

    def storage_offset(self):
        """Elements before the first."""
        return self._values.storage_offset()

    def numel(self):
        """How many elements there are."""
        if self._lengths is None:
            return self._values.numel()
        at = self._ragged_idx - 1
        rest = self._values.numel() // max(self._values.shape[at], 1)
        return int(self._lengths.sum()) * rest

    nelement = numel

    def item(self):
        """The one element.

        Raises:
            RuntimeError: there are more, or none.
        """
        return one_element(self, self._values)

    def __len__(self):
        return self._offsets.shape[0] - 1

    def is_contiguous(self, memory_format=rl.contiguous_format):
        """Whether its values are, without gaps between parts."""
        if self._lengths is not None:
            return False
        return self._values.is_contiguous(memory_format=memory_format)

    # -- parts ---------------------------------------------------------------------------

    def values(self):
        """The parts one behind another, as one tensor; a view."""
        return values_of(self)

    def offsets(self):
        """Where each part begins, and where the last ends."""
        return self._offsets

    def lengths(self):
        """The lengths of parts, where there are gaps between them; None otherwise."""
        return self._lengths

    def part_lengths(self):
        """The length of each part, as a list."""
        if "lengths" not in self._metadata_cache:
            source = self._lengths
            source = self._offsets.diff() if source is None else source
            self._metadata_cache["lengths"] = source.tolist()
        return self._metadata_cache["lengths"]

    def _get_max_seqlen(self):
        known = self._metadata_cache.get("max_seqlen")
        return max(self.part_lengths(), default=0) if known is None else known

    def _get_min_seqlen(self):
        known = self._metadata_cache.get("min_seqlen")
        return min(self.part_lengths(), default=0) if known is None else known

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)

    @property
    def _maybe_max_seqlen(self):
        return self._metadata_cache.get("max_seqlen")

    @property
    def _maybe_min_seqlen(self):
        return self._metadata_cache.get("min_seqlen")

    def to_padded_tensor(self, padding, output_size=None):
        """The parts as rows of one tensor, filled up at the end.

        Args:
            padding: the number to fill with.
            output_size: sizes of the result; parts that are longer are cut short.
        """
        return rl.nested._internal.ops.padded(self, padding, output_size)

    # -- itself --------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents=None):
        history = f", requires_grad={self.requires_grad}" if self.requires_grad else ""
        history = f", grad_fn={self.grad_fn}" if self.grad_fn else history
        return (
            f"NestedTensor(size={self._size}, offsets={self._offsets}{history}, "
            f"contiguous={self.is_contiguous()})"
        )

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the "
                "deepcopy protocol at the moment."
            )
        found = memo.get(id(self))
        if found is None:
            copies = (None if t is None else t.clone() for t in self.raggedness[:2])
            cache = dict(self._metadata_cache)
            found = wrapped(self._values.clone(), *copies, self._ragged_idx, cache)
            found.requires_grad_(self.requires_grad)
            memo[id(self)] = found
        return found

    def __reduce_ex__(self, protocol):
        state = {
            "values": self._values,
            "offsets": self._offsets,
            "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx,
            "_metadata_cache": {},
            "requires_grad": self.requires_grad,
        }
        return _rebuild_njt, (state,)

    def __tensor_flatten__(self):
        """The names of inner tensors, and what else it is made of."""
        names = ["_values", "_offsets"] + ["_lengths"] * (self._lengths is not None)
        kept = {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}
        return names, kept

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        """The tensor that ``__tensor_flatten__`` took apart."""
        return NestedTensor(
            inner_tensors["_values"],
            inner_tensors["_offsets"],
            lengths=inner_tensors.get("_lengths"),
            requires_grad=meta["requires_grad"],
            _ragged_idx=meta["ragged_idx"],
        )


def _rebuild_njt(state):
    return NestedTensor(**state)


def _wrap_dim(nested, dim):
    n = nested._values.dim() + 1
    if not -n <= dim < n:
        raise IndexError(
            "Dimension out of range (expected to be in range of "
            f"[{-n}, {n - 1}], but got {dim})"
        )
    return dim % n


def _check_offsets(values, offsets, lengths):
    if offsets is None or offsets.dim() != 1:
        found = "None" if offsets is None else f"{offsets.dim()}D"
        raise AssertionError(f"offsets must be 1D, but got {found}")
    if isinstance(values, NestedTensor):
        raise AssertionError("values must not be a NestedTensor")
    if values.device != offsets.device:
        raise AssertionError(
            "values and offsets must be on the same device, but got "
            f"values.device={values.device} and offsets.device={offsets.device}"
        )
    if lengths is not None and lengths.shape[0] != offsets.shape[0] - 1:
        raise AssertionError(
            "offsets and lengths batch sizes must match: offsets.shape[0] - 1 = "
            f"{offsets.shape[0] - 1}, lengths.shape[0] = {lengths.shape[0]}"
        )


# -- making --------------------------------------------------------------------------------


def buffer_from_jagged(jagged):
    """The values of a nested tensor."""
    return values_of(jagged)


def nested_view_from_values_offsets(
    values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None
):
    """Values as a nested tensor that is a view of them."""
    return nested_view_from_values_offsets_lengths(
        values, offsets, None, ragged_idx, min_seqlen, max_seqlen
    )


def nested_view_from_values_offsets_lengths(
    values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None
):
    """The same with gaps between parts."""
    _check_offsets(values, offsets, lengths)
    cache = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    cache = {name: value for name, value in cache.items() if value is not None}
    return wrapped(values, offsets, lengths, ragged_idx, cache)


def nested_from_padded(
    padded, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None, sum_S=None
):
    """The parts of rows that were filled up."""
    return rl.nested._internal.ops.from_padded(padded, offsets, ragged_idx)


def _ragged_dim(tensors):
    """The dimension of a batch in which parts differ: 1 where they are alike.

    Raises:
        RuntimeError: they differ in more than one.
    """
    sizes = [tuple(t.shape) for t in tensors]
    found = [
        d + 1 for d in range(len(sizes[0])) if any(s[d] != sizes[0][d] for s in sizes)
    ]
    if len(found) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged "
            "layout. Note that the jagged layout only allows for a single ragged "
            "dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    return found[0] if found else 1


def _check_parts(tensors):
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    start = "When constructing a nested tensor, all tensors in list must "
    for what, facts in (
        ("have the same dtype", {t.dtype for t in tensors}),
        ("be on the same device", {t.device for t in tensors}),
        ("have the same dim", {t.dim() for t in tensors}),
    ):
        if len(facts) != 1:
            raise RuntimeError(start + what)
    if tensors[0].dim() == 0:
        raise RuntimeError(
            "Cannot construct a nested tensor from a list of zero-dim tensors"
        )


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """A nested tensor of parts, which are copied, and its offsets.

    Args:
        tensors: the parts, of one type, that differ in at most one dimension.
        offsets: those of another nested tensor that it is to go with, or None.
        dtype: the type to convert to.
        device: the device to go to.

    Raises:
        RuntimeError: the parts don't go together.
    """
    _check_parts(tensors)
    ragged_idx = _ragged_dim(tensors)
    values = rl.cat(tensors, dim=ragged_idx - 1).to(dtype=dtype, device=device)
    lengths = [t.shape[ragged_idx - 1] for t in tensors]
    if offsets is None:
        offsets = rl.tensor([0, *lengths], device=values.device).cumsum(0)
    cache = {"min_seqlen": min(lengths), "max_seqlen": max(lengths)}
    return wrapped(values, offsets, None, ragged_idx, cache), offsets


def jagged_from_tensor_and_lengths(tensor, starts, lengths):
    """A nested tensor of a stretch of each row; a view with gaps between the stretches.

    Args:
        tensor: rows of one length.
        starts: where each stretch begins in its row.
        lengths: of the stretches.

    Raises:
        RuntimeError: there is not one start and one length for each row.
    """
    rows, length = tensor.shape[0], tensor.shape[1]
    if not all(t.numel() in (1, rows) and t.dim() <= 1 for t in (starts, lengths)):
        raise RuntimeError(
            "When constructing a jagged nested tensor using narrow(), your start and "
            "length must be Tensors that broadcast to input.shape[0]"
        )
    starts, lengths = starts.expand(rows), lengths.expand(rows)
    begin = starts + length * rl.arange(rows, dtype=rl.int64, device=tensor.device)
    offsets = rl.cat([begin, (begin[-1] + lengths[-1]).unsqueeze(0)])
    values = tensor.reshape(-1, *tensor.shape[2:])
    cache = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}
    if bool((begin[1:] == (begin + lengths)[:-1]).all()):
        first, last = int(offsets[0]), int(offsets[-1])
        offsets = offsets - offsets[0]
        return wrapped(values[first:last], offsets, None, 1, cache), offsets, None
    return wrapped(values, offsets, lengths, 1, cache), offsets, lengths

"""Sizes and order: views, joins, parts, padding."""

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.operators import call

_LAST = 9223372036854775807


@lowers(
    call.alias, call.alias_copy, call.clone, call.detach_copy, call.contiguous,
    call.detach, call.lift_fresh,
    call.lift_fresh_copy, call.resolve_conj, call.resolve_neg, call.positive,
    call.conj, call._conj, call.real,
)  # fmt: skip
def unchanged(g, self):
    """The value itself."""
    if self.dtype.is_complex:
        raise Unsupported("complex numbers have no operators in ONNX")
    return self


@lowers(call.to, call._to_copy, call.type_as)
def converted(g, self, **_):
    """The value with elements of another type."""
    return g.cast(self, g.kind)


def concrete(g):
    """The sizes of the result, where all of them are numbers; else None."""
    sizes = tuple(g.result.shape)
    return sizes if all(type(size) is int for size in sizes) else None


def _view(g, self, sizes):
    """A value in other sizes: numbers where they are known."""
    known = concrete(g)
    if known is not None:
        return g.reshape(self, known)
    return g.reshape(self, list(sizes))


@lowers(call.view, call.view_copy)
def view(g, self, size=None, dtype=None):
    """The value in other sizes."""
    if size is None:
        raise Unsupported("other elements in the same bytes have no form in ONNX")
    return _view(g, self, size)


@lowers(call._unsafe_view)
def unsafe_view(g, self, size):
    """The value in other sizes."""
    return _view(g, self, size)


@lowers(call.reshape)
def reshape(g, self, shape):
    """The value in other sizes."""
    return _view(g, self, shape)


@lowers(call.flatten)
def flatten(g, self, start_dim=0, end_dim=-1):
    """Several dimensions as one."""
    known = concrete(g)
    if known is not None:
        return g.reshape(self, known)
    first, last = start_dim % self.rank, end_dim % self.rank
    if first == last:
        return self
    sizes = g.sizes_of(self)
    return g.reshape(self, [*sizes[:first], -1, *sizes[last + 1 :]])


@lowers(call.unflatten)
def unflatten(g, self, dim, sizes):
    """One dimension as several."""
    dim %= self.rank
    own = g.sizes_of(self)
    return _view(g, self, [*own[:dim], *sizes, *own[dim + 1 :]])


@lowers(call.permute, call.permute_copy)
def permute(g, self, dims):
    """The dimensions in another order."""
    return g.transpose(self, [dim % max(self.rank, 1) for dim in dims])


@lowers(call.transpose, call.transpose_copy)
def transpose(g, self, dim0, dim1):
    """Two dimensions exchanged."""
    if self.rank == 0:
        return self
    order = list(range(self.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.transpose(self, order)


@lowers(call.t, call.t_copy)
def t(g, self):
    """A matrix transposed."""
    return g.transpose(self, [1, 0]) if self.rank == 2 else self


@lowers(call.unsqueeze, call.unsqueeze_copy)
def unsqueeze(g, self, dim):
    """One more dimension of one."""
    return g.unsqueeze(self, [dim])


@lowers(call.squeeze, call.squeeze_copy)
def squeeze(g, self, dim=None):
    """Without dimensions of one."""
    if self.rank == 0:
        return self
    dims = range(self.rank) if dim is None else dim
    dims = [dims] if isinstance(dims, int) else list(dims)
    gone = [one % self.rank for one in dims]
    gone = [
        one for one in gone if type(self.shape[one]) is int and self.shape[one] == 1
    ]
    return g.squeeze(self, gone)


@lowers(call.expand, call.expand_copy)
def expand(g, self, size):
    """Dimensions of one repeated."""
    known = concrete(g)
    if known is not None:
        return g.op("Expand", self, g.ints(known), dtype=self.dtype)
    front = len(size) - self.rank
    sizes = [
        one if isinstance(one, Value) or one != -1 else g.size_of(self, at - front)
        for at, one in enumerate(size)
    ]
    return g.op("Expand", self, g.sizes(sizes), dtype=self.dtype)


@lowers(call.expand_as)
def expand_as(g, self, other):
    """Repeated to another's sizes."""
    return g.op("Expand", self, g.shape_of(other), dtype=self.dtype)


@lowers(call.repeat)
def repeat(g, self, repeats):
    """The whole once more, along each dimension."""
    front = len(repeats) - self.rank
    self = g.unsqueeze(self, list(range(front)))
    return g.op("Tile", self, g.sizes(repeats), dtype=self.dtype)


@lowers(call.tile)
def tile(g, self, dims):
    """The whole once more; missing counts are one."""
    counts = [1] * (self.rank - len(dims)) + list(dims)
    return repeat(g, self, counts)


# -- joins and parts -------------------------------------------------------------------


def _joined(g, tensors, dim):
    kind = g.kind
    # a vector of nothing joins with anything, as ever
    kept = [one for one in tensors if tuple(one.shape) != (0,)] or tensors[:1]
    kept = [g.cast(one, kind) for one in kept]
    if len(kept) == 1:
        return kept[0]
    return g.op("Concat", *kept, axis=dim, dtype=kind)


@lowers(call.cat, call.concat, call.concatenate)
def cat(g, tensors, dim=0):
    """One after another."""
    return _joined(g, tensors, dim)


@lowers(call.stack)
def stack(g, tensors, dim=0):
    """Side by side in a new dimension."""
    dim %= tensors[0].rank + 1
    return _joined(g, [g.unsqueeze(one, [dim]) for one in tensors], dim)


def _split(g, value, sizes, dim):
    results = g.op(
        "Split", value, g.sizes(sizes), axis=dim, outputs=len(sizes), dtype=value.dtype
    )
    return [results] if len(sizes) == 1 else list(results)


def _parts(g, value, dim):
    """Parts of the sizes that the recording has."""
    sizes = [part.shape[dim] for part in g.node.meta["val"]]
    if all(type(one) is int for one in sizes):
        return _split(g, value, sizes, dim)
    whole = g.op("Shape", value, start=dim, end=dim + 1, dtype=rl.int64)
    count = len(sizes)
    step = g.op("Div", g.op("Add", whole, g.ints([count - 1])), g.ints([count]))
    ends = [g.op("Mul", step, g.ints([at])) for at in range(count)] + [whole]
    return [g.slice(value, [ends[at]], [ends[at + 1]], [dim]) for at in range(count)]


@lowers(call.split, call.split_copy, call.unsafe_split)
def split(g, self, split_size, dim=0):
    """Parts of one size, or of those that are listed."""
    if isinstance(split_size, (list, tuple)):
        return _split(g, self, split_size, dim)
    return _parts(g, self, dim % self.rank)


@lowers(call.split_with_sizes, call.split_with_sizes_copy, call.unsafe_split_with_sizes)
def split_with_sizes(g, self, split_sizes, dim=0):
    """Parts of the sizes that are listed."""
    return _split(g, self, split_sizes, dim)


@lowers(call.chunk)
def chunk(g, self, chunks, dim=0):
    """Parts, so many of them."""
    return _parts(g, self, dim % self.rank)


@lowers(call.unbind, call.unbind_copy)
def unbind(g, self, dim=0):
    """The parts along a dimension, without it."""
    count = len(g.node.meta["val"])
    if count == 0:
        return []
    return [g.squeeze(one, [dim]) for one in _split(g, self, [1] * count, dim)]


@lowers(call.slice, call.slice_copy)
def slice(g, self, dim=0, start=None, end=None, step=1):
    """Part of a dimension."""
    start = 0 if start is None else start
    end = _LAST if end is None else end
    if isinstance(step, int) and step == 1 and isinstance(start, int) and start == 0:
        if isinstance(end, int) and end == _LAST:
            return self
    return g.slice(self, [start], [end], [dim], [step])


@lowers(call.narrow, call.narrow_copy)
def narrow(g, self, dim, start, length):
    """Part of a dimension, by its start and length."""
    if isinstance(start, Value) and not start.is_size:
        start = g.reshape(g.cast(start, rl.int64), [1])
    if isinstance(start, int) and isinstance(length, int):
        size = self.shape[dim]
        start = start + size if start < 0 and type(size) is int else start
        return g.slice(self, [start], [start + length], [dim])
    end = g.op("Add", g.size(start), g.size(length), dtype=rl.int64)
    return g.slice(self, [start], [end], [dim])


@lowers(call.select, call.select_copy)
def select(g, self, dim, index):
    """One place of a dimension."""
    if isinstance(index, int):
        made = g.op("Gather", self, g.const(index, rl.int64), axis=dim)
    else:
        made = g.op("Gather", self, g.scalar(index), axis=dim)
    made.dtype = self.dtype
    return made


def _indices(g, self, dim, start, end, step):
    """The numbers of the places that a slice takes, as a vector."""
    size = g.size_of(self, dim)
    whole = g.op(
        "Range", g.const(0, rl.int64), g.scalar(g.size(size)), g.const(1, rl.int64)
    )
    whole.dtype = rl.int64
    return g.slice(whole, [start], [end], [0], [step])


def _put(g, self, indices, dim, src):
    """A value with others at some places of a dimension."""
    self = g.transpose(self, order := _first(self.rank, dim))
    src = g.transpose(src, order)
    made = g.op("ScatterND", self, g.unsqueeze(indices, [1]), src, dtype=self.dtype)
    back = [order.index(at) for at in range(len(order))]
    made.shape = self.shape
    return g.transpose(made, back)


def _first(rank, dim):
    """The order of dimensions that has one of them first."""
    dim %= rank
    return [dim, *(at for at in range(rank) if at != dim)]


@lowers(call.slice_scatter)
def slice_scatter(g, self, src, dim=0, start=None, end=None, step=1):
    """A value with another in the place of a slice."""
    start, end = 0 if start is None else start, _LAST if end is None else end
    indices = _indices(g, self, dim, start, end, step)
    indices.shape = (None,)
    src = g.cast(src, self.dtype)
    return _put(g, self, indices, dim, src)


@lowers(call.select_scatter)
def select_scatter(g, self, src, dim, index):
    """A value with another at one place of a dimension."""
    src = g.unsqueeze(g.cast(src, self.dtype), [dim])
    size = self.shape[dim]
    if isinstance(index, int) and index < 0:
        if type(size) is not int:
            indices = g.op("Add", g.size(g.size_of(self, dim)), g.ints([index]))
            indices.dtype, indices.shape = rl.int64, (1,)
            return _put(g, self, indices, dim, src)
        index += size
    return _put(g, self, g.size(index), dim, src)


# -- order -----------------------------------------------------------------------------


@lowers(call.flip)
def flip(g, self, dims):
    """Dimensions from their ends."""
    if not dims or self.rank == 0:
        return self
    count = len(dims)
    return g.slice(self, [-1] * count, [-_LAST] * count, list(dims), [-1] * count)


@lowers(call.roll)
def roll(g, self, shifts, dims=()):
    """Dimensions turned: what leaves at the end comes in at the start."""
    if 0 in tuple(self.shape) or self.rank == 0:
        return self
    if not dims:
        flat = g.reshape(self, [-1])
        made = roll(g, flat_like(flat, self), shifts, [0])
        return g.op("Reshape", made, g.shape_of(self), dtype=self.dtype)
    made = self
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        if type(size) is int:
            shift %= size
        if shift == 0:
            continue
        back = g.slice(made, [-shift], [_LAST], [dim])
        front = g.slice(made, [0], [-shift], [dim])
        made = g.op("Concat", back, front, axis=dim, dtype=self.dtype)
    return made


def flat_like(flat, value):
    """Says the size of a value that was made flat."""
    count = 1
    for size in value.shape:
        count = count * size if type(size) is int else None
        if count is None:
            break
    flat.shape = (count,)
    return flat


@lowers(call.constant_pad_nd)
def constant_pad_nd(g, self, pad, value=0):
    """A border of one number; what is negative is cut off."""
    return padded(g, self, pad, "constant", value)


def padded(g, self, pad, mode, value=None):
    """A value with a border.

    Args:
        self: the value.
        pad: counts before and after, of the last dimension first.
        mode: ONNX's word for what is in the border.
        value: the number in a constant border.
    """
    count = len(pad) // 2
    dims = [self.rank - 1 - at for at in range(count)]
    order = [*pad[::2], *pad[1::2]]
    kind = self.dtype
    if mode == "constant" and kind in (rl.bool, rl.uint8, rl.int8):
        made = padded(g, g.cast(self, rl.int32), pad, mode, int(value or 0))
        return g.cast(made, kind)
    filler = None if mode != "constant" else g.cast(value or 0, kind)
    return g.op(
        "Pad", self, g.sizes(order), filler, g.ints(dims), mode=mode, dtype=kind
    )


def _border(mode, *packets):
    @lowers(*packets)
    def lower(g, self, padding):
        return padded(g, self, padding, mode)


_border("reflect", call.reflection_pad1d, call.reflection_pad2d, call.reflection_pad3d)
_border("edge", call.replication_pad1d, call.replication_pad2d, call.replication_pad3d)


@lowers(call.pad)
def pad(g, self, pad, mode="constant", value=None):
    """A border of a number, of mirrored or repeated elements, or from the other end."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode != "circular":
        return padded(g, self, pad, modes[mode], value)
    made = self
    for at in range(len(pad) // 2):
        dim = self.rank - 1 - at
        before, after = pad[2 * at], pad[2 * at + 1]
        if min(before, after) < 0:  # what is cut off does not come in again
            low, high = max(-before, 0), after if after < 0 else _LAST
            made = g.slice(made, [low], [high], [dim])
        parts = [made]
        if before > 0:
            parts.insert(0, g.slice(made, [-before], [_LAST], [dim]))
        if after > 0:
            parts.append(g.slice(made, [0], [after], [dim]))
        if len(parts) > 1:
            made = g.op("Concat", *parts, axis=dim, dtype=self.dtype)
    return made


@lowers(call.tril)
def tril(g, self, diagonal=0):
    """What is on and below a diagonal."""
    return _triangle(g, self, diagonal, 0)


@lowers(call.triu)
def triu(g, self, diagonal=0):
    """What is on and above a diagonal."""
    return _triangle(g, self, diagonal, 1)


def _triangle(g, self, diagonal, upper):
    kind = self.dtype
    if kind not in (rl.float32, rl.float64, rl.int64, rl.bool):
        made = _triangle(g, g.cast(self, rl.int64), diagonal, upper)
        return g.cast(made, kind)
    return g.op("Trilu", self, g.const(diagonal, rl.int64), upper=upper, dtype=kind)


@lowers(call.pixel_shuffle)
def pixel_shuffle(g, self, upscale_factor):
    """Channels as finer pixels."""
    return _with_batch(g, self, "DepthToSpace", blocksize=upscale_factor, mode="CRD")


@lowers(call.pixel_unshuffle)
def pixel_unshuffle(g, self, downscale_factor):
    """Pixels as more channels."""
    r = downscale_factor
    *lead, c, h, w = g.result.shape
    own = list(g.sizes_of(self)[: self.rank - 3])
    if not all(type(one) is int for one in (c, h, w)):
        raise Unsupported("its image has open sizes")
    n = len(own)
    made = g.reshape(self, [*own, c // (r * r), h, r, w, r])
    order = [*range(n), *(n + at for at in (0, 2, 4, 1, 3))]
    return g.reshape(g.transpose(made, order), [*own, c, h, w])


def _with_batch(g, self, op_type, **attributes):
    """An operator of images, of one image or of a batch of any dimensions."""
    if self.rank == 4:
        return g.op(op_type, self, dtype=self.dtype, **attributes)
    sizes = g.sizes_of(self)
    four = g.reshape(self, [-1, *sizes[-3:]])
    made = g.op(op_type, four, dtype=self.dtype, **attributes)
    own = list(g.result.shape[-3:])
    if not all(type(one) is int for one in own):
        raise Unsupported("its image has open sizes")
    return g.reshape(made, [*sizes[:-3], *own])


@lowers(call.rot90)
def rot90(g, self, k=1, dims=(0, 1)):
    """A quarter turn, several times."""
    first, second = (dim % self.rank for dim in dims)
    k %= 4
    made = self
    if k == 2:
        return flip(g, self, [first, second])
    if k == 1:
        made = flip(g, self, [second])
        made.shape = self.shape
    if k:
        made = transpose(g, made, first, second)
    return flip(g, made, [second]) if k == 3 else made


@lowers(call.channel_shuffle)
def channel_shuffle(g, self, groups):
    """Channels of groups in turn."""
    batch, channels, *_ = g.sizes_of(self)
    if not isinstance(channels, int):
        raise Unsupported("its number of channels is open")
    made = g.reshape(self, [batch, groups, channels // groups, -1])
    made = g.transpose(made, [0, 2, 1, 3])
    return g.op("Reshape", made, g.shape_of(self), dtype=self.dtype)


@lowers(call.block_diag)
def block_diag(g, tensors):
    """Blocks along a diagonal, zeros beside them."""
    kind, parts, before = g.kind, [], 0
    for one in tensors:
        if not one.is_static():
            raise Unsupported("of open sizes it has no form in ONNX")
    sizes = [one.shape if one.rank == 2 else (1, *one.shape)[-2:] for one in tensors]
    sizes = [size if len(size) == 2 else (1, 1) for size in sizes]
    wide = sum(size[1] for size in sizes)
    for one, size in zip(tensors, sizes):
        block = g.reshape(g.cast(one, kind), list(size))
        pads = g.ints([0, before, 0, wide - before - size[1]])
        parts.append(g.op("Pad", block, pads, g.const(0, kind), dtype=kind))
        before += size[1]
    return g.op("Concat", *parts, axis=0, dtype=kind)

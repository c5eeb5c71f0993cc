"""Elements by their places: gathered, scattered, chosen."""

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.elementwise import truth
from rushlight.operators import call


@lowers(call.gather)
def gather(g, self, dim, index):
    """For each place of the index, the element that it names along a dimension."""
    if self.rank == 0 or index.rank == 0:
        flat = g.reshape(self, [-1])
        index = _indices(g, index)
        made = g.op("GatherElements", flat, g.reshape(index, [-1]), axis=0)
        made.dtype = self.dtype
        return g.op("Reshape", made, g.shape_of(index), dtype=self.dtype)
    return g.op("GatherElements", self, _indices(g, index), axis=dim, dtype=self.dtype)


def _indices(g, index):
    """Numbers of places in a type that ONNX takes."""
    return index if index.dtype in (rl.int32, rl.int64) else g.cast(index, rl.int64)


@lowers(call.take_along_dim)
def take_along_dim(g, self, indices, dim=None):
    """The same, over all elements as one row, or with sizes that agree."""
    if dim is None:
        flat = g.reshape(self, [-1])
        return g.op(
            "GatherElements", flat, g.reshape(indices, [-1]), axis=0, dtype=self.dtype
        )
    dim %= self.rank
    sizes = [one.shape for one in (self, indices)]
    if any(len(one) != self.rank for one in sizes):
        raise Unsupported("with other numbers of dimensions it has no form in ONNX")
    rows = [g.sizes_of(one) for one in (self, indices)]
    if not all(isinstance(n, int) for row in rows for n in row):
        raise Unsupported("its sizes are open")
    common = [max(pair) for pair in zip(*rows)]
    self, indices = (
        g.op("Expand", one, g.ints([n if d == dim else common[d] for d, n in
             enumerate(row)]), dtype=one.dtype)
        for one, row in zip((self, indices), rows)
    )  # fmt: skip
    return g.op("GatherElements", self, indices, axis=dim, dtype=self.dtype)


@lowers(call.index_select)
def index_select(g, self, dim, index):
    """Places of a dimension, by their numbers."""
    if self.rank == 0:
        return self
    index = g.reshape(index, [1]) if index.rank == 0 else index
    return g.op("Gather", self, index, axis=dim, dtype=self.dtype)


@lowers(call.take)
def take(g, self, index):
    """Elements by their numbers in one row."""
    return g.op("Gather", g.reshape(self, [-1]), index, axis=0, dtype=self.dtype)


@lowers(call.embedding)
def embedding(g, weight, indices, padding_idx=-1):
    """Rows of a table."""
    return g.op("Gather", weight, indices, axis=0, dtype=weight.dtype)


@lowers(call.one_hot)
def one_hot(g, self, num_classes=-1):
    """A one at the place of each class."""
    if num_classes == -1:
        raise Unsupported("the number of classes follows from the elements")
    ends = g.const([0, 1], rl.int64)
    return g.op("OneHot", self, g.const(num_classes, rl.int64), ends, dtype=rl.int64)


@lowers(call.masked_select)
def masked_select(g, self, mask):
    """The elements where a mask is true, in a row."""
    if self.shape != mask.shape:
        shape = g.op("Shape", g.op("Where", mask, self, self), dtype=rl.int64)
        mask = g.op("Expand", mask, shape, dtype=rl.bool)
        self = g.op("Expand", self, shape, dtype=self.dtype)
    return g.op(
        "Compress", g.reshape(self, [-1]), g.reshape(mask, [-1]), dtype=self.dtype
    )


@lowers(call.nonzero)
def nonzero(g, self):
    """The places of what is not zero, a row for each."""
    if self.rank == 0:
        raise Unsupported("of one element it has no form in ONNX")
    indices = g.op("NonZero", truth(g, self), dtype=rl.int64)
    indices.shape = (self.rank, None)
    return g.transpose(indices, [1, 0])


# -- tensors as indices ----------------------------------------------------------------


def _expanded(g, self, indices):
    """Indices by dimension; masks as the places that they have."""
    found, dim = [], 0
    for one in indices:
        if one is None:
            found.append(None)
            dim += 1
        elif one.dtype in (rl.bool, rl.uint8):
            indices = g.op("NonZero", truth(g, one), dtype=rl.int64)
            for at in range(one.rank):
                row = g.op("Gather", indices, g.const(at, rl.int64), axis=0)
                row.dtype, row.shape = rl.int64, (None,)
                found.append(row)
            dim += one.rank
        else:
            found.append(g.cast(one, rl.int64))
            dim += 1
    return found + [None] * (self.rank - len(found))


def _together(g, found, self):
    """Indices as the last dimension of one tensor, after they are broadcast."""
    chosen = [one for one in found if one is not None]
    rank = max(one.rank for one in chosen)
    if len(chosen) > 1:
        total = chosen[0]
        for one in chosen[1:]:
            total = g.op("Add", total, one, dtype=rl.int64)
        shape = g.op("Shape", total, dtype=rl.int64)
        chosen = [g.op("Expand", one, shape, dtype=rl.int64) for one in chosen]
    rows = [g.op("Unsqueeze", one, g.ints([-1]), dtype=rl.int64) for one in chosen]
    joined = rows[0] if len(rows) == 1 else g.op("Concat", *rows, axis=-1)
    joined.dtype = rl.int64
    return joined, rank


def _in_front(found):
    """The order of dimensions that has those with an index in front."""
    first = [at for at, one in enumerate(found) if one is not None]
    return first + [at for at, one in enumerate(found) if one is None]


def _negative(g, joined, self, order, count):
    """Indices from the end as indices from the start."""
    sizes = g.sizes([g.size_of(self, at) for at in order[:count]])
    moved = g.op("Add", joined, sizes, dtype=rl.int64)
    below = g.op("Less", joined, g.const(0, rl.int64), dtype=rl.bool)
    return g.op("Where", below, moved, joined, dtype=rl.int64)


@lowers(call.index)
def index(g, self, indices):
    """Elements by tensors of places; None for dimensions that stay whole."""
    found = _expanded(g, self, indices)
    chosen = [at for at, one in enumerate(found) if one is not None]
    if not chosen:
        return self
    if len(chosen) == 1:
        return g.op("Gather", self, found[chosen[0]], axis=chosen[0], dtype=self.dtype)
    order = _in_front(found)
    joined, rank = _together(g, found, self)
    source = g.transpose(self, order)
    made = g.op("GatherND", source, joined, dtype=self.dtype)
    adjacent = chosen == list(range(chosen[0], chosen[-1] + 1))
    if adjacent and chosen[0] > 0:  # the result's dimensions are where the indices were
        total = rank + self.rank - len(chosen)
        before = chosen[0]
        perm = [
            *range(rank, rank + before), *range(rank), *range(rank + before, total)
        ]  # fmt: skip
        return g.op("Transpose", made, perm=perm, dtype=self.dtype)
    return made


@lowers(call.index_put)
def index_put(g, self, indices, values, accumulate=False):
    """A value with others at the places that tensors name."""
    found = _expanded(g, self, indices)
    chosen = [at for at, one in enumerate(found) if one is not None]
    order = _in_front(found)
    adjacent = chosen == list(range(chosen[0], chosen[-1] + 1))
    joined, rank = _together(g, found, self)
    joined = _negative(g, joined, self, order, len(chosen))
    source = g.transpose(self, order)
    indices = g.op("Shape", joined, start=0, end=-1, dtype=rl.int64)
    if len(order) > len(chosen):
        rest = g.sizes([g.size_of(self, at) for at in order[len(chosen) :]])
        indices = g.op("Concat", indices, rest, axis=0, dtype=rl.int64)
    values = g.cast(values, self.dtype)
    if adjacent and chosen[0] > 0:
        total = rank + self.rank - len(chosen)
        missing = total - values.rank
        values = g.unsqueeze(values, list(range(missing)))
        before = chosen[0]
        values = g.transpose(
            values,
            [
                *range(before, before + rank),
                *range(before),
                *range(before + rank, total),
            ],
        )
    updates = g.op("Expand", values, indices, dtype=self.dtype)
    made = g.op(
        "ScatterND", source, joined, updates,
        reduction="add" if accumulate else None, dtype=self.dtype,
    )  # fmt: skip
    made.shape = source.shape
    return g.transpose(made, [order.index(at) for at in range(len(order))])


# -- scattered -------------------------------------------------------------------------


def _scatter(g, self, dim, index, source, reduction=None):
    kind = self.dtype
    if index.shape is not None and 0 in tuple(index.shape):
        return self
    if not isinstance(source, Value):
        source = g.op("Expand", g.cast(source, kind), g.shape_of(index), dtype=kind)
        source.shape = index.shape
    source = g.cast(source, kind)
    if self.rank == 0:
        vectors = [g.reshape(one, [1]) for one in (self, index, source)]
        made = g.op("ScatterElements", *vectors, axis=0, reduction=reduction)
        made.dtype = kind
        return g.reshape(made, [])
    if source.shape != index.shape:
        if any(one is None for one in source.shape):
            raise Unsupported("with a source of another size it has no form in ONNX")
        ends = g.sizes_of(index)
        dims = list(range(index.rank))
        source = g.slice(source, [0] * index.rank, ends, dims)
    return g.op(
        "ScatterElements",
        self,
        index,
        source,
        axis=dim,
        reduction=reduction,
        dtype=kind,
    )


@lowers(call.scatter)
def scatter(g, self, dim, index, src=None, value=None, reduce=None):
    """A value with others at the places that an index names."""
    words = {None: None, "add": "add", "multiply": "mul"}
    source = value if src is None else src
    return _scatter(g, self, dim, index, source, words[reduce])


@lowers(call.scatter_add)
def scatter_add(g, self, dim, index, src):
    """Others added at the places that an index names."""
    return _scatter(g, self, dim, index, src, "add")


@lowers(call.scatter_reduce)
def scatter_reduce(g, self, dim, index, src, reduce, include_self=True):
    """Others taken in at the places that an index names."""
    words = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in words or not include_self:
        raise Unsupported(f"with reduce={reduce!r} it has no form in ONNX")
    return _scatter(g, self, dim, index, src, words[reduce])


def _rows(g, self, dim, index, source, reduction=None):
    """Places of a dimension written, each with all that is in it."""
    if self.rank == 0:
        one = g.reshape(self, [1])
        if isinstance(source, Value):
            source = g.reshape(source, [1] if source.rank == 0 else [-1])
            source.shape = (1,)
        return g.reshape(_rows(g, one, 0, index, source, reduction), [])
    dim %= self.rank
    index = g.reshape(index, [1]) if index.rank == 0 else index
    shape = [1] * self.rank
    shape[dim] = -1
    sizes = g.sizes_of(self)
    sizes[dim] = g.op("Shape", index, dtype=rl.int64)
    whole = g.op("Expand", g.reshape(index, shape), g.sizes(sizes), dtype=rl.int64)
    if not isinstance(source, Value) or source.rank == 0:
        source = g.op("Expand", g.cast(source, self.dtype), g.sizes(sizes))
    source.dtype = self.dtype
    return g.op(
        "ScatterElements", self, whole, source, axis=dim, reduction=reduction,
        dtype=self.dtype,
    )  # fmt: skip


@lowers(call.index_add)
def index_add(g, self, dim, index, source, alpha=1):
    """Others added at places of a dimension."""
    if alpha != 1:
        shape = source.shape
        source = g.mul(source, alpha)
        source.shape = shape
    return _rows(g, self, dim, index, source, "add")


@lowers(call.index_copy)
def index_copy(g, self, dim, index, source):
    """Others at places of a dimension."""
    return _rows(g, self, dim, index, source)


@lowers(call.index_fill)
def index_fill(g, self, dim, index, value):
    """One number at places of a dimension."""
    return _rows(g, self, dim, index, value)


@lowers(call.masked_scatter)
def masked_scatter(g, self, mask, source):
    """A value with others, in their order, where a mask is true."""
    sizes = (
        g.ints(g.result.shape)
        if all(type(one) is int for one in g.result.shape)
        else g.shape_of(self)
    )
    if not len(g.result.shape):
        raise Unsupported("of one element it has no form in ONNX")
    if mask.shape != self.shape:
        mask = g.op("Expand", mask, sizes, dtype=rl.bool)
        self = g.op("Expand", self, sizes, dtype=self.dtype)
    indices = g.op("NonZero", mask, dtype=rl.int64)
    rows = g.op("Transpose", indices, perm=[1, 0], dtype=rl.int64)
    count = g.op("Shape", rows, start=0, end=1, dtype=rl.int64)
    given = g.slice(g.reshape(source, [-1]), [0], [count], [0])
    return g.op("ScatterND", self, rows, given, dtype=self.dtype)


# -- diagonals and windows ---------------------------------------------------------------


def _static(value):
    if not value.is_static():
        raise Unsupported("its places in memory follow from sizes that are open")
    return tuple(value.shape)


def _by_indices(g, self, indices):
    """Elements by their numbers in one row, in the sizes of the numbers."""
    index = g.const(indices, rl.int64)
    return g.op("Gather", g.reshape(self, [-1]), index, axis=0, dtype=self.dtype)


def _numbered(shape):
    count = 1
    for size in shape:
        count *= size
    return rl.arange(count).reshape(shape)


@lowers(call.diagonal, call.diagonal_copy)
def diagonal(g, self, offset=0, dim1=0, dim2=1):
    """The diagonals of matrices."""
    indices = _numbered(_static(self)).diagonal(offset, dim1, dim2)
    return _by_indices(g, self, indices)


@lowers(call.as_strided, call.as_strided_copy)
def as_strided(g, self, size, stride, storage_offset=None):
    """Elements by strides in memory."""
    if any(isinstance(one, Value) for one in (*size, *stride)):
        raise Unsupported("its places in memory follow from sizes that are open")
    numbers = _numbered(_static(self))
    return _by_indices(g, self, numbers.as_strided(size, stride, storage_offset or 0))


@lowers(call.unfold, call.unfold_copy)
def unfold(g, self, dimension, size, step):
    """Windows along a dimension."""
    if self.rank == 0:
        return g.reshape(self, [1])
    indices = rl.arange(_static_size(self, dimension)).unfold(0, size, step)
    made = g.op("Gather", self, g.const(indices, rl.int64), axis=dimension % self.rank)
    made.dtype = self.dtype
    dim = dimension % self.rank
    order = [at for at in range(self.rank + 1) if at != dim + 1] + [dim + 1]
    return g.op("Transpose", made, perm=order, dtype=self.dtype)


def _static_size(value, dim):
    size = value.shape[dim]
    if type(size) is not int:
        raise Unsupported("its windows follow from a size that is open")
    return size


def _put_by_indices(g, self, src, indices):
    """A value with others where numbers of one row say."""
    flat = g.reshape(self, [-1])
    index = g.const(indices.reshape(-1).tolist(), rl.int64)
    src = g.reshape(g.cast(src, self.dtype), [-1])
    made = g.op("ScatterElements", flat, index, src, axis=0, dtype=self.dtype)
    return g.op("Reshape", made, g.shape_of(self), dtype=self.dtype)


@lowers(call.diagonal_scatter)
def diagonal_scatter(g, self, src, offset=0, dim1=0, dim2=1):
    """A value with another in the place of its diagonals."""
    indices = _numbered(_static(self)).diagonal(offset, dim1, dim2)
    return _put_by_indices(g, self, src, indices)


@lowers(call.as_strided_scatter)
def as_strided_scatter(g, self, src, size, stride, storage_offset=None):
    """A value with another at places by strides in memory."""
    numbers = _numbered(_static(self))
    indices = numbers.as_strided(size, stride, storage_offset or 0)
    return _put_by_indices(g, self, src, indices)


@lowers(call.put)
def put(g, self, index, source, accumulate=False):
    """A value with others at places of one row."""
    flat = g.reshape(self, [-1])
    count = 1
    for size in _static(self):
        count *= size
    index = g.reshape(index, [-1])
    below = g.op("Less", index, g.const(0, rl.int64), dtype=rl.bool)
    moved = g.op("Add", index, g.const(count, rl.int64), dtype=rl.int64)
    index = g.op("Where", below, moved, index, dtype=rl.int64)
    made = g.op(
        "ScatterElements", flat, index, g.reshape(source, [-1]), axis=0,
        reduction="add" if accumulate else None, dtype=self.dtype,
    )  # fmt: skip
    return g.op("Reshape", made, g.shape_of(self), dtype=self.dtype)


def _register_unpool(packet, count):
    @lowers(packet)
    def lower(g, self, indices, output_size, stride=None, padding=None):
        sizes = tuple(g.result.shape)
        if not all(type(one) is int for one in sizes):
            raise Unsupported("its image has open sizes")
        plane = 1
        for size in sizes[-count:]:
            plane *= size
        lead = list(sizes[:-count])
        kind = self.dtype
        zeros = g.op("Expand", g.const(0.0, kind), g.ints([*lead, plane]), dtype=kind)
        made = g.op(
            "ScatterElements", zeros, g.reshape(indices, [*lead, -1]),
            g.reshape(self, [*lead, -1]), axis=-1, dtype=kind,
        )  # fmt: skip
        return g.reshape(made, sizes)


_register_unpool(call.max_unpool2d, 2)
_register_unpool(call.max_unpool3d, 3)


@lowers(call.diag_embed)
def diag_embed(g, self, offset=0, dim1=-2, dim2=-1):
    """Matrices with diagonals."""
    shape = _static(self)
    count = 1
    for size in shape:
        count *= size
    indices = (rl.arange(count) + 1).reshape(shape).diag_embed(offset, dim1, dim2)
    zero = g.const([0] if not self.dtype.is_floating_point else [0.0], self.dtype)
    row = g.op("Concat", zero, g.reshape(self, [-1]), axis=0, dtype=self.dtype)
    index = g.const(indices, rl.int64)
    return g.op("Gather", row, index, axis=0, dtype=self.dtype)


@lowers(call.repeat_interleave)
def repeat_interleave(g, self, repeats, dim=None):
    """Each element several times, one after another."""
    if isinstance(repeats, Value):
        raise Unsupported("with counts that are computed it has no form in ONNX")
    if dim is None:
        self = g.reshape(self, [-1])
        self.shape, dim = (None,), 0
    if self.rank == 0:
        self = g.reshape(self, [1])
    dim %= self.rank
    counts = [1] * (self.rank + 1)
    counts[dim + 1] = repeats
    more = g.op("Unsqueeze", self, g.ints([dim + 1]), dtype=self.dtype)
    tiled = g.op("Tile", more, g.ints(counts), dtype=self.dtype)
    if self.rank == 1:
        return g.reshape(tiled, [-1])
    sizes = g.sizes_of(self)
    sizes[dim] = -1
    return g.reshape(tiled, sizes)

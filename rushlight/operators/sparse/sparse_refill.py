"""Sparse tensors that are written: other values at their positions, other sizes, other order."""

from rushlight.core import layout as layouts
from rushlight.core import sparse
from rushlight.core.dtype import FLOATING
from rushlight.core.dtypes import int64
from rushlight.operators import call as ops
from rushlight.operators.shared import wrap_dims
from rushlight.operators.sparse import sparse_coo
from rushlight.operators.sparse.sparse_access import BY_ROWS, layout_name
from rushlight.operators.sparse.sparse_compressed import (
    Compressed,
    add,
    block_of,
    like,
    lines_of,
    made,
    parts,
    starts_of,
)

# ---- copies


def clone_coo(self, memory_format):
    """Coordinates and values are copied.

    Raises:
        RuntimeError: a format of memory is asked for, of which there is none.
    """
    if memory_format is not None and memory_format is not layouts.preserve_format:
        name = "".join(
            word.capitalize()
            for word in str(memory_format).partition(".")[2].split("_")
        )
        raise RuntimeError(
            f"unsupported memory format option {name.removesuffix('Format')}"
        )
    indices, values, done = sparse_coo.parts(self)
    return sparse_coo.made(indices.clone(), values.clone(), self.shape, done)


# ---- of the same positions


def _with_fresh_values(self, dtype, layout, device, make):
    """The positions of a tensor with values that ``make`` gives for the old ones.

    Raises:
        RuntimeError: another layout is asked for.
    """
    if layout is not None and layout is not self.layout:
        raise RuntimeError(
            "empty_like with different sparse layout is not supported (self is "
            f"{layout_name(self.layout)} but you requested {layout_name(layout)})"
        )
    compressed, plain, values = parts(self)
    options = {"dtype": dtype, "device": device}
    return made(
        ops._to_copy(compressed, device=device),
        ops._to_copy(plain, device=device),
        make(values, options),
        self.shape,
        self.layout,
    )


def empty_like(self, dtype, layout, device, pin_memory, memory_format):
    """The same positions, whatever the values."""
    return _with_fresh_values(
        self, dtype, layout, device, lambda old, o: ops.empty_like(old, **o)
    )


def ones_like(self, dtype, layout, device, pin_memory, memory_format):
    """Ones at the same positions."""
    return _with_fresh_values(
        self, dtype, layout, device, lambda old, o: ops.ones_like(old, **o)
    )


def full_like(self, fill_value, dtype, layout, device, pin_memory, memory_format):
    """One value at the same positions."""
    return _with_fresh_values(
        self, dtype, layout, device, lambda old, o: ops.full_like(old, fill_value, **o)
    )


def randn_like(self, generator, dtype, layout, device, pin_memory, memory_format):
    """Normal numbers at the same positions."""
    return _with_fresh_values(
        self,
        dtype,
        layout,
        device,
        lambda old, o: ops.randn_like(old, generator=generator, **o),
    )


class Filled:
    """An operator that fills a tensor like another, of no values unless it is dense.

    Args:
        name: of the operator, ``ones_like``.
    """

    def __init__(self, name):
        self.name = name

    def __call__(self, self_, *given):
        *more, dtype, layout, device, pin_memory, memory_format = given
        if layout is None or layout is self_.layout:
            raise NotImplementedError(
                f"Could not run 'aten::{self.name}' with arguments from the 'SparseCPU' "
                "backend: values are written down for no element"
            )
        made = sparse_coo.empty_like(
            self_, dtype, layout, device, pin_memory, memory_format
        )
        if made.layout is not layouts.strided:
            return made
        function = getattr(ops, self.name)
        if self.name.startswith("rand"):
            return function(made, generator=more[-1])
        return function(made, *more)


ones_like_coo, full_like_coo = Filled("ones_like"), Filled("full_like")
rand_like_coo, randn_like_coo = Filled("rand_like"), Filled("randn_like")


def fill_(self, value):
    """One value at every position that is written down."""
    parts(self)[2].fill_(value)
    return self


def normal_(self, mean, std, generator):
    """Normal numbers at every position that is written down."""
    parts(self)[2].normal_(mean, std, generator=generator)
    return self


def zero_(self):
    """Nothing is written down any more."""
    compressed, plain, values = parts(self)
    none = values[(slice(None),) * (plain.ndim - 1) + (slice(0, 0),)]
    fresh = Compressed(ops.zeros_like(compressed), plain[..., :0], none)
    return sparse.put(self, list(self.shape), fresh)


def on_values_(name):
    """An operator that leaves zeros alone, applied to the values in place."""
    function = getattr(ops, f"{name}_")

    def apply(self, *args):
        compressed, plain, values = parts(self)
        function(values, *args)
        return sparse.put(self, list(self.shape), Compressed(compressed, plain, values))

    apply.__name__ = f"{name}_"
    apply.__doc__ = f"``{name}`` of the values, in place."
    return apply


def conj(self):
    """The same positions with conjugates: nothing waits to be conjugated."""
    return like(self, ops.conj_physical(parts(self)[2]))


def angle(self):
    """The angles of the values."""
    return like(self, ops.angle(parts(self)[2]))


def threshold_backward_coo(self, grad_output, threshold):
    """A gradient where there are elements above a threshold."""
    source = sparse_coo.coalesced(self)
    taken = sparse_coo.masked(grad_output, source)
    above = sparse_coo.parts(source)[1] > threshold
    values = sparse_coo.parts(taken)[1]
    return sparse_coo.like(taken, ops.where(above, values, 0))


def threshold_backward(self, grad_output, threshold):
    """A gradient where there are elements above a threshold."""
    above = parts(self)[2] > threshold
    if grad_output.layout is self.layout:
        own, given = parts(self), parts(grad_output)
        if ops.equal(own[0], given[0]) and ops.equal(own[1], given[1]):
            return like(self, ops.where(above, given[2], 0))
    return ops.mul(grad_output, like(self, above.to(grad_output.dtype)))


def add_(self, other, alpha):
    """`add` in place: the positions of both.

    Raises:
        RuntimeError: the result is dense, or of a type that cannot be kept.
    """
    result = add(self, other, alpha)
    if self.layout is layouts.strided:
        return ops.copy_(self, result)
    if result.layout is not self.layout:
        raise RuntimeError(
            f"add_: a dense sum cannot be kept in a tensor of layout {self.layout}"
        )
    found = parts(result)
    if result.dtype is not self.dtype:
        if result.dtype.category > self.dtype.category:
            raise RuntimeError(
                f"Can't convert result type {result.dtype} to output {self.dtype}"
            )
        found = (*found[:2], found[2].to(self.dtype))
    return sparse.put(self, list(self.shape), Compressed(*found))


# ---- other sizes


def resize_(self, size, memory_format):
    """More rows, which are empty; more columns.

    Raises:
        RuntimeError: there are no matrices, or fewer columns.
    """
    if len(size) < 2:
        raise RuntimeError(
            "torch.resize_: Only batched sparse CSR matrices are supported, but got size "
            f"{list(size)}"
        )
    along = -2 if self.layout in BY_ROWS else -1
    if size[-1] < self.shape[-1]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is "
            f"not supported. The original number of columns is {self.shape[-1]} while the "
            f"requested new number of columns is {size[-1]}."
        )
    compressed, plain, values = parts(self)
    lines = size[along] // block_of(self)[0 if self.layout in BY_ROWS else 1]
    if len(size) != self.ndim or lines + 1 < compressed.shape[-1]:
        raise RuntimeError(
            f"torch.resize_: a tensor of {list(self.shape)} cannot be made one of "
            f"{list(size)} without losing values"
        )
    more = lines + 1 - compressed.shape[-1]
    last = compressed[..., -1:].expand([*compressed.shape[:-1], more])
    fresh = Compressed(ops.cat([compressed, last], -1), plain, values)
    return sparse.put(self, list(size), fresh)


def resize_as_(self, the_template):
    """The sizes and positions of another tensor; values stay as far as they go.

    Raises:
        RuntimeError: the layouts differ.
    """
    if self.layout is not the_template.layout:
        raise RuntimeError(
            "resize_as_sparse_: self and other must have the same layout, but they are "
            f"{self.layout} and {the_template.layout}"
        )
    compressed, plain, values = parts(the_template)
    mine = parts(self)[2]
    if mine.shape != values.shape:
        fresh = ops.new_empty(mine, list(values.shape)).reshape([-1])
        count = min(fresh.numel(), mine.numel())
        fresh[:count] = mine.reshape([-1])[:count]
        mine = fresh.reshape(list(values.shape))
    fresh = Compressed(compressed.clone(), plain.clone(), mine)
    return sparse.put(self, list(the_template.shape), fresh)


# ---- rearranged in place


def _become(self, fresh):
    return sparse.put(self, list(fresh.shape), sparse.parts_of(fresh))


def transpose_(self, dim0, dim1):
    """Dimensions of coordinates change positions."""
    return _become(self, sparse_coo.transpose(self, dim0, dim1))


def t_(self):
    """Rows and columns of coordinates change positions."""
    return _become(self, sparse_coo.t(self))


# ---- sums


def sum_dims(self, dim, keepdim, dtype):
    """Sums along rows or columns, in the same layout.

    Raises:
        RuntimeError: the layout is not ``sparse_csr``, or dimensions are not kept.
    """
    if self.layout is not layouts.sparse_csr:
        raise RuntimeError(
            "Currently the only compressed sparse format supported for "
            f"sum.dim_IntList is CSR, but got layout {layout_name(self.layout)}"
        )
    dims = set(wrap_dims(tuple(dim or range(self.ndim)), self.ndim))
    if not keepdim:
        raise RuntimeError(
            "reduction operations on CSR tensors with keepdim=False is unsupported"
        )
    if self.ndim != 2:
        raise RuntimeError("sums along dimensions of batches are not supported")
    compressed, plain, values = parts(self)
    wide = int64 if self.dtype.category < FLOATING else None
    values = values.to(dtype or wide or values.dtype)
    rows, columns = self.shape
    if dims == {0, 1}:
        total = values.sum([0], keepdim=True)
        starts, plain = starts_of(plain[:1] * 0, 1), plain[:1] * 0
        return made(starts, plain, total[: plain.shape[0]], [1, 1], self.layout)
    lines = lines_of(compressed, plain) if dims == {1} else plain.to(int64)
    extent = rows if dims == {1} else columns
    sums = ops.new_zeros(values, [extent]).index_add(0, lines, values)
    written = ops.bincount(lines, minlength=extent) > 0
    at = ops.nonzero(written).reshape([-1])
    kept = ops.index_select(sums, 0, at)
    if dims == {1}:
        return made(starts_of(at, rows), at * 0, kept, [rows, 1], self.layout)
    return made(starts_of(at * 0, 1), at, kept, [1, columns], self.layout)


def addmv(self, mat, vec, beta, alpha):
    """A vector plus the product of a compressed matrix and a vector."""
    product = ops.mv(mat, vec)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else ops.add(self * beta, product)

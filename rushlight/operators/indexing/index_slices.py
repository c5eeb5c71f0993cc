"""Writing whole slices at the positions of one dimension that an index vector names."""

from rushlight.core.dtypes import float32, float64, int32, int64
from rushlight.core.geometry import around
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.indexing import place_joins, place_runs
from rushlight.operators.indexing.index_errors import outside_dimension
from rushlight.operators.indexing.indexing_kernels import (
    COLUMNS,
    join_slices,
    put_slices,
)
from rushlight.operators.indexing.scatter import ADD, REDUCTIONS
from rushlight.operators.loop_calls import (
    as_pairs,
    brief,
    copy_to_write,
    fault_flag,
    filled,
    laid_as,
    mover,
    name_of,
    refuse_fault,
    require,
    run,
    scalar_name,
)
from rushlight.operators.shape.copying import check_number
from rushlight.operators.shared import has_elements
from rushlight.operators.type_groups import REAL, USUAL

SELF = "index out of range in self: "
MOVED = USUAL | {8}  # types whose elements are only moved


def check_slices(operator, self, dim, index, source):
    """Refuses an index or a source that doesn't fit, as index_add and index_reduce do."""
    if index.dim() > 1:
        raise IndexError(
            f"{operator}(): Index is supposed to be a vector, but got dim: {index.dim()}"
            f" with type: {scalar_name(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in (int64, int32):
        raise RuntimeError(
            f"{operator}(): Expected dtype int32/int64 for index but got: "
            f"{scalar_name(index.dtype)}\n  index: {brief(index)}"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"{operator}(): self ({scalar_name(self.dtype)}) and source"
            f" ({scalar_name(source.dtype)}) must have the same scalar type"
        )
    count = index.numel()
    if dim and dim >= source.dim():
        raise RuntimeError(
            f"{operator}(): Indexing dim {dim} is out of bounds of the source tensor with"
            f" dim {source.dim()}"
        )
    expected = list(self.shape)
    if expected:
        expected[dim] = source.shape[dim] if source.dim() else 1
    if count != (source.shape[dim] if source.dim() else 1):
        _refuse_count(operator, dim, count, source)
    if list(source.shape) != expected:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified"
            f" dimension. Got self.shape = {list(self.shape)} source.shape ="
            f" {list(source.shape)}"
        )


def _refuse_count(operator, dim, count, source):
    if not source.dim():
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    raise RuntimeError(
        f"{operator}(): Number of indices ({count}) should be equal to"
        f" source.size(dim): ({source.shape[dim]}), for dim: {dim}"
    )


def _accumulator(dtype):
    if not dtype.is_floating_point:
        return int64
    return float64 if dtype.itemsize == 8 else float32


def index_add(self, dim, index, source, alpha=1):
    """A copy of ``self`` with ``alpha * source``'s slices added where index names.

    Raises:
        IndexError: an index is negative or too large, or of two dimensions.
        RuntimeError: the types or shapes don't fit.
    """
    dim = wrap_dim(dim, self.dim())
    check_slices("index_add_", self, dim, index, source)
    wide = self.dim() > 1
    kernel = "scatter_gather_tensor_cpu" if wide else "index_add_"
    require(kernel, self.dtype, MOVED, self)
    check_number(self.dtype, alpha)
    if self.numel() == 0:
        if not wide and index.numel():
            raise IndexError("index out of range in self")
        return self.contiguous().clone()
    if self.dtype.is_complex:
        return _index_add_complex(self, dim, index, source, alpha)
    out = copy_to_write(self, (index, source))
    outer, size, inner = around(list(self.shape), dim)
    scattered = (
        wide and index.dtype is int64 and alpha == 1
    )  # by what PyTorch calls then
    kind = RuntimeError if scattered else IndexError
    factor = None
    if alpha != 1:
        factor = filled(self, (), alpha, self.dtype).to(_accumulator(self.dtype))
    given = out, source, index, (outer, size, inner), dim
    _combine_slices("index_add", *given, kind, factor=factor)
    return out


def _index_add_complex(self, dim, index, source, alpha):
    """The same for pairs of real numbers."""
    out = copy_to_write(self, (index, source))
    wide = self.dim() > 1  # PyTorch multiplies single elements with 1 + 0i, too
    scaled = source if wide and alpha == 1 else ops.mul(source, alpha)
    outer, size, inner = around(list(self.shape), dim)
    pairs = as_pairs(out)
    kind = RuntimeError if wide and alpha == 1 and index.dtype is int64 else IndexError
    sizes = outer, size, 2 * inner
    given = pairs, as_pairs(scaled), index, sizes, dim
    _combine_slices("index_add", *given, kind)
    return out


def _combine_slices(
    operator, out, source, index, sizes, dim, error, mode=ADD, factor=None, first=None
):
    """Joins slices with those that an index names.

    Args:
        sizes: before, of and behind the dimension.
        error: the type raised where an index is out of range.
        mode: how, as `scatter` has it.
        factor: a tensor of one number, by which slices are multiplied that are added, or
            None.
        first: one of what slices begin with that do not count themselves.
    """
    outer, size, inner = sizes
    across = int(outer == 1 and inner > 1)
    count, flag = index.numel(), fault_flag(out)
    source, index = source.contiguous(), index.contiguous()
    if mode == ADD and _is_by_index(out, count):
        by = place_joins if place_joins.joins_in_any_order(out.dtype) else place_runs
        by.add_slices(out, source, index, factor, flag, sizes)
        refuse_fault(flag, operator, outside_dimension, error, dim, size, SELF)
        return
    kinds = {"across": across, "mode": mode, "scaled": int(factor is not None)}
    kinds["own"] = int(first is None)
    run(
        join_slices,
        [out, source, index, factor, first, flag],
        [outer, count, size, inner, *kinds.values()],
        inner if across else outer,
        2 * count * (outer if across else inner),
        COLUMNS if across else 1,
        T=name_of(out.dtype),
        I=name_of(index.dtype),
        **kinds,
    )
    refuse_fault(flag, operator, outside_dimension, error, dim, size, SELF)


# Whether slices are added, or put, by runs of equal places.
_is_by_index = KernelTable(
    cpu=lambda out, count: False, cuda=lambda out, count: count > place_runs.FEW
)


def index_fill(self, dim, index, value):
    """A copy of ``self`` whose slices that ``index`` names hold ``value``.

    Raises:
        IndexError: an index is too large, or not of dtype int64.
        RuntimeError: the index has more than one dimension.
    """
    if isinstance(value, complex) and not self.dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    dim = wrap_dim(dim, self.dim())
    if index.dtype is not int64:
        raise IndexError(
            f"index_fill_(): Expected dtype int64 for index.\n  index: {brief(index)}"
        )
    if index.dim() > 1:
        raise RuntimeError(f"Index has to be a vector/scalar\n  index: {brief(index)}")
    require("index_fill_cpu", self.dtype, MOVED, self)
    check_number(self.dtype, value)
    out = copy_to_write(self, (index,))
    _put("index_fill", out, dim, index, filled(self, (), value), True, "")
    return out if out is self else laid_as(self, out)


def index_fill_tensor(self, dim, index, value):
    """``index_fill`` with the number in a tensor.

    Raises:
        RuntimeError: the tensor has dimensions.
    """
    if value.dim():
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor "
            f"with {value.dim()} dimension(s)."
        )
    number = value.item() if has_elements(value) else 0
    return ops.index_fill(self, dim, index, number)


def index_copy(self, dim, index, source):
    """A copy of ``self`` with ``source``'s slices where index names.

    Raises:
        IndexError: an index is negative or too large, or the numbers don't match.
        RuntimeError: the types or the slices' shapes differ.
    """
    dim = wrap_dim(dim, self.dim())
    _check_copy(self, dim, index, source)
    require("index_copy_cpu", self.dtype, MOVED, self)
    out = copy_to_write(self, (index, source))
    source = source.contiguous()
    _put("index_copy", out, dim, index, source, False, "index_copy_(): ")
    return out


def _check_copy(self, dim, index, source):
    """Refuses what index_copy cannot copy, in PyTorch's order."""
    count = index.numel()
    if index.dim() > 1:
        raise IndexError(
            f"index_copy_(): Index should have dimension 1 or 0 (got {index.dim()})"
        )
    if source.dim() == 0 and count != 1:
        raise IndexError(
            "index_copy_(): When source is scalar, index should have one element (got"
            f" {count})"
        )
    if source.dim() != self.dim() and source.dim() and self.dim():
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their"
            f" dimensionality must match. Source dimensionality ({source.dim()}),"
            f" destination dimensionality ({self.dim()})"
        )
    if index.dtype is not int64:
        raise RuntimeError(
            "index_copy_(): Expected a long tensor for index, but got"
            f" {scalar_name(index.dtype)}"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got"
            f" (self) {scalar_name(self.dtype)} and (source) {scalar_name(source.dtype)}"
        )
    own = [size for d, size in enumerate(self.shape) if d != dim]
    given = [size for d, size in enumerate(source.shape) if d != dim]
    if own != given:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes."
            f" Destination slice shape: {' '.join(map(str, own))} at dimension {dim} and"
            f" source slice shape: {' '.join(map(str, given))} at dimension {dim}."
        )
    if source.dim() and count != source.shape[dim]:
        raise IndexError(
            f"index_copy_(): Number of indices ({count}) should be equal to"
            f" source.size(dim) ({source.shape[dim]})"
        )


def _put(operator, out, dim, index, source, single, before):
    """Puts slices, or one number, into a row-major tensor."""
    outer, size, inner = around(list(out.shape), dim)
    if size == 0 and index.numel():
        raise RuntimeError(
            f"{before}index out of bounds for dimension {dim} with size 0\n"
            f"  self: {brief(out)}\n  index: {brief(index)}"
        )
    if out.numel() == 0:  # no element is named, wherever an index may be
        return
    name, parts = mover(out.dtype)
    inner *= parts
    across = int(outer == 1 and inner > 1)
    count, flag = index.numel(), fault_flag(out)
    if _is_by_index(out, count):
        sizes = outer, size, inner
        given = source, index.contiguous(), flag, sizes, parts - 1, int(single), name
        by = place_joins if size <= place_joins.ROOM * count else place_runs
        by.put_slices(out, *given)
        refuse_fault(flag, operator, outside_dimension, IndexError, dim, size, before)
        return
    run(
        put_slices,
        [out, source, index.contiguous(), flag],
        [outer, count, size, inner, across, int(single), parts - 1, int(single)],
        inner if across else outer,
        2 * count * (outer if across else inner),
        COLUMNS if across else 1,
        T=name,
        across=across,
        single=int(single),
        wrap=int(single),
    )
    refuse_fault(flag, operator, outside_dimension, IndexError, dim, size, before)


def along(index, dim, shape):
    """An index of slices as ``scatter`` takes it: a place for each of their elements."""
    sizes = [1] * len(shape)
    if sizes:
        sizes[dim] = -1
    return index.reshape(sizes).expand(shape)


_sweeps = KernelTable(cpu=lambda _: True, cuda=lambda _: False, meta=lambda _: False)


def _in_one_sweep(self, index):
    """Whether a kernel of its own puts slices together, which has plain numbers only."""
    return (
        self.dtype in (float32, float64)
        and self.dim() > 0
        and self.numel() > 0
        and index.numel() > 0
        and _sweeps(self.device)
    )


def _reduced_slices(self, dim, index, source, reduce, include_self):
    out = copy_to_write(self, (index, source))
    outer, size, inner = around(list(self.shape), dim)
    mode, identity = REDUCTIONS[reduce]
    first = None if include_self else filled(self, (), identity, self.dtype)
    given = out, source, index, (outer, size, inner), dim
    _combine_slices("index_reduce", *given, IndexError, mode, first=first)
    if reduce == "mean":
        met = ops.bincount(index.reshape(-1), None, size) + int(include_self)
        sizes = [1] * self.dim()
        sizes[dim] = size
        out.div_(met.clamp_(min=1).to(out.dtype).reshape(sizes))
    return out


def _check_range_on_host(_, self, dim, index):
    """Refuses indices that nothing is written at: no kernel looks at them."""
    size = self.shape[dim] if self.dim() else 1
    if bool(((index < 0) | (index >= size)).any()):
        raise IndexError("index out of range in self")


_check_range = KernelTable(
    cpu=_check_range_on_host, cuda=lambda *_: None, meta=lambda *_: None
)


def index_reduce(self, dim, index, source, reduce, include_self):
    """``scatter_reduce`` of whole slices.

    Raises:
        IndexError: an index is negative or too large, or of two dimensions.
        RuntimeError: the reduction is unknown, or the types or shapes don't fit.
    """
    warn_once("index_reduce() is in beta and the API may change at any time.")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but "
            f"got {reduce}."
        )
    dim = wrap_dim(dim, self.dim())
    check_slices("index_reduce_", self, dim, index, source)
    if reduce in ("amax", "amin"):
        real = REAL | ({11} if self.dim() > 1 else set())
        kernel = "maximum_cpu" if self.dim() > 1 else "index_func_"
        require(kernel, self.dtype, real, self)
    if reduce == "mean":
        require("div_floor_cpu", self.dtype, USUAL - {11}, self)
    if self.numel() == 0:
        _check_range(self.device, self, dim, index)
    if _in_one_sweep(self, index):
        return _reduced_slices(self, dim, index, source, reduce, include_self)
    positions = along(index, dim, source.shape)
    try:
        return ops.scatter_reduce(
            self, dim, positions, source, reduce, include_self=include_self
        )
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
        raise IndexError(f"index out of range in self: {error}") from None

"""Writing elements at the places that an index tensor of the same rank names."""

from rushlight.core.dtype import iinfo
from rushlight.core.dtypes import bool_, int32, int64
from rushlight.core.geometry import around
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.indexing import place_joins, place_runs
from rushlight.operators.indexing.gather import shares_storage
from rushlight.operators.indexing.index_errors import outside_dimension
from rushlight.operators.indexing.indexing_kernels import (
    COLUMNS,
    scatter_kernel,
    scatter_lines,
    scatter_products,
)
from rushlight.operators.loop_calls import (
    as_pairs,
    brief,
    copy_to_write,
    fault_flag,
    filled,
    name_of,
    refuse_fault,
    require,
    run,
)
from rushlight.operators.shape.copying import check_number
from rushlight.operators.type_groups import REAL, USUAL

ASSIGN, ADD, MULTIPLY, SMALLEST, LARGEST = range(5)
SCALAR, TENSOR = "scatter_gather_scalar_cpu", "scatter_gather_tensor_cpu"
# The kernel's mode for each reduction, and the value that changes nothing.
REDUCTIONS = {
    "sum": (ADD, 0), "mean": (ADD, 0), "prod": (MULTIPLY, 1),
    "amin": (SMALLEST, float("inf")), "amax": (LARGEST, -float("inf")),
}  # fmt: skip


def check_index_type(operator, index):
    """Refuses indices of other types than int32 and int64."""
    if index.dtype not in (int64, int32):
        raise RuntimeError(
            f"{operator}(): Expected dtype int32/int64 for index\n"
            f"  index: {brief(index)}"
        )


def check_types(operator, self, index, source):
    """Refuses indices that count nothing, and elements of another type."""
    if index.numel():
        check_index_type(operator, index)
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "scatter(): Expected self.dtype to be equal to src.dtype\n"
            f"  self: {brief(self)}\n  src: {brief(source)}"
        )


def check_index_shape(self, dim, index, source=None):
    """Refuses index tensors that don't fit the other operands."""
    if index.shape == self.shape and (source is None or source.shape == index.shape):
        return
    if max(index.dim(), 1) != max(self.dim(), 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as self tensor\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )
    if source is not None and max(index.dim(), 1) != max(source.dim(), 1):
        # sizes are compared first: as far as the source's dimensions go
        short = 0 < source.dim() < index.dim()
        pairs = enumerate(zip(index.shape, self.shape))
        fits = all(size <= own or d == dim for d, (size, own) in pairs)
        fits &= all(size <= given for size, given in zip(index.shape, source.shape))
        kind = IndexError if short and fits else RuntimeError
        raise kind(
            "Index tensor must have the same number of dimensions as src tensor\n"
            f"  index: {brief(index)}\n  src: {brief(source)}"
        )
    pairs = zip(index.shape, self.shape)
    large = any(size > own and d != dim for d, (size, own) in enumerate(pairs))
    more = ""
    if source is not None:
        more = f" and to be no larger size than src {list(source.shape)}"
        pairs = zip(index.shape or (1,), source.shape or (1,))  # a number: a row of one
        large |= any(size > given for size, given in pairs)
    if large:
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self"
            f" {list(self.shape)} apart from dimension {dim}{more}"
        )


def narrowed(tensor, sizes, but=None):
    """The corner of a tensor with these sizes, in all dimensions except ``but``."""
    if tensor.shape == sizes:
        return tensor
    for d, size in enumerate(sizes[: tensor.dim()]):
        if d != but and tensor.shape[d] != size:
            tensor = tensor.narrow(d, 0, size)
    return tensor


def divided(index, dim):
    """How work is divided: outer, count, inner, across; and for `run`, the rest."""
    outer, count, inner = around(list(index.shape), dim)
    across = int(outer == 1 and inner > 1)
    total = inner if across else outer
    work = count * (outer if across else inner)
    return outer, count, inner, across, total, work, COLUMNS if across else 1


def scatter(operator, self, dim, index, source, mode, single=False):
    """A copy of ``self`` with the source's elements brought in.

    Args:
        single: the source is one number for all places.
    """
    dim = wrap_dim(dim, self.dim())
    check_types(operator, self, index, source)
    if index.numel():
        check_index_shape(self, dim, index, None if single else source)
    codes = USUAL if mode < SMALLEST else REAL | {11}
    suffix = {SMALLEST: "_reduce_amin", LARGEST: "_reduce_amax"}.get(mode, "")
    require((SCALAR if single else TENSOR) + suffix, self.dtype, codes, self)
    if index.numel() == 0:
        return self.contiguous().clone()
    index = index.to(int64)
    size = self.shape[dim] if self.dim() else 1
    if size == 0:
        raise RuntimeError(
            f"index {index.reshape(-1)[0].item()} is out of bounds for dimension {dim}"
            f" with size 0\n  self: {brief(self)}\n  index: {brief(index)}"
        )
    if self.dtype.is_complex:
        return _scatter_complex(operator, self, dim, index, source, mode, single)
    return _scatter_real(operator, self, dim, index, source, mode, single)


def _scatter_real(operator, self, dim, index, source, mode, single):
    """The copy, or the tensor itself where it is written in place."""
    out = copy_to_write(self, (index, source))
    return _scatter_into(operator, out, dim, index, source, mode, single)


def _scatter_into(operator, out, dim, index, source, mode, single):
    """Runs the kernel over the part of the result that the index reaches."""
    index = index.contiguous()
    size = out.shape[dim] if out.dim() else 1
    corner = narrowed(out, index.shape, dim)
    whole = corner is out
    target = out if whole else corner.contiguous()
    if not single:
        source = narrowed(source, index.shape)
    flag = fault_flag(out)
    _combine(target, source.contiguous(), index, flag, dim, size, mode, int(single))
    refuse_fault(flag, operator, outside_dimension, RuntimeError, dim, size)
    if not whole:
        corner.copy_(target)
    return out


def _combine_by_lines(target, source, index, flag, dim, size, mode, single):
    """Goes over each line of the index in order."""
    outer, count, inner, across, total, work, least = divided(index, dim)
    types = {"T": name_of(target.dtype), "across": across}
    types |= {"mode": mode, "single": single}
    if inner == 1:
        types["inner"] = 1
    ints = [outer, count, size, inner, across, mode, single]
    operands = [target, source, index, flag]
    run(scatter_kernel, operands, ints, total, 2 * work, least, **types)


def _combine_by_index(target, source, index, flag, dim, size, mode, single):
    """The same where few lines would be few threads: each place is one's."""
    outer, count, inner = around(list(index.shape), dim)
    extents = count, size, inner
    given = target, source, index, flag, extents, single
    if mode == ADD and place_joins.joins_in_any_order(target.dtype):
        place_joins.scatter_add(*given)
    elif mode == ASSIGN and place_joins.has_room(target, index):
        place_joins.scatter_put(*given)
    elif place_runs.worth_sorting(outer * inner, count):
        place_runs.scatter(target, source, index, flag, extents, mode, single)
    else:
        types = {"T": name_of(target.dtype), "mode": mode, "single": single}
        operands, ints = [target, source, index, flag], [*extents, mode, single]
        run(scatter_lines, operands, ints, outer * inner, **types)


_combine = KernelTable(cpu=_combine_by_lines, cuda=_combine_by_index)


def _scatter_complex(operator, self, dim, index, source, mode, single):
    """The same for pairs of real numbers; products have a kernel of their own."""
    rank = self.dim()
    out = copy_to_write(self, (index, source))
    if not rank:
        out = out.reshape(1)
    index = index.reshape(index.shape or (1,))
    if not single:
        source = source.reshape(source.shape or (1,))
    source = source.expand(index.shape) if single else narrowed(source, index.shape)
    if mode == MULTIPLY:
        corner = narrowed(out, index.shape, dim)
        target = corner.contiguous()
        outer, count, inner = around(list(index.shape), dim)
        flag, size = fault_flag(out), out.shape[dim]
        operands = [as_pairs(target), as_pairs(source), index.contiguous(), flag]
        types = {"T": name_of(out.dtype.to_real())}
        lines, ints = outer * inner, [count, size, inner]
        run(scatter_products, operands, ints, lines, 4 * count, **types)
        refuse_fault(flag, operator, outside_dimension, RuntimeError, dim, size)
        if not (shares_storage(corner, target) and corner.is_contiguous()):
            corner.copy_(target)
    else:
        pairs = index.unsqueeze(-1).expand([*index.shape, 2])
        _scatter_into(
            operator, as_pairs(out), dim, pairs, as_pairs(source), mode, False
        )
    return out if rank else out.reshape(())


def _mode(reduce):
    modes = {"add": ADD, "multiply": MULTIPLY}
    if reduce not in modes:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return modes[reduce]


def scatter_src(self, dim, index, src):
    """A copy of ``self`` in which ``src``'s elements replace those that index names."""
    return scatter("scatter", self, dim, index, src, ASSIGN)


def scatter_value(self, dim, index, value):
    """A copy of ``self`` in which ``value`` replaces the elements that index names."""
    check_number(self.dtype, value)
    value = filled(self, (), value)
    return scatter("scatter", self, dim, index, value, ASSIGN, True)


def scatter_value_reduce(self, dim, index, value, reduce):
    """A copy of ``self`` with ``value`` added or multiplied in."""
    check_number(self.dtype, value)
    mode, value = _mode(reduce), filled(self, (), value)
    return scatter("scatter", self, dim, index, value, mode, True)


def scatter_reduce_old(self, dim, index, src, reduce):
    """A copy of ``self`` with ``src``'s elements added or multiplied in."""
    warn_once(
        "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
        "removed in a future release. Use torch.scatter_reduce instead for more reduction "
        "options."
    )
    return scatter("scatter", self, dim, index, src, _mode(reduce))


def scatter_add(self, dim, index, src):
    """A copy of ``self`` with ``src``'s elements added where index names."""
    return scatter("scatter_add", self, dim, index, src, ADD)


def scatter_reduce(self, dim, index, src, reduce, include_self):
    """Combines the source's elements at each place, with what was there or without.

    Raises:
        RuntimeError: the reduction is unknown.
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(
            "reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    wrap_dim(dim, self.dim())
    check_types("scatter", self, index, src)
    mode, identity = REDUCTIONS[reduce]
    base = self
    if reduce == "mean":
        kernel = TENSOR + "_reduce_mean"
        require(kernel, self.dtype, USUAL - {11}, self)
    if not include_self and index.numel():
        require("scatter_reduce_exclude_input_init", self.dtype, USUAL, self)
        if mode >= SMALLEST:
            identity = _worst(self.dtype, identity)
        base = scatter_value(self, dim, index, identity)
    result = scatter("scatter_reduce", base, dim, index, src, mode)
    if reduce == "mean" and index.numel():
        counts = meetings(self, dim, index, include_self)
        whole = not (self.is_floating_point() or self.is_complex())
        result = ops.div(result, counts, rounding_mode="floor" if whole else None)
    return result


def _worst(dtype, infinity):
    """The number that loses against every other of the type."""
    if dtype.is_floating_point or dtype.is_complex:
        return infinity if dtype.is_floating_point else 0
    if dtype is bool_:
        return infinity > 0
    limits = iinfo(dtype)
    return limits.max if infinity > 0 else limits.min


def meetings(self, dim, index, include_self):
    """How many elements meet at each place, at least one."""
    counts = (ops.ones_like if include_self else ops.zeros_like)(self)
    counts = ops.scatter_add(counts, dim, index, ops.ones_like(index, dtype=self.dtype))
    return ops.masked_fill(counts, counts == 0, 1)

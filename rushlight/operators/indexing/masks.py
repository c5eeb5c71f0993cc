"""Elements that a mask names: their numbers, their coordinates, reading and replacing."""

from __future__ import annotations

from rushlight.codegen.loops import i64, loops
from rushlight.core.dtypes import bool_, int64, uint8
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.warning import warn
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.functions import tensor
from rushlight.operators.indexing import few_elements, mask_ranks
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fresh,
    mover,
    refuse_fault,
    require,
    run_whole,
    scalar_name,
)
from rushlight.operators.shared import recorded_ahead
from rushlight.operators.type_groups import USUAL

COUNTED = USUAL | {8}  # types whose elements are zero or not


@loops
def count_true(count: "i64*", mask: "boolean*", begin: int, end: int):
    """How many mask elements are set."""
    total = 0
    for i in range(begin, end):
        total = total + i64(mask[i])
    count[0] = total


@loops
def select_true(
    out: "T*", x: "T*", mask: "boolean*", total: int, parts: int, begin: int, end: int
):
    """Packs the elements whose mask is set: each is written, and kept if it is."""
    filled_to = 0
    i = begin
    while filled_to < total:
        for part in range(parts):
            out[filled_to * parts + part] = x[i * parts + part]
        filled_to = filled_to + i64(mask[i])
        i = i + 1


@loops
def replace_true(
    out: "T*",
    source: "T*",
    mask: "boolean*",
    fault: "i64*",
    parts: int,
    given: int,
    begin: int,
    end: int,
):
    """Puts the source's elements, in order, where the mask is set, or reports a lack."""
    taken = 0
    for i in range(begin, end):
        if mask[i]:
            if taken == given:
                fault[0] = given
                break
            for part in range(parts):
                out[i * parts + part] = source[taken * parts + part]
            taken = taken + 1


@loops
def true_positions(
    out: "i64*",
    mask: "boolean*",
    sizes: "i64*",
    ndim: int,
    width: int,
    total: int,
    begin: int,
    end: int,
):
    """A column of coordinates for each dimension; a row is one line along the last."""
    found = 0
    for r in range(begin, end):
        for c in range(width):
            if mask[r * width + c]:
                out[(ndim - 1) * total + found] = c
                rest = r
                for d in range(ndim - 2, 0, -1):
                    next_up = rest // sizes[d]
                    out[d * total + found] = rest - next_up * sizes[d]
                    rest = next_up
                if ndim > 1:
                    out[found] = rest
                found = found + 1


@loops
def pairs_true(
    out: "i64*", mask: "boolean*", total: int, width: int, begin: int, end: int
):
    """The same for two dimensions: each pair is written, and kept if it is set."""
    found = 0
    for r in range(begin, end):
        c = 0
        while c < width and found < total:
            out[found] = r
            out[total + found] = c
            found = found + i64(mask[r * width + c])
            c = c + 1


@loops
def numbers_true(out: "i64*", mask: "boolean*", total: int, begin: int, end: int):
    """The same for one dimension."""
    found = 0
    i = begin
    while found < total:
        out[found] = i
        found = found + i64(mask[i])
        i = i + 1


def _count(mask):
    """How many elements of a mask are set."""
    if not mask.numel():
        return 0
    total = fresh(mask, (1,), int64)
    run_whole(count_true, [total, mask], [], mask.numel())
    return total.item()


def masked_select(self, mask):
    """The elements of ``self`` where ``mask`` holds, in one dimension."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            "masked_select: expected BoolTensor for mask\n"
            f"  self: {brief(self)}\n  mask: {brief(mask)}"
        )
    if self.dtype.name in ("uint16", "uint32", "uint64"):
        require("masked_select", self.dtype, (), self)
    x = self
    if self.shape != mask.shape:
        shape = broadcast_sizes([list(self.shape), list(mask.shape)])
        x, mask = self.expand(shape), mask.expand(shape)
    x, mask = x.contiguous(), mask.contiguous()
    return _select(x, mask, *mover(x.dtype))


def _select_in_order(x, mask, name, parts):
    """The elements whose mask is set, one after the other."""
    total = _count(mask)
    out = fresh(x, (total,))
    types = {"T": name, "parts": parts}
    run_whole(select_true, [out, x, mask], [total, parts], mask.numel(), **types)
    return out


_select = KernelTable(cpu=_select_in_order, cuda=mask_ranks.select)


def masked_scatter(self, mask, source):
    """A copy of ``self`` with ``source``'s elements, in order, where ``mask`` holds.

    Raises:
        RuntimeError: the source has too few elements.
    """
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f" {scalar_name(self.dtype)} and {scalar_name(source.dtype)}"
        )
    if mask.dtype is uint8:
        warn(
            "masked_scatter_ received a mask with dtype torch.uint8, this behavior is now "
            "deprecated,please use a mask with dtype torch.bool instead."
        )
    if mask.dtype is not bool_:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{scalar_name(mask.dtype)}"
        )
    require("masked_scatter", self.dtype, USUAL, self)
    shape = broadcast_sizes([list(self.shape), list(mask.shape)])
    out, mask = self.expand(shape).clone().contiguous(), mask.expand(shape).contiguous()
    flag = fault_flag(out)
    _replace(out, source.contiguous(), mask, flag, *mover(out.dtype))
    refuse_fault(flag, "masked_scatter", _too_few, mask, source)
    return out


def _too_few(fault, mask, source):
    return RuntimeError(
        "masked_scatter: Number of elements of source < number of ones in mask\n"
        f"  mask: {brief(mask)}\n  source: {brief(source)}"
    )


def _replace_in_order(out, source, mask, flag, name, parts):
    """Replaces elements by the source's, one after the other."""
    operands, ints = [out, source, mask, flag], [parts, source.numel()]
    run_whole(replace_true, operands, ints, mask.numel(), T=name, parts=parts)


_replace = KernelTable(cpu=_replace_in_order, cuda=mask_ranks.replace)


_few_coordinates = KernelTable(
    cpu=few_elements.coordinates, cuda=lambda _: None, meta=lambda _: None
)


def nonzero(self):
    """The coordinates of the elements that aren't zero, one row each."""
    require("nonzero_count_cpu", self.dtype, COUNTED, self)
    found = None if recorded_ahead() else _few_coordinates(self)
    if found is not None:
        return found.t()
    mask = self if self.dtype is bool_ else self != 0
    return _coordinates(mask.contiguous()).t()  # columns, as PyTorch lays them out


def _coordinates_in_order(mask):
    """The coordinates of what is set, a row for each dimension."""
    ndim, total = mask.dim(), _count(mask)
    out = fresh(mask, (ndim, total), int64)
    if ndim == 1:
        run_whole(numbers_true, [out, mask], [total], mask.numel())
    elif ndim == 2 and total:
        rows, width = mask.shape
        run_whole(pairs_true, [out, mask], [total, width], rows)
    elif out.numel():
        sizes = tensor(list(mask.shape), dtype=int64, device=mask.device)
        width = mask.shape[-1]
        rows = mask.numel() // width
        run_whole(true_positions, [out, mask, sizes], [ndim, width, total], rows)
    return out


_coordinates = KernelTable(cpu=_coordinates_in_order, cuda=mask_ranks.coordinates)

"""Sorting, selecting, counting and searching along the last axis of rows."""

from __future__ import annotations

from math import prod

from rushlight.codegen.language import bits_of
from rushlight.codegen.loops import (
    A,
    I,
    T,
    f64,
    highest,
    i32,
    i64,
    is_float,
    local,
    loops,
    loops_inline,
)
from rushlight.core import dtypes
from rushlight.core.dtypes import bool_, float32, float64, int32, int64, uint64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.select import stable_select
from rushlight.kernels.select.stable_select import any_first, comes_first
from rushlight.operators import call
from rushlight.operators.functions import result_type, tensor
from rushlight.operators.indexing import few_elements
from rushlight.operators.indexing.bounds import any_outside
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fault_in,
    filled,
    fresh,
    laid_as,
    name_of,
    refuse_fault,
    require,
    run,
    run_whole,
    scalar_name,
)
from rushlight.operators.shape.copying import check_number
from rushlight.operators.shared import has_elements, recorded_ahead
from rushlight.operators.sorting import (
    device_select_rows,
    device_sort_rows,
    device_tallies,
)
from rushlight.operators.type_groups import (
    FLOATS,
    INTEGERS,
    ORDERED,
    REAL,
    WIDE_UNSIGNED,
)

RUN = 16  # rows this short are sorted by insertion
FEW = 64  # and so are selections of up to this many from short rows
MANY = 256  # rows this long are sorted by the bytes of their elements


# ---- kernels


@loops_inline
def merge_runs(to, to_index, source, source_index, base, size, width, descending):
    """Merges neighbouring sorted runs of ``width``; equal elements keep their order."""
    for start in range(0, size, 2 * width):
        i = base + start
        middle = base + min(start + width, size)
        j = middle
        stop = base + min(start + 2 * width, size)
        for k in range(base + start, stop):
            right = j < stop
            if i < middle and j < stop:
                right = comes_first(source[j], source[i], descending)
            if right:
                to[k] = source[j]
                to_index[k] = source_index[j]
                j = j + 1
            else:
                to[k] = source[i]
                to_index[k] = source_index[i]
                i = i + 1


@loops
def sort_rows(
    out: "T*",
    index: "i64*",
    x: "T*",
    spare: "T*",
    spare_index: "i64*",
    size: int,
    descending: int,
    begin: int,
    end: int,
):
    """Sorts every row and its elements' numbers along: short runs, then merges."""
    for row in range(begin, end):
        base = row * size
        for start in range(0, size, 16):
            for k in range(start, min(start + 16, size)):
                v = x[base + k]
                j = base + k
                while j > base + start and comes_first(v, out[j - 1], descending):
                    out[j] = out[j - 1]
                    index[j] = index[j - 1]
                    j = j - 1
                out[j] = v
                index[j] = k
        width = 16
        while width < size:
            merge_runs(spare, spare_index, out, index, base, size, width, descending)
            merge_runs(
                out, index, spare, spare_index, base, size, 2 * width, descending
            )
            width = width * 4


@loops_inline
def order_of(v, descending):
    """A signed integer that orders as the value does; equal for values that compare so.

    The bits of a float, read as sign and magnitude; NaN is the largest.
    """
    if is_float(T):
        bits = i64(bits_of(v))
        top = i64(highest(I))
        rank = bits if bits >= 0 else bits ^ top
        rank = i64(0) if v == T(0) else rank
        rank = top if v != v else rank
    else:
        rank = i64(v)
    return ~rank if descending else rank


@loops_inline
def place_by_digit(to, to_place, source, source_place, starts, base, size, shift):
    """One pass: moves keys and places to where their digit's bucket has got to."""
    for k in range(base, base + size):
        digit = (shift // 8) * 256 + i64((source[k] >> A(shift)) & A(255))
        at = base + starts[digit]
        starts[digit] = starts[digit] + 1
        to[at] = source[k]
        to_place[at] = source_place[k]


@loops
def radix_rows(
    out: "T*",
    index: "i64*",
    x: "T*",
    key: "A*",
    spare_key: "A*",
    place: "i32*",
    spare_place: "i32*",
    size: int,
    digits: int,
    descending: int,
    begin: int,
    end: int,
):
    """Sorts every row by the bytes of a key, lowest first: no element is compared.

    A is the unsigned type of the keys, and I the signed one of the same width. A byte
    that all keys share is passed over.
    """
    for row in range(begin, end):
        base = row * size
        starts = local("i64", 2048)
        for d in range(digits * 256):
            starts[d] = 0
        for k in range(size):
            rank = order_of(x[base + k], descending)
            code = A(rank) ^ (A(1) << A(digits * 8 - 1))
            key[base + k] = code
            place[base + k] = i32(k)
            for d in range(digits):
                digit = d * 256 + i64((code >> A(d * 8)) & A(255))
                starts[digit] = starts[digit] + 1
        swapped = False
        for d in range(digits):
            shared = False
            total = 0
            for b in range(d * 256, d * 256 + 256):
                count = starts[b]
                shared = shared or count == size
                starts[b] = total
                total = total + count
            if not shared:
                if swapped:
                    place_by_digit(
                        key, place, spare_key, spare_place, starts, base, size, d * 8
                    )
                else:
                    place_by_digit(
                        spare_key, spare_place, key, place, starts, base, size, d * 8
                    )
                swapped = not swapped
        for k in range(base, base + size):
            here = i64(spare_place[k] if swapped else place[k])
            index[k] = here
            out[k] = x[base + here]


@loops
def top_rows(
    out: "T*",
    index: "i64*",
    x: "T*",
    size: int,
    count: int,
    largest: int,
    begin: int,
    end: int,
):
    """The first few elements of each row in order, kept sorted while reading it."""
    for row in range(begin, end):
        base = row * count
        held = 0
        for start in range(0, size, 64):
            first = row * size + start
            stop = row * size + min(start + 64, size)
            worst = out[base + max(held - 1, 0)]
            if held < count or any_first(x, first, stop, worst, largest):
                for k in range(first, stop):
                    v = x[k]
                    if held < count or comes_first(v, out[base + count - 1], largest):
                        j = base + min(held, count - 1)
                        while j > base and comes_first(v, out[j - 1], largest):
                            out[j] = out[j - 1]
                            index[j] = index[j - 1]
                            j = j - 1
                        out[j] = v
                        index[j] = k - row * size
                        held = min(held + 1, count)


@loops
def unique_runs(
    out: "T*",
    inverse: "i64*",
    counts: "i64*",
    found: "i64*",
    values: "T*",
    index: "i64*",
    begin: int,
    end: int,
):
    """One element of each run of equals in a sorted row, and where all of them went.

    Without a branch, which would be guessed wrong: what may be new is written behind the
    last, and counted if it is.
    """
    last = 0
    first = begin
    out[0] = values[begin]
    counts[0] = 1
    inverse[index[begin]] = 0
    for k in range(begin + 1, end):
        new = i64(values[k] != values[k - 1])
        out[last + 1] = values[k]
        last = last + new
        first = first + (k - first) * new
        counts[last] = k + 1 - first
        inverse[index[k]] = last
    found[0] = last + 1


@loops
def begin_runs(new: "i64*", values: "T*", begin: int, end: int):
    """One where a run of equals begins in a sorted row, else zero."""
    for k in range(begin, end):
        begins = True
        if k > 0:
            begins = values[k] != values[k - 1]
        new[k] = 1 if begins else 0


@loops
def place_runs(
    out: "T*",
    inverse: "i64*",
    starts: "i64*",
    values: "T*",
    index: "i64*",
    number: "i64*",
    begin: int,
    end: int,
):
    """Where every element went, and of each run the element and where it begins.

    Runs are numbered from one: how many have begun up to each element.
    """
    for k in range(begin, end):
        own = number[k]
        inverse[index[k]] = own - 1
        before = 0
        if k > 0:
            before = number[k - 1]
        if before != own:
            out[own - 1] = values[k]
            starts[own - 1] = k


@loops
def lengths_of_runs(
    counts: "i64*", starts: "i64*", found: int, size: int, begin: int, end: int
):
    """How long each run is: to where the next begins."""
    for k in range(begin, end):
        stop = size
        if k + 1 < found:
            stop = starts[k + 1]
        counts[k] = stop - starts[k]


@loops
def count_values(out: "A*", x: "T*", weight: "A*", weighted: int, begin: int, end: int):
    """Adds one, or a weight, at the place each element names."""
    for k in range(begin, end):
        at = i64(x[k])
        if weighted:
            out[at] = out[at] + weight[k]
        else:
            out[at] = out[at] + A(1)


@loops
def lowest_and_highest(out: "i64*", x: "T*", begin: int, end: int):
    """The extremes of a row of integers."""
    low = x[begin]
    high = low
    for k in range(begin, end):
        low = min(low, x[k])
        high = max(high, x[k])
    out[0] = i64(low)
    out[1] = i64(high)


@loops
def find_outside(index: "i64*", fault: "i64*", size: int, begin: int, end: int):
    """Reports an index outside of ``[0, size)``."""
    any_outside(index, begin, end, size, fault)


@loops
def search_rows(
    out: "I*",
    x: "T*",
    sequence: "T*",
    order: "i64*",
    size: int,
    per_row: int,
    shared: int,
    right: int,
    ordered: int,
    begin: int,
    end: int,
):
    """Where each value would be inserted into its sorted row, by bisection."""
    for k in range(begin, end):
        base = 0 if shared else k // per_row * size
        v = x[k]
        low = 0
        high = size
        while low < high:
            middle = (low + high) // 2
            place = base + middle
            if ordered:
                place = base + min(max(order[base + middle], 0), size - 1)
            w = sequence[place]
            above = w > v if right else w >= v
            if above:
                high = middle
            else:
                low = middle + 1
        out[k] = i64(low)


@loops
def histogram(out: "T*", x: "T*", limits: "f64*", bins: int, begin: int, end: int):
    """How many elements fall into each of equally wide bins; the last is closed."""
    for k in range(begin, end):
        v = f64(x[k])
        if v >= limits[0] and v <= limits[1]:
            place = i64((v - limits[0]) * f64(bins) / (limits[1] - limits[0]))
            place = min(place, bins - 1)
            out[place] = out[place] + T(1)


# ---- operators


def _rows(x, dim):
    """``x`` with ``dim`` last and row-major, and how to move it back."""
    dim = wrap_dim(dim, x.dim())
    if x.dim() == 0:
        return x, (lambda t: t), 1
    size = x.shape[dim]
    if dim == x.dim() - 1:
        return x.contiguous(), (lambda t: t), size
    order = [d for d in range(x.dim()) if d != dim] + [dim]
    inverse = [order.index(d) for d in range(x.dim())]

    def back(result):
        return result.permute(inverse).clone(memory_format=contiguous_format)

    return x.permute(order).contiguous(), back, size


def _sorted_rows(rows, size, descending):
    values, index = fresh(rows, rows.shape), fresh(rows, rows.shape, int64)
    if rows.numel() == 0:
        return values, index
    down = int(bool(descending))
    return (_sort_long if size > RUN else _sort_host)(rows, values, index, size, down)


def _sort_host(rows, values, index, size, down):
    total = rows.numel() // size
    if MANY <= size < 2**31 and rows.dtype is not uint64:
        _sort_by_bytes(values, index, rows, size, down)
        return values, index
    spared = rows.shape if size > RUN else (0,)
    spare, spare_index = fresh(rows, spared), fresh(rows, spared, int64)
    operands = [values, index, rows, spare, spare_index]
    types = {"T": name_of(rows.dtype), "descending": down}
    run(sort_rows, operands, [size, down], total, 8 * size, **types)
    return values, index


def _sort_by_digits(rows, values, index, size, down):
    """The same where there are as many threads as elements."""
    device_sort_rows.sort_rows(values, index, rows, size, down)
    return values, index


_sort_long = KernelTable(cpu=_sort_host, cuda=_sort_by_digits, meta=_sort_host)


def _sort_by_bytes(values, index, rows, size, down):
    dtype, width = rows.dtype, rows.dtype.itemsize
    if dtype.is_floating_point:
        width = max(width, 4)  # keys are made from the computed type
    elif name_of(dtype).startswith("uint"):
        width = 2 * width  # keys are signed numbers
    shape = rows.shape
    signed, unsigned = f"int{8 * width}", f"uint{8 * width}"
    keys = [fresh(rows, shape, getattr(dtypes, signed)) for _ in range(2)]
    positions = [fresh(rows, shape, int32) for _ in range(2)]
    types = {"T": name_of(rows.dtype), "A": unsigned, "I": signed}
    types.update(digits=width, descending=down)
    operands = [values, index, rows, *keys, *positions]
    ints = [size, width, down]
    run(radix_rows, operands, ints, rows.numel() // size, 8 * size, **types)


def sort(self, dim=-1, descending=False, stable=True):
    """The elements in order along ``dim`` and where they were; equals stay in order."""
    dim = wrap_dim(dim, self.dim())
    _check_sortable("sort", "sorting_kernel_method_name", self, ORDERED)
    rows, back, size = _rows(self, dim)
    values, index = _sorted_rows(rows, size, descending)
    return laid_as(self, back(values)), laid_as(self, back(index))


def _check_sortable(operator, kernel, x, codes):
    """Refuses complex numbers and types without a kernel."""
    if x.dtype.is_complex:
        raise RuntimeError(
            f" {operator.capitalize() if operator == 'sort' else operator} does not"
            f" support complex dtypes on CPU\n  self: {brief(x)}"
        )
    require(kernel, x.dtype, codes, x)


def argsort(self, dim=-1, descending=False, stable=True):
    """Where the elements in order along ``dim`` were."""
    return sort(self, dim, descending)[1]


def topk(self, k, dim=-1, largest=True, sorted=True):
    """The ``k`` largest (or smallest) elements along ``dim``, in order; their places.

    Raises:
        RuntimeError: there are fewer than ``k``.
    """
    dim = wrap_dim(dim, self.dim())
    if self.dtype is bool_:
        raise RuntimeError(
            f"topk does not support bool dtypes on CPU\n  self: {brief(self)}"
        )
    if self.dim() or self.dtype.is_complex:  # a number alone is not compared
        _check_sortable("topk", "topk_cpu", self, REAL)
    if not 0 <= k <= (self.shape[dim] if self.dim() else 1):
        raise RuntimeError(
            f"topk: selected index k out of range\n  self: {brief(self)}\n  k: {k}"
        )
    if (self.dim() and not k) or not self.numel():  # a number alone is its own first
        shape = list(self.shape)
        shape[dim : dim + 1] = [k]
        return fresh(self, shape), fresh(self, shape, int64)
    rows, back, size = _rows(self, dim)
    shape = [*rows.shape[:-1], k] if rows.dim() else []
    out, index = fresh(self, shape), fresh(self, shape, int64)
    if size > 1:
        _top(rows, out, index, size, k, int(bool(largest)), sorted)
    else:
        out.copy_(rows), index.zero_()
    return back(out), back(index)


def _device_top(rows, out, index, size, k, largest, sorted):
    given = rows, size, k, largest, sorted, _sorted_rows
    device_select_rows.first_of_rows(out, index, *given)


def _host_top(rows, out, index, size, k, largest, sorted):
    """The first elements of each row; which of equal ones, as PyTorch has it."""
    types = {"T": name_of(rows.dtype), "largest": largest}
    ints, total = [size, k, largest], rows.numel() // size
    few = k <= FEW and sorted
    if k * 64 <= size:
        kernel = stable_select.first_by_heap
        run(kernel, [out, index, rows], ints, total, 2 * size, **types)
        return
    if few:
        run(top_rows, [out, index, rows], ints, total, 2 * size, **types)
        flag = fault_flag(rows)
        run(
            stable_select.find_ties,
            [flag, out, rows],
            ints[:2],
            total,
            size,
            T=types["T"],
        )
    if not few or fault_in(flag) is not None:
        spare = fresh(rows, rows.shape), fresh(rows, rows.shape, int64)
        operands, types["ordered"] = [out, index, rows, *spare], int(bool(sorted))
        ints.append(types["ordered"])
        run(stable_select.first_by_parts, operands, ints, total, 8 * size, **types)


_top = KernelTable(cpu=_host_top, cuda=_device_top, meta=_device_top)


def kthvalue(self, k, dim=-1, keepdim=False):
    """The ``k``-th smallest element along ``dim``, counted from one, and its place.

    Raises:
        RuntimeError: there is no such element.
    """
    dim = wrap_dim(dim, self.dim())
    _check_rank_dim("kthvalue", self, dim)
    if not 1 <= k <= (self.shape[dim] if self.dim() else 1):
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {dim}\n"
            f"  self: {brief(self)}\n  k: {k}"
        )
    if not self.dim():
        return self.clone(), filled(self, (), 0, int64)
    require("kthvalue_cpu", self.dtype, REAL, self)
    return _choose(stable_select.quick_select, self, dim, keepdim, [k - 1])


def _choose(kernel, x, dim, keepdim, ints):
    """One element of each row along ``dim`` and its place, by an unstable selection."""
    rows, _, size = _rows(x, dim)
    shape = list(x.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    out, place = fresh(x, shape), fresh(x, shape, int64)
    if out.numel() and _choose_by_device(rows, kernel, out, place, size, ints):
        return out, place
    spare = fresh(x, rows.shape), fresh(x, rows.shape, int64)
    operands = [out, place, rows, *spare]
    run(kernel, operands, [size, *ints], prod(shape), 8 * size, T=name_of(x.dtype))
    return out, place


def _device_choice(rows, kernel, out, place, size, ints):
    """The same by all threads of a device; whether it has a layout for that."""
    if kernel is stable_select.mode_rows:
        values, index = _sorted_rows(rows, size, False)
        device_select_rows.mode_of_rows(out, place, values, index, size)
        return True
    way, rank, skip = "ranked", *ints, 0
    if kernel is stable_select.median_rows:
        way, rank, skip = "middle", 0, *ints
    return device_select_rows.one_of_rows(way, out, place, rows, size, rank, skip)


_choose_by_device = KernelTable(
    cpu=lambda *_: False, cuda=_device_choice, meta=_device_choice
)


def mode(self, dim=-1, keepdim=False):
    """The most frequent element along ``dim``, the smallest of several, and its place."""
    dim = wrap_dim(dim, self.dim())
    _check_rank_dim("mode", self, dim)
    if not self.dim():
        return self.clone(), filled(self, (), 0, int64)
    require("mode_cpu", self.dtype, REAL | {11}, self)
    return _choose(stable_select.mode_rows, self, dim, keepdim, [])


def _check_rank_dim(operator, x, dim):
    if x.dim() and x.shape[dim] == 0:
        raise IndexError(
            f"{operator}(): Expected reduction dim {dim} to have non-zero size.\n"
            f"  self: {brief(x)}"
        )


def _median_along(operator, x, dim, keepdim, skip):
    dim = wrap_dim(dim, x.dim())
    require("median_out", x.dtype, REAL, x)
    _check_rank_dim(operator, x, dim)
    return _choose(stable_select.median_rows, x, dim, keepdim, [skip])


def _median(x, skip):
    require("median_cpu", x.dtype, REAL, x)
    if x.numel() == 0:
        return filled(x, (), float("nan") if x.dtype.is_floating_point else -(2**63))
    flat = x.contiguous().view(-1)
    return _choose(stable_select.median_rows, flat, 0, False, [skip])[0]


def median(self):
    """The lower middle of all elements; NaN where one is NaN."""
    return _median(self, 0)


def nanmedian(self):
    """The lower middle of all elements that aren't NaN."""
    return _median(self, 1)


def median_dim(self, dim, keepdim=False):
    """The lower middle along ``dim`` and its place; NaN where one is NaN."""
    return _median_along("median", self, dim, keepdim, 0)


def nanmedian_dim(self, dim, keepdim=False):
    """The lower middle of what isn't NaN along ``dim``, and its place."""
    return _median_along("nanmedian", self, dim, keepdim, 1)


def unique(self, sorted=True, return_inverse=False, return_counts=False):
    """The distinct elements in order; where each element went; how many of each.

    Always returns three tensors; those not asked for are empty.
    """
    require("unique", self.dtype, ORDERED, self)
    flat = self.contiguous().view(-1)
    inverse = fresh(self, self.shape, int64)
    if flat.numel() == 0:
        empty = fresh(self, (0,), int64)
        return fresh(self, (0,)), inverse if return_inverse else empty, empty
    values, index = _sorted_rows(flat, flat.numel(), False)
    return _runs(flat, values, index, inverse, return_inverse, return_counts)


def _runs_in_order(flat, values, index, inverse, with_inverse, with_counts):
    out, counts = fresh(flat, flat.shape), fresh(flat, flat.shape, int64)
    found = fresh(flat, (1,), int64)
    if not flat.numel():  # the kernel does not run
        found.zero_()
    operands = [out, inverse, counts, found, values, index]
    run_whole(unique_runs, operands, [], flat.numel(), T=name_of(flat.dtype))
    empty = fresh(flat, (0,), int64)
    number = found.item()
    return (
        out.narrow(0, 0, number).clone(),
        inverse if with_inverse else empty,
        counts.narrow(0, 0, number).clone() if with_counts else empty,
    )


def _runs_by_numbers(flat, values, index, inverse, with_inverse, with_counts):
    """The same by all threads: a run's number is how many have begun before."""
    size, types = flat.numel(), {"T": name_of(flat.dtype)}
    new, starts = (fresh(flat, flat.shape, int64) for _ in range(2))
    run(begin_runs, [new, values], [], size, **types)
    number, out = new.cumsum(0), fresh(flat, flat.shape)
    operands = [out, inverse, starts, values, index, number]
    run(place_runs, operands, [], size, **types)
    found = number[-1].item()
    counts = fresh(flat, (found if with_counts else 0,), int64)
    run(lengths_of_runs, [counts, starts], [found, size], counts.numel())
    empty = fresh(flat, (0,), int64)
    return out.narrow(0, 0, found).clone(), inverse if with_inverse else empty, counts


_runs_by_kind = KernelTable(
    cpu=_runs_in_order, cuda=_runs_by_numbers, meta=_runs_by_numbers
)


def _runs(flat, *operands):
    return (_runs_by_kind if flat.numel() else _runs_in_order)(flat, *operands)


def unique_consecutive(self, return_inverse=False, return_counts=False):
    """The elements with repetitions in a row removed; as `unique`, without sorting."""
    require("unique", self.dtype, ORDERED, self)
    flat = self.contiguous().view(-1)
    index = call.arange(flat.numel(), dtype=int64, device=self.device)
    inverse = fresh(self, self.shape, int64)
    return _runs(flat, flat, index, inverse, return_inverse, return_counts)


_few_counts = KernelTable(
    cpu=few_elements.tally, cuda=lambda *_: None, meta=lambda *_: None
)


def bincount(self, weights=None, minlength=0):
    """How often each small integer occurs, or the sum of its weights.

    Raises:
        RuntimeError: an element is negative, or the shapes don't fit.
        NotImplementedError: the elements aren't integers.
    """
    require("bincount_cpu", self.dtype, INTEGERS, self)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and (weights.dim() != 1 or weights.shape != self.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is None and not recorded_ahead():
        found = _few_counts(self, minlength)
        if found is not None:
            return found
    x = self.contiguous()
    low, high = _limits(x)
    if self.dim() != 1 or (x.numel() and low < 0):
        raise RuntimeError(
            "bincount only supports 1-d non-negative integral inputs.\n"
            f"  self: {brief(self)}"
        )
    kind = int64
    if weights is not None:
        kind = weights.dtype if weights.dtype is float32 else float64
        weights = weights.to(kind).contiguous()
    return _counted(x, weights, max(minlength, high + 1), kind)


def _limits_in_order(x):
    """The extremes of integers; -1 twice where there are none."""
    limits = filled(x, (2,), -1, int64)
    run_whole(lowest_and_highest, [limits, x], [], x.numel(), T=name_of(x.dtype))
    return limits.tolist()


def _limits_by_reduction(x):
    return [x.min().item(), x.max().item()] if x.numel() else [-1, -1]


def _counted_in_order(x, weights, size, kind):
    """How often each number occurs, or the sum of its weights."""
    out = filled(x, (size,), 0, kind)
    types = {"A": name_of(kind), "weighted": int(weights is not None)}
    types["T"] = name_of(x.dtype)
    run_whole(count_values, [out, x, weights], [types["weighted"]], x.numel(), **types)
    return out


def _counted_by_threads(x, weights, size, kind):
    x = x.to(int64)
    if weights is None:
        return device_tallies.counts_of(x, size)
    return device_tallies.sums_of(x, weights, size)


_limits = KernelTable(cpu=_limits_in_order, cuda=_limits_by_reduction)
_counted = KernelTable(cpu=_counted_in_order, cuda=_counted_by_threads)


def searchsorted(
    sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None
):
    """Where each value of ``self`` would be inserted into sorted rows.

    Raises:
        RuntimeError: the leading sizes differ, ``side`` contradicts ``right``, or
            ``sorter`` is not an order of the rows.
    """
    _check_side(side, right)
    _check_rows(sorted_sequence, self)
    _check_sorter(sorted_sequence, sorter)
    common = result_type(sorted_sequence, self)
    if not self.numel():
        kind = int32 if out_int32 else int64
        return fresh(self, self.shape, kind)
    require("searchsorted_out_cpu", common, REAL, sorted_sequence, self)
    values, bounds = self.to(common), sorted_sequence.to(common)
    shared = bounds.dim() == 1
    out = fresh(self, self.shape, int32 if out_int32 else int64)
    size, per_row = bounds.shape[-1], self.shape[-1] if self.dim() else 1
    types = {
        "T": name_of(common),
        "I": name_of(out.dtype),
        "shared": int(shared),
        "right": int(right or side == "right"),
        "ordered": int(sorter is not None),
    }
    _warn_of_copies(self, sorted_sequence, sorter)
    order = None if sorter is None else sorter.contiguous()
    operands = [out, values.contiguous(), bounds.contiguous(), order]
    ints = [size, per_row, types["shared"], types["right"], types["ordered"]]
    run(search_rows, operands, ints, self.numel(), 32, **types)
    return out


def _warn_of_copies(values, bounds, sorter):
    """Says which operands are copied because their elements don't lie together."""
    for words, t in (
        ("input value", values), ("boundary", bounds), ("sorter", sorter),
    ):  # fmt: skip
        if t is not None and not t.is_contiguous():
            warn_once(
                f"torch.searchsorted(): {words} tensor is non-contiguous, this will lower "
                "the performance due to extra data copy when converting non-contiguous "
                f"tensor to contiguous, please use contiguous {words} tensor if possible."
            )


def _check_side(side, right):
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of"
            " left while right was True"
        )


def _check_rows(bounds, values):
    """Refuses rows to search in that don't belong to the rows of values."""
    if values.dim() == 0 and bounds.dim() != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries"
            f" tensor dimension is 1, but we got boundaries tensor dim({bounds.dim()})"
            f" and input value's dim(0) numel({values.numel()})"
        )
    if bounds.dim() == 0:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but"
            " got 0 dimension"
        )
    if bounds.dim() != 1 and bounds.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first"
            " N-1 dimensions of boundaries tensor and input value tensor must match,"
            f" but we got boundaries tensor {list(bounds.shape)} and input"
            f" value tensor {list(values.shape)}"
        )


def _check_sorter(bounds, sorter):
    """Refuses an order that is none: of another type or shape, or out of the row."""
    if sorter is None:
        return
    if sorter.shape != bounds.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got"
            f" boundary tensor {list(bounds.shape)}and got sorter tensor"
            f" {list(sorter.shape)}"
        )
    if sorter.dtype is not int64:
        raise RuntimeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{scalar_name(sorter.dtype)}"
        )
    flag, size = fault_flag(sorter), bounds.shape[-1]
    run(find_outside, [sorter.contiguous(), flag], [size], sorter.numel())
    refuse_fault(flag, "searchsorted", _no_order, size)


def _no_order(found, size):
    return RuntimeError(
        f"torch.searchsorted(): sorter index out of range: it has {found} for rows of "
        f"{size}"
    )


def bucketize(self, boundaries, out_int32=False, right=False):
    """The number of the bucket between ``boundaries`` that each value falls into."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            "bucketize(): boundaries tensor must be 1 dimension, but got"
            f" dim({boundaries.dim()})"
        )
    return searchsorted(boundaries, self, out_int32, right)


def histc(self, bins=100, min=0, max=0):
    """How many elements fall into each of ``bins`` equal intervals; others are ignored.

    Raises:
        RuntimeError: the interval is empty or not finite.
    """
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0"
        )
    for bound in (min, max):
        check_number(self.dtype if self.is_floating_point() else float64, bound)
    low, high = float(min), float(max)
    if low == high:
        require("histogram_cpu", self.dtype, FLOATS, self)
    if low == high and has_elements(self):
        low, high = float(self.min().item()), float(self.max().item())
    if low == high:
        low, high = low - 1.0, high + 1.0
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    require("histogram_cpu", self.dtype, FLOATS, self)
    limits = tensor([low, high], dtype=float64, device=self.device)
    return _histogram(self.contiguous(), limits, bins)


def _histogram_in_order(x, limits, bins):
    out = filled(x, (bins,), 0)
    run_whole(histogram, [out, x, limits], [bins], x.numel(), T=name_of(x.dtype))
    return out


_histogram = KernelTable(cpu=_histogram_in_order, cuda=device_tallies.histogram)

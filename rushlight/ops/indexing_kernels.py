"""Reading and writing along one dimension at the places an index tensor names.

A tensor is seen as ``(outer, size, inner)`` around the indexed dimension. Where two
indices may name the same place, the work is divided along another axis, so that no two
threads write one element and the order of additions is fixed.
"""

from __future__ import annotations

import rushlight
from rushlight.compiler.loops import A, T, i64, loops, loops_inline
from rushlight.ops.native import (
    around,
    brief,
    fault_flag,
    fault_in,
    filled,
    fresh,
    mover,
    name_of,
    run,
    run_whole,
    wrap_dim,
)

ASSIGN, ADD, MULTIPLY, SMALLEST, LARGEST = range(5)
COLUMNS = 128  # of a row divided among threads: whole cache lines, and enough of them


@loops_inline
def checked(place, size, fault):
    """The index, or 0 with the fault reported where it lies outside ``[0, size)``."""
    good = place
    if place < 0 or place >= size:
        fault[0] = place
        good = i64(0)
    return good


@loops_inline
def wrapped(place, size, fault):
    """The same for indices that may count from the end."""
    good = place
    if place < 0:
        good = place + size
    if good < 0 or good >= size:
        fault[0] = place
        good = i64(0)
    return good


@loops
def copy_rows(
    out: "T*",
    x: "T*",
    index: "I*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    wrap: int,
    begin: int,
    end: int,
):
    """Row ``index[k]`` of ``x`` becomes row ``k``, within each outer block."""
    for r in range(begin, end):
        place = i64(index[r % count])
        place = wrapped(place, size, fault) if wrap else checked(place, size, fault)
        source = (r // count * size + place) * inner
        for i in range(inner):
            out[r * inner + i] = x[source + i]


@loops
def copy_lines(
    out: "T*",
    x: "T*",
    index: "I*",
    fault: "i64*",
    count: int,
    size: int,
    wrap: int,
    begin: int,
    end: int,
):
    """The same for rows of one element: line by line of the source."""
    for o in range(begin, end):
        for k in range(count):
            place = i64(index[k])
            place = wrapped(place, size, fault) if wrap else checked(place, size, fault)
            out[o * count + k] = x[o * size + place]


@loops_inline
def any_outside(index, start, stop, size, fault):
    """Whether an index of a span lies outside ``[0, size)``; it is then reported."""
    wrong = False
    for k in range(start, stop):
        wrong = wrong | (index[k] < 0) | (index[k] >= size)
    if wrong:
        for k in range(start, stop):
            checked(index[k], size, fault)
    return wrong


@loops
def gather_lines(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    count: int,
    size: int,
    begin: int,
    end: int,
):
    """``out[o, k] = x[o, index[o, k]]``: tested first, so that the reads vectorise."""
    for o in range(begin, end):
        base = o * count
        if not any_outside(index, base, base + count, size, fault):
            for k in range(count):
                out[base + k] = x[o * size + index[base + k]]


@loops
def gather_kernel(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    begin: int,
    end: int,
):
    """``out[o, k, i] = x[o, index[o, k, i], i]``; ``across`` divides the inner axis."""
    first_o = 0 if across else begin
    last_o = outer if across else end
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(first_o, last_o):
        for k in range(count):
            row = (o * count + k) * inner
            if not any_outside(index, row + first_i, row + last_i, size, fault):
                for i in range(first_i, last_i):
                    out[row + i] = x[(o * size + index[row + i]) * inner + i]


@loops
def scatter_kernel(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    mode: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, index[o, k, i], i]`` takes or adds ``source[o, k, i]``, in order."""
    first_o = 0 if across else begin
    last_o = outer if across else end
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(first_o, last_o):
        for k in range(count):
            for i in range(first_i, last_i):
                here = (o * count + k) * inner + i
                place = (o * size + checked(index[here], size, fault)) * inner + i
                v = source[0 if single else here]
                if mode == 0:
                    out[place] = v
                elif mode == 1:
                    out[place] = T(A(out[place]) + A(v))
                elif mode == 2:
                    out[place] = T(A(out[place]) * A(v))
                elif mode == 3:
                    w = out[place]
                    out[place] = v if v < w or v != v else w
                else:
                    w = out[place]
                    out[place] = v if v > w or v != v else w


@loops
def index_add_kernel(
    out: "T*",
    source: "T*",
    index: "I*",
    alpha: "A*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    begin: int,
    end: int,
):
    """``out[o, index[k], i] += alpha * source[o, k, i]``."""
    first_o = 0 if across else begin
    last_o = outer if across else end
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(first_o, last_o):
        for k in range(count):
            place = (o * size + checked(i64(index[k]), size, fault)) * inner
            here = (o * count + k) * inner
            for i in range(first_i, last_i):
                add = A(source[here + i]) * alpha[0]
                out[place + i] = T(A(out[place + i]) + add)


@loops
def index_fill_kernel(
    out: "T*",
    value: "T*",
    index: "I*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    begin: int,
    end: int,
):
    """``out[o, index[k], :] = value``."""
    for o in range(begin, end):
        for k in range(count):
            place = (o * size + wrapped(i64(index[k]), size, fault)) * inner
            for i in range(inner):
                out[place + i] = value[0]


@loops
def embedding_backward(
    grad_weight: "T*",
    grad: "T*",
    index: "I*",
    counts: "i64*",
    count: int,
    width: int,
    padding: int,
    scaled: int,
    begin: int,
    end: int,
):
    """Adds each row's gradient to its word, for a range of columns."""
    for k in range(count):
        word = i64(index[k])
        if word != padding:
            if scaled:
                for c in range(begin, end):
                    share = A(grad[k * width + c]) / A(counts[word])
                    here = word * width + c
                    grad_weight[here] = T(A(grad_weight[here]) + share)
            else:
                for c in range(begin, end):
                    here = word * width + c
                    total = A(grad_weight[here]) + A(grad[k * width + c])
                    grad_weight[here] = T(total)


@loops
def count_words(counts: "i64*", index: "I*", begin: int, end: int):
    """How often each index occurs."""
    for k in range(begin, end):
        word = i64(index[k])
        counts[word] = counts[word] + 1


def _index_type(operator, index, kinds="int32 or int64"):
    if index.dtype not in (rushlight.int64, rushlight.int32):
        raise RuntimeError(
            f"{operator}(): Expected dtype {kinds} for index\n  index: {brief(index)}"
        )


def embedding_dense_backward(
    grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
):
    """The gradient of ``embedding`` for its weight, as a dense tensor."""
    width = grad_output.shape[-1]
    grad_weight = filled(grad_output, [num_weights, width], 0)
    grad, index = grad_output.contiguous(), indices.contiguous()
    counts = None
    types = {"T": name_of(grad.dtype), "I": name_of(index.dtype)}
    if scale_grad_by_freq:
        counts = filled(grad, [num_weights], 0, rushlight.int64)
        run_whole(count_words, [counts, index], [], index.numel(), I=types["I"])
    types["scaled"] = int(bool(scale_grad_by_freq))
    ints = [index.numel(), width, padding_idx, types["scaled"]]
    work = index.numel()
    run(
        embedding_backward,
        [grad_weight, grad, index, counts],
        ints,
        width,
        work,
        COLUMNS,
        **types,
    )
    return grad_weight


def _check_index_shape(operator, self, dim, index, source=None):
    """Refuses index tensors that don't fit the other operands."""
    if max(index.dim(), 1) != max(self.dim(), 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )
    for d, size in enumerate(index.shape):
        if d != dim and size > self.shape[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index"
                f" {list(index.shape)} to be no larger than self {list(self.shape)}"
                f" apart from dimension {dim}"
            )
        if source is not None and size > source.shape[d]:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self"
                f" {list(self.shape)} apart from dimension {dim} and to be no larger"
                f" size than src {list(source.shape)}"
            )


def _narrowed(tensor, sizes, but=None):
    """The corner of a tensor with these sizes, in all dimensions except ``but``."""
    for d, size in enumerate(sizes):
        if d != but and tensor.shape[d] != size:
            tensor = tensor.narrow(d, 0, size)
    return tensor


def _places(index, dim):
    """How work is divided: outer, count, inner, across; and for `run`, the rest."""
    outer, count, inner = around(list(index.shape), dim)
    across = int(outer == 1 and inner > 1)
    total = inner if across else outer
    work = count * (outer if across else inner)
    return outer, count, inner, across, total, work, COLUMNS if across else 1


def _check_room(self, dim, size, index):
    """Refuses to write to a dimension without elements: no place is a good one."""
    if size == 0 and index.numel():
        raise RuntimeError(
            f"index out of bounds for dimension {dim} with size 0\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )


def _raise_fault(flag, dim, size, kind=RuntimeError):
    fault = fault_in(flag)
    if fault is not None:
        raise kind(
            f"index {fault} is out of bounds for dimension {dim} with size {size}"
        )


def _scatter(operator, self, dim, index, source, mode):
    """A copy of ``self`` with the source's elements brought in."""
    dim = wrap_dim(dim, self.dim())
    if index.numel():
        _index_type(operator, index, "int32/int64")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"{operator}(): Expected self.dtype to be equal to src.dtype\n"
            f"  self: {brief(self)}\n  src: {brief(source)}"
        )
    single = int(source.dim() == 0 and index.dim() > 0)
    out = self.contiguous().clone()
    if index.numel() == 0:
        return out
    _check_index_shape(operator, self, dim, index, None if single else source)
    index = index.to(rushlight.int64).contiguous()
    size = self.shape[dim] if self.dim() else 1
    _check_room(self, dim, size, index)
    corner = _narrowed(out, index.shape, dim) if self.dim() else out
    whole = corner is out
    target = out if whole else corner.contiguous()
    if not single:
        source = _narrowed(source, index.shape) if source.dim() else source
    outer, count, inner, across, total, work, least = _places(index, dim)
    flag = fault_flag(self)
    types = {"T": name_of(self.dtype), "across": across, "mode": mode, "single": single}
    if inner == 1:
        types["inner"] = 1
    ints = [outer, count, size, inner, across, mode, single]
    operands = [target, source.contiguous(), index, flag]
    run(scatter_kernel, operands, ints, total, 2 * work, least, **types)
    _raise_fault(flag, dim, size)
    if not whole:
        corner.copy_(target)
    return out


def _as_source(self, value):
    return value if hasattr(value, "dtype") else filled(self, (), value)


def _mode(reduce):
    modes = {"add": ADD, "multiply": MULTIPLY}
    if reduce not in modes:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return modes[reduce]


def scatter_src(self, dim, index, src):
    """A copy of ``self`` in which ``src``'s elements replace those that index names."""
    return _scatter("scatter", self, dim, index, src, ASSIGN)


def scatter_value(self, dim, index, value):
    """A copy of ``self`` in which ``value`` replaces the elements that index names."""
    return _scatter("scatter", self, dim, index, _as_source(self, value), ASSIGN)


def scatter_reduce(self, dim, index, src, reduce):
    """A copy of ``self`` with ``src``'s elements added or multiplied in."""
    return _scatter("scatter", self, dim, index, src, _mode(reduce))


def scatter_value_reduce(self, dim, index, value, reduce):
    """A copy of ``self`` with ``value`` added or multiplied in."""
    return _scatter("scatter", self, dim, index, _as_source(self, value), _mode(reduce))


def scatter_add(self, dim, index, src):
    """A copy of ``self`` with ``src``'s elements added where index names."""
    return _scatter("scatter_add", self, dim, index, src, ADD)


def index_add(self, dim, index, source, alpha=1):
    """A copy of ``self`` with ``alpha * source``'s slices added where index names.

    Raises:
        RuntimeError: an index is negative or too large, or the shapes don't fit.
    """
    dim = wrap_dim(dim, self.dim())
    _index_type("index_add", index)
    count = index.numel()
    if source.dim() and source.shape[dim] != count:
        raise RuntimeError(
            f"index_add_(): Number of indices ({count}) should be equal to"
            f" source.size(dim): ({source.shape[dim]}), for dim: {dim}"
        )
    expected = list(self.shape)
    if expected:
        expected[dim] = count
    if list(source.shape) != expected:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified"
            f" dimension. Got self.shape = {list(self.shape)} source.shape ="
            f" {list(source.shape)}"
        )
    out = self.contiguous().clone()
    outer, size, inner = around(list(self.shape), dim)
    _check_room(self, dim, size, index)
    across = int(outer == 1 and inner > 1)
    name = name_of(self.dtype)
    factor = filled(self, (), alpha, _accumulator(self.dtype))
    flag = fault_flag(self)
    run(
        index_add_kernel,
        [out, source.contiguous(), index.contiguous(), factor, flag],
        [outer, count, size, inner, across],
        inner if across else outer,
        2 * count * (outer if across else inner),
        COLUMNS if across else 1,
        T=name,
        I=name_of(index.dtype),
        across=across,
    )
    _raise_fault(flag, dim, size)
    return out


def _accumulator(dtype):
    if dtype.is_complex:
        return dtype
    if not dtype.is_floating_point:
        return rushlight.int64
    return rushlight.float64 if dtype.itemsize == 8 else rushlight.float32


def index_fill(self, dim, index, value):
    """A copy of ``self`` whose slices that ``index`` names hold ``value``."""
    dim = wrap_dim(dim, self.dim())
    _index_type("index_fill", index)
    out = self.contiguous().clone()
    value = filled(self, (), value) if not hasattr(value, "dtype") else value
    outer, size, inner = around(list(self.shape), dim)
    if size == 0 and index.numel():
        raise IndexError(
            f"index out of bounds for dimension {dim} with size 0\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )
    flag = fault_flag(self)
    run(
        index_fill_kernel,
        [out, value.to(self.dtype).contiguous(), index.contiguous(), flag],
        [index.numel(), size, inner],
        outer,
        index.numel() * inner,
        T=name_of(self.dtype),
        I=name_of(index.dtype),
    )
    _raise_fault(flag, dim, size, IndexError)
    return out

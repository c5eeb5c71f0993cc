"""Reading at the places an index tensor names: the compiled part of indexing.

Indices outside of a dimension are noted by the kernels in a word on the stack of the
call; the operators turn that into an error once the kernel is through.
"""

from __future__ import annotations

import importlib

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.dtype import (
    CODE_BOOL,
    CODE_FLOAT32,
    CODE_INT32,
    CODE_INT64,
    CODE_UINT16,
    CODE_UINT64,
    COMPLEX,
    dtype_of,
)
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.launchers import grain_for, launch_host

from rushlight.operators.loop_calls import (
    MOVERS,
    as_pairs,
    brief,
    fault_flag,
    fault_in,
    from_pairs,
    mover,
    require,
    run,
)
from rushlight.operators.type_groups import USUAL

COLUMNS = cython.declare(int64_t, 128)  # of a row divided among threads
NO_FAULT = cython.declare(int64_t, -0x5F3A91C427D6B80E)
_NATIVE = cython.declare(dict, {})
_INDEX = cython.declare(object, None)


@cython.cfunc
def native_for(name: str, x: Tensor, index: Tensor, a: cython.int, b: cython.int):
    """The kernel for the operands' types; ``a`` and ``b`` are frozen into some."""
    key = (name, x.dtype_, index.dtype_, a, b)
    found = _NATIVE.get(key)
    if found is None:
        source = importlib.import_module(
            "rushlight.operators.indexing.indexing_kernels"
        )
        types = {"T": x.dtype_.name}
        if name != "gather_lines" and name != "gather_kernel":
            types["T"] = mover(x.dtype_)[0]
            types["I"] = index.dtype_.name
            types["wrap"] = a
        if name == "gather_kernel":
            types["across"] = b
        found = getattr(source, name).specialize(**types)
        found = _NATIVE.setdefault(key, found)
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_place(x: Tensor, index: Tensor) -> cython.int:
    """Refuses an index without data beside a tensor that has them."""
    if index.storage.device.kind != x.storage.device.kind:
        raise RuntimeError(
            f"Tensor on device {index.storage.device} is not on the expected device "
            f"{x.storage.device}!\n  self: {brief(x)}\n  index: {brief(index)}"
        )
    return 0


@cython.cfunc
@cython.exceptval(0, check=True)
def device_pick(
    out: Tensor, x: Tensor, index: Tensor, extents: tuple, wrap: cython.int
) -> int64_t:
    """The same where another backend has the tensors."""
    outer, count, size, width = extents
    source = importlib.import_module("rushlight.operators.indexing.indexing_kernels")
    types = {"T": mover(x.dtype_)[0], "I": index.dtype_.name, "wrap": wrap}
    flag = fault_flag(out)
    operands = [out, x, index, flag]
    unit: int64_t = min(8, x.dtype_.itemsize)
    places: int64_t = cython.cast(int64_t, out.pointer())
    places |= cython.cast(int64_t, x.pointer())
    while unit < 8 and width % 2 == 0 and places % (2 * unit) == 0:
        unit, width = 2 * unit, width // 2
    types["T"] = MOVERS[unit]
    total = outer * count * width
    types["each"] = 4 if total % 4 == 0 else 1
    apart: int64_t = total // types["each"]
    ints = [count, size, width, wrap, apart]
    run(source.copy_row_elements, operands, ints, apart, **types)
    fault = fault_in(flag)
    return NO_FAULT if fault is None else fault


@cython.cfunc
def worst_place(index: Tensor, size: int64_t):
    """An index that names nothing, or NO_FAULT: where nothing is copied it is looked for."""
    low, high = int(index.min().item()), int(index.max().item())
    return low if low < 0 else high if high >= size else NO_FAULT


@cython.cfunc
@cython.exceptval(0, check=True)
def pick(
    out: Tensor,
    x: Tensor,
    index: Tensor,
    outer: int64_t,
    size: int64_t,
    inner: int64_t,
    wrap: cython.int,
) -> int64_t:
    """Copies slices of ``(outer, size, inner)`` by index; what is bad, or NO_FAULT."""
    data: cython.p_char[4]
    ints: int64_t[4]
    fault: int64_t = NO_FAULT
    native: object
    width: int64_t = inner * max(1, x.dtype_.itemsize // 8)
    count: int64_t = index.numel_
    total: int64_t = outer
    work: int64_t = count
    if outer == 0 and not wrap and count and out.storage.device.has_memory:
        return worst_place(index, size)
    if outer * count == 0 or not out.storage.device.has_memory:
        return NO_FAULT
    check_place(x, index)
    if size == 0 and not wrap and x.ndim_ < 2:
        raise IndexError("index out of range in self")
    if size == 0 and not wrap:
        raise RuntimeError(
            "index_select(): self indexing axis dim should be positive\n"
            f"  self: {brief(x)}\n  index: {brief(index)}"
        )
    if size == 0:  # the first index is as bad as any
        return int(index.reshape(-1)[0].item())
    if not out.storage.device.on_host:
        return device_pick(out, x, index, (outer, count, size, width), wrap)
    data[0] = out.pointer()
    data[1] = x.pointer()
    data[2] = index.pointer()
    data[3] = cython.cast(cython.p_char, cython.address(fault))
    ints[0] = count
    ints[1] = size
    if width == 1:
        native = native_for("copy_lines", x, index, wrap, 0)
        ints[2] = wrap
        ints[3] = 0
    else:
        native = native_for("copy_rows", x, index, wrap, 0)
        ints[2] = width
        ints[3] = wrap
        total = outer * count
        work = width
    grain: int64_t = grain_for(work)
    # the last pointer is the word that a bad index is noted in
    launch_host(native, data, 4, ints, 4, total, grain, data[3], 8, OBSERVE_ALL)
    return fault


@cython.cfunc
def picked(x: Tensor, dim: cython.int, index: Tensor, lead: cython.int) -> tuple:
    """An uninitialised result of indexing ``dim``, and sizes around it.

    The index contributes all its dimensions, or one where ``lead`` is 1.
    """
    sizes: int64_t[64]
    n: cython.int = 0
    i: cython.int
    outer: int64_t = 1
    inner: int64_t = 1
    for i in range(dim):
        sizes[n] = x.sizes[i]
        outer *= x.sizes[i]
        n += 1
    if lead == 1:
        if x.ndim_:
            sizes[n] = index.numel_
            n += 1
    else:
        if x.ndim_ + index.ndim_ > 64:
            raise RuntimeError("a tensor has at most 64 dimensions")
        for i in range(index.ndim_):
            sizes[n] = index.sizes[i]
            n += 1
    for i in range(dim + 1, x.ndim_):
        sizes[n] = x.sizes[i]
        inner *= x.sizes[i]
        n += 1
    out = new_empty(n, sizes, cython.NULL, x.dtype_, x.storage.device)
    return out, outer, x.sizes[dim] if x.ndim_ else 1, inner


@cython.cfunc
def row_major(t: Tensor) -> Tensor:
    return t if t.row_major else t.contiguous()


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_type(operator: str, index: Tensor, kinds: str) -> cython.int:
    """Indices are int32 or int64."""
    if index.dtype_.code != CODE_INT64 and index.dtype_.code != CODE_INT32:
        raise RuntimeError(
            f"{operator}(): Expected dtype {kinds} for index\n  index: {brief(index)}"
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_by_rows(
    fault: int64_t, x: Tensor, index: Tensor, size: int64_t
) -> cython.int:
    """The same where PyTorch picks from one row after another."""
    raise RuntimeError(
        f"INDICES element is out of DATA bounds, id={fault} axis_dim={size}\n"
        f"  self: {brief(x)}\n  index: {brief(index)}"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse(fault: int64_t, x: Tensor, index: Tensor, size: int64_t) -> cython.int:
    """Reports the index that a kernel noted."""
    if fault != NO_FAULT:
        if x.numel_ == 0 and x.ndim_ > 1 and size:
            refuse_by_rows(fault, x, index, size)
        raise IndexError(
            f"index out of range in self: {fault} for a dimension of size {size}\n"
            f"  self: {brief(x)}\n  index: {brief(index)}"
        )
    return 0


def shares_storage(a: Tensor, b: Tensor):
    """Whether two tensors may lie in the same memory."""
    return a.storage is b.storage or a.storage.data == b.storage.data


def index_select(self: Tensor, dim, index: Tensor):
    """The slices of ``self`` along ``dim`` that ``index`` names, in its order.

    Raises:
        IndexError: an index is negative or too large.
    """
    if index.ndim_ > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    axis: cython.int = wrap_dim(dim, self.ndim_)
    check_type("index_select", index, "int32 or int64")
    if self.ndim_ == 0 and index.numel_ != 1:
        raise RuntimeError(
            "index_select(): Index to scalar can have only 1 value, got "
            f"{index.numel_} value(s)"
        )
    if (
        self.ndim_ <= 1
        and self.dtype_.code >= CODE_UINT16
        and self.dtype_.code <= CODE_UINT64
    ):
        require("index_select", self.dtype_, (), self)
    out, outer, size, inner = picked(self, axis, index, 1)
    x: Tensor = row_major(self)
    places: Tensor = row_major(index)
    fault: int64_t = pick(out, x, places, outer, size, inner, 0)
    if fault != NO_FAULT and axis == 1:
        refuse_by_rows(fault, self, index, size)
    refuse(fault, self, index, size)
    return out


def index_one(self: Tensor, dim: cython.int, place: Tensor):
    """The slices along one dimension that an integer tensor of any shape names."""
    if dim >= self.ndim_:
        raise IndexError(
            f"too many indices for tensor of dimension {self.ndim_}\n"
            f"  self: {brief(self)}"
        )
    out, outer, size, inner = picked(self, dim, place, 0)
    x: Tensor = row_major(self)
    places: Tensor = row_major(place)
    if size == 0 and place.numel_:
        raise IndexError("index is out of bounds for dimension with size 0")
    if out.numel() == 0:  # as nothing is read, no index is looked at
        return out
    fault: int64_t = pick(out, x, places, outer, size, inner, 1)
    if fault != NO_FAULT:
        raise IndexError(
            f"index {fault} is out of bounds for dimension {dim} with size {size}"
        )
    return out


@cython.ccall
@cython.exceptval(check=False)
def has_plain_steps(x: Tensor) -> cython.bint:
    """Whether the strides are those of a new tensor, even where a size is one."""
    d: cython.int
    step: int64_t = 1
    if not x.row_major:
        return False
    for d in range(x.ndim_ - 1, -1, -1):
        if x.strides[d] != step:
            return False
        step *= x.sizes[d]
    return True


def indices_on_device(self: Tensor, indices):
    """Indices where the tensor is: those of the host's may go anywhere.

    Raises:
        RuntimeError: one is on another device.
    """
    kind: cython.int = self.storage.device.kind
    apart: cython.bint = False
    for item in indices:
        if item is None or cython.cast(Tensor, item).storage.device.kind == kind:
            continue
        if not cython.cast(Tensor, item).storage.device.on_host:
            raise RuntimeError(
                "index.Tensor: indices should be either on cpu or on the same device as "
                f"the indexed tensor ({self.storage.device})\n  {brief(self)}\n"
                f"  {brief(item)}\n  remedy: move one of them with .to(device)"
            )
        apart = True
    if not apart or not self.storage.device.has_memory:
        return indices
    return [None if item is None else item.to(self.storage.device) for item in indices]


def index(self: Tensor, indices):
    """The elements at the places that broadcast index tensors and masks name.

    One tensor of integers is read here; other cases, and results without elements, whose
    steps follow rules of their own, in `rushlight.operators.indexing.advanced_indexing`.

    Args:
        indices: for each leading dimension an int64, int32 or bool tensor, or None.

    Raises:
        IndexError: an index is too large, or the shapes don't fit.
    """
    global _INDEX
    place: Tensor = None
    at: cython.int = -1
    d: cython.int = 0
    indices = indices_on_device(self, indices)
    for item in indices:
        if item is not None:
            if at >= 0:
                at = -1
                break
            place = item
            at = d
        d += 1
    if (
        at >= 0
        and (place.dtype_.code == CODE_INT64 or place.dtype_.code == CODE_INT32)
        and has_plain_steps(self)
        and has_plain_steps(place)
        and self.numel_
        and place.numel_
    ):
        return index_one(self, at, place)
    if _INDEX is None:
        _INDEX = importlib.import_module(
            "rushlight.operators.indexing.advanced_indexing"
        ).index
    return _INDEX(self, indices)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx=-1,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of ``weight`` that ``indices`` names: its shape and the row's."""
    if weight.ndim_ != 2:
        raise RuntimeError(f"'weight' must be 2-D\n  weight: {brief(weight)}")
    if indices.dtype_.code != CODE_INT64 and indices.dtype_.code != CODE_INT32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following"
            f" scalar types: Long, Int; but got {indices.dtype_.name} instead (while"
            " checking arguments for embedding)"
        )
    out, outer, size, inner = picked(weight, 0, indices, 0)
    x: Tensor = row_major(weight)
    index: Tensor = row_major(indices)
    refuse(pick(out, x, index, outer, size, inner, 0), weight, indices, size)
    return out


@cython.cfunc
def reached(self: Tensor, axis: cython.int, index: Tensor) -> Tensor:
    """The row-major part of ``self`` that an index tensor of its rank goes over."""
    d: cython.int
    part: object = self
    for d in range(index.ndim_):
        if d == axis or self.ndim_ == 0 or index.sizes[d] == self.sizes[d]:
            continue
        if index.sizes[d] > self.sizes[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index"
                f" {list(index.shape)} to be no larger than self {list(self.shape)}"
                f" apart from dimension {axis}"
            )
        part = part.narrow(d, 0, index.sizes[d])
    return row_major(part)


@cython.cfunc
def gather_pairs(self: Tensor, axis: cython.int, places: Tensor):
    """``gather`` of complex numbers: both parts by the same index."""
    flat = self if self.ndim_ else self.reshape(1)
    sizes = list(places.shape) if places.ndim_ else [1]
    wide = places.reshape(sizes).unsqueeze(-1).expand([*sizes, 2])
    found = from_pairs(gather(as_pairs(flat), axis, wide), self.dtype_)
    return found.reshape(places.shape)


def gather(self: Tensor, dim, index: Tensor, sparse_grad=False):
    """``out[i][j] = self[index[i][j]][j]`` for ``dim`` 0, and so on.

    Raises:
        RuntimeError: an index is negative or too large, or the shapes don't fit.
    """
    data: cython.p_char[4]
    ints: int64_t[5]
    native: object
    fault: int64_t = NO_FAULT
    outer: int64_t = 1
    inner: int64_t = 1
    d: cython.int
    axis: cython.int = wrap_dim(dim, self.ndim_)
    out: Tensor = new_empty(
        index.ndim_, index.sizes, cython.NULL, self.dtype_, self.storage.device
    )
    if index.numel_ == 0:
        return out
    check_type("gather", index, "int32/int64")
    if self.dtype_.code not in USUAL:
        require("scatter_gather_tensor_cpu", self.dtype_, USUAL, self)
    if max(index.ndim_, 1) != max(self.ndim_, 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )
    places: Tensor = row_major(
        index if index.dtype_.code == CODE_INT64 else index.to(dtype_of(4))
    )
    if self.dtype_.category == COMPLEX and out.storage.device.has_memory:
        return gather_pairs(self, axis, places)
    x: Tensor = reached(self, axis, index)
    if not out.storage.device.has_memory:
        return out
    for d in range(index.ndim_):
        if d < axis:
            outer *= index.sizes[d]
        elif d > axis:
            inner *= index.sizes[d]
    count: int64_t = index.sizes[axis] if index.ndim_ else 1
    size: int64_t = self.sizes[axis] if self.ndim_ else 1
    across: cython.bint = outer == 1 and inner > 1
    total: int64_t = inner if across else outer
    work: int64_t = index.numel_ // total
    check_place(x, places)
    if not out.storage.device.on_host:
        fault = device_gather(out, x, places, (outer, count, size, inner))
        refuse_gather(fault, axis, size)
        return out
    data[0] = out.pointer()
    data[1] = x.pointer()
    data[2] = places.pointer()
    data[3] = cython.cast(cython.p_char, cython.address(fault))
    if inner == 1:
        native = native_for("gather_lines", x, places, 0, 0)
        ints[0] = count
        ints[1] = size
        ints[2] = ints[3] = ints[4] = 0
    else:
        native = native_for("gather_kernel", x, places, 0, across)
        ints[0] = outer
        ints[1] = count
        ints[2] = size
        ints[3] = inner
        ints[4] = across
    work = max(COLUMNS if across else 1, grain_for(work))
    launch_host(native, data, 4, ints, 5, total, work, data[3], 8, OBSERVE_ALL)
    refuse_gather(fault, axis, size)
    return out


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_gather(fault: int64_t, axis: cython.int, size: int64_t) -> cython.int:
    if fault != NO_FAULT:
        raise RuntimeError(
            f"index {fault} is out of bounds for dimension {axis} with size {size}"
        )
    return 0


@cython.cfunc
@cython.exceptval(0, check=True)
def device_gather(out: Tensor, x: Tensor, places: Tensor, extents: tuple) -> int64_t:
    """Launches a gather where another backend has the tensors; what is bad."""
    outer, count, size, inner = extents
    source = importlib.import_module("rushlight.operators.indexing.indexing_kernels")
    flag = fault_flag(out)
    operands, ints = [out, x, places, flag], [count, size, inner]
    total = outer * count * inner
    run(source.gather_elements, operands, ints, total, T=x.dtype_.name)
    fault = fault_in(flag)
    return NO_FAULT if fault is None else fault


FEW = cython.declare(int64_t, 4096)  # elements that are counted on the spot
WIDEST = cython.declare(int64_t, 65536)  # places that are


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_set(code: cython.int, data: cython.p_char, i: int64_t) -> cython.bint:
    """Whether an element of type bool, float32 or int64 is not zero."""
    if code == CODE_FLOAT32:
        return cython.cast(cython.p_float, data)[i] != 0
    if code == CODE_INT64:
        return cython.cast(cython.pointer(int64_t), data)[i] != 0
    return data[i] != 0


def coordinates(x: Tensor):
    """The coordinates of what is not zero, a row for each dimension.

    None where there are many elements, or they are not bool, float32 or int64 in host
    memory, row by row.
    """
    code: cython.int = x.dtype_.code
    data: cython.p_char = x.pointer()
    sizes: int64_t[2]
    place: int64_t[64]
    total: int64_t = 0
    k: int64_t = 0
    i: int64_t
    d: cython.int
    n: cython.int = x.ndim_
    if (
        not x.storage.device.on_host
        or not x.row_major
        or x.numel_ > FEW
        or (code != CODE_FLOAT32 and code != CODE_INT64 and code != CODE_BOOL)
    ):
        return None
    for i in range(x.numel_):
        total += is_set(code, data, i)
    sizes[0], sizes[1] = n, total
    out: Tensor = new_empty(2, sizes, cython.NULL, dtype_of(4), x.storage.device)
    target: cython.pointer(int64_t) = cython.cast(
        cython.pointer(int64_t), out.pointer()
    )
    for d in range(n):
        place[d] = 0
    for i in range(x.numel_):
        if is_set(code, data, i):
            for d in range(n):
                target[d * total + k] = place[d]
            k += 1
        d = n - 1
        while d >= 0:
            place[d] += 1
            if place[d] < x.sizes[d]:
                break
            place[d] = 0
            d -= 1
    return out


def tally(x: Tensor, least: int64_t):
    """How often each number from zero on occurs, for ``least`` numbers or more.

    None unless these are few numbers of type int64, none of them negative or large, in
    host memory one after the other.
    """
    data: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), x.pointer())
    count: int64_t = least
    i: int64_t
    if (
        not x.storage.device.on_host
        or not x.row_major
        or x.ndim_ != 1
        or x.numel_ > FEW
        or x.dtype_.code != CODE_INT64
        or least > WIDEST
    ):
        return None
    for i in range(x.numel_):
        if data[i] < 0 or data[i] >= WIDEST:
            return None
        count = max(count, data[i] + 1)
    out: Tensor = new_empty(
        1, cython.address(count), cython.NULL, dtype_of(4), x.storage.device
    )
    found: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), out.pointer())
    for i in range(count):
        found[i] = 0
    for i in range(x.numel_):
        found[data[i]] += 1
    return out

"""Sizes and strides: pure functions over integers, no memory touched."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_contiguous(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
) -> cython.bint:
    expected: int64_t = 1
    i: cython.int
    for i in range(ndim):
        if sizes[i] == 0:
            return True
    for i in range(ndim - 1, -1, -1):
        if sizes[i] != 1:
            if strides[i] != expected:
                return False
            expected *= sizes[i]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_channels_last(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
) -> cython.bint:
    """Whether channels (dimension 1) lie densest: NHWC or NDHWC in memory."""
    if ndim != 4 and ndim != 5:
        return False
    expected: int64_t = 1
    i: cython.int
    dim: cython.int
    for i in range(ndim):
        if i == 0:
            dim = 1
        elif i == ndim - 1:
            dim = 0
        else:
            dim = ndim - i
        if sizes[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= sizes[dim]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_dense(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
) -> cython.bint:
    """Whether the elements fill one run of memory, in some order of dimensions."""
    used: cython.ulonglong = 0
    one: cython.ulonglong = 1
    expected: int64_t = 1
    left: cython.int = 0
    i: cython.int
    found: cython.bint
    for i in range(ndim):
        if sizes[i] == 0:
            return True
        if sizes[i] != 1:
            left += 1
        else:
            used |= one << i
    while left > 0:
        found = False
        for i in range(ndim - 1, -1, -1):
            if not (used >> i) & 1 and strides[i] == expected:
                expected *= sizes[i]
                used |= one << i
                left -= 1
                found = True
                break
        if not found:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def overlaps_itself(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
) -> cython.bint:
    """Whether two indices surely reach the same element (a stride of zero)."""
    i: cython.int
    for i in range(ndim):
        if sizes[i] == 0:
            return False
    for i in range(ndim):
        if sizes[i] > 1 and strides[i] == 0:
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def row_major(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(int64_t),
) -> cython.int:
    # unsigned, as strides beside a size of 0 may wrap: nothing is reached by them
    step: uint64_t = 1
    i: cython.int
    for i in range(ndim - 1, -1, -1):
        strides[i] = cython.cast(int64_t, step)
        if sizes[i] > 1:
            step *= cython.cast(uint64_t, sizes[i])
    return 0


@cython.cfunc
def listed(ndim: cython.int, values: cython.pointer(cython.const[int64_t])) -> list:
    return [values[i] for i in range(ndim)]


@cython.cfunc
@cython.exceptval(-1, check=False)
def count_elements(
    ndim: cython.int, sizes: cython.pointer(cython.const[int64_t])
) -> int64_t:
    count: int64_t = 1
    i: cython.int
    for i in range(ndim):
        if sizes[i] < 0 or __builtin_mul_overflow(
            count, sizes[i], cython.address(count)
        ):
            raise RuntimeError(
                f"numel: integer multiplication overflow with sizes={listed(ndim, sizes)}"
            )
    return count


@cython.cfunc
@cython.exceptval(-1, check=False)
def span(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    offset: int64_t,
    itemsize: int64_t,
) -> int64_t:
    last: int64_t = 1
    step: int64_t = 0
    i: cython.int
    bad: cython.bint = False
    empty: cython.bint = False
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    for i in range(ndim):
        if sizes[i] == 0:
            empty = True
    if strides == cython.NULL:
        for i in range(ndim):
            bad = (
                bad
                or sizes[i] < 0
                or __builtin_mul_overflow(last, sizes[i], cython.address(last))
            )
    elif not empty:
        for i in range(ndim):
            bad = (
                bad
                or sizes[i] < 0
                or (strides[i] < 0 and sizes[i] > 1)
                or __builtin_mul_overflow(
                    sizes[i] - 1, strides[i], cython.address(step)
                )
                or __builtin_add_overflow(last, step, cython.address(last))
            )
    bad = (
        bad
        or __builtin_add_overflow(last, offset, cython.address(last))
        or __builtin_mul_overflow(last, itemsize, cython.address(last))
    )
    if bad and not (empty and strides != cython.NULL):
        refuse_span(ndim, sizes, strides)
    return 0 if empty else last


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_span(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
) -> cython.int:
    and_strides = ""
    if strides != cython.NULL:
        and_strides = f" and strides={listed(ndim, strides)}"
    raise RuntimeError(
        f"Storage size calculation overflowed with sizes={listed(ndim, sizes)}"
        f"{and_strides}"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_window(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    offset: int64_t,
    itemsize: int64_t,
    n_bytes: cython.size_t,
) -> cython.int:
    """Refuses elements outside of a storage of so many bytes."""
    needed: int64_t = span(ndim, sizes, strides, offset, itemsize)
    raise RuntimeError(
        f"setStorage: sizes {listed(ndim, sizes)}, strides {listed(ndim, strides)}, "
        f"storage offset {offset}, and itemsize {itemsize} requiring a storage size of "
        f"{needed} are out of bounds for storage of size {n_bytes}"
    )


@cython.cfunc
@cython.exceptval(-1, check=True)
def multiply(a: int64_t, b: int64_t) -> int64_t:
    """The product of two sizes or strides.

    Raises:
        RuntimeError: it needs more than 64 bits.
    """
    product: int64_t = 0
    if __builtin_mul_overflow(a, b, cython.address(product)):
        raise RuntimeError(f"Stride calculation overflowed: {a} times {b}")
    return product


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def same_strides(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    new_sizes: cython.pointer(cython.const[int64_t]),
    new_strides: cython.pointer(int64_t),
) -> cython.void:
    """The old strides where the sizes stay as they are."""
    i: cython.int
    for i in range(ndim):
        if sizes[i] != new_sizes[i]:
            return
    for i in range(ndim):
        new_strides[i] = strides[i]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def view_strides(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    new_ndim: cython.int,
    new_sizes: cython.pointer(cython.const[int64_t]),
    new_strides: cython.pointer(int64_t),
) -> cython.bint:
    """Fit new sizes onto old memory, run by run of mergeable dimensions."""
    i: cython.int
    view: cython.int = new_ndim - 1
    run: int64_t = 1
    taken: int64_t = 1
    step: int64_t
    if ndim == 0:
        for i in range(new_ndim):
            new_strides[i] = 1
        return True
    for i in range(ndim):
        if sizes[i] == 0:
            row_major(new_ndim, new_sizes, new_strides)
            if ndim == new_ndim:
                same_strides(ndim, sizes, strides, new_sizes, new_strides)
            return True
    step = strides[ndim - 1]
    for i in range(ndim - 1, -1, -1):
        run *= sizes[i]
        # the run ends where the next outer dimension does not continue it
        if i == 0 or (sizes[i - 1] != 1 and strides[i - 1] != run * step):
            while view >= 0 and (taken < run or new_sizes[view] == 1):
                new_strides[view] = taken * step
                taken *= new_sizes[view]
                view -= 1
            if taken != run:
                return False
            if i > 0:
                step = strides[i - 1]
                run = 1
                taken = 1
    return view == -1


@cython.cfunc
@cython.exceptval(-1, check=False)
def wrap_dim(
    dim: int64_t, ndim: cython.int, scalar_ok: cython.bint = True
) -> cython.int:
    limit: cython.int = ndim
    if ndim == 0:
        if not scalar_ok:
            raise IndexError(
                f"Dimension specified as {dim} but tensor has no dimensions"
            )
        limit = 1
    if dim < -limit or dim >= limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, "
            f"{limit - 1}], but got {dim})"
        )
    return dim + limit if dim < 0 else dim


def canonical_dim(dim, ndim, scalar_ok=True):
    """A dimension counted from the front; a number counts as one dimension, or as none.

    Raises:
        IndexError: there is no such dimension.

    >>> canonical_dim(-1, 3)
    2
    """
    return wrap_dim(dim, ndim, scalar_ok)


def around(sizes, dim: cython.Py_ssize_t):
    """How many places are before, along and after a dimension: ``(outer, size, inner)``.

    A number has one of each.

    >>> around([2, 3, 4, 5], 1)
    (2, 3, 20)
    """
    extents: int64_t[3]
    extents[0] = extents[1] = extents[2] = 1
    at: cython.Py_ssize_t = 0
    for extent in sizes:
        extents[0 if at < dim else 1 if at == dim else 2] *= extent
        at += 1
    return extents[0], extents[1], extents[2]


def broadcast_sizes(shapes):
    """The sizes that all the given sizes expand to, as a list.

    Raises:
        RuntimeError: two sizes differ and neither is 1.

    >>> broadcast_sizes([(5, 1, 3), (4, 1)])
    [5, 4, 3]
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        shift = ndim - len(shape)
        for i in range(len(shape) - 1, -1, -1):
            size = shape[i]
            if size == 1 or size == result[shift + i]:
                continue
            if result[shift + i] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({result[shift + i]}) must match the size "
                    f"of tensor b ({size}) at non-singleton dimension {shift + i}"
                )
            result[shift + i] = size
    return result


def infer_size(sizes, numel):
    """``sizes`` with its one ``-1`` replaced so that the product is ``numel``.

    Raises:
        RuntimeError: the sizes do not fit the number of elements.

    >>> infer_size([2, -1], 6)
    [2, 3]
    """
    known = 1
    unknown = -1
    for i, size in enumerate(sizes):
        if size == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif size < 0:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {i} of shape {list(sizes)}"
            )
        else:
            known *= size
    if unknown < 0:
        if known == numel:
            return list(sizes)
    elif known and numel % known == 0:
        return [numel // known if i == unknown else s for i, s in enumerate(sizes)]
    elif known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")

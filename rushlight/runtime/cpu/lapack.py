"""LAPACK over batches of column-major matrices, loaded when the first of them comes.

Each function here takes tensors whose matrices lie column by column, one after the other,
and works in place; a code for each matrix goes into an int32 tensor, and nobody raises. The
matrices of a batch are shared among the threads of the pool, each factored by one thread.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.math import isinf
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.string import memset
from cython.cimports.rushlight.core.dtype import (
    CODE_COMPLEX64,
    CODE_COMPLEX128,
    CODE_FLOAT32,
    CODE_FLOAT64,
)
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import notify_readers, state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.runtime.cpu.lapack_library import (
    GEEV,
    GELS,
    GELSD,
    GELSY,
    GEQRF,
    GESDD,
    GETRF,
    GETRS,
    HETRF,
    HETRS,
    ORGQR,
    ORMQR,
    POTRF,
    POTRI,
    POTRS,
    SYEVD,
    SYTRF,
    SYTRS,
    TRSM,
    routine,
)
from cython.cimports.rushlight.runtime.cpu.lapack_small import (
    REPEATED,
    SMALL,
    repeated_getrf,
    small_getrf,
    small_getrs,
    small_potrf,
    small_potrs,
    small_qr,
    small_trsm,
)
from cython.cimports.rushlight.runtime.cpu.lapack_tasks import (
    ARG_CODE,
    ARG_MEMORY,
    ARG_NOTHING,
    ARG_ZEROS,
    LENGTH_AS_INT,
    LapackCall,
    argument,
    begin_call,
    bits,
    call_each,
    each,
    each_code,
    matrices,
    number,
    numbers,
    queried,
    real_bytes,
    recorded,
    spread,
    unpack_pairs,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    kernel_t,
    launch_kernel,
)

from rushlight.kernels.linalg import lu_in_lanes, reflectors
from rushlight.runtime.cpu.lapack_tasks import set_codes  # noqa: F401 for operators

FEWEST = cython.declare(int64_t, 4)  # systems that are worth a vector
_DRIVERS = {"gels": 16, "gelsy": 17, "gelsd": 18, "gelss": 19}


@cython.cfunc
@cython.exceptval(-1, check=False)
def need_host(a: Tensor) -> cython.int:
    """Refuses what does not lie in the host's memory."""
    if not a.storage.device.on_host and a.storage.device.has_memory:
        raise NotImplementedError(
            f"launch: LAPACK cannot read a tensor on {a.storage.device}\n"
            "  remedy: move it with .cpu()"
        )
    return 0


@cython.cfunc
@cython.exceptval(-1)
def kind_of(a: Tensor) -> cython.int:
    """0 to 3 for float32, float64, complex64 and complex128."""
    code: cython.int = a.dtype_.code
    need_host(a)
    if code == CODE_FLOAT32 or code == CODE_FLOAT64:
        return code - CODE_FLOAT32
    if code == CODE_COMPLEX64 or code == CODE_COMPLEX128:
        return 2 + code - CODE_COMPLEX64
    raise RuntimeError(f"LAPACK has no routines for {a.dtype_.name}")


@cython.cfunc
@cython.exceptval(-1)
def kind_by_columns(a: Tensor) -> cython.int:
    """The kind of matrices, which lie column by column."""
    check_columns(a)
    return kind_of(a)


@cython.cfunc
@cython.exceptval(-1)
def kind_of_system(a: Tensor, b: Tensor) -> cython.int:
    """The kind of a matrix; both it and its right-hand sides lie column by column."""
    check_columns(a)
    check_columns(b)
    return kind_of(a)


@cython.cfunc
@cython.exceptval(-1, check=False)
def keep_shape(a: Tensor, ints: cython.pointer(int64_t)) -> cython.int:
    """Puts the kind, rows and columns of matrices that lie column by column."""
    check_columns(a)
    ints[0] = kind_of(a)
    ints[1] = rows_of(a)
    ints[2] = columns_of(a)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def rows_of(a: Tensor) -> cython.int:
    if a.sizes[a.ndim_ - 2] > 0x7FFFFFFF:
        raise RuntimeError(f"LAPACK counts to 2147483647: {list(a.shape)}")
    return a.sizes[a.ndim_ - 2]


@cython.cfunc
@cython.exceptval(-1)
def columns_of(a: Tensor) -> cython.int:
    if a.sizes[a.ndim_ - 1] > 0x7FFFFFFF:
        raise RuntimeError(f"LAPACK counts to 2147483647: {list(a.shape)}")
    return a.sizes[a.ndim_ - 1]


@cython.cfunc
@cython.exceptval(-1)
def batch_of(a: Tensor, trailing: cython.int) -> int64_t:
    """How many matrices or vectors there are."""
    count: int64_t = 1
    d: cython.int
    need_host(a)
    for d in range(a.ndim_ - trailing):
        count *= a.sizes[d]
    return count


@cython.cfunc
@cython.exceptval(-1)
def check_columns(a: Tensor) -> cython.int:
    """Refuses matrices that do not lie column by column, one after the other."""
    step: int64_t = 1
    d: cython.int = a.ndim_ - 2
    i: cython.int
    for i in range(a.ndim_):
        if a.sizes[d] != 1 and a.strides[d] != step and a.numel_:
            raise RuntimeError(
                f"LAPACK: strides {a.stride()} of {list(a.shape)} are not by columns"
            )
        step *= a.sizes[d]
        d = a.ndim_ - 1 if i == 0 else (a.ndim_ - 3 if i == 1 else d - 1)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def check_rows(a: Tensor, count: int64_t) -> cython.int:
    """Refuses vectors that are not dense, or not as many elements as are written."""
    if not a.row_major or a.numel_ != count:
        raise RuntimeError(f"LAPACK: {list(a.shape)} where {count} elements are due")
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def small(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether a matrix of two such sizes is done without a call of LAPACK."""
    return kind < 2 and a <= SMALL and b <= SMALL and not recorded()


@cython.cfunc
@cython.exceptval(check=False)
def fused(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether that holds for factors, which call for each product of two doubles."""
    most: int64_t = SMALL if kind == 0 else 3 * SMALL // 4
    return kind < 2 and a <= most and b <= most and not recorded()


@cython.cfunc
@cython.exceptval(check=False)
def few(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether that holds for equations, where LAPACK catches up sooner."""
    most: int64_t = SMALL // 2
    return kind < 2 and a <= most and b <= most and not recorded()


@cython.cfunc
def in_lanes(
    kind: int64_t, n: int64_t, count: int64_t, solves: cython.bint
) -> kernel_t:
    """The kernel for systems so small and so many that vectors of them take less; or none."""
    if kind > 1 or count < FEWEST or recorded() or not lu_in_lanes.fits(n):
        return cython.NULL
    name: str = "float64" if kind else "float32"
    made: NativeKernel = lu_in_lanes.kernel(name, n, solves)
    return made.fn


@cython.cfunc
def by_reflectors(ints: cython.pointer(int64_t), expands: cython.bint) -> kernel_t:
    """The task for a matrix that near caches hold, or none: calls of LAPACK are due."""
    if small(ints[0], ints[1], ints[2]):
        return small_qr
    if ints[0] > 1 or recorded():
        return cython.NULL
    if not reflectors.fits(ints[1], ints[2], 8 if ints[0] else 4):
        return cython.NULL
    name: str = "float64" if ints[0] else "float32"
    made: NativeKernel = reflectors.kernel(name, expands)
    return made.fn


@cython.cfunc
@cython.exceptval(-1)
def spread_small(
    task: kernel_t,
    a: Tensor,
    b: Tensor,
    ints: cython.pointer(int64_t),
    count: int64_t,
    work: int64_t,
) -> cython.int:
    """Runs a task of our own over matrices and what goes with them."""
    data: cython.p_char[3]
    data[1] = a.pointer()
    data[2] = b.pointer()
    return spread(task, data, ints, count, work)


# What operators call. Nothing is done for empty matrices and on devices without data.


@cython.cfunc
@cython.exceptval(check=False)
def nothing(a: Tensor) -> cython.bint:
    return a.numel_ == 0 or not a.storage.device.has_memory


@cython.cfunc
@cython.exceptval(check=False)
def cubes(a: int64_t, b: int64_t, c: int64_t) -> int64_t:
    return a * b * c


def cholesky(a: Tensor, codes: Tensor, upper: cython.bint) -> None:
    """Factors in place; the other triangle is left as it is."""
    factor_triangle(POTRF, a, codes, upper)


def cholesky_inverse(a: Tensor, codes: Tensor, upper: cython.bint) -> None:
    """One triangle of the inverse of a product, in the place of its factor."""
    factor_triangle(POTRI, a, codes, upper)


@cython.cfunc
@cython.exceptval(-1)
def factor_triangle(
    routine_number: cython.int, a: Tensor, codes: Tensor, upper: cython.bint
) -> cython.int:
    ints: int64_t[3]
    if nothing(a):
        return 0
    check_columns(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    ints[0] = kind_of(a)
    ints[1] = 85 if upper else 76
    ints[2] = columns_of(a)
    work: int64_t = cubes(ints[2], ints[2], ints[2]) // 3
    if routine_number == POTRF and fused(ints[0], ints[2], ints[2]):
        return spread_small(small_potrf, a, codes, ints, count, work)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, routine_number, ints[0])
    numbers(c, ints, 2)
    matrices(c, a)
    each_code(c, codes)
    return call_each(c, count, work)


def cholesky_solve(a: Tensor, b: Tensor, upper: cython.bint) -> None:
    """Solves with a factor; the solutions replace the right-hand sides."""
    ints: int64_t[4]
    if nothing(b):
        return
    ints[0] = kind_of_system(a, b)
    ints[1] = 85 if upper else 76
    ints[2] = rows_of(b)
    ints[3] = columns_of(b)
    count: int64_t = batch_of(b, 2)
    if a.numel_ != count * ints[2] * ints[2] or kind_of(b) != ints[0]:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(b.shape)}")
    work: int64_t = 2 * cubes(ints[2], ints[2], ints[3])
    if few(ints[0], ints[2], ints[3]):
        spread_small(small_potrs, a, b, ints, count, work)
        return
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, POTRS, ints[0])
    numbers(c, ints, 3)
    matrices(c, a)
    matrices(c, b)
    argument(c, ARG_CODE, 0, 0)
    call_each(c, count, work)


def lu(a: Tensor, pivots: Tensor, codes: Tensor) -> None:
    """Factors in place; pivots count from one."""
    data: cython.p_char[4]
    ints: int64_t[3]
    if nothing(a):
        return
    check_columns(a)
    count: int64_t = batch_of(a, 2)
    ints[0] = kind_of(a)
    ints[1] = rows_of(a)
    ints[2] = columns_of(a)
    check_rows(codes, count)
    check_rows(pivots, count * min(ints[1], ints[2]))
    least: int64_t = min(ints[1], ints[2])
    work: int64_t = cubes(ints[1], ints[2], least)
    data[1] = a.pointer()
    data[2] = pivots.pointer()
    data[3] = codes.pointer()
    task: kernel_t = cython.NULL
    if ints[1] == ints[2]:
        task = in_lanes(ints[0], ints[1], count, False)
    if task == cython.NULL and fused(ints[0], ints[1], ints[2]):
        task = small_getrf
    if task != cython.NULL:
        spread(task, data, ints, count, work)
        return
    repeated: cython.bint = ints[1] <= REPEATED and ints[2] <= REPEATED
    if ints[0] < 2 and repeated and not recorded():
        data[0] = routine(GETRF, ints[0])
        spread(repeated_getrf, data, ints, count, work)
        return
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, GETRF, ints[0])
    numbers(c, ints, 2)
    matrices(c, a)
    each(c, pivots.pointer(), least * 4)
    each_code(c, codes)
    call_each(c, count, work)


def lu_solve(a: Tensor, pivots: Tensor, b: Tensor, form: str) -> None:
    """Solves with factors, transposed (T) or adjoint (C) ones where the form says so."""
    solve_pivoted(GETRS, a, pivots, b, ord(form))


def ldl_solve(a: Tensor, pivots: Tensor, b: Tensor, hermitian: cython.bint) -> None:
    """Solves with the factors of `ldl`."""
    solve_pivoted(HETRS if hermitian else SYTRS, a, pivots, b, 76)


@cython.cfunc
@cython.exceptval(-1)
def check_pivots(
    pivots: Tensor, count: int64_t, rows: int64_t, paired: cython.bint
) -> cython.int:
    """Refuses rows that are not there; ``paired`` ones are negative two by two.

    LAPACK trusts them: it would exchange rows outside the matrix.
    """
    place: cython.pointer(int32_t) = cython.cast(
        cython.pointer(int32_t), pivots.pointer()
    )
    i: int64_t
    size: int64_t
    i = 0
    while i < count * rows:
        size = place[i]
        if paired and size < 0:
            if i % rows != rows - 1 and place[i + 1] < 0:
                size = -min(size, place[i + 1])
            i += 1
        if size < 1 or size > rows:
            raise RuntimeError(_pivot_fault(paired, size, rows))
        i += 1
    return 0


def _pivot_fault(paired, size, rows):
    source = "Did you properly pass the result of"
    if not paired:
        limit = (
            "greater or equal to 1" if size < 1 else "smaller or equal to LU.size(-2)"
        )
        return f"Pivots given to lu_solve must all be {limit}. {source} lu_factor?"
    limit = (
        "all satisfy |pivot| <= LD.size(-2)"
        if size > rows
        else ("all satisfy |pivot| >= 1" if size == 0 else "be negative in pairs")
    )
    return f"Pivots given to ldl_solve must {limit}. {source} ldl_factor?"


@cython.cfunc
@cython.exceptval(-1)
def solve_pivoted(
    routine_number: cython.int, a: Tensor, pivots: Tensor, b: Tensor, letter: cython.int
) -> cython.int:
    data: cython.p_char[4]
    ints: int64_t[4]
    if nothing(b):
        return 0
    check_columns(a)
    check_columns(b)
    ints[0] = kind_of(a)
    ints[1] = letter
    ints[2] = rows_of(b)
    ints[3] = columns_of(b)
    count: int64_t = batch_of(b, 2)
    if a.numel_ != count * ints[2] * ints[2] or kind_of(b) != ints[0]:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(b.shape)}")
    check_rows(pivots, count * ints[2])
    check_pivots(pivots, count, ints[2], routine_number != GETRS)
    work: int64_t = 2 * cubes(ints[2], ints[2], ints[3])
    if routine_number == GETRS and few(ints[0], ints[2], ints[3]):
        data[1] = a.pointer()
        data[2] = pivots.pointer()
        data[3] = b.pointer()
        task: kernel_t = cython.NULL
        if letter == 78:
            task = in_lanes(ints[0], ints[2], count, True)
        if task == cython.NULL:
            task = small_getrs
        return spread(task, data, ints, count, work)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, routine_number, ints[0])
    number(c, letter)
    number(c, ints[2])
    number(c, ints[3])
    matrices(c, a)
    each(c, pivots.pointer(), ints[2] * 4)
    matrices(c, b)
    argument(c, ARG_CODE, 0, 0)
    return call_each(c, count, work)


def triangular_solve(
    a: Tensor,
    b: Tensor,
    left: cython.bint,
    upper: cython.bint,
    form: str,
    unit: cython.bint,
) -> None:
    """Solves with a triangle from the left or the right; solutions replace ``b``."""
    ints: int64_t[7]
    if nothing(b):
        return
    ints[0] = kind_of_system(a, b)
    ints[1] = 76 if left else 82
    ints[2] = 85 if upper else 76
    ints[3] = ord(form)
    ints[4] = 85 if unit else 78
    ints[5] = rows_of(b)
    ints[6] = columns_of(b)
    order: int64_t = ints[5] if left else ints[6]
    count: int64_t = batch_of(b, 2)
    if a.numel_ != count * order * order or kind_of(b) != ints[0]:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(b.shape)}")
    work: int64_t = cubes(order, ints[5], ints[6])
    if few(ints[0], ints[5], ints[6]):
        spread_small(small_trsm, a, b, ints, count, work)
        return
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, TRSM, ints[0])
    numbers(c, ints, 6)
    bits(c, ints[0], 1)
    each(c, a.pointer(), order * order * a.dtype_.itemsize)
    number(c, order)
    matrices(c, b)
    call_each(c, count, work)


def qr(a: Tensor, tau: Tensor) -> None:
    """R in the upper triangle, reflectors below it, their factors in ``tau``."""
    ints: int64_t[4]
    if nothing(a):
        return
    keep_shape(a, ints)
    ints[3] = -1
    least: int64_t = min(ints[1], ints[2])
    count: int64_t = batch_of(a, 2)
    check_rows(tau, count * least)
    work: int64_t = 2 * cubes(ints[1], ints[2], least)
    task: kernel_t = by_reflectors(ints, False)
    if task != cython.NULL:
        spread_small(task, a, tau, ints, count, work)
        return
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, GEQRF, ints[0])
    numbers(c, ints, 2)
    matrices(c, a)
    each(c, tau.pointer(), least * a.dtype_.itemsize)
    queried(c, a.dtype_.itemsize, ints[0] & 1, True)
    argument(c, ARG_CODE, 0, 0)
    call_each(c, count, work)


def expand_reflectors(a: Tensor, tau: Tensor) -> None:
    """The product of the reflectors, in their place."""
    ints: int64_t[4]
    if nothing(a):
        return
    keep_shape(a, ints)
    ints[3] = tau.sizes[tau.ndim_ - 1]
    count: int64_t = batch_of(a, 2)
    check_rows(tau, count * ints[3])
    if ints[3] > ints[2] or ints[2] > ints[1]:
        raise RuntimeError(f"LAPACK: {list(tau.shape)} beside {list(a.shape)}")
    work: int64_t = 4 * cubes(ints[1], ints[2], ints[2])
    task: kernel_t = by_reflectors(ints, True)
    if task != cython.NULL:
        spread_small(task, a, tau, ints, count, work)
        return
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, ORGQR, ints[0])
    numbers(c, ints, 3)
    matrices(c, a)
    each(c, tau.pointer(), ints[3] * a.dtype_.itemsize)
    queried(c, a.dtype_.itemsize, ints[0] & 1, True)
    argument(c, ARG_CODE, 0, 0)
    call_each(c, count, work)


def apply_reflectors(
    a: Tensor, tau: Tensor, c: Tensor, left: cython.bint, adjoint: cython.bint
) -> None:
    """Multiplies ``c`` by the product of the reflectors, or by its adjoint."""
    if nothing(c):
        return
    check_columns(a)
    check_columns(c)
    kind: cython.int = kind_of(a)
    rows: int64_t = rows_of(c)
    columns: int64_t = columns_of(c)
    reflectors: int64_t = tau.sizes[tau.ndim_ - 1]
    order: int64_t = rows if left else columns
    count: int64_t = batch_of(c, 2)
    item: int64_t = a.dtype_.itemsize
    check_rows(tau, count * reflectors)
    if a.numel_ != count * order * reflectors or kind_of(c) != kind:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(c.shape)}")
    call: LapackCall
    to: cython.pointer(LapackCall) = cython.address(call)
    begin_call(to, ORMQR, kind)
    number(to, 76 if left else 82)
    number(to, (84 if kind < 2 else 67) if adjoint else 78)
    number(to, rows)
    number(to, columns)
    number(to, reflectors)
    each(to, a.pointer(), order * reflectors * item)
    number(to, order)
    each(to, tau.pointer(), reflectors * item)
    matrices(to, c)
    queried(to, item, kind & 1, True)
    argument(to, ARG_CODE, 0, 0)
    call_each(to, count, 4 * cubes(rows, columns, reflectors))


def has_infinity(a: Tensor) -> bool:
    """Whether an element is infinite: divide and conquer may then never end.

    Raises:
        RuntimeError: the matrices do not lie column by column.
    """
    if state().included & RECORDING:
        notify_readers()
    if nothing(a):
        return False
    check_columns(a)
    kind: cython.int = kind_of(a)
    count: int64_t = a.numel_ * (2 if kind > 1 else 1)
    single: cython.p_float = cython.cast(cython.p_float, a.pointer())
    double: cython.p_double = cython.cast(cython.p_double, a.pointer())
    i: int64_t
    for i in range(count):
        if isinf(single[i] if kind % 2 == 0 else double[i]):
            return True
    return False


def svd(
    a: Tensor, u: Tensor, s: Tensor, vh: Tensor, codes: Tensor, letter: str
) -> None:
    """Singular values, and vectors: none (N), as many as values (S), all (A)."""
    if nothing(a):
        return
    check_columns(a)
    kind: cython.int = kind_of(a)
    rows: int64_t = rows_of(a)
    columns: int64_t = columns_of(a)
    least: int64_t = min(rows, columns)
    most: int64_t = max(rows, columns)
    count: int64_t = batch_of(a, 2)
    item: int64_t = a.dtype_.itemsize
    wide: int64_t = rows if letter == "A" else least
    tall: int64_t = columns if letter == "A" else least
    reals: int64_t = 7 * least
    check_rows(codes, count)
    check_rows(s, count * least)
    if letter != "N":
        check_columns(u)
        check_columns(vh)
        if u.numel_ != count * rows * wide or vh.numel_ != count * columns * tall:
            raise RuntimeError(f"LAPACK: {list(u.shape)} beside {list(vh.shape)}")
        reals = least * max(5 * least + 7, 2 * most + 2 * least + 1)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, GESDD, kind)
    number(c, ord(letter))
    number(c, rows)
    number(c, columns)
    matrices(c, a)
    each(c, s.pointer(), least * real_bytes(kind))
    each(c, u.pointer(), 0 if letter == "N" else rows * wide * item)
    number(c, rows)
    each(c, vh.pointer(), 0 if letter == "N" else columns * tall * item)
    number(c, tall)
    queried(c, item, kind & 1, True)
    if kind > 1:
        argument(c, ARG_MEMORY, reals * real_bytes(kind), 0)
    argument(c, ARG_MEMORY, 8 * least * 4, 0)
    each_code(c, codes)
    work: int64_t = cubes(rows, columns, least)
    call_each(c, count, (4 if letter == "N" else 20) * work)


def eigh(
    a: Tensor, values: Tensor, codes: Tensor, upper: cython.bint, vectors: cython.bint
) -> None:
    """Eigenvalues in ascending order; vectors, where wanted, replace the matrices."""
    if nothing(a):
        return
    kind: cython.int = kind_by_columns(a)
    n: int64_t = columns_of(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(values, count * n)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, SYEVD, kind)
    number(c, 86 if vectors else 78)
    number(c, 85 if upper else 76)
    number(c, n)
    matrices(c, a)
    each(c, values.pointer(), n * real_bytes(kind))
    queried(c, a.dtype_.itemsize, kind & 1, True)
    if kind > 1:
        queried(c, real_bytes(kind), kind & 1, True)
    queried(c, 4, LENGTH_AS_INT, True)
    each_code(c, codes)
    call_each(c, count, (8 if vectors else 2) * cubes(n, n, n))


def eig(
    a: Tensor, values: Tensor, vectors: Tensor, codes: Tensor, wanted: cython.bint
) -> None:
    """Complex eigenvalues and, where wanted, vectors of unit length."""
    if nothing(a):
        return
    kind: cython.int = kind_by_columns(a)
    n: int64_t = columns_of(a)
    count: int64_t = batch_of(a, 2)
    short: int64_t = n * real_bytes(kind)
    check_rows(codes, count)
    check_rows(values, count * n)
    if wanted:
        check_columns(vectors)
        if vectors.numel_ != a.numel_:
            raise RuntimeError(f"LAPACK: {list(vectors.shape)} of {list(a.shape)}")
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    sizes: int64_t[1]
    parts: Tensor = values
    packed: Tensor = vectors if wanted else values
    if kind < 2:
        sizes[0] = 2 * count * n
        parts = new_empty(1, sizes, cython.NULL, a.dtype_, a.storage.device)
        sizes[0] = count * n * n if wanted else 1
        packed = new_empty(1, sizes, cython.NULL, a.dtype_, a.storage.device)
    begin_call(c, GEEV, kind)
    number(c, 78)
    number(c, 86 if wanted else 78)
    number(c, n)
    matrices(c, a)
    each(c, parts.pointer(), 2 * short)
    if kind < 2:
        each(c, parts.pointer() + short, 2 * short)
    argument(c, ARG_NOTHING, 0, 0)
    number(c, n)
    each(c, packed.pointer(), n * n * a.dtype_.itemsize if wanted else 0)
    number(c, n)
    queried(c, a.dtype_.itemsize, kind & 1, True)
    if kind > 1:
        argument(c, ARG_MEMORY, 2 * short, 0)
    each_code(c, codes)
    call_each(c, count, 25 * cubes(n, n, n))
    if kind < 2:
        unpack(parts, packed, values, vectors, wanted)


@cython.cfunc
@cython.exceptval(-1)
def unpack(
    parts: Tensor, packed: Tensor, values: Tensor, vectors: Tensor, wanted: cython.bint
) -> cython.int:
    """Complex eigenvalues and vectors out of those of real matrices."""
    data: cython.p_char[4]
    ints: int64_t[3]
    n: int64_t = values.sizes[values.ndim_ - 1]
    ints[0] = kind_of(parts)
    ints[1] = n
    ints[2] = wanted
    data[0] = parts.pointer()
    data[1] = packed.pointer()
    data[2] = values.pointer()
    data[3] = vectors.pointer()
    if recorded():
        launch_kernel(
            unpack_pairs, data, 4, ints, 3, values.numel_ // n, 1, cython.NULL, 0
        )
    return spread(unpack_pairs, data, ints, values.numel_ // n, 4 * n * n)


def ldl(a: Tensor, pivots: Tensor, codes: Tensor, hermitian: cython.bint) -> None:
    """L and D in the lower triangle; pivots as LAPACK has them."""
    if nothing(a):
        return
    ints: int64_t[3]
    keep_shape(a, ints)
    kind: cython.int = ints[0]
    n: int64_t = ints[2]
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(pivots, count * n)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, HETRF if hermitian else SYTRF, kind)
    number(c, 76)
    number(c, n)
    matrices(c, a)
    each(c, pivots.pointer(), n * 4)
    queried(c, a.dtype_.itemsize, kind & 1, True)
    each_code(c, codes)
    call_each(c, count, cubes(n, n, n) // 3)


def lstsq(
    a: Tensor,
    b: Tensor,
    values: Tensor,
    ranks: Tensor,
    codes: Tensor,
    driver: str,
    cut: cython.double,
) -> None:
    """Least squares; the solutions are the first rows of ``b``, residuals below them.

    Args:
        values: the singular values, where the driver finds them.
        ranks: the numbers of those above the cut, where the driver counts them.
        driver: ``gels``, ``gelsy``, ``gelsd`` or ``gelss``.
        cut: the share of the largest singular value below which one is zero.
    """
    if nothing(a) or nothing(b):
        return
    kind: cython.int = kind_of_system(a, b)
    rows: int64_t = rows_of(a)
    columns: int64_t = columns_of(a)
    least: int64_t = min(rows, columns)
    tall: int64_t = max(rows, columns)
    count: int64_t = batch_of(a, 2)
    item: int64_t = a.dtype_.itemsize
    chosen: cython.int = _DRIVERS[driver]
    if b.numel_ != count * tall * columns_of(b) or kind_of(b) != kind:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(b.shape)}")
    check_rows(codes, count)
    check_rows(ranks, count)
    check_rows(values, count * least)
    call: LapackCall
    c: cython.pointer(LapackCall) = cython.address(call)
    begin_call(c, chosen, kind)
    if chosen == GELS:
        number(c, 78)
    number(c, rows)
    number(c, columns)
    number(c, columns_of(b))
    matrices(c, a)
    each(c, b.pointer(), tall * columns_of(b) * item)
    number(c, max(tall, 1))
    if chosen == GELSY:
        argument(c, ARG_ZEROS, columns * 4, 0)  # the columns' pivots
    elif chosen != GELS:
        each(c, values.pointer(), least * real_bytes(kind))
    if chosen != GELS:
        bits(c, kind, cut)
        each_code(c, ranks)
    queried(c, item, kind & 1, True)
    if kind > 1 and chosen == GELSD:
        queried(c, real_bytes(kind), kind & 1, False)
    elif kind > 1 and chosen != GELS:
        argument(c, ARG_MEMORY, max(5 * least, 2 * columns) * real_bytes(kind), 0)
    if chosen == GELSD:
        queried(c, 4, LENGTH_AS_INT, False)
    each_code(c, codes)
    call_each(c, count, 8 * cubes(rows, columns, least))


def small_columns(a: Tensor):
    """A copy of small matrices, column by column; None where others copy better."""
    if state().included & RECORDING:
        notify_readers()
    d: cython.int
    rows: int64_t = a.sizes[a.ndim_ - 2]
    columns: int64_t = a.sizes[a.ndim_ - 1]
    if rows > 64 or columns > 64 or nothing(a) or a.ndim_ > 60 or recorded():
        return None
    if not a.storage.device.on_host:
        return None
    for d in range(a.ndim_ - 3):
        if a.strides[d] != a.strides[d + 1] * a.sizes[d + 1]:
            return None
    sizes: int64_t[64]
    strides: int64_t[64]
    step: int64_t = rows * columns
    for d in range(a.ndim_):
        sizes[d] = a.sizes[d]
    strides[a.ndim_ - 2] = 1
    strides[a.ndim_ - 1] = rows
    for d in range(a.ndim_ - 3, -1, -1):
        strides[d] = step
        step *= sizes[d]
    result: Tensor = new_empty(a.ndim_, sizes, strides, a.dtype_, a.storage.device)
    between: int64_t = a.strides[a.ndim_ - 3] if a.ndim_ > 2 else 0
    down: int64_t = a.strides[a.ndim_ - 2]
    along: int64_t = a.strides[a.ndim_ - 1]
    count: int64_t = batch_of(a, 2)
    if a.dtype_.itemsize == 4:
        copy_columns(
            cython.cast(cython.p_float, a.pointer()),
            cython.cast(cython.p_float, result.pointer()),
            count, rows, columns, between, down, along,
        )  # fmt: skip
    elif a.dtype_.itemsize == 8:
        copy_columns(
            cython.cast(cython.p_double, a.pointer()),
            cython.cast(cython.p_double, result.pointer()),
            count, rows, columns, between, down, along,
        )  # fmt: skip
    else:
        return None
    return result


RealPointer = cython.fused_type(cython.p_float, cython.p_double)


@cython.cfunc
@cython.exceptval(check=False)
def copy_columns(
    source: RealPointer,
    target: RealPointer,
    count: int64_t,
    rows: int64_t,
    columns: int64_t,
    between: int64_t,
    down: int64_t,
    along: int64_t,
) -> cython.void:
    """Copies matrices of any strides so that their columns are adjacent."""
    i: int64_t
    j: int64_t
    _k: int64_t
    with cython.nogil:
        for _k in range(count):
            for j in range(columns):
                for i in range(rows):
                    target[j * rows + i] = source[j * along + i * down]
            source += between
            target += rows * columns


def clear_triangle(a: Tensor, upper: cython.bint) -> None:
    """Zeros the triangle beside the upper, or beside the lower, one."""
    if nothing(a):
        return
    check_columns(a)
    data: cython.p_char = a.pointer()
    rows: int64_t = a.sizes[a.ndim_ - 2]
    columns: int64_t = a.sizes[a.ndim_ - 1]
    item: int64_t = a.dtype_.itemsize
    count: int64_t = batch_of(a, 2)
    _k: int64_t
    j: int64_t
    with cython.nogil:
        for _k in range(count):
            for j in range(columns):
                if not upper:
                    memset(data, 0, min(j, rows) * item)
                elif j + 1 < rows:
                    memset(data + (j + 1) * item, 0, (rows - j - 1) * item)
                data += rows * item


def first_fault(codes: Tensor):
    """Which code is the first that is not zero, and the code; None if there is none."""
    if state().included & RECORDING:
        notify_readers()
    if not codes.storage.device.on_host and codes.storage.device.has_memory:
        return first_fault(codes.cpu())
    values: cython.p_int = cython.cast(cython.p_int, codes.pointer())
    i: int64_t
    # a tensor without elements, such as a fake one, has no codes to tell
    if not codes.storage.device.has_memory or codes.storage.data == cython.NULL:
        return None
    for i in range(codes.numel_):
        if values[i] != 0:
            return i, values[i]
    return None

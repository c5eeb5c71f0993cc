"""LAPACK over batches of column-major matrices, loaded when the first of them comes.

The routines are OpenBLAS's, found in the wheel `scipy-openblas32`. Each function here
takes tensors whose matrices lie column by column, one after the other, and works in
place; a code for each matrix goes into an int32 tensor, and nobody raises. The
matrices of a batch are shared among the threads of the pool, each factored by one
thread. OpenBLAS's own threads are for large matrices that come alone: they wait for
each other by spinning, which costs more than it brings where another process has a core.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import threading

import cython
from cython.cimports.libc.math import isinf
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.string import memset
from cython.cimports.posix.dlfcn import RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym
from cython.cimports.rushlight.core.dtype import (
    CODE_COMPLEX64,
    CODE_COMPLEX128,
    CODE_FLOAT32,
    CODE_FLOAT64,
)
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import state, tell_readers
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
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
    run_geev,
    run_gesdd,
    run_getrf,
    run_getrs,
    run_lstsq,
    run_ormqr,
    run_potrf,
    run_potrs,
    run_qr,
    run_syevd,
    run_sytrf,
    run_trsm,
    set_threads_t,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    kernel_t,
    parallel_for,
    run_here,
)

from rushlight.runtime.cpu.pool import get_num_threads

# The routines by number, as they are called for real and for complex numbers.
_NAMES = (
    ("potrf", "potrf"),
    ("potri", "potri"),
    ("potrs", "potrs"),
    ("getrf", "getrf"),
    ("getrs", "getrs"),
    ("trsm", "trsm"),
    ("geqrf", "geqrf"),
    ("orgqr", "ungqr"),
    ("ormqr", "unmqr"),
    ("gesdd", "gesdd"),
    ("geev", "geev"),
    ("syevd", "heevd"),
    ("sytrf", "sytrf"),
    ("sytrs", "sytrs"),
    ("sytrf", "hetrf"),
    ("sytrs", "hetrs"),
    ("gels", "gels"),
    ("gelsy", "gelsy"),
    ("gelsd", "gelsd"),
    ("gelss", "gelss"),
)
POTRF = cython.declare(cython.int, 0)
POTRI = cython.declare(cython.int, 1)
POTRS = cython.declare(cython.int, 2)
GETRF = cython.declare(cython.int, 3)
GETRS = cython.declare(cython.int, 4)
TRSM = cython.declare(cython.int, 5)
GEQRF = cython.declare(cython.int, 6)
ORGQR = cython.declare(cython.int, 7)
ORMQR = cython.declare(cython.int, 8)
GESDD = cython.declare(cython.int, 9)
GEEV = cython.declare(cython.int, 10)
SYEVD = cython.declare(cython.int, 11)
SYTRF = cython.declare(cython.int, 12)
SYTRS = cython.declare(cython.int, 13)
HETRF = cython.declare(cython.int, 14)
HETRS = cython.declare(cython.int, 15)
GELS = cython.declare(cython.int, 16)
_DRIVERS = {"gels": 16, "gelsy": 17, "gelsd": 18, "gelss": 19}

# Floating-point operations from which one matrix is worth OpenBLAS's threads, and those
# that make a piece of a batch worth a thread of the pool.
LARGE = cython.declare(int64_t, 1 << 28)
PIECE = cython.declare(int64_t, 1 << 17)

_functions = cython.declare(cython.p_void[80])
_library = cython.declare(cython.p_void)
_set_threads = cython.declare(set_threads_t)
_threads = cython.declare(cython.int, 0)
_loading = threading.Lock()


def library_path() -> str:
    """Where OpenBLAS's shared library lies.

    Raises:
        RuntimeError: it is not installed.
    """
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is not None:
        for folder in spec.submodule_search_locations:
            found = glob.glob(os.path.join(folder, "lib", "libscipy_openblas*.*"))
            if found:
                return sorted(found)[0]
    raise RuntimeError(
        "linear algebra needs LAPACK, and it was not found\n"
        "  remedy: pip install scipy-openblas32"
    )


@contextlib.contextmanager
def plain_kernels():
    """While the library is loaded it takes its kernels for AVX2, unless told otherwise.

    Those for AVX-512 solve triangles at half their speed, and are no faster elsewhere.
    """
    from rushlight.runtime.cpu.code_cache import cpu_identity

    chosen = "OPENBLAS_CORETYPE" in os.environ or "avx512" not in cpu_identity()
    if not chosen:
        os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    try:
        yield
    finally:
        if not chosen:
            del os.environ["OPENBLAS_CORETYPE"]


def load() -> None:
    """Loads the library and looks up every routine; later calls find it done."""
    global _library, _set_threads
    with _loading:
        if _library != cython.NULL:
            return
        path = os.fsencode(library_path())
        with plain_kernels():
            found: cython.p_void = dlopen(path, RTLD_NOW | RTLD_LOCAL)
        if found == cython.NULL:
            raise RuntimeError(f"LAPACK: {dlerror().decode()}")
        for number in range(len(_NAMES)):
            for kind in range(4):
                name = "sdcz"[kind] + _NAMES[number][kind > 1]
                symbol = f"scipy_{name}_".encode()
                _functions[4 * number + kind] = dlsym(found, symbol)
                if _functions[4 * number + kind] == cython.NULL:
                    raise RuntimeError(f"LAPACK: {os.fsdecode(path)} has no {name}")
        _set_threads = cython.cast(
            set_threads_t, dlsym(found, b"scipy_openblas_set_num_threads")
        )
        _library = found


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
def routine(number: cython.int, kind: cython.int) -> cython.p_char:
    """A routine's address, as the tasks take it."""
    if _library == cython.NULL:
        load()
    return cython.cast(cython.p_char, _functions[4 * number + kind])


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
@cython.exceptval(-1)
def spread(
    task: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    count: int64_t,
    work: int64_t,
) -> cython.int:
    """Runs a task over the matrices of a batch, ``work`` operations each."""
    global _threads
    wanted: cython.int = get_num_threads()
    grain: int64_t = count
    if work < LARGE or count >= wanted:
        wanted = 1
        grain = max(cython.cast(int64_t, 1), PIECE // (work + 1))
    if wanted != _threads:
        _threads = wanted
        _set_threads(wanted)
    with cython.nogil:
        if count <= grain:
            run_here(task, data, ints, count)
        else:
            parallel_for(task, data, ints, count, grain)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def small(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether a matrix of two such sizes is done without a call of LAPACK."""
    return kind < 2 and a <= SMALL and b <= SMALL


@cython.cfunc
@cython.exceptval(check=False)
def fused(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether that holds for factors, which call for each product of two doubles."""
    most: int64_t = SMALL if kind == 0 else 3 * SMALL // 4
    return kind < 2 and a <= most and b <= most


@cython.cfunc
@cython.exceptval(check=False)
def few(kind: int64_t, a: int64_t, b: int64_t) -> cython.bint:
    """Whether that holds for equations, where LAPACK catches up sooner."""
    return kind < 2 and a <= SMALL // 2 and b <= SMALL // 2


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
    number: cython.int, a: Tensor, codes: Tensor, upper: cython.bint
) -> cython.int:
    data: cython.p_char[3]
    ints: int64_t[3]
    if nothing(a):
        return 0
    check_columns(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    ints[0] = kind_of(a)
    ints[1] = 85 if upper else 76
    ints[2] = columns_of(a)
    data[0] = routine(number, kind_of(a))
    data[1] = a.pointer()
    data[2] = codes.pointer()
    task: kernel_t = run_potrf
    if number == POTRF and fused(ints[0], ints[2], ints[2]):
        task = small_potrf
    spread(task, data, ints, count, cubes(ints[2], ints[2], ints[2]) // 3)
    return 0


def cholesky_solve(a: Tensor, b: Tensor, upper: cython.bint) -> None:
    """Solves with a factor; the solutions replace the right-hand sides."""
    data: cython.p_char[3]
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
    data[0] = routine(POTRS, kind_of(a))
    data[1] = a.pointer()
    data[2] = b.pointer()
    task: kernel_t = small_potrs if few(ints[0], ints[2], ints[3]) else run_potrs
    spread(task, data, ints, count, 2 * cubes(ints[2], ints[2], ints[3]))


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
    data[0] = routine(GETRF, kind_of(a))
    data[1] = a.pointer()
    data[2] = pivots.pointer()
    data[3] = codes.pointer()
    least: int64_t = min(ints[1], ints[2])
    task: kernel_t = run_getrf
    if fused(ints[0], ints[1], ints[2]):
        task = small_getrf
    elif ints[0] < 2 and ints[1] <= REPEATED and ints[2] <= REPEATED:
        task = repeated_getrf
    spread(task, data, ints, count, cubes(ints[1], ints[2], least))


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
    number: cython.int, a: Tensor, pivots: Tensor, b: Tensor, letter: cython.int
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
    check_pivots(pivots, count, ints[2], number != GETRS)
    data[0] = routine(number, kind_of(a))
    data[1] = a.pointer()
    data[2] = pivots.pointer()
    data[3] = b.pointer()
    task: kernel_t = run_getrs
    if number == GETRS and few(ints[0], ints[2], ints[3]):
        task = small_getrs
    spread(task, data, ints, count, 2 * cubes(ints[2], ints[2], ints[3]))
    return 0


def triangular_solve(
    a: Tensor,
    b: Tensor,
    left: cython.bint,
    upper: cython.bint,
    form: str,
    unit: cython.bint,
) -> None:
    """Solves with a triangle from the left or the right; solutions replace ``b``."""
    data: cython.p_char[3]
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
    data[0] = routine(TRSM, kind_of(a))
    data[1] = a.pointer()
    data[2] = b.pointer()
    task: kernel_t = small_trsm if few(ints[0], ints[5], ints[6]) else run_trsm
    spread(task, data, ints, count, cubes(order, ints[5], ints[6]))


def qr(a: Tensor, tau: Tensor) -> None:
    """R in the upper triangle, reflectors below it, their factors in ``tau``."""
    data: cython.p_char[3]
    ints: int64_t[4]
    if nothing(a):
        return
    keep_shape(a, ints)
    ints[3] = -1
    least: int64_t = min(ints[1], ints[2])
    count: int64_t = batch_of(a, 2)
    check_rows(tau, count * least)
    data[0] = routine(GEQRF, kind_of(a))
    data[1] = a.pointer()
    data[2] = tau.pointer()
    task: kernel_t = small_qr if small(ints[0], ints[1], ints[2]) else run_qr
    spread(task, data, ints, count, 2 * cubes(ints[1], ints[2], least))


def expand_reflectors(a: Tensor, tau: Tensor) -> None:
    """The product of the reflectors, in their place."""
    data: cython.p_char[3]
    ints: int64_t[4]
    if nothing(a):
        return
    keep_shape(a, ints)
    ints[3] = tau.sizes[tau.ndim_ - 1]
    count: int64_t = batch_of(a, 2)
    check_rows(tau, count * ints[3])
    if ints[3] > ints[2] or ints[2] > ints[1]:
        raise RuntimeError(f"LAPACK: {list(tau.shape)} beside {list(a.shape)}")
    data[0] = routine(ORGQR, kind_of(a))
    data[1] = a.pointer()
    data[2] = tau.pointer()
    task: kernel_t = small_qr if small(ints[0], ints[1], ints[2]) else run_qr
    spread(task, data, ints, count, 4 * cubes(ints[1], ints[2], ints[2]))


def apply_reflectors(
    a: Tensor, tau: Tensor, c: Tensor, left: cython.bint, adjoint: cython.bint
) -> None:
    """Multiplies ``c`` by the product of the reflectors, or by its adjoint."""
    data: cython.p_char[4]
    ints: int64_t[6]
    if nothing(c):
        return
    check_columns(a)
    check_columns(c)
    ints[0] = kind_of(a)
    ints[1] = 76 if left else 82
    ints[2] = (84 if ints[0] < 2 else 67) if adjoint else 78
    ints[3] = rows_of(c)
    ints[4] = columns_of(c)
    ints[5] = tau.sizes[tau.ndim_ - 1]
    order: int64_t = ints[3] if left else ints[4]
    count: int64_t = batch_of(c, 2)
    check_rows(tau, count * ints[5])
    if a.numel_ != count * order * ints[5] or kind_of(c) != ints[0]:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(c.shape)}")
    data[0] = routine(ORMQR, kind_of(a))
    data[1] = a.pointer()
    data[2] = tau.pointer()
    data[3] = c.pointer()
    spread(run_ormqr, data, ints, count, 4 * cubes(ints[3], ints[4], ints[5]))


def has_infinity(a: Tensor) -> bool:
    """Whether an element is infinite: divide and conquer may then never end.

    Raises:
        RuntimeError: the matrices do not lie column by column.
    """
    if state().included & RECORDING:
        tell_readers()
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
    data: cython.p_char[6]
    ints: int64_t[4]
    if nothing(a):
        return
    check_columns(a)
    ints[0] = kind_of(a)
    ints[1] = ord(letter)
    ints[2] = rows_of(a)
    ints[3] = columns_of(a)
    least: int64_t = min(ints[2], ints[3])
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(s, count * least)
    if letter != "N":
        check_columns(u)
        check_columns(vh)
        wide: int64_t = ints[2] if letter == "A" else least
        tall: int64_t = ints[3] if letter == "A" else least
        if u.numel_ != count * ints[2] * wide or vh.numel_ != count * ints[3] * tall:
            raise RuntimeError(f"LAPACK: {list(u.shape)} beside {list(vh.shape)}")
    data[0] = routine(GESDD, kind_of(a))
    data[1] = a.pointer()
    data[2] = u.pointer()
    data[3] = s.pointer()
    data[4] = vh.pointer()
    data[5] = codes.pointer()
    work: int64_t = cubes(ints[2], ints[3], least)
    spread(run_gesdd, data, ints, count, (4 if letter == "N" else 20) * work)


def eigh(
    a: Tensor, values: Tensor, codes: Tensor, upper: cython.bint, vectors: cython.bint
) -> None:
    """Eigenvalues in ascending order; vectors, where wanted, replace the matrices."""
    data: cython.p_char[4]
    ints: int64_t[4]
    if nothing(a):
        return
    check_columns(a)
    ints[0] = kind_of(a)
    ints[1] = 86 if vectors else 78
    ints[2] = 85 if upper else 76
    ints[3] = columns_of(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(values, count * ints[3])
    data[0] = routine(SYEVD, kind_of(a))
    data[1] = a.pointer()
    data[2] = values.pointer()
    data[3] = codes.pointer()
    work: int64_t = cubes(ints[3], ints[3], ints[3])
    spread(run_syevd, data, ints, count, (8 if vectors else 2) * work)


def eig(
    a: Tensor, values: Tensor, vectors: Tensor, codes: Tensor, wanted: cython.bint
) -> None:
    """Complex eigenvalues and, where wanted, vectors of unit length."""
    data: cython.p_char[5]
    ints: int64_t[3]
    if nothing(a):
        return
    check_columns(a)
    ints[0] = kind_of(a)
    ints[1] = 86 if wanted else 78
    ints[2] = columns_of(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(values, count * ints[2])
    if wanted:
        check_columns(vectors)
        if vectors.numel_ != a.numel_:
            raise RuntimeError(f"LAPACK: {list(vectors.shape)} of {list(a.shape)}")
    data[0] = routine(GEEV, kind_of(a))
    data[1] = a.pointer()
    data[2] = values.pointer()
    data[3] = vectors.pointer()
    data[4] = codes.pointer()
    spread(run_geev, data, ints, count, 25 * cubes(ints[2], ints[2], ints[2]))


def ldl(a: Tensor, pivots: Tensor, codes: Tensor, hermitian: cython.bint) -> None:
    """L and D in the lower triangle; pivots as LAPACK has them."""
    data: cython.p_char[4]
    ints: int64_t[3]
    if nothing(a):
        return
    check_columns(a)
    ints[0] = kind_of(a)
    ints[1] = 76
    ints[2] = columns_of(a)
    count: int64_t = batch_of(a, 2)
    check_rows(codes, count)
    check_rows(pivots, count * ints[2])
    data[0] = routine(HETRF if hermitian else SYTRF, kind_of(a))
    data[1] = a.pointer()
    data[2] = pivots.pointer()
    data[3] = codes.pointer()
    spread(run_sytrf, data, ints, count, cubes(ints[2], ints[2], ints[2]) // 3)


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
    data: cython.p_char[6]
    ints: int64_t[6]
    if nothing(a) or nothing(b):
        return
    check_columns(a)
    check_columns(b)
    ints[0] = kind_of(a)
    ints[1] = rows_of(a)
    ints[2] = columns_of(a)
    ints[3] = columns_of(b)
    ints[4] = _DRIVERS[driver]
    ints[5] = 0
    if ints[0] == 0 or ints[0] == 2:
        cython.cast(cython.p_float, ints + 5)[0] = cut
    else:
        cython.cast(cython.p_double, ints + 5)[0] = cut
    least: int64_t = min(ints[1], ints[2])
    count: int64_t = batch_of(a, 2)
    if b.numel_ != count * max(ints[1], ints[2]) * ints[3] or kind_of(b) != ints[0]:
        raise RuntimeError(f"LAPACK: {list(a.shape)} beside {list(b.shape)}")
    check_rows(codes, count)
    check_rows(ranks, count)
    check_rows(values, count * least)
    data[0] = routine(cython.cast(cython.int, ints[4]), kind_of(a))
    data[1] = a.pointer()
    data[2] = b.pointer()
    data[3] = values.pointer()
    data[4] = ranks.pointer()
    data[5] = codes.pointer()
    spread(run_lstsq, data, ints, count, 8 * cubes(ints[1], ints[2], least))


def small_columns(a: Tensor):
    """A copy of small matrices, column by column; None where others copy better."""
    if state().included & RECORDING:
        tell_readers()
    d: cython.int
    rows: int64_t = a.sizes[a.ndim_ - 2]
    columns: int64_t = a.sizes[a.ndim_ - 1]
    if rows > 64 or columns > 64 or nothing(a) or a.ndim_ > 60:
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
        tell_readers()
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


def orders(pivots: Tensor, order: Tensor) -> None:
    """Where each row comes from when rows have been exchanged as ``pivots`` says.

    Args:
        pivots: int32, counted from one: row ``i`` was exchanged with ``pivots[i]``.
        order: int64, filled here.

    Raises:
        RuntimeError: a pivot is none of the rows.
    """
    if state().included & RECORDING:
        tell_readers()
    if nothing(order):
        return
    rows: int64_t = order.sizes[order.ndim_ - 1]
    least: int64_t = pivots.sizes[pivots.ndim_ - 1]
    count: int64_t = batch_of(order, 1)
    check_rows(order, count * rows)
    check_rows(pivots, count * least)
    if least > rows:
        raise RuntimeError(f"LAPACK: {least} pivots of {rows} rows")
    given: cython.p_int = cython.cast(cython.p_int, pivots.pointer())
    written: cython.pointer(int64_t) = cython.cast(
        cython.pointer(int64_t), order.pointer()
    )
    i: int64_t
    j: int64_t
    for i in range(count):
        for j in range(rows):
            written[i * rows + j] = j
        for j in range(least):
            other: int64_t = given[i * least + j] - 1
            if other < 0 or other >= rows:
                raise RuntimeError(
                    "pivots passed to lu_unpack must be between 1 and LU.size(-2) "
                    f"inclusive: got {other + 1} of {rows} rows"
                )
            held: int64_t = written[i * rows + j]
            written[i * rows + j] = written[i * rows + other]
            written[i * rows + other] = held

"""One loop over the matrices of a batch for each routine of LAPACK that is called.

A task is what the pool runs: `data` has the routine and the tensors' addresses, `ints`
the kind of numbers (0 to 3 for float32, float64, complex64, complex128), then what the
task says. A routine is asked for its workspace once for each piece of the batch. Results
are faults as kernels report them: NO_MEMORY where there is no workspace.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset

NO_MEMORY = cython.declare(cython.int, 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer(kind: int64_t, work: cython.p_char) -> int64_t:
    """The length that a routine, asked for it, left in its workspace."""
    if kind == 0 or kind == 2:
        return cython.cast(int64_t, cython.cast(cython.p_float, work)[0])
    return cython.cast(int64_t, cython.cast(cython.p_double, work)[0])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def workspace(kind: int64_t, work: cython.pp_char, length: cython.p_int) -> cython.bint:
    """Allocates what a routine asked for, by the number that it left in ``work``."""
    length[0] = max(1, cython.cast(cython.int, answer(kind, work[0])))
    work[0] = cython.cast(cython.p_char, malloc(length[0] * width(kind)))
    return work[0] != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def width(kind: int64_t) -> int64_t:
    """Bytes of a number."""
    return 4 << ((kind + 1) >> 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def real_width(kind: int64_t) -> int64_t:
    """Bytes of a number's real part."""
    return 4 << (kind & 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_potrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices and codes; ints: letter, order. Also `potri`."""
    call: potrf_t = cython.cast(potrf_t, data[0])
    uplo: cython.char = ints[1]
    n: cython.int = ints[2]
    step: int64_t = ints[2] * ints[2] * width(ints[0])
    codes: cython.p_int = cython.cast(cython.p_int, data[2])
    i: int64_t
    for i in range(begin, end):
        call(
            cython.address(uplo), cython.address(n), data[1] + i * step,
            cython.address(n), codes + i, 1,
        )  # fmt: skip
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_potrs(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of factors and right-hand sides; ints: letter, order, columns."""
    call: potrs_t = cython.cast(potrs_t, data[0])
    uplo: cython.char = ints[1]
    n: cython.int = ints[2]
    columns: cython.int = ints[3]
    code: cython.int = 0
    step: int64_t = ints[2] * ints[2] * width(ints[0])
    wide: int64_t = ints[2] * ints[3] * width(ints[0])
    i: int64_t
    for i in range(begin, end):
        call(
            cython.address(uplo), cython.address(n), cython.address(columns),
            data[1] + i * step, cython.address(n), data[2] + i * wide,
            cython.address(n), cython.address(code), 1,
        )  # fmt: skip
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_getrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, pivots and codes; ints: rows, columns."""
    call: getrf_t = cython.cast(getrf_t, data[0])
    m: cython.int = ints[1]
    n: cython.int = ints[2]
    step: int64_t = ints[1] * ints[2] * width(ints[0])
    least: int64_t = min(ints[1], ints[2])
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    codes: cython.p_int = cython.cast(cython.p_int, data[3])
    i: int64_t
    for i in range(begin, end):
        call(
            cython.address(m), cython.address(n), data[1] + i * step, cython.address(m),
            pivots + i * least, codes + i,
        )  # fmt: skip
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_getrs(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of factors, pivots and right-hand sides; ints: letter, order, columns.

    Also `sytrs` and `hetrs`, which take the same arguments.
    """
    call: getrs_t = cython.cast(getrs_t, data[0])
    letter: cython.char = ints[1]
    n: cython.int = ints[2]
    columns: cython.int = ints[3]
    code: cython.int = 0
    step: int64_t = ints[2] * ints[2] * width(ints[0])
    wide: int64_t = ints[2] * ints[3] * width(ints[0])
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    i: int64_t
    for i in range(begin, end):
        call(
            cython.address(letter), cython.address(n), cython.address(columns),
            data[1] + i * step, cython.address(n), pivots + i * ints[2],
            data[3] + i * wide, cython.address(n), cython.address(code), 1,
        )  # fmt: skip
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_trsm(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of triangles and right-hand sides; ints: side, triangle, form, diagonal, sizes."""
    call: trsm_t = cython.cast(trsm_t, data[0])
    side: cython.char = ints[1]
    uplo: cython.char = ints[2]
    trans: cython.char = ints[3]
    diag: cython.char = ints[4]
    m: cython.int = ints[5]
    n: cython.int = ints[6]
    order: cython.int = ints[5] if ints[1] == 76 else ints[6]
    one: cython.double[2] = [0.0, 0.0]
    step: int64_t = cython.cast(int64_t, order) * order * width(ints[0])
    wide: int64_t = ints[5] * ints[6] * width(ints[0])
    i: int64_t
    if ints[0] == 0 or ints[0] == 2:
        cython.cast(cython.p_float, one)[0] = 1.0
    else:
        one[0] = 1.0
    for i in range(begin, end):
        call(
            cython.address(side), cython.address(uplo), cython.address(trans),
            cython.address(diag), cython.address(m), cython.address(n),
            cython.cast(cython.p_char, one), data[1] + i * step, cython.address(order),
            data[2] + i * wide, cython.address(m), 1, 1, 1, 1,
        )  # fmt: skip
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_qr(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices and factors; ints: rows, columns, reflectors (-1 for `geqrf`)."""
    factor: geqrf_t = cython.cast(geqrf_t, data[0])
    expand: orgqr_t = cython.cast(orgqr_t, data[0])
    m: cython.int = ints[1]
    n: cython.int = ints[2]
    k: cython.int = ints[3]
    code: cython.int = 0
    asked: cython.double[2]
    length: cython.int = -1
    step: int64_t = ints[1] * ints[2] * width(ints[0])
    short: int64_t = (min(ints[1], ints[2]) if k < 0 else ints[3]) * width(ints[0])
    i: int64_t
    turn: cython.int
    work: cython.p_char = cython.cast(cython.p_char, asked)
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            if k < 0:
                factor(
                    cython.address(m), cython.address(n), data[1] + i * step,
                    cython.address(m), data[2] + i * short, work,
                    cython.address(length), cython.address(code),
                )  # fmt: skip
            else:
                expand(
                    cython.address(m), cython.address(n), cython.address(k),
                    data[1] + i * step, cython.address(m), data[2] + i * short, work,
                    cython.address(length), cython.address(code),
                )  # fmt: skip
        if turn == 0 and not workspace(
            ints[0], cython.address(work), cython.address(length)
        ):
            return NO_MEMORY
    free(work)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_ormqr(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of reflectors, factors and matrices; ints: side, form, rows, columns, reflectors."""
    call: ormqr_t = cython.cast(ormqr_t, data[0])
    side: cython.char = ints[1]
    trans: cython.char = ints[2]
    m: cython.int = ints[3]
    n: cython.int = ints[4]
    k: cython.int = ints[5]
    order: cython.int = ints[3] if ints[1] == 76 else ints[4]
    code: cython.int = 0
    asked: cython.double[2]
    length: cython.int = -1
    step: int64_t = cython.cast(int64_t, order) * ints[5] * width(ints[0])
    short: int64_t = ints[5] * width(ints[0])
    wide: int64_t = ints[3] * ints[4] * width(ints[0])
    i: int64_t
    turn: cython.int
    work: cython.p_char = cython.cast(cython.p_char, asked)
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            call(
                cython.address(side), cython.address(trans), cython.address(m),
                cython.address(n), cython.address(k), data[1] + i * step,
                cython.address(order), data[2] + i * short, data[3] + i * wide,
                cython.address(m), work, cython.address(length), cython.address(code),
                1, 1,
            )  # fmt: skip
        if turn == 0 and not workspace(
            ints[0], cython.address(work), cython.address(length)
        ):
            return NO_MEMORY
    free(work)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_gesdd(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, U, S, V^H and codes; ints: letter, rows, columns.

    The matrices are lost. U and V^H are as large as the letter says: N, S or A.
    """
    real: gesdd_t = cython.cast(gesdd_t, data[0])
    both: gesdd_c = cython.cast(gesdd_c, data[0])
    kind: int64_t = ints[0]
    jobz: cython.char = ints[1]
    m: cython.int = ints[2]
    n: cython.int = ints[3]
    least: int64_t = min(ints[2], ints[3])
    most: int64_t = max(ints[2], ints[3])
    ldv: cython.int = n if jobz == 65 else least
    asked: cython.double[2]
    length: cython.int = -1
    codes: cython.p_int = cython.cast(cython.p_int, data[5])
    step: int64_t = ints[2] * ints[3] * width(kind)
    u_step: int64_t = 0 if jobz == 78 else ints[2] * width(kind)
    v_step: int64_t = 0 if jobz == 78 else ints[3] * width(kind)
    u_step *= ints[2] if jobz == 65 else least
    v_step *= ints[3] if jobz == 65 else least
    s_step: int64_t = least * real_width(kind)
    reals: int64_t = 0
    i: int64_t
    turn: cython.int
    work: cython.p_char = cython.cast(cython.p_char, asked)
    iwork: cython.p_int = cython.cast(cython.p_int, malloc(8 * least * 4))
    rwork: cython.p_char = cython.NULL
    if kind > 1:
        reals = 7 * least
        if jobz != 78:
            reals = least * max(5 * least + 7, 2 * most + 2 * least + 1)
        rwork = cython.cast(cython.p_char, malloc(reals * real_width(kind)))
    if iwork == cython.NULL or (kind > 1 and rwork == cython.NULL):
        free(iwork)
        free(rwork)
        return NO_MEMORY
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            if kind < 2:
                real(
                    cython.address(jobz), cython.address(m), cython.address(n),
                    data[1] + i * step, cython.address(m), data[3] + i * s_step,
                    data[2] + i * u_step, cython.address(m), data[4] + i * v_step,
                    cython.address(ldv), work, cython.address(length), iwork,
                    codes + i, 1,
                )  # fmt: skip
            else:
                both(
                    cython.address(jobz), cython.address(m), cython.address(n),
                    data[1] + i * step, cython.address(m), data[3] + i * s_step,
                    data[2] + i * u_step, cython.address(m), data[4] + i * v_step,
                    cython.address(ldv), work, cython.address(length), rwork, iwork,
                    codes + i, 1,
                )  # fmt: skip
        if turn == 0:
            length = max(1, cython.cast(cython.int, answer(kind, work)))
            work = cython.cast(cython.p_char, malloc(length * width(kind)))
            if work == cython.NULL:
                break
    free(work)
    free(iwork)
    free(rwork)
    return NO_MEMORY if work == cython.NULL else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_syevd(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, eigenvalues and codes; ints: vectors' letter, triangle's, order."""
    real: syevd_t = cython.cast(syevd_t, data[0])
    both: syevd_c = cython.cast(syevd_c, data[0])
    kind: int64_t = ints[0]
    jobz: cython.char = ints[1]
    uplo: cython.char = ints[2]
    n: cython.int = ints[3]
    asked: cython.double[2]
    asked_real: cython.double[2]
    asked_int: cython.int = 1
    length: cython.int = -1
    reals: cython.int = -1
    numbers: cython.int = -1
    codes: cython.p_int = cython.cast(cython.p_int, data[3])
    step: int64_t = ints[3] * ints[3] * width(kind)
    short: int64_t = ints[3] * real_width(kind)
    i: int64_t
    turn: cython.int
    work: cython.p_char = cython.cast(cython.p_char, asked)
    rwork: cython.p_char = cython.cast(cython.p_char, asked_real)
    iwork: cython.p_int = cython.address(asked_int)
    asked_real[0] = 0.0
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            if kind < 2:
                real(
                    cython.address(jobz), cython.address(uplo), cython.address(n),
                    data[1] + i * step, cython.address(n), data[2] + i * short, work,
                    cython.address(length), iwork, cython.address(numbers), codes + i,
                    1, 1,
                )  # fmt: skip
            else:
                both(
                    cython.address(jobz), cython.address(uplo), cython.address(n),
                    data[1] + i * step, cython.address(n), data[2] + i * short, work,
                    cython.address(length), rwork, cython.address(reals), iwork,
                    cython.address(numbers), codes + i, 1, 1,
                )  # fmt: skip
        if turn == 0:
            length = max(1, cython.cast(cython.int, answer(kind, work)))
            reals = max(1, cython.cast(cython.int, answer(kind, rwork)))
            numbers = max(1, asked_int)
            work = cython.cast(cython.p_char, malloc(length * width(kind)))
            rwork = cython.cast(cython.p_char, malloc(reals * real_width(kind)))
            iwork = cython.cast(cython.p_int, malloc(numbers * 4))
            if not (work and rwork and iwork):
                break
    turn = 0 if work and rwork and iwork else NO_MEMORY
    free(work)
    free(rwork)
    free(iwork)
    return turn


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_geev(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, complex values and vectors, codes; ints: vectors' letter, order.

    The matrices are lost.
    """
    real: geev_t = cython.cast(geev_t, data[0])
    both: geev_c = cython.cast(geev_c, data[0])
    kind: int64_t = ints[0]
    none: cython.char = 78
    jobvr: cython.char = ints[1]
    n: cython.int = ints[2]
    asked: cython.double[2]
    length: cython.int = -1
    codes: cython.p_int = cython.cast(cython.p_int, data[4])
    step: int64_t = ints[2] * ints[2] * width(kind)
    single: int64_t = real_width(kind)
    wide: int64_t = ints[2] * ints[2] * 2 * single if jobvr == 86 else 0
    i: int64_t
    turn: cython.int
    # two vectors of real numbers, then packed eigenvectors where the matrix is real
    space: int64_t = 2 * ints[2] * single
    if kind < 2 and jobvr == 86:
        space += step
    held: cython.p_char = cython.cast(cython.p_char, malloc(space))
    packed: cython.p_char = held + 2 * ints[2] * single
    work: cython.p_char = cython.cast(cython.p_char, asked)
    if held == cython.NULL:
        return NO_MEMORY
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            if kind < 2:
                real(
                    cython.address(none), cython.address(jobvr), cython.address(n),
                    data[1] + i * step, cython.address(n), held,
                    held + ints[2] * single, cython.NULL, cython.address(n), packed,
                    cython.address(n), work, cython.address(length), codes + i, 1, 1,
                )  # fmt: skip
                if turn == 1:
                    unpack_pairs(
                        kind, ints[2], held, packed,
                        data[2] + i * ints[2] * 2 * single, data[3] + i * wide,
                        jobvr == 86,
                    )  # fmt: skip
            else:
                both(
                    cython.address(none), cython.address(jobvr), cython.address(n),
                    data[1] + i * step, cython.address(n),
                    data[2] + i * ints[2] * 2 * single, cython.NULL,
                    cython.address(n), data[3] + i * wide, cython.address(n), work,
                    cython.address(length), held, codes + i, 1, 1,
                )  # fmt: skip
        if turn == 0:
            length = max(1, cython.cast(cython.int, answer(kind, work)))
            work = cython.cast(cython.p_char, malloc(length * width(kind)))
            if work == cython.NULL:
                break
    free(work)
    free(held)
    return NO_MEMORY if work == cython.NULL else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack_pairs(
    kind: int64_t,
    n: int64_t,
    parts: cython.p_char,
    packed: cython.p_char,
    values: cython.p_char,
    vectors: cython.p_char,
    wanted: cython.bint,
) -> cython.void:
    """Complex eigenvalues and vectors out of how a real matrix's are handed over.

    A conjugate pair takes two columns: the real part, then the imaginary one.
    """
    if kind == 0:
        unpack_numbers(
            n, cython.cast(cython.p_float, parts), cython.cast(cython.p_float, packed),
            cython.cast(cython.p_float, values), cython.cast(cython.p_float, vectors),
            wanted,
        )  # fmt: skip
    else:
        unpack_numbers(
            n, cython.cast(cython.p_double, parts),
            cython.cast(cython.p_double, packed), cython.cast(cython.p_double, values),
            cython.cast(cython.p_double, vectors), wanted,
        )  # fmt: skip


RealPointer = cython.fused_type(cython.p_float, cython.p_double)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack_numbers(
    n: int64_t,
    parts: RealPointer,
    packed: RealPointer,
    values: RealPointer,
    vectors: RealPointer,
    wanted: cython.bint,
) -> cython.void:
    j: int64_t
    k: int64_t
    for j in range(n):
        values[2 * j] = parts[j]
        values[2 * j + 1] = parts[n + j]
    if not wanted:
        return
    j = 0
    while j < n:
        if parts[n + j] == 0 or j + 1 == n:
            for k in range(n):
                vectors[2 * (j * n + k)] = packed[j * n + k]
                vectors[2 * (j * n + k) + 1] = 0
            j += 1
            continue
        for k in range(n):
            vectors[2 * (j * n + k)] = packed[j * n + k]
            vectors[2 * (j * n + k) + 1] = packed[(j + 1) * n + k]
            vectors[2 * ((j + 1) * n + k)] = packed[j * n + k]
            vectors[2 * ((j + 1) * n + k) + 1] = -packed[(j + 1) * n + k]
        j += 2


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_sytrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, pivots and codes; ints: letter, order. Also `hetrf`."""
    call: sytrf_t = cython.cast(sytrf_t, data[0])
    uplo: cython.char = ints[1]
    n: cython.int = ints[2]
    asked: cython.double[2]
    length: cython.int = -1
    step: int64_t = ints[2] * ints[2] * width(ints[0])
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    codes: cython.p_int = cython.cast(cython.p_int, data[3])
    i: int64_t
    turn: cython.int
    work: cython.p_char = cython.cast(cython.p_char, asked)
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            call(
                cython.address(uplo), cython.address(n), data[1] + i * step,
                cython.address(n), pivots + i * ints[2], work, cython.address(length),
                codes + i, 1,
            )  # fmt: skip
        if turn == 0 and not workspace(
            ints[0], cython.address(work), cython.address(length)
        ):
            return NO_MEMORY
    free(work)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_lstsq(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, right-hand sides, singular values, ranks and codes.

    ints: rows, columns, right-hand sides' columns, the driver's number, the bits of
    the real number below which a singular value counts as zero.
    """
    kind: int64_t = ints[0]
    m: cython.int = ints[1]
    n: cython.int = ints[2]
    columns: cython.int = ints[3]
    tall: cython.int = max(ints[1], ints[2], 1)
    driver: int64_t = ints[4]
    cut: cython.p_char = cython.cast(cython.p_char, ints + 5)
    letter: cython.char = 78
    least: int64_t = min(ints[1], ints[2])
    asked: cython.double[2]
    asked_real: cython.double[2]
    asked_int: cython.int = 1
    length: cython.int = -1
    i: int64_t
    turn: cython.int
    failed: cython.bint = False
    a_step: int64_t = ints[1] * ints[2] * width(kind)
    b_step: int64_t = cython.cast(int64_t, tall) * ints[3] * width(kind)
    s_step: int64_t = least * real_width(kind)
    ranks: cython.p_int = cython.cast(cython.p_int, data[4])
    codes: cython.p_int = cython.cast(cython.p_int, data[5])
    # `gelsy` takes the pivots of its columns from here and writes them here
    numbers: cython.p_int = cython.cast(cython.p_int, malloc((ints[2] + 1) * 4))
    work: cython.p_char = cython.cast(cython.p_char, asked)
    rwork: cython.p_char = cython.cast(cython.p_char, asked_real)
    iwork: cython.p_int = cython.address(asked_int)
    a: cython.p_char
    b: cython.p_char
    s: cython.p_char
    M: cython.p_int = cython.address(m)
    N: cython.p_int = cython.address(n)
    K: cython.p_int = cython.address(columns)
    T: cython.p_int = cython.address(tall)
    W: cython.p_int = cython.address(length)
    if numbers == cython.NULL:
        return NO_MEMORY
    asked_real[0] = 0.0
    for turn in range(2):
        for i in range(begin, begin + 1 if turn == 0 else end):
            a = data[1] + i * a_step
            b = data[2] + i * b_step
            s = data[3] + i * s_step
            if driver == 16:
                cython.cast(gels_t, data[0])(
                    cython.address(letter), M, N, K, a, M, b, T, work, W, codes + i, 1
                )
            elif driver == 17:
                memset(numbers, 0, ints[2] * 4)
                if kind < 2:
                    cython.cast(gelsy_t, data[0])(
                        M, N, K, a, M, b, T, numbers, cut, ranks + i, work, W,
                        codes + i,
                    )  # fmt: skip
                else:
                    cython.cast(gelsy_c, data[0])(
                        M, N, K, a, M, b, T, numbers, cut, ranks + i, work, W, rwork,
                        codes + i,
                    )  # fmt: skip
            elif driver == 18:
                if kind < 2:
                    cython.cast(gelsd_t, data[0])(
                        M, N, K, a, M, b, T, s, cut, ranks + i, work, W, iwork,
                        codes + i,
                    )  # fmt: skip
                else:
                    cython.cast(gelsd_c, data[0])(
                        M, N, K, a, M, b, T, s, cut, ranks + i, work, W, rwork, iwork,
                        codes + i,
                    )  # fmt: skip
            elif kind < 2:
                cython.cast(gelss_t, data[0])(
                    M, N, K, a, M, b, T, s, cut, ranks + i, work, W, codes + i
                )
            else:
                cython.cast(gelss_c, data[0])(
                    M, N, K, a, M, b, T, s, cut, ranks + i, work, W, rwork, codes + i
                )
        if turn == 0:
            length = max(1, cython.cast(cython.int, answer(kind, work)))
            work = cython.cast(cython.p_char, malloc(length * width(kind)))
            turn_reals: int64_t = max(
                cython.cast(int64_t, 5) * least,
                2 * ints[2],
                answer(kind, rwork) if driver == 18 else 0,
            )
            rwork = cython.cast(
                cython.p_char, malloc((turn_reals + 1) * real_width(kind))
            )
            iwork = cython.cast(cython.p_int, malloc(max(1, asked_int) * 4))
            if not (work and rwork and iwork):
                failed = True
                break
    free(work)
    free(rwork)
    free(iwork)
    free(numbers)
    return NO_MEMORY if failed else 0

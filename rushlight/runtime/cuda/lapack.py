"""Factorizations on a device, by cuSOLVER and cuBLAS: what `runtime.cpu.lapack` is to the host.

Every function takes batches of matrices that lie column by column. Where the libraries
have a routine for many small matrices at once, several go by one call; else there is a call
for each in the thread's queue. What went wrong stays on the device, in ``codes``: a number
for each matrix, zero where all is well.
"""

import ctypes
import struct

from rushlight.core.dtype import by_code
from rushlight.core.factories import empty
from rushlight.core.layout import contiguous_format
from rushlight.core.roles import operators
from rushlight.core.window import address_of
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.libraries import CUBLAS, CUSOLVER

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
NUMBERS = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}  # cudaDataType
BYTES, INT32, INT64 = by_code(0), by_code(3), by_code(4)
LOWER, UPPER = 0, 1
FORMS = {"N": 0, "T": 1, "C": 2}
LEFT, RIGHT = 0, 1
NO_VECTORS, VECTORS = 0, 1
# Up to how many rows routines for batches are taken, where PyTorch takes them: factors of
# LU, reflectors, what Jacobi's method turns in the memory of one block, and triangles,
# where there are no more than a few.
MOST_LU, MOST_REFLECTED, MOST_JACOBI, MOST_SOLVED = 512, 256, 32, 64
FEW, ROWS_EACH = 8, 16


class SolverCalls:
    """Calls for the matrices of one type on one device.

    Args:
        a: the matrices.
    """

    def __init__(self, a):
        self.kind = a.dtype.name
        if self.kind not in LETTERS:
            raise RuntimeError(f"LAPACK has no routines for {self.kind}")
        self.letter = LETTERS[self.kind]
        self.is_complex = self.letter in "cz"
        self.dtype = a.dtype
        self.ctx = contexts.ctx(a.device.index)
        self.device = a.device
        self.handle = CUSOLVER.handle(self.ctx)

    def name(self, real, imaginary):
        """A routine's name for this type."""
        return self.letter + (imaginary if self.is_complex else real)

    def room(self, count, dtype=None):
        """Elements to work in, of this type by default; one at least."""
        return empty((max(int(count), 1),), dtype or self.dtype, device=self.device)

    def each(self, tensor, trailing):
        """Where each matrix, or vector, of a batch begins, as numbers on the device."""
        found = positions(tensor, trailing)
        step = found[1] - found[0]
        last = found[-1] + step
        return operators.call.arange(
            found[0], last, step, dtype=INT64, device=self.device
        )

    def several(self, name, *args):
        """Calls a routine of cuBLAS's."""
        handle = CUBLAS.handle(self.ctx)
        return CUBLAS.call(self.ctx, self.letter + name, handle, *args)

    def ask(self, name, *args):
        """What a function that measures gives."""
        return CUSOLVER.call(self.ctx, f"{name}_buffer_size", self.handle, *args)

    def run(self, name, *args):
        """Calls a routine of cuSOLVER's."""
        return CUSOLVER.call(self.ctx, name, self.handle, *args)


def positions(tensor, trailing):
    """Where each matrix, or vector, of a batch begins."""
    count = 1
    for size in tensor.shape[tensor.ndim - trailing :]:
        count *= size
    step = count * tensor.element_size()
    first = address_of(tensor)
    total = tensor.numel() // count if count else 0
    return [first + n * step for n in range(total)]


def columns_of(*matrices):
    """Refuses matrices that do not lie column by column.

    Raises:
        RuntimeError: they don't.
    """
    for a in matrices:
        if not a.transpose(-2, -1).is_contiguous():
            raise RuntimeError(
                f"LAPACK: strides {a.stride()} of {list(a.shape)} are not by columns"
            )


def agree(condition, *tensors):
    """Refuses tensors whose sizes do not go together.

    Raises:
        RuntimeError: they don't.
    """
    if not condition:
        shapes = " beside ".join(str(list(t.shape)) for t in tensors)
        raise RuntimeError(f"LAPACK: {shapes}")


def codes_of(a, codes):
    """Where each matrix's code goes."""
    agree(codes.is_contiguous() and codes.numel() == _count(a), a, codes)
    return positions(codes, 0)


def _count(a):
    rows, columns = a.shape[-2:]
    return a.numel() // (rows * columns) if a.numel() else 0


def cholesky(a, codes, upper):
    """Factors in place; the other triangle is left as it is."""
    _triangle(a, codes, upper, "potrf")


def cholesky_inverse(a, codes, upper):
    """One triangle of the inverse of a product, in the place of its factor."""
    _triangle(a, codes, upper, "potri")


def _triangle(a, codes, upper, routine):
    if not a.numel():
        return
    columns_of(a)
    call, n, side = SolverCalls(a), a.shape[-1], UPPER if upper else LOWER
    name, many = call.name(routine, routine), _count(a)
    if routine == "potrf" and many > 1:
        begins, positions_of_codes = call.each(a, 2), codes_of(a, codes)
        where = address_of(begins), n, positions_of_codes[0], many
        call.run(f"{name}_batched", side, n, *where)
        return
    count = call.ask(name, side, n, address_of(a), n)
    room = call.room(count)
    for place, code in zip(positions(a, 2), codes_of(a, codes), strict=True):
        call.run(name, side, n, place, n, address_of(room), count, code)


def cholesky_solve(a, b, upper):
    """Solves with a factor; the solutions replace the right-hand sides."""
    if not b.numel():
        return
    columns_of(a, b)
    n, wide = b.shape[-2:]
    agree(a.numel() == _count(b) * n * n and a.dtype is b.dtype, a, b)
    call, side = SolverCalls(a), UPPER if upper else LOWER
    code = call.room(1, INT32)
    for factor, place in zip(positions(a, 2), positions(b, 2), strict=True):
        name = call.name("potrs", "potrs")
        call.run(name, side, n, wide, factor, n, place, n, address_of(code))


def lu(a, pivots, codes):
    """Factors in place; pivots count from one."""
    if not a.numel():
        return
    columns_of(a)
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    agree(pivots.is_contiguous() and pivots.numel() == _count(a) * least, a, pivots)
    call, many = SolverCalls(a), _count(a)
    if many > 1 and rows == columns < MOST_LU:
        begins, first = call.each(a, 2), codes_of(a, codes)[0]
        where = address_of(begins), rows, address_of(pivots), first, many
        call.several("getrf_batched", rows, *where)
        return
    name = call.name("getrf", "getrf")
    room = call.room(call.ask(name, rows, columns, address_of(a), rows))
    for place, pivot, code in zip(
        positions(a, 2), positions(pivots, 1), codes_of(a, codes), strict=True
    ):
        call.run(name, rows, columns, place, rows, address_of(room), pivot, code)


def lu_solve(a, pivots, b, form):
    """Solves with factors, transposed (T) or adjoint (C) ones where the form says so."""
    if not b.numel():
        return
    columns_of(a, b)
    n, wide = b.shape[-2:]
    agree(a.numel() == _count(b) * n * n and a.dtype is b.dtype, a, b)
    agree(pivots.is_contiguous() and pivots.numel() == _count(b) * n, a, pivots)
    call, many = SolverCalls(a), _count(b)
    if many > 1 and n < MOST_LU:
        begins, right, kept = call.each(a, 2), call.each(b, 2), bytearray(4)
        call.several(
            *("getrs_batched", FORMS[form], n, wide, address_of(begins), n),
            *(address_of(pivots), address_of(right), n, _address(kept), many),
        )
        return
    code = call.room(1, INT32)
    for factor, pivot, place in zip(
        positions(a, 2), positions(pivots, 1), positions(b, 2), strict=True
    ):
        call.run(
            *(call.name("getrs", "getrs"), FORMS[form], n, wide, factor, n, pivot),
            *(place, n, address_of(code)),
        )


def ldl(a, pivots, codes, hermitian):
    """L and D in the lower triangle; pivots as LAPACK has them.

    Raises:
        RuntimeError: Hermitian matrices: cuSOLVER has nothing for them.
    """
    if not a.numel():
        return
    _refuse_hermitian(a, hermitian, "ldl_factor")
    columns_of(a)
    n, call = a.shape[-1], SolverCalls(a)
    agree(pivots.is_contiguous() and pivots.numel() == _count(a) * n, a, pivots)
    name = call.name("sytrf", "sytrf")
    count = call.ask(name, n, address_of(a), n)
    room = call.room(count)
    for place, pivot, code in zip(
        positions(a, 2), positions(pivots, 1), codes_of(a, codes), strict=True
    ):
        call.run(name, LOWER, n, place, n, pivot, address_of(room), count, code)


def _refuse_hermitian(a, hermitian, name):
    if hermitian and a.dtype.is_complex:
        raise RuntimeError(
            f"torch.linalg.{name}: complex tensors with hermitian=True flag are not "
            "supported on CUDA with cuSOLVER backend."
        )


def ldl_solve(a, pivots, b, hermitian):
    """Solves with the factors of `ldl`.

    Raises:
        RuntimeError: Hermitian matrices: cuSOLVER has nothing for them.
    """
    if not b.numel():
        return
    _refuse_hermitian(a, hermitian, "ldl_solve")
    columns_of(a, b)
    n, wide = b.shape[-2:]
    agree(a.numel() == _count(b) * n * n and a.dtype is b.dtype, a, b)
    call, kind = SolverCalls(a), NUMBERS[a.dtype.name]
    wider = pivots.to(INT64).contiguous()
    code = call.room(1, INT32)
    for factor, pivot, place in zip(
        positions(a, 2), positions(wider, 1), positions(b, 2), strict=True
    ):
        whole = LOWER, n, wide, kind, factor, n, pivot, kind, place, n
        present, here = call.ask("xsytrs", *whole)
        room, kept = call.room(present, BYTES), bytearray(max(here, 1))
        call.run(
            *("xsytrs", *whole, address_of(room), present, _address(kept), here),
            address_of(code),
        )


def _address(kept):
    """Where bytes of the host's begin; they stay until the call is over."""
    return ctypes.addressof(ctypes.c_char.from_buffer(kept))


def triangular_solve(a, b, left, upper, form, unit):
    """Solves with a triangle from the left or the right; solutions replace ``b``."""
    if not b.numel():
        return
    columns_of(a, b)
    rows, columns = b.shape[-2:]
    order = rows if left else columns
    agree(a.numel() == _count(b) * order * order and a.dtype is b.dtype, a, b)
    call, many = SolverCalls(a), _count(b)
    one = bytearray(_one(call.kind))
    how = LEFT if left else RIGHT, UPPER if upper else LOWER, FORMS[form], int(unit)
    whole = *how, rows, columns, _address(one)
    if many > FEW or many > 1 and order < MOST_SOLVED:
        factors, right = call.each(a, 2), call.each(b, 2)
        where = address_of(factors), order, address_of(right), rows
        call.several("trsm_batched", *whole, *where, many)
        return
    for factor, place in zip(positions(a, 2), positions(b, 2), strict=True):
        call.several("trsm", *whole, factor, order, place, rows)


def _one(kind):
    """The number one as the host's bytes."""
    letter = "f" if kind in ("float32", "complex64") else "d"
    return struct.pack(2 * letter, 1.0, 0.0)


def qr(a, tau):
    """R in the upper triangle, reflectors below it, their factors in ``tau``."""
    if not a.numel():
        return
    columns_of(a)
    rows, columns = a.shape[-2:]
    agree(tau.is_contiguous() and tau.numel() == _count(a) * min(rows, columns), a, tau)
    call, many = SolverCalls(a), _count(a)
    if rows <= MOST_REFLECTED and many >= max(2, rows // ROWS_EACH):
        begins, factors, kept = call.each(a, 2), call.each(tau, 1), bytearray(4)
        where = address_of(begins), rows, address_of(factors), _address(kept), many
        call.several("geqrf_batched", rows, columns, *where)
        return
    name, code = call.name("geqrf", "geqrf"), call.room(1, INT32)
    count = call.ask(name, rows, columns, address_of(a), rows)
    room = call.room(count)
    for place, factors in zip(positions(a, 2), positions(tau, 1), strict=True):
        call.run(
            *(name, rows, columns, place, rows, factors, address_of(room), count),
            address_of(code),
        )


def expand_reflectors(a, tau):
    """The product of the reflectors, in their place."""
    if not a.numel():
        return
    columns_of(a)
    (rows, columns), k = a.shape[-2:], tau.shape[-1]
    agree(tau.is_contiguous() and tau.numel() == _count(a) * k, tau, a)
    agree(k <= columns <= rows, tau, a)
    call = SolverCalls(a)
    name, code = call.name("orgqr", "ungqr"), call.room(1, INT32)
    sizes = rows, columns, k
    count = call.ask(name, *sizes, address_of(a), rows, address_of(tau))
    room = call.room(count)
    for place, factors in zip(positions(a, 2), positions(tau, 1), strict=True):
        call.run(
            *(name, *sizes, place, rows, factors, address_of(room), count),
            address_of(code),
        )


def apply_reflectors(a, tau, c, left, adjoint):
    """Multiplies ``c`` by the product of the reflectors, or by its adjoint."""
    if not c.numel():
        return
    columns_of(a, c)
    (rows, columns), k = c.shape[-2:], tau.shape[-1]
    order = rows if left else columns
    agree(a.numel() == _count(c) * order * k and a.dtype is c.dtype, a, c)
    agree(tau.is_contiguous() and tau.numel() == _count(c) * k, tau, c)
    call = SolverCalls(a)
    form = FORMS[("C" if call.is_complex else "T") if adjoint else "N"]
    name, code = call.name("ormqr", "unmqr"), call.room(1, INT32)
    head = LEFT if left else RIGHT, form, rows, columns, k
    count = call.ask(
        *(name, *head, address_of(a), order, address_of(tau), address_of(c), rows)
    )
    room = call.room(count)
    for packed, factors, place in zip(
        positions(a, 2), positions(tau, 1), positions(c, 2), strict=True
    ):
        call.run(
            *(name, *head, packed, order, factors, place, rows),
            *(address_of(room), count, address_of(code)),
        )


def has_infinity(a):
    """False: Jacobi's method ends whatever the elements are."""
    return False


def svd(a, u, s, vh, codes, letter):
    """Singular values, and vectors: none (N), as many as values (S), all (A).

    By Jacobi's method (``gesvdj``), as PyTorch by default.
    """
    if not a.numel():
        return
    columns_of(a)
    rows, columns = a.shape[-2:]
    least, call = min(rows, columns), SolverCalls(a)
    agree(s.is_contiguous() and s.numel() == _count(a) * least, a, s)
    job, short = NO_VECTORS if letter == "N" else VECTORS, int(letter == "S")
    tall, wide = (least, least) if short else (rows, columns)
    if job == VECTORS:
        columns_of(u)
    # cuSOLVER asks for places of vectors even where none are wanted, and gives V.
    many = _count(a)
    small = many > 1 and max(rows, columns) <= MOST_JACOBI
    if small and (rows == columns or letter != "S"):
        _jacobi_svd(call, a, u, s, vh, codes, job)
        return
    left = u if job == VECTORS else call.room(rows * tall)
    right = call.room(columns * wide)
    name = call.name("gesvdj", "gesvdj")
    options = CUSOLVER.call(call.ctx, "create_gesvdj_info")
    try:
        head = job, short, rows, columns
        tail = address_of(s), address_of(left), rows, address_of(right), columns
        count = call.ask(name, *head, address_of(a), rows, *tail, options)
        room = call.room(count)
        lefts = positions(u, 2) if job == VECTORS else [address_of(left)] * _count(a)
        results = vh.reshape(-1, wide, columns).unbind() if job else [None] * _count(a)
        for place, values, vectors, target, code in zip(
            *(positions(a, 2), positions(s, 1), lefts, results, codes_of(a, codes)),
            strict=True,
        ):
            call.run(
                *(name, *head, place, rows, values, vectors, rows),
                *(address_of(right), columns, address_of(room), count, code, options),
            )
            if target is not None:  # the columns of V are the conjugate rows of Vh
                target.copy_(right.view(wide, columns).conj())
    finally:
        CUSOLVER.call(call.ctx, "destroy_gesvdj_info", options)


def _jacobi_svd(call, a, u, s, vh, codes, job):
    """All singular values, and vectors, of many small matrices by one call."""
    (rows, columns), many = a.shape[-2:], _count(a)
    left = u if job == VECTORS else call.room(many * rows * rows)
    right = call.room(many * columns * columns)
    name = call.name("gesvdj", "gesvdj") + "_batched"
    options = CUSOLVER.call(call.ctx, "create_gesvdj_info")
    try:
        head = job, rows, columns, address_of(a), rows, address_of(s)
        tail = address_of(left), rows, address_of(right), columns
        count = call.ask(name, *head, *tail, options, many)
        room, first = call.room(count), codes_of(a, codes)[0]
        call.run(name, *head, *tail, address_of(room), count, first, options, many)
    finally:
        CUSOLVER.call(call.ctx, "destroy_gesvdj_info", options)
    if job == VECTORS:  # the columns of V are the conjugate rows of Vh
        vh.copy_(right.view(*vh.shape).conj())


def eigh(a, values, codes, upper, vectors):
    """Eigenvalues in ascending order; vectors, where wanted, replace the matrices."""
    if not a.numel():
        return
    columns_of(a)
    n, call = a.shape[-1], SolverCalls(a)
    agree(values.is_contiguous() and values.numel() == _count(a) * n, a, values)
    head = VECTORS if vectors else NO_VECTORS, UPPER if upper else LOWER, n
    if 1 < _count(a) and n <= MOST_JACOBI:
        _jacobi_hermitian(call, a, values, codes, head)
        return
    name = call.name("syevd", "heevd")
    count = call.ask(name, *head, address_of(a), n, address_of(values))
    room = call.room(count)
    for place, found, code in zip(
        positions(a, 2), positions(values, 1), codes_of(a, codes), strict=True
    ):
        call.run(name, *head, place, n, found, address_of(room), count, code)


def _jacobi_hermitian(call, a, values, codes, head):
    """The values of many small Hermitian matrices by one call, in ascending order."""
    n, many, name = a.shape[-1], _count(a), call.name("syevj", "heevj") + "_batched"
    options = CUSOLVER.call(call.ctx, "create_syevj_info")
    try:
        whole = *head, address_of(a), n, address_of(values)
        count = call.ask(name, *whole, options, many)
        room, first = call.room(count), codes_of(a, codes)[0]
        call.run(name, *whole, address_of(room), count, first, options, many)
    finally:
        CUSOLVER.call(call.ctx, "destroy_syevj_info", options)


def eig(a, values, vectors, codes, wanted):
    """Complex eigenvalues and, where wanted, vectors of unit length."""
    if not a.numel():
        return
    columns_of(a)
    n, call = a.shape[-1], SolverCalls(a)
    agree(values.is_contiguous() and values.numel() == _count(a) * n, a, values)
    kind, number = NUMBERS[call.kind], NUMBERS[values.dtype.name]
    right = call.room(n * n)
    options = CUSOLVER.call(call.ctx, "create_params")
    try:
        for k, (place, found, code) in enumerate(
            zip(positions(a, 2), positions(values, 1), codes_of(a, codes), strict=True)
        ):
            whole = (
                *(options, NO_VECTORS, VECTORS if wanted else NO_VECTORS, n),
                *(kind, place, n, number, found, kind, 0, 1),
                *(kind, address_of(right), n, kind),
            )
            present, here = call.ask("xgeev", *whole)
            room, kept = call.room(present, BYTES), bytearray(max(here, 1))
            call.run(
                *(
                    "xgeev",
                    *whole,
                    address_of(room),
                    present,
                    _address(kept),
                    here,
                    code,
                )
            )
            if wanted:
                found = _paired(right.view(n, n).mT, values.reshape(-1, n)[k])
                vectors.reshape(-1, n, n)[k].copy_(found)
    finally:
        CUSOLVER.call(call.ctx, "destroy_params", options)


def _paired(vectors, values):
    """The vectors of conjugate values of a real matrix, which lie in pairs of columns."""
    if vectors.is_complex():
        return vectors
    part = operators.call.imag(values)
    first, second = part > 0, part < 0
    real = operators.call.where(second, operators.call.roll(vectors, 1, 1), vectors)
    other = operators.call.where(second, -vectors, 0)
    return operators.call.complex(
        real, operators.call.where(first, operators.call.roll(vectors, -1, 1), other)
    )


def lstsq(a, b, values, ranks, codes, driver, cut):
    """Least squares by QR; the solutions are the first rows of ``b``.

    Args:
        driver: ``gels``, the one that there is.
    """
    if not a.numel() or not b.numel():
        return
    rows, columns = a.shape[-2:]
    least = min(rows, columns)
    tall = rows >= columns
    if not tall:  # of the adjoint: the shortest of all solutions
        a = _by_columns(a.mH.resolve_conj())
    tau = empty((*a.shape[:-2], least), dtype=a.dtype, device=a.device)
    qr(a, tau)
    factor = _by_columns(a.narrow(-2, 0, least))
    held = _by_columns(b.narrow(-2, 0, rows if tall else columns))
    if tall:
        apply_reflectors(a, tau, held, True, True)
        part = _by_columns(held.narrow(-2, 0, columns))
        triangular_solve(factor, part, True, True, "N", False)
        held.narrow(-2, 0, columns).copy_(part)
    else:
        part = _by_columns(b.narrow(-2, 0, rows))
        triangular_solve(factor, part, True, True, _adjoint(a), False)
        held.zero_()
        held.narrow(-2, 0, rows).copy_(part)
        apply_reflectors(a, tau, held, True, False)
    b.narrow(-2, 0, held.shape[-2]).copy_(held)


def _adjoint(a):
    return "C" if a.dtype.is_complex else "T"


def _by_columns(a):
    """A copy whose matrices lie column by column."""
    return a.mT.clone(memory_format=contiguous_format).mT


def clear_triangle(a, upper):
    """Zeros the triangle beside the upper, or beside the lower, one."""
    if a.numel():
        (a.triu_ if upper else a.tril_)()

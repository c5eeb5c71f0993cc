"""Plans matrix products: which kernel, how the output is cut, and one native call.

What a plan does depends on sizes, strides and dtype only, so results do not depend on
the number of threads.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memset
from cython.cimports.rushlight.core.device import Backend, Device, backend_of
from cython.cimports.rushlight.core.dtype import (
    CODE_FLOAT32,
    CODE_FLOAT64,
    CODE_INT32,
    DType,
)
from cython.cimports.rushlight.core.launch_args import (
    ADDED,
    COPIED,
    DIRECT,
    EPILOGUE_PRODUCT,
    EPILOGUE_VECTOR,
    GATHERED,
    LEFT,
    OUT,
    PAIRS,
    RIGHT,
    SUMS,
    TILES,
    TRANSPOSED,
    CombineCall,
    CombinePlan,
    DotsCall,
    DotsPlan,
    EpilogueSteps,
    ProductCall,
    ProductPlan,
)
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.runtime.cpu.blocks import (
    PARALLEL_WORK,
    Blocks,
    covering,
    cut,
    cut_for_dots,
    cut_for_tiles,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    count_unheard,
    launch_kernel,
    parallel_for,
    run_here,
    watched,
)
from cython.cimports.rushlight.runtime.cpu.pool import n_threads

Matrix = cython.struct(
    data=cython.p_char,
    rows=int64_t,
    columns=int64_t,
    row=int64_t,
    column=int64_t,
    batch=int64_t,
)
MOST_EPILOGUE_OPERANDS = cython.declare(
    cython.int, 24
)  # operands of what is behind a product

# Fewer columns than this are no work for a loop over rows that are added up.
SHORT_ROW = cython.declare(int64_t, 512)
# Rows of the left operand that do not pay for a copy of the right one; see also
# `Tile.short`.
FEW_ROWS = cython.declare(int64_t, 48)
# Of one that is no part of the second-level cache: so many packed blocks or more, and so many
# rows for all of its blocks.
LARGE_RIGHT = cython.declare(int64_t, 6)
LARGE_ROWS = cython.declare(int64_t, 96)
LEAST_ROWS = cython.declare(int64_t, 4)
# Rows of the longest such operand: more of them are too many pages.
SHORT_ROWS = cython.declare(int64_t, 512)
# Of one row worth a second thread: its matrix is then in two second-level caches.
DOTS_WORK = cython.declare(int64_t, 1 << 17)
# Sums of rows added up that stay in the first-level cache.
COMBINED_COLUMNS = cython.declare(int64_t, 4096)
# Elements of a right operand that several rows have added up: less stays in near caches.
COMBINED_SIZE = cython.declare(int64_t, 1 << 19)
# Rows of the left operand up to which rows of the right one are read in place, see
# `kernels.matmul.dot_tiles`; and how deep they are at least for each of them.
TILED_ROWS = cython.declare(int64_t, 24)
TILED_DEPTH = cython.declare(int64_t, 12)

_find = cython.declare(object, None)
# Codes of the dtypes whose products are summed in the dtype itself.
_plain = cython.declare(cython.ulonglong, 0)
_products = cython.declare(list, [None] * 64)
_dots = cython.declare(list, [None] * 64)
_combines = cython.declare(list, [None] * 64)
_dot_tiles = cython.declare(list, [None] * 64)
_columns = cython.declare(list, [0] * 64)
_widths = cython.declare(list, [0] * 64)
_depths = cython.declare(list, [0] * 64)
_short = cython.declare(list, [0] * 64)
_combined = cython.declare(list, [0] * 64)
_scaled = cython.declare(object, None)


def bind(find, plain, scaled) -> None:
    """Takes ``find(kind, dtype code) -> (kernel, a `Tile`)``.

    Args:
        plain: codes of the dtypes whose products are summed in the dtype itself.
        scaled: ``scaled(dtype code, added)``: what finds kernels whose results are
            multiplied by a number, as `product_after` takes it. ``added`` is whether
            the multiple of an addend of adjacent columns is added (1), of one that has a
            value for each row (0), or nothing (-1).
    """
    global _find, _plain, _scaled
    _find = find
    _scaled = scaled
    one: cython.ulonglong = 1
    for code in plain:
        _plain |= one << code


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_plain(t: Tensor) -> cython.bint:
    return (_plain >> t.dtype_.code) & 1


@cython.cfunc
def load_tile(code: cython.int):
    tile = _find("", code)[1]
    _columns[code], _widths[code] = tile.columns, tile.width
    _depths[code], _short[code] = tile.depth, tile.short
    _combined[code] = tile.combined


@cython.cclass
class EpilogueSpec:
    """What is traced behind a product: its kernels, and its operands.

    Args:
        kernels: from a kind of kernel to the kernel.
    """

    kernels: object
    count: cython.int
    operands: Matrix[24]
    # what operands that are numbers lie in, for those who listen
    numbers: cython.p_char
    bytes: cython.int

    def __init__(self, kernels):
        self.kernels, self.count = kernels, 0
        self.numbers, self.bytes = cython.NULL, 0

    @cython.cfunc
    @cython.exceptval(-1)
    def take(self, operand: Matrix) -> cython.int:
        """One operand more."""
        if self.count >= MOST_EPILOGUE_OPERANDS:
            raise ValueError(
                f"more than {MOST_EPILOGUE_OPERANDS} operands behind a product"
            )
        self.operands[self.count] = operand
        self.count += 1
        return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def start(
    kernel: NativeKernel,
    data: cython.pp_char,
    n_data: cython.int,
    plan: cython.p_void,
    size: cython.size_t,
    chunks: int64_t,
    epilogue: EpilogueSpec = None,
) -> cython.int:
    """Runs a kernel of a plan of some size, and says so to who listens.

    Args:
        n_data: the arrays but for those behind.
    """
    ints: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), plan)
    n_ints: cython.int = cython.cast(cython.int, size // cython.sizeof(int64_t))
    if watched:
        if epilogue is None:
            launch_kernel(
                kernel.fn, data, n_data, ints, n_ints, chunks, 1, cython.NULL, 0
            )
        else:
            n_data += epilogue.count
            n_ints += epilogue.count * cython.cast(
                cython.int, cython.sizeof(EpilogueSteps) // cython.sizeof(int64_t)
            )
            numbers, bytes = epilogue.numbers, epilogue.bytes
            launch_kernel(
                kernel.fn, data, n_data, ints, n_ints, chunks, 1, numbers, bytes
            )
    if chunks == 1:
        run_here(kernel.fn, data, ints, 1)
        return 0
    with cython.nogil:
        parallel_for(kernel.fn, data, ints, chunks, 1)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def run_dots(
    code: cython.int,
    out: cython.pointer(Matrix),
    a: cython.pointer(Matrix),
    b: cython.pointer(Matrix),
    d: cython.pointer(Matrix),
    added: cython.bint,
    batch: int64_t,
    epilogue: EpilogueSpec = None,
) -> cython.int:
    """One row times a matrix whose columns are adjacent: the dot product of each."""
    kernel: NativeKernel
    if epilogue is not None:
        kernel = epilogue.kernels("dots")
    else:
        if _dots[code] is None:
            _dots[code] = _find("dots", code)[0]
        kernel = _dots[code]
    data: cython.p_char[28]
    data[OUT], data[LEFT], data[RIGHT], data[ADDED] = out.data, b.data, a.data, d.data
    call: DotsCall
    plan: cython.pointer(DotsPlan) = cython.address(call.plan)
    plan.rows, plan.depth = b.columns, a.columns
    plan.a_row, plan.out_row, plan.added_row = b.column, out.column, d.column
    plan.a_batch, plan.b_batch = b.batch, a.batch
    plan.out_batch, plan.added_batch = out.batch, d.batch
    plan.added = added
    across: int64_t = covering(b.columns * a.columns, DOTS_WORK)
    plan.row_block = max(16, covering(covering(b.columns, across), 4) * 4)
    add_epilogue_operand(data + EPILOGUE_VECTOR, call.epilogue, epilogue)
    chunks: int64_t = covering(b.columns, plan.row_block) * batch
    size: cython.size_t = cython.sizeof(call.plan)
    return start(kernel, data, EPILOGUE_VECTOR, plan, size, chunks, epilogue)


@cython.cfunc
@cython.exceptval(check=False)
def add_epilogue_operand(
    data: cython.pp_char,
    steps: cython.pointer(EpilogueSteps),
    epilogue: EpilogueSpec = None,
) -> cython.void:
    """Adds the operands of what is behind one row."""
    if epilogue is None:
        return
    for k in range(epilogue.count):
        data[k] = epilogue.operands[k].data
        steps[k].row = epilogue.operands[k].column
        steps[k].batch = epilogue.operands[k].batch


@cython.cfunc
@cython.exceptval(-1)
def run_combine(
    code: cython.int,
    out: cython.pointer(Matrix),
    a: cython.pointer(Matrix),
    b: cython.pointer(Matrix),
    d: cython.pointer(Matrix),
    added: cython.bint,
    batch: int64_t,
    epilogue: EpilogueSpec = None,
) -> cython.int:
    """Few rows times a matrix whose rows are adjacent: those added up."""
    kernel: NativeKernel
    if epilogue is not None:
        kernel = epilogue.kernels("combine")
    else:
        if _combines[code] is None:
            _combines[code] = _find("combine", code)[0]
        kernel = _combines[code]
    data: cython.p_char[28]
    data[OUT], data[LEFT], data[RIGHT], data[ADDED] = out.data, a.data, b.data, d.data
    most: int64_t = COMBINED_COLUMNS // a.rows // 64 * 64
    across: int64_t = covering(b.columns, most)
    if a.rows * b.columns * b.rows * batch > PARALLEL_WORK:
        across = max(across, min(covering(2, batch), covering(b.columns, 256)))
    call: CombineCall
    plan: cython.pointer(CombinePlan) = cython.address(call.plan)
    plan.rows, plan.columns, plan.depth = a.rows, b.columns, b.rows
    plan.a_row, plan.b_row, plan.out_row, plan.added_row = a.row, b.row, out.row, d.row
    plan.a_column, plan.added_column = a.column, d.column
    plan.a_batch, plan.b_batch = a.batch, b.batch
    plan.out_batch, plan.added_batch = out.batch, d.batch
    plan.added = added
    plan.column_block = covering(covering(b.columns, across), 64) * 64
    add_epilogue_operand(data + EPILOGUE_VECTOR, call.epilogue, epilogue)
    chunks: int64_t = covering(b.columns, plan.column_block) * batch
    size: cython.size_t = cython.sizeof(call.plan)
    return start(kernel, data, EPILOGUE_VECTOR, plan, size, chunks, epilogue)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def in_place(code: cython.int, rows: int64_t, b: cython.pointer(Matrix)) -> cython.bint:
    """Whether so many rows read a right operand with adjacent columns where it lies."""
    short: int64_t = _short[code]
    size: int64_t = b.rows * b.columns
    blocks: int64_t = size // cython.cast(int64_t, _columns[code] * _depths[code])
    if blocks >= LARGE_RIGHT:
        return rows < max(LEAST_ROWS, LARGE_ROWS // blocks)
    return rows < FEW_ROWS or (b.columns <= short and size <= SHORT_ROWS * short)


@cython.cfunc
@cython.exceptval(-1)
def run_product(
    code: cython.int,
    out: cython.pointer(Matrix),
    a: cython.pointer(Matrix),
    b: cython.pointer(Matrix),
    d: cython.pointer(Matrix),
    added: cython.bint,
    batch: int64_t,
    same_type: cython.bint,
    epilogue: EpilogueSpec = None,
    sums: cython.pointer(Matrix) = cython.NULL,
) -> cython.int:
    """A product whose output has adjacent columns, as has what is added."""
    words: cython.bint = code == PAIRS or code == TILES
    if a.rows == 1 and b.row == 1 and a.column == 1 and not words:
        return run_dots(code, out, a, b, d, added, batch, epilogue)
    if _widths[code] == 0:
        load_tile(code)
    combined: cython.bint = a.rows == 1 or (
        epilogue is None
        and a.rows <= _combined[code]
        and b.rows * b.columns >= COMBINED_SIZE
    )
    if combined and b.column == 1 and b.columns >= SHORT_ROW and not words:
        return run_combine(code, out, a, b, d, added, batch, epilogue)
    kernel: NativeKernel
    dots: cython.bint = (
        b.row == 1
        and a.column == 1
        and a.rows <= TILED_ROWS
        and a.columns >= TILED_DEPTH * a.rows
        and b.columns > 1
        and not words
        and code != CODE_INT32  # bytes by fours
    )
    if epilogue is not None:
        kind = "pairs" if code == PAIRS else "dot_tiles" if dots else "product"
        kernel = epilogue.kernels("tiles" if code == TILES else kind)
    elif dots:
        if _dot_tiles[code] is None:
            _dot_tiles[code] = _find("dot_tiles", code)[0]
        kernel = _dot_tiles[code]
    else:
        if _products[code] is None:
            _products[code] = _find("product", code)[0]
        kernel = _products[code]
    right: cython.int = GATHERED
    capacity: int64_t = _columns[code]
    if b.column == 1:
        right = DIRECT if same_type and in_place(code, a.rows, b) else COPIED
    elif b.row == 1:
        right = TRANSPOSED
    blocks: Blocks = cut(
        a.rows, b.columns, a.columns, batch, right == DIRECT, capacity, _widths[code],
        n_threads,
    )  # fmt: skip
    if code == TILES:
        blocks = cut_for_tiles(a.rows, b.columns, a.columns, batch, capacity, n_threads)
    elif dots:
        blocks = cut_for_dots(a.rows, b.columns, a.columns, batch, n_threads)
    if sums == cython.NULL:
        sums = out
    data: cython.p_char[32]
    data[OUT], data[LEFT], data[RIGHT] = out.data, a.data, b.data
    data[ADDED], data[SUMS] = d.data, sums.data
    call: ProductCall
    plan: cython.pointer(ProductPlan) = cython.address(call.plan)
    plan.rows, plan.columns, plan.depth = a.rows, b.columns, a.columns
    plan.a_row, plan.a_column, plan.a_batch = a.row, a.column, a.batch
    plan.b_row, plan.b_column, plan.b_batch = b.row, b.column, b.batch
    plan.out_row, plan.out_batch = out.row, out.batch
    plan.added_row, plan.added_batch = d.row, d.batch
    plan.sums_row, plan.sums_batch = sums.row, sums.batch
    plan.added, plan.right_mode = added, right
    plan.row_block, plan.column_block = blocks.rows, blocks.columns
    if epilogue is not None:
        for k in range(epilogue.count):
            data[EPILOGUE_PRODUCT + k] = epilogue.operands[k].data
            call.epilogue[k].row = epilogue.operands[k].row
            call.epilogue[k].batch = epilogue.operands[k].batch
    size: cython.size_t = cython.sizeof(call.plan)
    return start(kernel, data, EPILOGUE_PRODUCT, plan, size, blocks.chunks, epilogue)


@cython.cfunc
def transposed(m: Matrix) -> Matrix:
    t: Matrix = m
    t.rows, t.columns, t.row, t.column = m.columns, m.rows, m.column, m.row
    return t


@cython.cfunc
def steps_of(m: Matrix) -> tuple:
    """An operand as a backend takes it; None where there is none."""
    if m.data == cython.NULL:
        return None
    return cython.cast(uintptr_t, m.data), m.row, m.column, m.batch


@cython.cfunc
@cython.exceptval(-1)
def run_on_device(
    device: Device,
    dtype: DType,
    compute: DType,
    scales: tuple,
    out: Matrix,
    a: Matrix,
    b: Matrix,
    d: Matrix,
    batch: int64_t,
) -> cython.int:
    """Has a backend other than the host's multiply."""
    backend: Backend = backend_of(device)
    backend.libraries.run_product(
        device,
        dtype.name,
        compute.name,
        (out.rows, out.columns, a.columns),
        (steps_of(out), steps_of(a), steps_of(b), steps_of(d)),
        scales,
        batch,
    )
    return 0


@cython.cfunc
@cython.exceptval(-1)
def run(
    dtype: DType,
    compute: DType,
    out: Matrix,
    a: Matrix,
    b: Matrix,
    d: Matrix,
    added: cython.bint,
    batch: int64_t,
    epilogue: EpilogueSpec = None,
    sums: cython.pointer(Matrix) = cython.NULL,
) -> cython.int:
    """``out = a b + d``, through what is behind it; the output is row-major."""
    k: cython.int
    dots: cython.bint = a.column == 1 and b.row == 1
    if out.columns == 1 and out.rows > 1:  # one column: better one row
        free: cython.bint = epilogue is None and (not added or d.row == 1)
        if dots or free:
            out, a, b, d = transposed(out), transposed(b), transposed(a), transposed(d)
            if epilogue is not None:
                for k in range(epilogue.count):
                    epilogue.operands[k] = transposed(epilogue.operands[k])
    if b.columns == 1:
        b.column = 1
    if a.columns == 1:
        a.column = 1
    return run_product(
        dtype.code,
        cython.address(out),
        cython.address(a),
        cython.address(b),
        cython.address(d),
        added,
        batch,
        dtype is compute,
        epilogue,
        sums,
    )


@cython.cfunc
def same_device(out: Tensor, a: Tensor, b: Tensor) -> Device:
    """Where a product is: all of its operands are there.

    Raises:
        RuntimeError: they are not.
    """
    where: Device = out.storage.device
    for t in (a, b):
        device: Device = cython.cast(Tensor, t).storage.device
        if device is not where and device != where:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {where} and {t.device}!\n"
                "  remedy: move one of them with .to(device)"
            )
    return where


@cython.cfunc
@cython.exceptval(-1)
def run_scaled(
    device: Device,
    dtype: DType,
    compute: DType,
    out: Matrix,
    a: Matrix,
    b: Matrix,
    d: Matrix,
    added: cython.bint,
    alpha: cython.double,
    beta: cython.double,
    batch: int64_t,
) -> cython.int:
    """``out = alpha a b + beta d``; ``d`` has adjacent columns, or one value a row."""
    if not device.on_host:
        d.data = d.data if added else cython.NULL
        run_on_device(device, dtype, compute, (alpha, beta), out, a, b, d, batch)
        return 0
    if b.columns == 1:
        d.column = 1
    if alpha == 1 and (not added or beta == 1 and d.column == 1):
        return run(dtype, compute, out, a, b, d, added, batch)
    numbers: cython.double[2]
    numbers[0], numbers[1] = 0, 0  # narrow ones leave a part
    present: cython.p_char = cython.cast(cython.p_char, numbers)
    if compute.code == CODE_FLOAT32:
        cython.cast(cython.pointer(cython.float), present)[0] = alpha
        cython.cast(cython.pointer(cython.float), present)[1] = beta
    elif compute.code == CODE_FLOAT64:
        numbers[0], numbers[1] = alpha, beta
    elif compute.code == CODE_INT32:
        cython.cast(cython.p_int, present)[0] = cython.cast(cython.int, alpha)
        cython.cast(cython.p_int, present)[1] = cython.cast(cython.int, beta)
    else:
        cython.cast(cython.pointer(int64_t), present)[0] = cython.cast(int64_t, alpha)
        cython.cast(cython.pointer(int64_t), present)[1] = cython.cast(int64_t, beta)
    kind: cython.int = -1
    if added:
        kind = d.column == 1
    epilogue: EpilogueSpec = EpilogueSpec(_scaled(dtype.code, kind))
    epilogue.numbers, epilogue.bytes = present, 16
    one: Matrix = d
    one.row, one.column, one.batch = 0, 0, 0
    one.data = present
    epilogue.take(one)
    if added:
        one.data = present + compute.itemsize
        epilogue.take(one)
        epilogue.take(d)
    return run(dtype, compute, out, a, b, out, False, batch, epilogue)


@cython.cfunc
def matrix_of(t: Tensor) -> Matrix:
    """The last two dimensions of a tensor, and the batch before them."""
    m: Matrix
    n: cython.int = t.ndim_
    m.data = t.pointer()
    m.rows, m.columns = t.sizes[n - 2], t.sizes[n - 1]
    m.row, m.column = t.strides[n - 2], t.strides[n - 1]
    m.batch = t.strides[0] if n == 3 and t.sizes[0] > 1 else 0
    return m


def fresh(like: Tensor, sizes: tuple, dtype: DType = None) -> Tensor:
    """An uninitialised row-major tensor on the device of ``like``."""
    extents: int64_t[64]
    n: cython.int = 0
    for size in sizes:
        extents[n] = size
        n += 1
    kind: DType = like.dtype_ if dtype is None else dtype
    return new_empty(n, extents, cython.NULL, kind, like.storage.device)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_odd(t: Tensor, dim: cython.int) -> cython.bint:
    """Whether elements at ``dim`` and before, or their number, do not pair up."""
    batch: int64_t = t.strides[0] if t.ndim_ == 3 else 0
    other: cython.int = 2 * t.ndim_ - 3 - dim
    return (t.sizes[dim] | t.strides[other] | batch) & 1 or t.strides[dim] != 1


def on_words(a: Tensor, b: Tensor) -> cython.bint:
    """Whether two matrices start where words of four bytes do.

    Nobody sees an address by it, so programs that write calls down may go on.
    """
    starts: uintptr_t = cython.cast(uintptr_t, a.pointer())
    starts |= cython.cast(uintptr_t, b.pointer())
    return (starts & 3) == 0


def pair_product(a: Tensor, b: Tensor, compute: DType) -> Tensor:
    """The float32 product of bfloat16 matrices, two steps of the depth at a time.

    None where pairs do not lie together in both operands, or there is one row or column.
    """
    n: cython.int = a.ndim_
    sizes: int64_t[3]
    sizes[0] = a.sizes[0]
    sizes[n - 2], sizes[n - 1] = a.sizes[n - 2], b.sizes[n - 1]
    if (
        not a.storage.device.on_host
        or is_odd(a, n - 1)
        or is_odd(b, n - 2)
        or sizes[n - 2] < 2
        or sizes[n - 1] < 2
        or a.sizes[n - 1] == 0
    ):
        return None
    out: Tensor = new_empty(n, sizes, cython.NULL, compute, a.storage.device)
    if is_trivial(out, a.sizes[n - 1], False):
        return out
    left: Matrix = matrix_of(a)
    right: Matrix = matrix_of(b)
    present: Matrix = matrix_of(out)
    as_pairs(cython.address(left), cython.address(right))
    batch: int64_t = sizes[0] if n == 3 else 1
    run_product(
        PAIRS,
        cython.address(present),
        cython.address(left),
        cython.address(right),
        cython.address(present),
        False,
        batch,
        True,
    )
    return out


@cython.cfunc
@cython.exceptval(check=False)
def as_pairs(a: cython.pointer(Matrix), b: cython.pointer(Matrix)) -> cython.void:
    """Sees two matrices of bfloat16 as of pairs along the sum: half as many elements."""
    a.columns, a.row, a.batch = a.columns // 2, a.row // 2, a.batch // 2
    b.rows, b.column, b.batch = b.rows // 2, b.column // 2, b.batch // 2


def agree(a: Tensor, b: Tensor, ndim: cython.int) -> cython.bint:
    """Whether two matrices, or two batches of them, have a product."""
    if a.ndim_ != ndim or b.ndim_ != ndim or a.dtype_ is not b.dtype_:
        return False
    if ndim == 3 and a.sizes[0] != b.sizes[0]:
        return False
    return a.sizes[ndim - 1] == b.sizes[ndim - 2]


@cython.cfunc
@cython.inline
def is_trivial(out: Tensor, depth: int64_t, added: cython.bint) -> cython.bint:
    """Handles what needs no kernel: empty outputs, no storage, sums of nothing."""
    if out.numel_ == 0 or out.storage.data == cython.NULL:
        return True
    if depth == 0 and not added:
        if not out.storage.device.on_host:
            out.zero_()
            return True
        if watched:
            count_unheard()
        memset(out.pointer(), 0, out.numel_ * out.dtype_.itemsize)
        return True
    return False


def product(
    a: Tensor,
    b: Tensor,
    compute: DType,
    addend: Tensor = None,
    alpha: cython.double = 1.0,
    beta: cython.double = 1.0,
) -> Tensor:
    """``alpha a b + beta addend`` of two matrices, or of two batches of them.

    Args:
        a, b: matrices whose sizes agree, of one dtype.
        compute: what sums and the result are held in.
        addend: as many dimensions as the result, and at least one element deep; it
            repeats where its stride is zero, and otherwise has adjacent columns.
    """
    sizes: int64_t[3]
    n: cython.int = a.ndim_
    sizes[0] = a.sizes[0]
    sizes[n - 2], sizes[n - 1] = a.sizes[n - 2], b.sizes[n - 1]
    out: Tensor = new_empty(n, sizes, cython.NULL, compute, a.storage.device)
    if is_trivial(out, a.sizes[n - 1], addend is not None):
        return out
    present: Matrix = matrix_of(out)
    d: Matrix = present if addend is None else matrix_of(addend)
    same_device(out, a if addend is None else addend, b)
    run_scaled(
        out.storage.device,
        a.dtype_,
        compute,
        present,
        matrix_of(a),
        matrix_of(b),
        d,
        addend is not None,
        alpha,
        beta,
        sizes[0] if n == 3 else 1,
    )
    return out


def product_into(out: Tensor, a: Tensor, b: Tensor, addend: Tensor = None) -> None:
    """``out = a b + addend`` of two matrices of one dtype that is summed in itself.

    Args:
        out: row-major, of the host's; no operand but ``addend`` shares its memory.
        a, b: matrices whose sizes agree.
        addend: of the result's size, with adjacent columns; it may be ``out``.
    """
    if is_trivial(out, a.sizes[1], addend is not None):
        return
    present: Matrix = matrix_of(out)
    d: Matrix = present if addend is None else matrix_of(addend)
    left: Matrix = matrix_of(a)
    right: Matrix = matrix_of(b)
    added: cython.bint = addend is not None
    batch: int64_t = out.sizes[0] if out.ndim_ == 3 else 1
    run(out.dtype_, out.dtype_, present, left, right, d, added, batch)


def linear(input: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    """``input weight^T + bias`` over the last dimension; None where that is not plain.

    Plain are row-major operands of one dtype that is summed in itself, and sizes that
    fit.
    """
    n: cython.int = input.ndim_
    if (
        n < 2
        or weight.ndim_ != 2
        or weight.dtype_ is not input.dtype_
        or not is_plain(input)
        or not (n == 2 or input.row_major)
        or input.sizes[n - 1] != weight.sizes[1]
        or weight.sizes[1] == 0
    ):
        return None
    if bias is not None and (
        bias.ndim_ != 1
        or bias.sizes[0] != weight.sizes[0]
        or not bias.row_major
        or bias.dtype_ is not input.dtype_
    ):
        return None
    return run_linear(input, weight, bias)


@cython.cfunc
def run_linear(input: Tensor, weight: Tensor, bias: object) -> Tensor:
    sizes: int64_t[64]
    n: cython.int = input.ndim_
    i: cython.int
    a: Matrix
    b: Matrix = transposed(matrix_of(weight))
    b.batch = 0
    for i in range(n):
        sizes[i] = input.sizes[i]
    sizes[n - 1] = b.columns
    out: Tensor = new_empty(n, sizes, cython.NULL, input.dtype_, input.storage.device)
    if is_trivial(out, b.rows, False):
        return out
    a.data, a.batch = input.pointer(), 0
    a.columns, a.rows = b.rows, out.numel_ // b.columns
    a.row = input.strides[0] if n == 2 else a.columns
    a.column = input.strides[n - 1]
    present: Matrix
    present.data, present.batch = out.pointer(), 0
    present.rows, present.columns, present.row, present.column = (
        a.rows,
        b.columns,
        b.columns,
        1,
    )
    d: Matrix = present
    if bias is not None:
        d = transposed(vector_of(bias))
        d.row, d.column = 0, 1
    device: Device = same_device(out, weight, input if bias is None else bias)
    added: cython.bint = bias is not None
    run_scaled(device, input.dtype_, input.dtype_, present, a, b, d, added, 1.0, 1.0, 1)
    return out


def matrices(a: Tensor, b: Tensor, ndim: cython.int) -> Tensor:
    """``a b`` of two matrices or batches; None unless both are plain and agree."""
    if not agree(a, b, ndim) or not is_plain(a):
        return None
    return product(a, b, a.dtype_)


def matrices_added(
    addend: Tensor, a: Tensor, b: Tensor, beta: cython.double, alpha: cython.double
) -> Tensor:
    """``beta addend + alpha a b`` of two matrices; None unless that is plain.

    The addend is a row-major matrix of the result's size, or one row of it.
    """
    if not agree(a, b, 2) or not is_plain(a) or addend.dtype_ is not a.dtype_:
        return None
    n: cython.int = addend.ndim_
    if (
        beta == 0
        or a.sizes[1] == 0
        or not addend.row_major
        or n == 0
        or n > 2
        or addend.sizes[n - 1] != b.sizes[1]
        or (n == 2 and addend.sizes[0] != a.sizes[0])
    ):
        return None
    sizes: int64_t[2]
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    out: Tensor = new_empty(2, sizes, cython.NULL, a.dtype_, a.storage.device)
    if is_trivial(out, a.sizes[1], True):
        return out
    d: Matrix = matrix_of(out)
    d.data, d.row, d.column = addend.pointer(), (sizes[1] if n == 2 else 0), 1
    run_scaled(
        same_device(out, b, addend),
        a.dtype_,
        a.dtype_,
        matrix_of(out),
        matrix_of(a),
        matrix_of(b),
        d,
        True,
        alpha,
        beta,
        1,
    )
    return out


@cython.cfunc
def vector_of(t: Tensor) -> Matrix:
    """A vector as one column."""
    m: Matrix
    m.data, m.rows, m.columns = t.pointer(), t.sizes[0], 1
    m.row, m.column, m.batch = t.strides[0], 1, 0
    return m


def vectors(a: Tensor, v: Tensor, ndim: cython.int) -> Tensor:
    """A matrix or vector times a vector; None unless both are plain and agree."""
    if (
        a.ndim_ != ndim
        or v.ndim_ != 1
        or a.dtype_ is not v.dtype_
        or a.sizes[ndim - 1] != v.sizes[0]
        or not is_plain(a)
    ):
        return None
    return vector_product(a, v, a.dtype_)


def vector_product(a: Tensor, v: Tensor, compute: DType) -> Tensor:
    """A matrix, or a vector, times a vector of as many elements as it has columns."""
    sizes: int64_t[1]
    sizes[0] = a.sizes[0]
    n: cython.int = a.ndim_ - 1
    out: Tensor = new_empty(n, sizes, cython.NULL, compute, a.storage.device)
    if is_trivial(out, v.sizes[0], False):
        return out
    left: Matrix = matrix_of(a) if n else transposed(vector_of(a))
    present: Matrix
    present.data, present.rows, present.columns = out.pointer(), left.rows, 1
    present.row, present.column, present.batch = 1, 1, 0
    device: Device = same_device(out, a, v)
    right: Matrix = vector_of(v)
    run_scaled(
        device, a.dtype_, compute, present, left, right, present, False, 1.0, 1.0, 1
    )
    return out


@cython.cfunc
def beside(t: Tensor) -> Matrix:
    """An operand of what is behind a product, seen in the result's shape."""
    m: Matrix = matrix_of(t)
    n: cython.int = t.ndim_
    if m.columns == 1:
        m.column = 1
    if m.rows == 1:
        m.row = 0
    m.batch = t.strides[0] if n == 3 and t.sizes[0] > 1 else 0
    return m


def product_after(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    compute: DType,
    kernels: object,
    others: tuple,
    sums: object,
    code: cython.int = -1,
    addend: Tensor = None,
) -> Tensor:
    """``out = after(a b + addend, *others)`` of two matrices, or of two batches of them.

    Args:
        out: row-major.
        a, b: matrices whose sizes agree, of one dtype; at least one element deep.
        compute: what is summed in.
        kernels: from a kind of kernel to the kernel, as of `operators.matmul.matmul_epilogue`.
        others: tensors of the result's shape, with adjacent columns or none.
        sums: where sums wait for more depth; None where that may be ``out``.
        code: of the dtype, unless it is that of ``a``.
        addend: of the type of the sums and the result's shape, with adjacent columns.
    """
    epilogue: EpilogueSpec = EpilogueSpec(kernels)
    n: cython.int = a.ndim_
    batch: int64_t = a.sizes[0] if n == 3 else 1
    present: Matrix = matrix_of(out)
    kept: Matrix = present
    t: Tensor
    for t in others:
        epilogue.take(beside(t))
    if sums is not None:
        t = sums
        kept = matrix_of(t)
    left: Matrix = matrix_of(a)
    right: Matrix = matrix_of(b)
    if code == PAIRS:
        as_pairs(cython.address(left), cython.address(right))
        run_product(
            PAIRS,
            cython.address(present),
            cython.address(left),
            cython.address(right),
            cython.address(present),
            False,
            batch,
            True,
            epilogue,
            cython.address(kept),
        )
        return out
    if code == TILES:
        run_product(
            TILES,
            cython.address(present),
            cython.address(left),
            cython.address(right),
            cython.address(present),
            False,
            batch,
            False,
            epilogue,
            cython.address(kept),
        )
        return out
    dtype: DType = a.dtype_
    place: cython.pointer(Matrix) = cython.address(kept)
    added: cython.bint = addend is not None
    d: Matrix = matrix_of(addend) if addend is not None else present
    run(dtype, compute, present, left, right, d, added, batch, epilogue, place)
    return out

"""Products of matrices on a device by cuBLASLt.

The library sees columns where we see rows: a row-major product is the transposed one of
the transposed operands, the right one first. A vector that is added to every row is its
epilogue; any other operand that is added is its third matrix. What is asked of it is
described once for each layout, with the algorithm that its heuristics choose, and kept.
"""

import ctypes
from dataclasses import dataclass

from rushlight.core.switches import switch
from rushlight.runtime.cuda.launch import ProductPlan
from rushlight.runtime.cuda.libraries import CUBLAS_LT, queue

# cudaDataType, cublasComputeType and attributes of cuBLASLt, by the names in its header.
TYPES = {
    "float32": 0, "float64": 1, "float16": 2, "int8": 3, "complex64": 4,
    "complex128": 5, "int32": 10, "bfloat16": 14,
}  # fmt: skip
EIGHT = {"float8_e4m3fn": 28, "float8_e5m2": 29}
SCALED_RESULTS = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float8_e4m3fn": "float16",
    "float8_e5m2": "float16",
}  # and the type of what would be added, where that is not told
IN_32F_TF32 = 77
# The type of sums, and in which one the library takes them; of scales: words, and of what.
SUMS = {
    "float32": (68, 1, ctypes.c_float),
    "float64": (70, 1, ctypes.c_double),
    "complex64": (68, 2, ctypes.c_float),
    "complex128": (70, 2, ctypes.c_double),
    "int32": (72, 1, ctypes.c_int32),
}
SHORT = ("float16", "bfloat16")
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_TYPE = 3, 4, 7, 8, 26
A_SCALE, B_SCALE, D_SCALE, FAST, A_MODE, B_MODE = 17, 18, 20, 25, 31, 32
ONE_FOR_ALL, ONE_FOR_EACH = 0, 3  # scales
BATCH_COUNT, BATCH_OFFSET = 5, 6
MOST_WORKSPACE = 1
LEAST_ALIGNMENTS = (
    5,
    6,
    7,
    8,
)  # of a preference: of both factors, what is added, the result
PLAIN, BIAS = 1, 4
ACTIVATION_CODES = {None: 0, "relu": 2, "gelu": 32}  # with a vector, or without one
WORKSPACE = 32 << 20  # bytes that an algorithm may take, as on PyTorch's newest devices
RESULT = 96  # bytes of cublasLtMatmulHeuristicResult_t: algorithm, workspace, and more
KEPT = 1024
C_FUNCTIONS = "cublasLtMatmul", "cublasLtMatmulDescSetAttribute"


@dataclass(frozen=True)
class Layout:
    """A matrix as the library sees it: columns one after the other.

    Attributes:
        turned: whether it is the transposed of what is multiplied.
        rows, columns: of what lies in memory.
        lead: elements from column to column.
        step: elements from matrix to matrix.
    """

    transposed: bool
    rows: int
    columns: int
    lead: int
    step: int


def layout(item, rows, columns):
    """How a matrix of such sizes lies by columns, or None where it lies otherwise.

    Args:
        item: address, steps from row to row, from column to column and in the batch.
    """
    _, down, along, step = item
    if step < 0:
        return None
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return Layout(
            False, rows, columns, max(along if columns > 1 else 0, rows), step
        )
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return Layout(True, columns, rows, max(down if rows > 1 else 0, columns), step)
    return None


def transposed(item):
    """The transposed of an operand."""
    return item and (item[0], item[2], item[1], item[3])


@dataclass(frozen=True)
class Scaled:
    """What is told of products of eight-bit floats.

    Attributes:
        other: the type of the right factor.
        each: of both factors, whether every row, or column, has a scale of its own.
        added: the type of a vector, and of what would be added.
        marked: whether the result has a scale.
        fast: whether sums may be rounded on their way.
    """

    other: str
    each: tuple
    added: str
    marked: bool
    fast: bool


@dataclass(frozen=True)
class Product:
    """What the library is asked for, but for addresses and scales.

    Attributes:
        element, compute, result: types of the factors, of sums and of results.
        tf32: whether factors may be rounded to ten digits after the point.
        left, right, out, added: layouts, as the library sees them.
        bias: whether a vector is added to each column.
        batch: how many products there are.
        behind: what is applied to the result; see `ACTIVATION_CODES`.
        scaled: what products of eight-bit floats have beside that.
    """

    element: str
    compute: str
    result: str
    tf32: bool
    left: Layout
    right: Layout
    out: Layout
    added: Layout | None
    bias: bool
    batch: int
    activation: str | None = None
    scaled: Scaled | None = None

    @property
    def epilogue(self):
        """The library's number for what comes behind the sums."""
        return ACTIVATION_CODES[self.activation] + BIAS * self.bias or PLAIN


def multiplies(element, compute, result):
    """Whether the library has products of such types."""
    if element in SHORT:
        return compute == "float32" and result in (compute, element)
    same = compute == ("int32" if element == "int8" else element)
    return element in TYPES and element != "int32" and same and result == compute


def describe(element, compute, result, sizes, operands, scales, batch, activation=None):
    """The product, its operands in the library's order, and the vector; None if it is none.

    Takes what `Backend.run_product` takes.
    """
    rows, columns, depth = sizes
    if 0 in (rows, columns, depth, batch) or not multiplies(element, compute, result):
        return None
    out, left, right, added = operands
    if is_transposed(out):
        rows, columns = columns, rows
        out, left, right, added = (
            transposed(out),
            transposed(right),
            transposed(left),
            transposed(added),
        )
    vector = None
    along = added is not None and added[1:] == (1, 0, 0) and rows > 1
    if along and scales[1] == 1 and compute in ("float32", "float64"):
        vector, added = added[0], None
    found = [layout(out, rows, columns), layout(left, rows, depth)]
    found.append(layout(right, depth, columns))
    found.append(None if added is None else layout(added, rows, columns))
    if None in found[:3] or found[0].transposed:
        return None
    if added is not None and (found[3] is None or found[3].transposed):
        return None
    tf32 = element == "float32" and reduced_precision()
    product = Product(
        *(element, compute, result, tf32, found[1], found[2], found[0], found[3]),
        *(vector is not None, batch, activation),
    )
    return product, (out, left, right, added or out), vector


HIGHEST = 0  # the switch of what products of float32 may lose: nothing


def reduced_precision():
    """Whether products of float32 may use TF32, by PyTorch's switches."""
    return switch("float32_matmul") != HIGHEST


def number(value, compute):
    """A scale as the library takes it."""
    _, words, kind = SUMS[compute]
    if words == 1:
        return kind(int(value) if kind is ctypes.c_int32 else value)
    value = complex(value)
    return (kind * 2)(value.real, value.imag)


def run(ctx, element, compute, result, sizes, operands, scales, batch, activation=None):
    """Has the library multiply, in this thread's queue; False where it cannot.

    Takes what `Backend.run_product` takes.
    """
    addresses = [0 if item is None else item[0] for item in operands]
    key = (
        *(element, compute, result, sizes, scales, batch, activation),
        *(reduced_precision(), *map(alignment_of, addresses)),
        *[None if item is None else item[1:] for item in operands],
    )
    ready = ctx.prepared.get(key)
    if ready is None:
        args = element, compute, result, sizes, operands, scales, batch, activation
        ready = prepare(ctx, *args)
        if len(ctx.prepared) >= KEPT:
            ctx.prepared.clear()
        ctx.prepared[key] = ready
    if ready:
        ready.run(tuple(addresses))
    return bool(ready)


def prepare(ctx, element, compute, result, sizes, operands, scales, batch, activation):
    """The plan of products that differ in addresses alone; False where the library has
    none."""
    args = element, compute, result, sizes, operands, scales, batch, activation
    found = describe(*args)
    if found is None or not CUBLAS_LT.present():
        return False
    product, order, vector = found
    without = operands[3] is None or vector is not None
    factors = number(scales[0], compute), number(0 if without else scales[1], compute)
    with ctx.lock:
        out, left, right, added = (item[0] for item in order)
        plan = plan_for(ctx, product, [left, right, added, out])
    if plan is None:
        return False
    made = Prepared(
        plan, is_transposed(operands[0]), not without, vector is not None, factors
    )
    tf32 = product.tf32
    if element == "float32":

        def still_holds():
            return plan.made and reduced_precision() == tf32

    else:

        def still_holds():
            return plan.made

    def otherwise(addresses):
        again = [
            None if item is None else (address, *item[1:])
            for item, address in zip(operands, addresses, strict=True)
        ]
        run(ctx, element, compute, result, sizes, again, scales, batch, activation)

    return ProductPlan(
        *(ctx, made, [CUBLAS_LT.pointer(name) for name in C_FUNCTIONS]),
        [alignment_of(item[0]) if item else 1 for item in operands],
        *(still_holds, otherwise),
    )


def is_transposed(out):
    """Whether the library writes the transposed product: of results that lie by rows."""
    return out[1] != 1 or out[2] == 1


class Prepared:
    """A product but for its addresses.

    Args:
        plan: of the library.
        transposed: whether its left factor is the right one here.
        adds: whether a matrix is added.
        biased: whether a vector is.
        factors: of the product and of what is added, as the library takes them.
    """

    def __init__(self, plan, transposed, adds, biased, factors):
        self.plan, self.transposed, self.adds, self.biased = (
            plan,
            transposed,
            adds,
            biased,
        )
        self.factors = factors
        self.scales = [ctypes.addressof(factor) for factor in factors]

    def launch(self, ctx, addresses):
        """Puts the product into this thread's queue.

        Args:
            device: where.
            addresses: of out, left, right and added.
        """
        out, left, right, added = addresses
        if self.transposed:
            left, right = right, left
        with ctx.lock:  # descriptors are changed before they are read
            if self.biased:
                self.plan.set_vector(ctx, added)
            strided = added if self.adds else out
            self.plan.multiply(ctx, (out, left, right, strided), self.scales)
        return True


def run_scaled(ctx, elements, result, sizes, operands, scales, fast):
    """Has the library multiply eight-bit floats; False where it cannot.

    It has one form of these: of operands that both lie along the depth. Takes what
    `Backend.run_scaled_product` takes.
    """
    rows, columns, depth = sizes
    (first, left_each), (second, right_each), third = scales
    kind, added = result
    if 0 in sizes or not scales_to(elements, kind, left_each or right_each):
        return False
    if not CUBLAS_LT.present():
        return False
    *items, vector = operands
    out, left, right = map(transposed, items)
    seen = (
        layout(right, columns, depth),
        layout(left, depth, rows),
        layout(out, columns, rows),
    )
    if None in seen or [side.transposed for side in seen] != [True, False, False]:
        return False
    added = added or SCALED_RESULTS[kind]
    each = right_each, left_each
    layout_text = Scaled(elements[0], each, added, third is not None, bool(fast))
    product = Product(
        *(elements[1], "float32", kind, False, *seen, None, vector is not None, 1),
        scaled=layout_text,
    )
    factors = ctypes.c_float(1), ctypes.c_float(0)
    order = out, right, left, out
    return start(ctx, product, order, vector, factors, (second, first, third))


def scales_to(elements, result, each):
    """Whether the library multiplies such eight-bit floats and writes such numbers.

    Args:
        each: whether a factor has scales of rows or columns.
    """
    if not all(element in EIGHT for element in elements):
        return False
    if result in EIGHT:  # of another type than both factors it is none
        return not each and result in elements
    return result in SCALED_RESULTS


def start(ctx, product, operands, vector, factors, scales=None):
    """Puts a product into this thread's queue; False where it has no plan.

    Args:
        device: where.
        product: what is asked for.
        operands: out, left, right and added, in the library's order.
        vector: the address of what is added to each column, or None.
        factors: of the product and of what is added.
        scales: the addresses of those of both operands and of the result, or None.
    """
    out, left, right, added = (item[0] for item in operands)
    with ctx.lock:
        plan = plan_for(ctx, product, [left, right, added, out], scales)
        if plan is None:
            return False
        if vector is not None:
            plan.set_vector(ctx, vector)
        if scales is not None:
            plan.set_scales(ctx, scales)
        given = [ctypes.addressof(factor) for factor in factors]
        plan.multiply(ctx, (out, left, right, added), given)
    return True


class MatmulPlan:
    """The library's descriptions of a product, and the algorithm that it chose."""

    def __init__(self, ctx, product):
        self.handle = light_handle(ctx)
        self.made: list = []
        self.result = (ctypes.c_uint64 * (RESULT // 8))()
        self.algorithm, self.n_bytes = ctypes.addressof(self.result), 0
        self.product = product
        self.vector = None
        number = (TYPES | EIGHT)[product.result]
        strided = number if product.scaled is None else TYPES[product.scaled.added]
        compute = IN_32F_TF32 if product.tf32 else SUMS[product.compute][0]
        sums = TYPES[product.compute]
        self.described = self.make(ctx, "matmul_desc", compute, sums)
        for place, side in ((TRANSA, product.left), (TRANSB, product.right)):
            self.set(ctx, place, ctypes.c_int32(side.transposed))
        self.set(ctx, EPILOGUE, ctypes.c_uint32(product.epilogue))
        if product.bias:
            self.set(ctx, BIAS_TYPE, ctypes.c_int32(strided))
        first = second = (TYPES | EIGHT)[product.element]
        if product.scaled is not None:
            second = EIGHT[product.scaled.other]
            for place, each in zip((A_MODE, B_MODE), product.scaled.each, strict=True):
                mode = ONE_FOR_EACH if each else ONE_FOR_ALL
                self.set(ctx, place, ctypes.c_int32(mode))
            self.set(ctx, FAST, ctypes.c_int8(product.scaled.fast))
        self.left = self.matrix(ctx, product.left, first)
        self.right = self.matrix(ctx, product.right, second)
        self.out = self.matrix(ctx, product.out, number)
        self.added = self.out
        if product.result in EIGHT:  # nothing of eight bits is added
            self.added = self.matrix(ctx, product.out, strided)
        if product.added is not None:
            self.added = self.matrix(ctx, product.added, number)

    def make(self, ctx, what, *args):
        """One of the library's objects, which `end` lets go of."""
        found = CUBLAS_LT.call(ctx, f"{what}_create", *args)
        self.made.append((f"{what}_destroy", found))
        return found

    def matrix(self, ctx, seen, number):
        """A matrix's description."""
        found = self.make(
            ctx, "matrix_layout", number, seen.rows, seen.columns, seen.lead
        )
        if self.product.batch > 1:
            for place, value in (
                (BATCH_COUNT, ctypes.c_int32(self.product.batch)),
                (BATCH_OFFSET, ctypes.c_int64(seen.step)),
            ):
                CUBLAS_LT.call(
                    *(ctx, "matrix_layout_set_attribute", found, place),
                    *(ctypes.addressof(value), ctypes.sizeof(value)),
                )
        return found

    def set(self, ctx, place, value):
        """Sets an attribute of the product's description."""
        CUBLAS_LT.call(
            *(ctx, "matmul_desc_set_attribute", self.described, place),
            *(ctypes.addressof(value), ctypes.sizeof(value)),
        )

    def set_vector(self, ctx, address):
        """Says where the vector is that is added, if it was not there before."""
        if address != self.vector:
            self.set(ctx, BIAS_POINTER, ctypes.c_uint64(address))
            self.vector = address

    def set_scales(self, ctx, addresses):
        """Says where the scales of both operands are, and the result's if it has one."""
        for place, address in zip((A_SCALE, B_SCALE, D_SCALE), addresses, strict=True):
            if address is not None:
                self.set(ctx, place, ctypes.c_uint64(address))

    def choose(self, ctx, alignments):
        """Asks for an algorithm; whether there is one.

        Args:
            device: where.
            alignments: of the matrices' addresses, in bytes: without them the library takes
                algorithms that load 256 bytes from where none may begin.
        """
        preference = CUBLAS_LT.call(ctx, "matmul_preference_create")
        try:
            count = ctypes.c_int32(0)
            asked = [(MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))]
            pairs = zip(LEAST_ALIGNMENTS, alignments, strict=True)
            asked += [(place, ctypes.c_uint32(bytes)) for place, bytes in pairs]
            for place, value in asked:
                CUBLAS_LT.call(
                    *(ctx, "matmul_preference_set_attribute", preference, place),
                    *(ctypes.addressof(value), ctypes.sizeof(value)),
                )
            CUBLAS_LT.call(
                *(ctx, "matmul_algo_get_heuristic", self.handle, self.described),
                *(self.left, self.right, self.added, self.out, preference, 1),
                *(ctypes.addressof(self.result), ctypes.addressof(count)),
            )
        finally:
            CUBLAS_LT.call(ctx, "matmul_preference_destroy", preference)
        self.n_bytes = int(self.result[8])
        return count.value > 0

    def multiply(self, ctx, addresses, scales):
        """Puts the product into this thread's queue.

        What the algorithm works in is given back at once: what comes later in the queue
        may use it.

        Args:
            device: where.
            addresses: of out, left, right and added, in the library's order.
            scales: the addresses of the factors of the product and of what is added.
        """
        out, left, right, added = addresses
        where = queue(ctx)
        room = ctx.allocator.allocate(self.n_bytes, where)
        try:
            CUBLAS_LT.call(
                *(ctx, "matmul", self.handle, self.described, scales[0]),
                *(left, self.left, right, self.right, scales[1]),
                *(added, self.added, out, self.out, self.algorithm),
                *(room, self.n_bytes, where),
            )
        finally:
            ctx.allocator.free(room)

    def end(self, ctx):
        """Lets go of the descriptions."""
        for function, item in reversed(self.made):
            CUBLAS_LT.call(ctx, function, item)
        self.made.clear()


def light_handle(ctx):
    """The library's handle on a device; all threads share it."""
    found = CUBLAS_LT.handles.get(ctx.index)
    if found is None:
        found = CUBLAS_LT.handles[ctx.index] = CUBLAS_LT.call(ctx, "create")
    return found


def alignment_of(address):
    """The alignment of an address that algorithms are chosen by.

    >>> alignment_of(4096), alignment_of(4096 + 32), alignment_of(4100)
    (256, 16, 4)
    """
    if address % 256 == 0:
        return 256
    return min(address & -address, 16)


def plan_for(ctx, product, addresses, scales=None):
    """The plan of a product, kept by how its addresses are aligned; None if there is none."""
    alignments = tuple(map(alignment_of, addresses))
    key = product, alignments
    if key in ctx.products:
        return ctx.products[key]
    plan = MatmulPlan(ctx, product)
    try:
        if scales is not None:
            plan.set_scales(ctx, scales)
        chosen = plan.choose(ctx, alignments)
    except RuntimeError:  # NOT_SUPPORTED: ours multiplies then
        chosen = False
    if not chosen:
        plan.end(ctx)
        plan = None
    while len(ctx.products) >= KEPT:
        oldest = ctx.products.pop(next(iter(ctx.products)))
        ctx.prepared.clear()  # they may hold it
        if oldest is not None:
            oldest.end(ctx)
    ctx.products[key] = plan
    return plan

"""Products of matrices on a card by cuBLASLt.

The library sees columns where we see rows: a row-major product is the transposed one of
the transposed operands, the right one first. A vector that is added to every row is its
epilogue; any other operand that is added is its third matrix. What is asked of it is
described once for each layout, with the algorithm that its heuristics choose, and kept.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from rushlight.backends.nvidia.libraries import CUBLAS_LT, queue
from rushlight.core.dtype import by_code
from rushlight.core.factories import empty

BYTES = by_code(0)
# cudaDataType, cublasComputeType and attributes of cuBLASLt, by the names in its header.
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
IN_32F, IN_32F_TF32, IN_64F = 68, 77, 70
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_TYPE = 3, 4, 7, 8, 26
BATCH_COUNT, BATCH_OFFSET = 5, 6
MOST_WORKSPACE = 1
PLAIN, BIAS = 1, 4
WORKSPACE = 32 << 20  # bytes that an algorithm may take, as on PyTorch's newest cards
RESULT = 96  # bytes of cublasLtMatmulHeuristicResult_t: algorithm, workspace, and more
KEPT = 1024


@dataclass(frozen=True)
class Layout:
    """A matrix as the library sees it: columns one after the other.

    Attributes:
        turned: whether it is the transposed of what is multiplied.
        rows, columns: of what lies in memory.
        lead: elements from column to column.
        step: elements from matrix to matrix.
    """

    turned: bool
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


def turned(item):
    """The transposed of an operand."""
    return item and (item[0], item[2], item[1], item[3])


@dataclass(frozen=True)
class Product:
    """What the library is asked for, but for addresses and scales.

    Attributes:
        element, compute: types of the factors, and of sums and results.
        tf32: whether factors may be rounded to ten digits after the point.
        left, right, out, added: layouts, as the library sees them.
        bias: whether a vector is added to each column.
        batch: how many products there are.
    """

    element: str
    compute: str
    tf32: bool
    left: Layout
    right: Layout
    out: Layout
    added: Layout | None
    bias: bool
    batch: int


def describe(element, compute, sizes, operands, scales, batch):
    """The product, its operands in the library's order, and the vector; None if it is none.

    Takes what `Backend.run_product` takes.
    """
    rows, columns, depth = sizes
    if element not in TYPES or compute not in ("float32", "float64"):
        return None
    if 0 in (rows, columns, depth, batch) or (element == "float64") != (
        compute == "float64"
    ):
        return None
    out, left, right, added = operands
    if out[1] != 1 or out[2] == 1:  # results by rows: the transposed product
        rows, columns = columns, rows
        out, left, right, added = (
            turned(out),
            turned(right),
            turned(left),
            turned(added),
        )
    vector = None
    if added is not None and added[1:] == (1, 0, 0) and scales[1] == 1 and rows > 1:
        vector, added = added[0], None
    found = [layout(out, rows, columns), layout(left, rows, depth)]
    found.append(layout(right, depth, columns))
    found.append(None if added is None else layout(added, rows, columns))
    if None in found[:3] or found[0].turned:
        return None
    if added is not None and (found[3] is None or found[3].turned):
        return None
    tf32 = element == "float32" and reduced_precision()
    product = Product(
        *(element, compute, tf32, found[1], found[2], found[0], found[3]),
        *(vector is not None, batch),
    )
    return product, (out, left, right, added or out), vector


def reduced_precision():
    """Whether products of float32 may use TF32, by PyTorch's switches."""
    from rushlight._facts import get_float32_matmul_precision

    return get_float32_matmul_precision() != "highest"


def run(card, element, compute, sizes, operands, scales, batch):
    """Has the library multiply, in this thread's queue; False where it cannot.

    Takes what `Backend.run_product` takes.
    """
    found = describe(element, compute, sizes, operands, scales, batch)
    if found is None or not CUBLAS_LT.present():
        return False
    product, (out, left, right, added), vector = found
    kind = ctypes.c_float if compute == "float32" else ctypes.c_double
    alpha, beta = kind(scales[0]), kind(scales[1])
    if operands[3] is None or vector is not None:
        beta = kind(0)
    with card.lock:  # descriptors are changed before they are read
        plan = plan_for(card, product, [item[0] for item in (left, right, added, out)])
        if plan is None:
            return False
        if vector is not None:
            plan.set_vector(card, vector)
        room = empty((max(plan.n_bytes, 1),), dtype=BYTES, device=f"cuda:{card.index}")
        CUBLAS_LT.call(
            *(card, "matmul", plan.handle, plan.described, ctypes.addressof(alpha)),
            *(left[0], plan.left, right[0], plan.right, ctypes.addressof(beta)),
            *(added[0], plan.added, out[0], plan.out, plan.algorithm),
            *(room.data_ptr(), plan.n_bytes, queue(card)),
        )
    return True


class Plan:
    """The library's descriptions of a product, and the algorithm that it chose."""

    def __init__(self, card, product):
        self.handle = light_handle(card)
        self.made: list = []
        self.result = (ctypes.c_uint64 * (RESULT // 8))()
        self.algorithm, self.n_bytes = ctypes.addressof(self.result), 0
        self.product = product
        number = TYPES[product.compute]
        compute = IN_64F if product.compute == "float64" else IN_32F
        if product.tf32:
            compute = IN_32F_TF32
        self.described = self.make(card, "matmul_desc", compute, number)
        for place, side in ((TRANSA, product.left), (TRANSB, product.right)):
            self.set(card, place, ctypes.c_int32(side.turned))
        self.set(card, EPILOGUE, ctypes.c_uint32(BIAS if product.bias else PLAIN))
        if product.bias:
            self.set(card, BIAS_TYPE, ctypes.c_int32(number))
        self.left = self.matrix(card, product.left, TYPES[product.element])
        self.right = self.matrix(card, product.right, TYPES[product.element])
        self.out = self.matrix(card, product.out, number)
        self.added = self.out
        if product.added is not None:
            self.added = self.matrix(card, product.added, number)

    def make(self, card, what, *args):
        """One of the library's objects, which `end` lets go of."""
        found = CUBLAS_LT.call(card, f"{what}_create", *args)
        self.made.append((f"{what}_destroy", found))
        return found

    def matrix(self, card, seen, number):
        """A matrix's description."""
        found = self.make(
            card, "matrix_layout", number, seen.rows, seen.columns, seen.lead
        )
        if self.product.batch > 1:
            for place, value in (
                (BATCH_COUNT, ctypes.c_int32(self.product.batch)),
                (BATCH_OFFSET, ctypes.c_int64(seen.step)),
            ):
                CUBLAS_LT.call(
                    *(card, "matrix_layout_set_attribute", found, place),
                    *(ctypes.addressof(value), ctypes.sizeof(value)),
                )
        return found

    def set(self, card, place, value):
        """Sets an attribute of the product's description."""
        CUBLAS_LT.call(
            *(card, "matmul_desc_set_attribute", self.described, place),
            *(ctypes.addressof(value), ctypes.sizeof(value)),
        )

    def set_vector(self, card, address):
        """Says where the vector is that is added."""
        self.set(card, BIAS_POINTER, ctypes.c_uint64(address))

    def choose(self, card):
        """Asks for an algorithm; whether there is one."""
        preference = CUBLAS_LT.call(card, "matmul_preference_create")
        try:
            most, count = ctypes.c_uint64(WORKSPACE), ctypes.c_int32(0)
            CUBLAS_LT.call(
                *(card, "matmul_preference_set_attribute", preference, MOST_WORKSPACE),
                *(ctypes.addressof(most), ctypes.sizeof(most)),
            )
            CUBLAS_LT.call(
                *(card, "matmul_algo_get_heuristic", self.handle, self.described),
                *(self.left, self.right, self.added, self.out, preference, 1),
                *(ctypes.addressof(self.result), ctypes.addressof(count)),
            )
        finally:
            CUBLAS_LT.call(card, "matmul_preference_destroy", preference)
        self.n_bytes = int(self.result[8])
        return count.value > 0

    def end(self, card):
        """Lets go of the descriptions."""
        for function, item in reversed(self.made):
            CUBLAS_LT.call(card, function, item)
        self.made.clear()


def light_handle(card):
    """The library's handle on a card; all threads share it."""
    found = CUBLAS_LT.handles.get(card.index)
    if found is None:
        found = CUBLAS_LT.handles[card.index] = CUBLAS_LT.call(card, "create")
    return found


def plan_for(card, product, addresses):
    """The plan of a product, kept by how its addresses are aligned; None if there is none."""
    aligned = min((address & -address for address in addresses), default=16)
    key = product, min(aligned, 16)
    if key in card.products:
        return card.products[key]
    plan = Plan(card, product)
    try:
        chosen = plan.choose(card)
    except RuntimeError:  # NOT_SUPPORTED: ours multiplies then
        chosen = False
    if not chosen:
        plan.end(card)
        plan = None
    while len(card.products) >= KEPT:
        oldest = card.products.pop(next(iter(card.products)))
        if oldest is not None:
            oldest.end(card)
    card.products[key] = plan
    return plan

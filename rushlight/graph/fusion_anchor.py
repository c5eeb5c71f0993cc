"""What can have elementwise steps behind it, in its own kernel: products, convolutions.

A head knows which calls it stands for, over which sizes a group of steps may go that reads
its sums, which operands these may have besides, and the call of the operator that is both.
"""

import sys
from math import prod

from rushlight.core.device import backend_for
from rushlight.dispatch.declared import rule_of
from rushlight.graph.fused_node import steps_of
from rushlight.graph.steps import CONSTANT, FRESH, TENSOR, TENSORS
from rushlight.operators.matmul.matmul_epilogue import OTHERS, EpilogueSpec
from rushlight.operators.matmul.matmul_epilogue import name as name_of

WIDE = ("float32", "float64")  # halves round their sums in a pass of their own
FLOATS = (*WIDE, "float16", "bfloat16")
APPLIED = (
    "float32",
    "float16",
    "bfloat16",
)  # that a device's library applies functions to
# Bytes of a product's results from which on a second pass over them is worth saving: what
# is smaller is read again from the second-level cache, and kernels take time to compile.
FAR = 1 << 21


def head_of(step):
    """The head that a step is; None where it is none."""
    rule = rule_of(step.op, "fusion_anchor", sys.modules[__name__])
    kind = rule and rule(step.call.device.on_host)
    if kind is None or len(step.call.results) != 1:
        return None
    ((made, sums),) = step.call.results
    if made != FRESH or not sums.count or not is_dense(sums):
        return None
    if not all(value.plain for value in step.reads):
        return None
    head = kind(step, sums)
    return head if head.serves() else None


class Head:
    """One call.

    Attributes:
        step: its step.
        sums: the window on its results.
        operator: the name of the one that takes functions behind its sums.
    """

    operator: str

    def __init__(self, step, sums):
        self.step, self.sums = step, sums
        self.values, self.kind = step.call.values, step.call.kind

    def epilogue(self, group, function):
        """The name of a group's function as the operator takes it; None for none."""
        found = EpilogueSpec(function, function.joined.digest, function.joined.name)
        return name_of(found)


class Convolution(Head):
    """A convolution that is not transposed."""

    operator = "_conv_with_epilogue"

    def serves(self):
        """Whether there are kernels for it."""
        whole = self.sums.dtype.name in WIDE and prod(self.values[1].sizes) > 0
        return whole and not self.values[6]

    def spreads_over(self, sizes):
        """Whether a group over some sizes goes over the sums."""
        return sizes == self.sums.sizes

    def stores(self, dtype):
        """Whether results may be of a dtype."""
        return dtype.name in WIDE

    def reads(self, one, sizes):
        """Whether an operand lies as the sums do, or has one value for each channel."""
        if one.dtype.name not in OTHERS or not one.plain:
            return False
        sums = self.sums
        if one.sizes == sums.sizes and steps_over(one, sizes) == steps_over(
            sums, sizes
        ):
            return True
        own = (1,) * (sums.ndim - one.ndim) + one.sizes
        strides = (0,) * (sums.ndim - one.ndim) + one.strides
        alone = all(size == 1 for d, size in enumerate(own) if d != 1)
        return alone and own[1] == sums.sizes[1] and (own[1] == 1 or strides[1] == 1)

    def arguments(self, others, epilogue, result):
        """The kinds and values of the operator's arguments."""
        x, weight, bias, stride, padding, dilation, _, _, groups = self.values
        return [
            *((TENSOR, x), (TENSOR, weight), (self.kind(2), bias)),
            *((TENSORS, others), (CONSTANT, epilogue), (CONSTANT, stride)),
            *((CONSTANT, padding), (CONSTANT, dilation), (CONSTANT, groups)),
            (CONSTANT, result.dtype),
        ]


class Product(Head):
    """A product of matrices, or of batches of them, and what is added to it.

    One of one row or column is dot products: they go over no row of sums.
    """

    operator = "_product_with_epilogue"

    def __init__(self, step, sums):
        super().__init__(step, sums)
        self.transposed = False
        name = step.op.name
        self.added, positions = None, self.values[:2]
        if name == "linear":
            self.transposed, self.added = True, self.values[2]
        elif name in ("addmm", "baddbmm"):
            self.added, *positions = self.values[:3]
        self.left, self.right = positions

    def serves(self):
        """Whether there are kernels for it that sum as the operator does."""
        left, right, added = self.left, self.right, self.added
        if left.ndim < 2 or right.ndim < 2 or left.dtype is not self.sums.dtype:
            return False
        self.columns = self.sums.sizes[-1]
        self.rows = self.sums.sizes[-2]
        if right.ndim == 2:
            self.rows = self.sums.count // self.columns
        if self.step.op.name in ("addmm", "baddbmm"):
            for at in (3, 4):
                if self.kind(at) != CONSTANT or self.values[at] != 1:
                    return False
        if added is not None:
            most = 1 if self.transposed else right.ndim
            if added.dtype is not self.sums.dtype or not 0 < added.ndim <= most:
                return False
            if added.sizes[-1] != self.columns or added.strides[-1] != 1:
                return False
        return (
            self.sums.dtype.name in WIDE
            and self.sums.count * self.sums.dtype.itemsize >= FAR
            and self.rows > 1
            and self.columns > 1
            and left.sizes[-1] > 0
        )

    def spreads_over(self, sizes):
        """Whether a group over some sizes goes over the sums: matrices, row by row."""
        if self.step.op.name in ("bmm", "baddbmm"):
            return len(sizes) > 2 and sizes[-2:] == (self.rows, self.columns)
        return len(sizes) > 1 and sizes[-1] == self.columns

    def stores(self, dtype):
        """Whether results may be of a dtype.

        Where sums are of another one and wait for more depth, they need memory.
        """
        from rushlight.kernels.matmul.matmul_kernel_registry import depth_of

        own = self.sums.dtype
        deep = self.left.sizes[-1] > depth_of(own.name)
        return dtype.name in FLOATS and (dtype is own or not deep)

    def reads(self, one, sizes):
        """Whether an operand is read in place: adjacent columns or one for each row."""
        if one.dtype.name not in OTHERS or not one.plain:
            return False
        steps = steps_over(one, sizes)
        if steps is None or steps[-1] not in (0, 1):
            return False
        inner = 2 if self.step.op.name in ("bmm", "baddbmm") else 1
        return is_one_loop(sizes[:-inner], steps[:-inner])

    def arguments(self, others, epilogue, result):
        """The kinds and values of the operator's arguments."""
        kind = CONSTANT if self.added is None else TENSOR
        return [
            *((kind, self.added), (TENSOR, self.left), (TENSOR, self.right)),
            *((CONSTANT, self.transposed), (TENSORS, others), (CONSTANT, epilogue)),
            *((CONSTANT, list(result.sizes)), (CONSTANT, result.dtype)),
        ]


class CudaProduct(Product):
    """A product whose library applies a function to what it writes.

    Its sums are of 32 bits, and what is added is a vector: others' functions may not be
    there, and a kernel of ours would take the product's place as well.
    """

    def serves(self):
        """Whether the library multiplies and applies."""
        self.columns, self.rows = self.sums.sizes[-1], 0
        left, right, added = self.left, self.right, self.added
        if not backend_for(self.sums.device).libraries.has_separate_sums():
            return False
        if right.ndim != 2 or left.dtype is not self.sums.dtype:
            return False
        if left.ndim != 2 and not (
            self.transposed and left.ndim > 2 and is_dense(left)
        ):
            return False
        if self.step.op.name == "addmm":
            for at in (3, 4):
                if self.kind(at) != CONSTANT or self.values[at] != 1:
                    return False
        if added is not None and (
            added.dtype is not self.sums.dtype or added.sizes != (self.columns,)
        ):
            return False
        return self.sums.dtype.name in APPLIED and left.sizes[-1] > 0

    def spreads_over(self, sizes):
        """Whether a group over some sizes goes over the sums."""
        return prod(sizes) == self.sums.count

    def stores(self, dtype):
        """Results are of the sums' dtype as they are stored."""
        return dtype is self.sums.dtype

    def reads(self, one, sizes):
        """The library has nothing of other operands."""
        return False

    def epilogue(self, group, function):
        """The library's name of a group's one step."""
        if len(group.members) != 1:
            return None
        step = group.members[0].step
        rule = rule_of(step.op, "epilogue", sys.modules[__name__])
        return rule and rule(step)


# What declarations name as ``epilogue``: from a step to the libraries' name of its function.


def named(name):
    return lambda step: name


def named_by_tanh(name):
    """The name of a function that libraries have by the hyperbolic tangent alone."""
    return lambda step: name if step.call.values[1] == "tanh" else None


# What they name as ``fusion_anchor``: from whether the host runs it to a class.


def convolution(on_host):
    return Convolution if on_host else None


def product(on_host):
    return Product if on_host else CudaProduct


def batched_product(on_host):
    return Product if on_host else None


def key_of(value, sizes):
    """Where a dense window lies, as members of a group over some sizes say."""
    return value.slot, value.offset, value.dtype.name, steps_over_rows(sizes)


def steps_over_rows(sizes):
    """The strides of what lies row after row; 0 where there is one element."""
    steps, step = [], 1
    for size in sizes[::-1]:
        steps.append(0 if size == 1 else step)
        step *= size
    return tuple(steps[::-1])


def steps_over(value, sizes):
    """A window's strides over the dimensions of a group; None where it does not fit."""
    return steps_of(value, tuple(range(len(sizes))), sizes)


def is_one_loop(sizes, steps):
    """Whether dimensions are gone over by one stride."""
    wanted = None
    for size, step in zip(sizes[::-1], steps[::-1], strict=True):
        if size == 1:
            continue
        if wanted not in (None, step):
            return False
        wanted = step * size
    return True


def is_dense(value):
    """Whether a window is row after row, from the start of its storage."""
    step = 1
    for size, stride in zip(value.sizes[::-1], value.strides[::-1], strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return not value.offset

"""Prefixes, ranks and sets: what compares elements with others of their row."""

import math

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.reduction import kthvalue, length_of, sort
from rushlight.operators import call


def _prefixes(g, self, dim, neutral):
    """For each place of a dimension all that is up to it, as one more dimension.

    Args:
        self: the value.
        dim: the dimension.
        neutral: what stands for what comes after.
    """
    dim %= self.rank
    size = self.shape[dim]
    if type(size) is not int:
        raise Unsupported("the size of its dimension is open")
    seen = rl.ones(size, size, dtype=rl.bool).tril()
    seen = seen.reshape([size, size] + [1] * (self.rank - 1 - dim))
    rows = g.unsqueeze(self, [dim])
    made = g.where(g.const(seen, rl.bool), rows, g.const(neutral, self.dtype))
    return made, dim + 1


def _register_scan(packet, op_type, neutral):
    @lowers(packet)
    def lower(g, self, dim, dtype=None):
        value = g.cast(self, g.kind)
        if self.rank == 0:
            return value
        value.shape = self.shape
        rows, inner = _prefixes(g, value, dim, neutral)
        return g.reduce(op_type, rows, [inner])


_register_scan(call.cumprod, "ReduceProd", 1)
_register_scan(call.logcumsumexp, "ReduceLogSumExp", -math.inf)


def _register_extreme(packet, values, indices, neutral):
    @lowers(packet)
    def lower(g, self, dim):
        if self.rank == 0:
            return self, g.const(0, rl.int64)
        rows, inner = _prefixes(g, self, dim, neutral)
        found = g.op(
            indices, rows, axis=inner, keepdims=0, select_last_index=1, dtype=rl.int64
        )
        return g.reduce(values, rows, [inner]), found


_register_extreme(call.cummax, "ReduceMax", "ArgMax", -math.inf)
_register_extreme(call.cummin, "ReduceMin", "ArgMin", math.inf)


@lowers(call.median)
def median(g, self, dim=None, keepdim=False):
    """The lower of the two in the middle, and its place."""
    if self.rank == 0:
        return self if dim is None else (self, g.const(0, rl.int64))
    if dim is None:
        if not self.is_static():
            raise Unsupported("its sizes are open")
        count = math.prod(self.shape)
        row = g.reshape(self, [count])
        return kthvalue(g, row, (count + 1) // 2, 0)[0]
    size = self.shape[dim]
    if type(size) is not int:
        raise Unsupported("the size of its dimension is open")
    return kthvalue(g, self, (size + 1) // 2, dim, keepdim)


# -- where a value belongs -----------------------------------------------------------------


def _counted(g, bounds, values, right, kind):
    """How many bounds, in the last dimension, are below each value."""
    op_type = "LessOrEqual" if right else "Less"
    below = g.op(op_type, bounds, values, dtype=rl.bool)
    numbers = g.op("Cast", below, to=6 if kind is rl.int32 else 7, dtype=kind)
    return g.reduce("ReduceSum", numbers, [-1])


@lowers(call.bucketize)
def bucketize(g, self, boundaries, out_int32=False, right=False):
    """Between which bounds a value lies."""
    kind = rl.result_type(rl.empty(1, dtype=boundaries.dtype), 1)
    kind = rl.float32 if kind is rl.int64 else kind
    value = g.cast(self, kind)
    value = g.op("Unsqueeze", value, g.ints([-1]), dtype=kind)
    return _counted(g, g.cast(boundaries, kind), value, right, g.kind)


@lowers(call.searchsorted)
def searchsorted(
    g, sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None
):
    """Where a value belongs in a row that is in order."""
    if sorter is not None:
        raise Unsupported("with sorter it has no form in ONNX")
    right = right if side is None else side == "right"
    if not isinstance(self, Value):
        return bucketize(g, self, sorted_sequence, False, right)
    value = g.op("Unsqueeze", self, g.ints([-1]), dtype=self.dtype)
    if sorted_sequence.rank > 1:
        sorted_sequence = g.unsqueeze(sorted_sequence, [sorted_sequence.rank - 1])
    return _counted(g, sorted_sequence, value, right, g.kind)


@lowers(call.isin)
def isin(g, elements, test_elements, assume_unique=False, invert=False):
    """Which elements are among others."""
    kind = next(
        one.dtype for one in (elements, test_elements) if isinstance(one, Value)
    )
    value, others = g.cast(elements, kind), g.cast(test_elements, kind)
    rows = g.op("Unsqueeze", value, g.ints([-1]), dtype=kind)
    same = g.op("Equal", rows, g.reshape(others, [-1]), dtype=rl.bool)
    found = g.reduce("ReduceMax", g.cast(same, rl.int32), [-1])
    made = g.op("Cast", found, to=9, dtype=rl.bool)
    return g.op("Not", made, dtype=rl.bool) if invert else made


@lowers(call._unique2)
def unique(g, self, sorted=True, return_inverse=False, return_counts=False):
    """What is there, once; where each is in it; how often."""
    values, _, inverse, counts = g.op("Unique", self, sorted=1, outputs=4)
    values.dtype = self.dtype
    inverse = g.op("Reshape", inverse, g.shape_of(self), dtype=rl.int64)
    counts.dtype = rl.int64
    return values, inverse, counts


@lowers(call.msort)
def msort(g, self):
    """The first dimension in order."""
    return sort(g, self, 0)[0]


# -- distances -----------------------------------------------------------------------------


@lowers(call.dist)
def dist(g, self, other, p=2):
    """The length of a difference."""
    gap = g.sub(g.cast(self, g.kind), g.cast(other, g.kind))
    flat = g.reshape(gap, [-1])
    flat.shape = (None,)
    return length_of(g, flat, p, [0], False)


@lowers(call._euclidean_dist)
def euclidean_dist(g, x1, x2):
    """The lengths of all differences of two sets of points."""
    gap = g.sub(g.unsqueeze(x1, [x1.rank - 1]), g.unsqueeze(x2, [x2.rank - 2]))
    return g.reduce("ReduceL2", gap, [-1])


@lowers(call.linalg_cross)
def linalg_cross(g, self, other, dim=-1):
    """The product that is at right angles to both."""
    kind = g.kind
    dims = max(self.rank, other.rank)
    dim = dim % dims - dims
    transposed = [
        [
            g.op("Gather", g.cast(one, kind), g.const([1, 2, 0] if left else [2, 0, 1],
                 rl.int64), axis=dim, dtype=kind)
            for left in (True, False)
        ]
        for one in (self, other)
    ]  # fmt: skip
    (first, second), (third, fourth) = transposed
    return g.sub(g.mul(first, fourth), g.mul(second, third))


@lowers(call.renorm)
def renorm(g, self, p, dim, maxnorm):
    """Parts of a dimension no longer than a bound."""
    dims = [at for at in range(self.rank) if at != dim % self.rank]
    length = length_of(g, self, p, dims, True)
    kind = self.dtype
    scale = g.div(g.const(float(maxnorm), kind), g.add(length, 1e-7))
    long = g.compare("Greater", length, float(maxnorm))
    return g.mul(self, g.where(long, scale, g.const(1.0, kind)))


@lowers(call.special_entr)
def entr(g, self):
    """-x log(x)."""
    kind = g.kind
    x = g.cast(self, kind)
    made = g.op("Neg", g.mul(x, g.op("Log", x, dtype=kind)), dtype=kind)
    made = g.where(g.compare("Equal", x, 0.0), g.const(0.0, kind), made)
    return g.where(g.compare("Less", x, 0.0), g.const(-math.inf, kind), made)


@lowers(call.angle)
def angle(g, self):
    """Zero, or half a turn below zero."""
    kind = g.kind
    x = g.cast(self, kind)
    made = g.where(
        g.compare("Less", x, 0.0), g.const(math.pi, kind), g.const(0.0, kind)
    )
    return g.where(g.op("IsNaN", x, dtype=rl.bool), x, made)


@lowers(call.ldexp)
def ldexp(g, self, other):
    """Times a power of two."""
    kind = g.kind
    power = g.op("Pow", g.const(2.0, kind), g.cast(other, kind), dtype=kind)
    return g.mul(g.cast(self, kind), power)


@lowers(call.trace)
def trace(g, self):
    """The sum of the diagonal."""
    rows, columns = self.shape
    if not self.is_static():
        raise Unsupported("its sizes are open")
    indices = rl.arange(min(rows, columns)) * (columns + 1)
    flat = g.reshape(self, [-1])
    made = g.op("Gather", flat, g.const(indices, rl.int64), axis=0)
    made.dtype = self.dtype
    made = g.cast(made, g.kind)
    return g.reduce("ReduceSum", made, [0])

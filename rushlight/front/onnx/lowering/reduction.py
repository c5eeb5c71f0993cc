"""Sums, means, extremes, norms, scans, orders."""

import math

import rushlight as rl
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.elementwise import truth
from rushlight.operators import call


def dims_of(value, dim):
    """The dimensions that are reduced; None for all of them."""
    if dim is None or value.rank == 0:
        return None
    dims = [dim] if isinstance(dim, int) else list(dim)
    return dims or None


def _reduced(g, op_type, self, dim, keepdim, kind):
    made = g.reduce(op_type, g.cast(self, kind), dims_of(self, dim), keepdim)
    made.dtype = kind
    return made


def _register(packet, op_type):
    @lowers(packet)
    def lower(g, self, dim=None, keepdim=False, dtype=None):
        return _reduced(g, op_type, self, dim, keepdim, g.kind)


_register(call.sum, "ReduceSum")
_register(call.mean, "ReduceMean")
_register(call.prod, "ReduceProd")


@lowers(call.nansum)
def nansum(g, self, dim=None, keepdim=False, dtype=None):
    """The sum of what is a number."""
    kind = g.kind
    self_ = g.cast(self, kind)
    if kind.is_floating_point:
        self_ = g.where(g.op("IsNaN", self_, dtype=rl.bool), g.const(0.0, kind), self_)
    self_.shape = self.shape
    return _reduced(g, "ReduceSum", self_, dim, keepdim, kind)


def _extremes(g, op_type, self, dim, keepdim):
    kind = self.dtype
    if kind is rl.bool:
        made = _reduced(g, op_type, g.cast(self, rl.int32), dim, keepdim, rl.int32)
        return g.cast(made, kind)
    return _reduced(g, op_type, self, dim, keepdim, kind)


@lowers(call.amax)
def amax(g, self, dim=(), keepdim=False):
    """The largest."""
    return _extremes(g, "ReduceMax", self, dim, keepdim)


@lowers(call.amin)
def amin(g, self, dim=(), keepdim=False):
    """The smallest."""
    return _extremes(g, "ReduceMin", self, dim, keepdim)


@lowers(call.aminmax)
def aminmax(g, self, dim=None, keepdim=False):
    """The smallest and the largest."""
    parts = "ReduceMin", "ReduceMax"
    return tuple(_extremes(g, one, self, dim, keepdim) for one in parts)


def _with_place(packet, values, indices, pair):
    @lowers(packet)
    def lower(g, self, dim=None, keepdim=False, other=None):
        if other is not None:
            left, right = g.cast(self, g.kind), g.cast(other, g.kind)
            return g.op(pair, left, right, dtype=g.kind)
        if dim is None:
            return _extremes(g, values, self, None, False)
        if self.rank == 0:
            return self, g.const(0, rl.int64)
        found = _place(g, indices, self, dim, keepdim)
        return _extremes(g, values, self, dim, keepdim), found


_with_place(call.max, "ReduceMax", "ArgMax", "Max")
_with_place(call.min, "ReduceMin", "ArgMin", "Min")


def _place(g, op_type, self, dim, keepdim):
    if self.dtype in (rl.bool, rl.int64, rl.int16):
        self = g.cast(self, rl.int32 if self.dtype is not rl.int64 else rl.float64)
    return g.op(op_type, self, axis=dim, keepdims=int(keepdim), dtype=rl.int64)


def _register_place(packet, op_type):
    @lowers(packet)
    def lower(g, self, dim=None, keepdim=False):
        if self.rank == 0:
            return g.const(0, rl.int64)
        if dim is not None:
            return _place(g, op_type, self, dim, keepdim)
        found = _place(g, op_type, g.reshape(self, [-1]), 0, False)
        return g.reshape(found, [1] * self.rank) if keepdim else found


_register_place(call.argmax, "ArgMax")
_register_place(call.argmin, "ArgMin")


def _register_truth(packet, op_type):
    @lowers(packet)
    def lower(g, self, dim=None, keepdim=False):
        numbers = g.cast(truth(g, self), rl.int32)
        numbers.shape = self.shape
        made = _reduced(g, op_type, numbers, dim, keepdim, rl.int32)
        return g.cast(g.cast(made, rl.bool), g.kind)


_register_truth(call.all, "ReduceMin")
_register_truth(call.any, "ReduceMax")


@lowers(call.count_nonzero)
def count_nonzero(g, self, dim=None):
    """How many are not zero."""
    numbers = g.cast(truth(g, self), rl.int64)
    numbers.shape = self.shape
    return _reduced(g, "ReduceSum", numbers, dim, False, rl.int64)


@lowers(call.logsumexp, call.special_logsumexp)
def logsumexp(g, self, dim, keepdim=False):
    """The logarithm of the sum of exponentials."""
    return _reduced(g, "ReduceLogSumExp", self, dim, keepdim, g.kind)


# -- norms and moments -----------------------------------------------------------------


@lowers(call.linalg_vector_norm)
def linalg_vector_norm(g, self, ord=2, dim=None, keepdim=False, dtype=None):
    """The length of vectors."""
    return length_of(g, g.cast(self, g.kind), ord, dim, keepdim)


@lowers(call.norm)
def norm(g, self, p=2, dim=None, keepdim=False, dtype=None):
    """The length of vectors, or of the whole as one."""
    if isinstance(p, str):
        raise Unsupported(f"with p={p!r} it has no form in ONNX")
    return length_of(g, g.cast(self, g.kind), 2 if p is None else p, dim, keepdim)


def length_of(g, value, p, dim, keepdim):
    """The length of vectors by a norm.

    Args:
        value: the vectors.
        p: which norm.
        dim: the dimensions of a vector; ``keepdim`` leaves them as ones.
    """
    kind = value.dtype
    shape = value.shape
    if p == 2:
        return _reduced(g, "ReduceL2", value, dim, keepdim, kind)
    if p == 1:
        return _reduced(g, "ReduceL1", value, dim, keepdim, kind)
    size = g.op("Abs", value, dtype=kind, shape=shape)
    if p in (math.inf, -math.inf):
        op_type = "ReduceMax" if p > 0 else "ReduceMin"
        return _reduced(g, op_type, size, dim, keepdim, kind)
    if p == 0:
        some = g.cast(truth(g, value), kind)
        some.shape = shape
        return _reduced(g, "ReduceSum", some, dim, keepdim, kind)
    power = g.op("Pow", size, g.const(float(p), kind), dtype=kind, shape=shape)
    total = _reduced(g, "ReduceSum", power, dim, keepdim, kind)
    return g.op("Pow", total, g.const(1.0 / p, kind), dtype=kind)


def count_of(g, value, dim, kind):
    """How many elements are reduced: a number, or a value of a type."""
    dims = dims_of(value, dim)
    dims = range(value.rank) if dims is None else dims
    sizes = [value.shape[one] for one in dims]
    if all(type(size) is int for size in sizes):
        return math.prod(sizes)
    made = g.ints([1])
    for one in dims:
        made = g.op("Mul", made, g.size(g.size_of(value, one)), dtype=rl.int64)
    return g.cast(g.scalar(made), kind)


def moments(g, value, dim, keepdim, correction=1):
    """Variance and mean over dimensions."""
    kind = value.dtype
    mean = g.reduce("ReduceMean", value, dims_of(value, dim), True)
    gap = g.sub(value, mean)
    squares = g.mul(gap, gap)
    total = g.reduce("ReduceSum", squares, dims_of(value, dim), keepdim)
    count = count_of(g, value, dim, kind)
    if isinstance(count, int):
        left = max(count - correction, 0)
        divisor = g.const(float(left), kind)
    else:
        divisor = g.op(
            "Max", g.sub(count, float(correction)), g.const(0.0, kind), dtype=kind
        )
    if not keepdim:
        dims = dims_of(value, dim)
        dims = list(range(value.rank)) if dims is None else dims
        mean = g.squeeze(mean, dims)
    return g.div(total, divisor), mean


def _correction(correction, unbiased):
    if unbiased is not None:
        return int(unbiased)
    return 1 if correction is None else correction


@lowers(call.var)
def var(g, self, dim=None, correction=None, keepdim=False, unbiased=None):
    """The variance."""
    return moments(g, self, dim, keepdim, _correction(correction, unbiased))[0]


@lowers(call.std)
def std(g, self, dim=None, correction=None, keepdim=False, unbiased=None):
    """The square root of the variance."""
    made = moments(g, self, dim, keepdim, _correction(correction, unbiased))[0]
    return g.op("Sqrt", made, dtype=self.dtype)


@lowers(call.var_mean)
def var_mean(g, self, dim=None, correction=None, keepdim=False, unbiased=None):
    """Variance and mean."""
    return moments(g, self, dim, keepdim, _correction(correction, unbiased))


@lowers(call.std_mean)
def std_mean(g, self, dim=None, correction=None, keepdim=False, unbiased=None):
    """The square root of the variance, and the mean."""
    made, mean = moments(g, self, dim, keepdim, _correction(correction, unbiased))
    return g.op("Sqrt", made, dtype=self.dtype), mean


# -- scans and orders ------------------------------------------------------------------


@lowers(call.cumsum)
def cumsum(g, self, dim, dtype=None):
    """Sums from the first to each."""
    kind = g.kind
    if self.rank == 0:
        return g.cast(self, kind)
    inner = rl.int64 if kind in (rl.int8, rl.int16, rl.uint8) else kind
    made = g.op("CumSum", g.cast(self, inner), g.const(dim, rl.int64), dtype=inner)
    return g.cast(made, kind)


@lowers(call.topk)
def topk(g, self, k, dim=-1, largest=True):
    """The largest or smallest, in order."""
    if self.rank == 0:
        return self, g.const(0, rl.int64)
    return _ordered(g, self, g.size(k), dim, largest)


def _ordered(g, self, count, dim, descending):
    values, indices = g.op(
        "TopK", self, count, axis=dim, largest=int(descending), outputs=2
    )
    values.dtype, indices.dtype = self.dtype, rl.int64
    return values, indices


@lowers(call.sort)
def sort(g, self, dim=-1, descending=False):
    """All in order, and where each comes from."""
    if self.rank == 0:
        return self, g.const(0, rl.int64)
    if self.dtype in (rl.bool, rl.uint8, rl.int8, rl.int16):
        wide = g.cast(self, rl.int32)
        wide.shape = self.shape
        values, indices = _ordered(
            g, wide, g.size(g.size_of(self, dim)), dim, descending
        )
        return g.cast(values, self.dtype), indices
    return _ordered(g, self, g.size(g.size_of(self, dim)), dim, descending)


@lowers(call.argsort)
def argsort(g, self, dim=-1, descending=False):
    """Where each comes from when all are in order."""
    return sort(g, self, dim, descending)[1]


@lowers(call.kthvalue)
def kthvalue(g, self, k, dim=-1, keepdim=False):
    """The one of a rank from below, and its place."""
    if self.rank == 0:
        return self, g.const(0, rl.int64)
    both = _ordered(g, self, g.size(k), dim, False)
    made = [g.slice(one, [-1], [9223372036854775807], [dim]) for one in both]
    for one, source in zip(made, both):
        one.dtype = source.dtype
    return tuple(made if keepdim else (g.squeeze(one, [dim]) for one in made))

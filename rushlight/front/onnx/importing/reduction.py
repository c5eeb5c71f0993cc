"""Reductions, scans, orders, products."""

import rushlight as rl
from rushlight.onnx.importing._table import implements, integers


def _register(name, function):
    @implements(name)
    def apply(x, axes=None, keepdims=1, noop_with_empty_axes=0):
        axes = integers(axes)
        if not axes:
            if noop_with_empty_axes:
                return function(x, [], True, True)
            axes = list(range(x.dim()))
        return function(x, axes, bool(keepdims), False)


def _sum(x, axes, keep, same):
    if same or not axes:
        return x
    return x.sum(axes, keepdim=keep, dtype=x.dtype)


def _mean(x, axes, keep, same):
    if same or not axes:
        return x
    if x.dtype.is_floating_point:
        return x.mean(axes, keepdim=keep)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return rl.div(x.sum(axes, keepdim=keep), count, rounding_mode="trunc").to(x.dtype)


def _prod(x, axes, keep, same):
    if same:
        return x
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _extreme(function, empty):
    def reduced(x, axes, keep, same):
        if same or not axes:
            return x
        if any(x.shape[axis] == 0 for axis in axes):
            sizes = list(x.sum(axes, keepdim=keep).shape)
            if x.dtype is rl.bool:
                return rl.full(sizes, empty > 0)
            return rl.full(sizes, empty, dtype=rl.float64).to(x.dtype)
        if x.dtype is rl.bool:
            return function(x.to(rl.uint8), axes, keep).to(rl.bool)
        return function(x, axes, keep)

    return reduced


_SUM_OF = {
    "ReduceL1": (rl.abs, lambda x: x),
    "ReduceL2": (rl.square, rl.sqrt),
    "ReduceLogSum": (lambda x: x, rl.log),
    "ReduceSumSquare": (rl.square, lambda x: x),
}


def _sum_of(before, after):
    def reduced(x, axes, keep, same):
        made = after(_sum(before(x), axes, keep, same))
        return made.to(x.dtype)

    return reduced


def _log_sum_exp(x, axes, keep, same):
    if same or not axes:
        return x
    return rl.logsumexp(x, axes, keep)


_register("ReduceSum", _sum)
_register("ReduceMean", _mean)
_register("ReduceProd", _prod)
_register("ReduceMax", _extreme(rl.amax, float("-inf")))
_register("ReduceMin", _extreme(rl.amin, float("inf")))
_register("ReduceLogSumExp", _log_sum_exp)
for _name, _parts in _SUM_OF.items():
    _register(_name, _sum_of(*_parts))


def _register_place(name, function):
    @implements(name)
    def apply(x, axis=0, keepdims=1, select_last_index=0):
        if not select_last_index:
            return function(x, axis, keepdim=bool(keepdims))
        made = function(x.flip(axis), axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - made


_register_place("ArgMax", rl.argmax)
_register_place("ArgMin", rl.argmin)


def _register_scan(name, function, neutral):
    @implements(name)
    def apply(x, axis, exclusive=0, reverse=0):
        axis = integers(axis)[0] % x.dim()
        x = x.flip(axis) if reverse else x
        made = function(x, axis, dtype=x.dtype)
        if exclusive:
            first = rl.full_like(x.narrow(axis, 0, 1), neutral)
            rest = made.narrow(axis, 0, x.shape[axis] - 1)
            made = rl.cat([first, rest], axis)
        return made.flip(axis) if reverse else made


_register_scan("CumSum", rl.cumsum, 0)
_register_scan("CumProd", rl.cumprod, 1)


@implements("TopK")
def topk(x, k, axis=-1, largest=1, sorted=1):
    """The largest or smallest, and where they are; of equals the first comes first."""
    count = integers(k)[0]
    values, indices = rl.sort(x, stable=True, dim=axis, descending=bool(largest))
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


# -- products ----------------------------------------------------------------------------


@implements("MatMul")
def matmul(a, b):
    """The product of matrices or batches."""
    return rl.matmul(a, b)


@implements("MatMulInteger")
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    """The product of small integers less their zero points."""
    a, b = a.to(rl.int32), b.to(rl.int32)
    if a_zero_point is not None:
        zero = a_zero_point.to(rl.int32)
        a = a - (zero.unsqueeze(-1) if zero.dim() == 1 and zero.numel() > 1 else zero)
    if b_zero_point is not None:
        b = b - b_zero_point.to(rl.int32)
    return rl.matmul(a, b)


@implements("Gemm")
def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0, broadcast=None):
    """alpha a b + beta c, with a and b as they are or transposed."""
    a, b = (a.t() if transA else a), (b.t() if transB else b)
    if c is None or beta == 0:
        made = rl.mm(a, b)
        return made if alpha == 1 else made * alpha
    if not a.dtype.is_floating_point:
        return (alpha * rl.mm(a, b) + beta * c).to(a.dtype)
    return rl.addmm(c, a, b, beta=beta, alpha=alpha)


@implements("Einsum")
def einsum(*operands, equation):
    """Sums of products, by Einstein's notation."""
    return rl.einsum(equation, *operands)


@implements("Det")
def det(x):
    """The determinant."""
    return rl.linalg.det(x)

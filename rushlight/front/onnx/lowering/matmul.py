"""Products of matrices, and attention."""

import math

import rushlight as rl
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.operators import call

_LOWEST = float("-inf")


@lowers(call.mm, call.bmm, call.mv, call.matmul, call.linalg_matmul)
def matmul(g, self, **operands):
    """The product of matrices, vectors or batches."""
    (other,) = operands.values()
    return product(g, self, other)


def product(g, left, right):
    """The product; of whole numbers in a type that runtimes have."""
    kind = left.dtype
    if kind.is_floating_point:
        return g.op("MatMul", left, right, dtype=kind)
    wide = rl.float64 if kind is rl.int64 else rl.int32
    made = g.op("MatMul", g.cast(left, wide), g.cast(right, wide), dtype=wide)
    return g.cast(made, kind)


@lowers(call.dot, call.vdot)
def dot(g, self, **operands):
    """The product of two vectors."""
    (other,) = operands.values()
    return product(g, self, other)


@lowers(call.linear)
def linear(g, input, weight, bias=None):
    """A product with the transposed weight, and a bias."""
    kind = input.dtype
    if input.rank == 2 and weight.rank == 2 and (bias is None or bias.rank <= 2):
        return g.op("Gemm", input, weight, bias, transB=1, dtype=kind)
    transposed = g.transpose(weight, [1, 0]) if weight.rank == 2 else weight
    made = product(g, input, transposed)
    return made if bias is None else g.add(made, bias)


def _plus(g, self, made, beta, alpha):
    kind = made.dtype
    if alpha != 1:
        made = g.mul(made, alpha)
    if beta == 0:
        return made
    self = g.cast(self, kind)
    return g.add(made, self if beta == 1 else g.mul(self, beta))


@lowers(call.addmm)
def addmm(g, self, mat1, mat2, beta=1, alpha=1):
    """beta self + alpha mat1 mat2."""
    kind = mat1.dtype
    if not kind.is_floating_point or beta == 0:
        return _plus(g, self, product(g, mat1, mat2), beta, alpha)
    return g.op(
        "Gemm", mat1, mat2, self, alpha=float(alpha), beta=float(beta), dtype=kind
    )


@lowers(call.baddbmm)
def baddbmm(g, self, batch1, batch2, beta=1, alpha=1):
    """The same of batches."""
    return _plus(g, self, product(g, batch1, batch2), beta, alpha)


@lowers(call.addbmm)
def addbmm(g, self, batch1, batch2, beta=1, alpha=1):
    """The same, summed over the batch."""
    total = g.reduce("ReduceSum", product(g, batch1, batch2), [0])
    return _plus(g, self, total, beta, alpha)


@lowers(call.addmv)
def addmv(g, self, mat, vec, beta=1, alpha=1):
    """beta self + alpha mat vec."""
    return _plus(g, self, product(g, mat, vec), beta, alpha)


@lowers(call.addr)
def addr(g, self, vec1, vec2, beta=1, alpha=1):
    """beta self + alpha times the outer product."""
    kind = g.kind
    rows, columns = g.cast(vec1, kind), g.cast(vec2, kind)
    made = g.mul(g.unsqueeze(rows, [1]), g.unsqueeze(columns, [0]))
    return _plus(g, self, made, beta, alpha)


@lowers(call.outer, call.ger)
def outer(g, self, vec2):
    """Each element of a vector times each of another."""
    kind = g.kind
    rows, columns = g.cast(self, kind), g.cast(vec2, kind)
    return g.mul(g.unsqueeze(rows, [1]), g.unsqueeze(columns, [0]))


@lowers(call.einsum)
def einsum(g, equation, tensors, path=None):
    """Sums of products, by Einstein's notation."""
    kind = g.kind
    given = [g.cast(one, kind) for one in tensors]
    if len(given) > 2 or not kind.is_floating_point:
        raise Unsupported("of more than two operands, runtimes have none")
    return g.op("Einsum", *given, equation=equation.replace(" ", ""), dtype=kind)


@lowers(call.bilinear)
def bilinear(g, input1, input2, weight, bias=None):
    """A sum over the features of both operands."""
    given = (input1, weight, input2)
    made = g.op("Einsum", *given, equation="...i,oij,...j->...o", dtype=input1.dtype)
    return made if bias is None else g.add(made, bias)


@lowers(call.linalg_det, call.det)
def det(g, **operands):
    """The determinant."""
    (value,) = operands.values()
    return g.op("Det", value, dtype=value.dtype)


# -- attention -------------------------------------------------------------------------


@lowers(call.scaled_dot_product_attention)
def scaled_dot_product_attention(
    g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """softmax(query key' scale + mask) value."""
    if enable_gqa:
        key, value = (_for_each_query(g, query, one) for one in (key, value))
    return _attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale)


@lowers(call._scaled_dot_product_flash_attention_for_cpu)
def flash_attention(
    g, query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None
):
    """The same, with what its gradient needs, which is not there."""
    made = _attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale)
    return made, None


def _for_each_query(g, query, value):
    """Heads of keys or values, repeated for the queries that share them."""
    count, own = query.shape[-3], value.shape[-3]
    if type(count) is not int or type(own) is not int:
        raise Unsupported("its numbers of heads are open")
    if count == own:
        return value
    sizes = g.sizes_of(value)
    more = g.unsqueeze(value, [value.rank - 2])
    counts = [1] * (value.rank + 1)
    counts[-3] = count // own
    tiled = g.op("Tile", more, g.ints(counts), dtype=value.dtype)
    return g.reshape(tiled, [*sizes[:-3], count, *sizes[-2:]])


def _attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale):
    kind = query.dtype
    width = query.shape[-1]
    if type(width) is not int:
        raise Unsupported("the width of its heads is open")
    scale = 1 / math.sqrt(width) if scale is None else scale
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = g.op("MatMul", g.mul(query, scale), g.transpose(key, order), dtype=kind)
    if is_causal:
        attn_mask = _causal(g, query, key)
    if attn_mask is not None:
        if attn_mask.dtype is rl.bool:
            scores = g.where(attn_mask, scores, g.const(_LOWEST, kind))
        else:
            scores = g.add(scores, attn_mask)
    weights = g.op("Softmax", scores, axis=-1, dtype=kind)
    if attn_mask is not None and not is_causal:
        # a query that sees nothing has a result of zeros
        blind = g.op("IsNaN", weights, dtype=rl.bool)
        weights = g.where(blind, g.const(0.0, kind), weights)
    if dropout_p > 0:
        ratio = g.const(float(dropout_p), rl.float32)
        weights = g.op("Dropout", weights, ratio, g.const(True, rl.bool), dtype=kind)
    return g.op("MatMul", weights, value, dtype=kind)


def _causal(g, query, key):
    """Which key each query sees: those up to its own place."""
    rows, columns = g.size_of(query, -2), g.size_of(key, -2)
    if isinstance(rows, int) and isinstance(columns, int):
        indices = rl.ones(rows, columns, dtype=rl.bool).tril()
        return g.const(indices, rl.bool)
    ones = g.op(
        "Expand", g.const(1, rl.int64), g.sizes([rows, columns]), dtype=rl.int64
    )
    return g.cast(g.op("Trilu", ones, upper=0, dtype=rl.int64), rl.bool)

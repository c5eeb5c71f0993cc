"""Products of matrices and vectors."""

from rushlight.dispatch.declared import NAME
from rushlight.operators import call


def lowered(level, tensor):
    return level.front(tensor) if level.owns(tensor) else tensor


def product(level, op, args):
    """``mm``, ``bmm``, ``mv`` and ``dot`` as products that broadcast."""
    a, b = (lowered(level, t) for t in args[:2])
    base = op.entry[NAME]
    if base in ("mm", "bmm"):
        return level.wrap(call.matmul(a, b))
    if base == "mv":
        return level.wrap(call.matmul(a, b.unsqueeze(-1)).squeeze(-1))
    return level.wrap((a.unsqueeze(-2) @ b.unsqueeze(-1)).squeeze(-1).squeeze(-1))


def added_product(level, op, args):
    c, a, b, beta, alpha = args
    if not a.is_floating_point() and not a.is_complex():
        return NotImplemented
    x, y = lowered(level, a), lowered(level, b)
    rank = 2
    if op.entry[NAME] == "addr":
        product = x.unsqueeze(-1) * y.unsqueeze(-2)
    elif op.entry[NAME] == "addmv":
        product, rank = call.matmul(x, y.unsqueeze(-1)).squeeze(-1), 1
    else:
        product, rank = call.matmul(x, y), a.dim()
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return level.wrap(product) if level.owns(a) or level.owns(b) else product
    value = lowered(level, c)
    if level.owns(c):
        for _ in range(rank - c.dim()):
            value = value.unsqueeze(1)
    return level.wrap(product + (value if beta == 1 else value * beta))


def linear(level, op, args):
    x, weight, bias = args
    if not level.owns(weight) and (bias is None or not level.owns(bias)):
        return level.wrap(op.redispatch(None, level.front(x), weight, bias))
    if not level.owns(weight):
        return NotImplemented
    w = level.front(weight)
    rows = lowered(level, x)
    single = x.dim() == 1
    if single:
        rows = rows.unsqueeze(-2)
    between = max(0, (1 if single else x.dim() - 1) - 1)
    matrix = w.mT
    for _ in range(between):
        matrix = matrix.unsqueeze(1)
    result = call.matmul(rows, matrix)
    if single:
        result = result.squeeze(-2)
    if bias is not None:
        shift_by = lowered(level, bias)
        if level.owns(bias):
            for _ in range(x.dim() - 1):
                shift_by = shift_by.unsqueeze(1)
        result = result + shift_by
    return level.wrap(result)

"""Identities of integer arithmetic, as a table that tests prove on small integers.

Integers only: ``x + 0`` is not ``x`` for a float that is -0.0, nor ``x * 0`` zero for
one that is NaN. ``x``, ``y`` and ``z`` are any expression, ``a`` and ``b`` literals.
"""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, binary, boolean
from rushlight.ir.rewrite import OPERATIONS, Rules, fold, map_expr, pattern

x, y, z, a, b = pattern("x y z a b")
true, false = Const(boolean, True), Const(boolean, False)


def _min(left, right):
    return binary("min", left, right)


def _max(left, right):
    return binary("max", left, right)


# Rules that hold for numbers that wrap: data of 64 bits.
DATA_ROWS = (
    # Neutral and absorbing elements
    (x + 0, x),
    (0 + x, x),
    (x - 0, x),
    (x * 1, x),
    (1 * x, x),
    (x * 0, 0),
    (0 * x, 0),
    (x - x, 0),
    (x // 1, x),
    (x % 1, 0),
    (x << 0, x),
    (x >> 0, x),
    (x & x, x),
    (x | x, x),
    (x ^ x, 0),
    # Literals gather on the right
    (a + x, x + a),
    (a * x, x * a),
    ((x + a) + b, x + fold(a + b)),
    ((x - a) + b, x + fold(b - a)),
    ((x + a) - b, x + fold(a - b)),
    ((x * a) * b, x * fold(a * b)),
    ((x + y) - y, x),
    ((x + y) - x, y),
    ((x - y) + y, x),
    ((x % a) % a, x % a, a > 0),
    ((x % a) // a, 0, a > 0),
    # The smaller and the larger
    (_min(x, x), x),
    (_max(x, x), x),
    (_min(x, _max(x, y)), x),
    (_max(x, _min(x, y)), x),
    (_min(_min(x, a), b), _min(x, fold(_min(a, b)))),
    (_max(_max(x, a), b), _max(x, fold(_max(a, b)))),
    # Comparisons
    (x == x, true),
    (x <= x, true),
    (x >= x, true),
    (x != x, false),
    (x < x, false),
    (x > x, false),
)
# Rules that assume that nothing wraps, as indices do not.
COUNTING_ROWS = (
    ((x // a) // b, x // fold(a * b), (a > 0) & (b > 0)),
    ((x * a) // a, x, a != 0),
    ((x * a) % a, 0, a != 0),
    ((x * a) // b, x * fold(a // b), (b > 0) & (a % b == 0)),
    ((x * a) % b, 0, (b > 0) & (a % b == 0)),
    ((x * a + y) // a, x + y // a, a > 0),
    ((x * a + y) % a, y % a, a > 0),
    (x + a < b, x < fold(b - a)),
    (x + a <= b, x <= fold(b - a)),
    (x + a == b, x == fold(b - a)),
    (x + a > b, x > fold(b - a)),
    (x + a >= b, x >= fold(b - a)),
)
DATA_RULES = Rules(*DATA_ROWS)
INDEX_RULES = Rules(*DATA_ROWS, *COUNTING_ROWS)


def simplify(e, rules=INDEX_RULES):
    """An integer or logical expression in simpler form; floats are left alone.

    Args:
        rules: `DATA_RULES` where 64-bit integers are data, which may wrap.

    >>> i = ir.Var("i", ir.i64)
    >>> simplify((i * 4 + 8) // 4)
    i + 2
    """
    return map_expr(e, lambda node: simplify_node(node, rules))


def simplify_node(e, rules=INDEX_RULES):
    """One node whose arguments are simple already."""
    if isinstance(e, ir.Select):
        return _simplify_select(e)
    if isinstance(e, ir.Unary):
        return _simplify_unary(e)
    if not isinstance(e, ir.Binary) or e.args[0].type.is_float:
        return e
    left, right = e.args
    if left.type.is_bool:
        return _simplify_logic(e, left, right)
    if isinstance(left, Const) and isinstance(right, Const) and e.op in OPERATIONS:
        return _evaluated(e, left.value, right.value)
    if left.type != ir.i64:
        return e  # narrower integers are data: their comparisons may wrap
    result = rules(e)
    return e if result is None else simplify(result, rules)


def _evaluated(e, left, right):
    if e.op in ("floordiv", "mod") and right == 0:
        return e
    if e.op in ("shl", "shr") and not 0 <= right < e.type.bits:
        return e
    return Const(e.type, OPERATIONS[e.op](left, right))


def _simplify_select(e):
    condition, yes, no = e.args
    if isinstance(condition, Const):
        return yes if condition.value else no
    return yes if yes is no else e


def _simplify_unary(e):
    (inner,) = e.args
    if e.op == "not" and isinstance(inner, Const) and inner.type.is_bool:
        return Const(e.type, not inner.value)
    twice = isinstance(inner, ir.Unary) and inner.op == e.op and e.op in ("not", "neg")
    return inner.args[0] if twice else e


def _simplify_logic(e, left, right):
    for known, other in ((left, right), (right, left)):
        if isinstance(known, Const) and e.op in ("and", "or"):
            passes = known.value == (e.op == "and")
            return other if passes else known
    return e

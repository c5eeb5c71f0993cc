"""Names the values that are used more than once.

Law: the values of the expressions do not change, and each shared node is computed
once, before its first use.

    out[i] = f(x) * f(x)   ->   v0 = f(x)
                                out[i] = v0 * v0
"""

from __future__ import annotations

from rushlight.compiler.expr import Const, Expr, Let, Load, Var

TRIVIAL = (Const, Var)


def name_shared(roots, stem: str = "v", keep_loads: bool = False):
    """Splits a graph of expressions into ``Let`` statements and trees over them.

    Args:
        roots: the expressions that are needed.
        stem: the new names are ``stem`` and a number.
        keep_loads: also name every load, so that loads print apart from maths.

    Returns:
        The statements, and the roots rewritten over the new names.
    """
    uses = _count_uses(roots)
    names, statements = {}, []

    def visit(e: Expr) -> Expr:
        if isinstance(e, TRIVIAL):
            return e
        if id(e) in names:
            return names[id(e)]
        args = tuple(map(visit, e.args))
        unchanged = all(a is b for a, b in zip(args, e.args, strict=True))
        result = e if unchanged else e.rebuild(args)
        if uses[id(e)] > 1 or keep_loads and isinstance(e, Load):
            var = Var(f"{stem}{len(statements)}", e.type)
            statements.append(Let(var, result))
            result = var
        names[id(e)] = result
        return result

    trees = tuple(map(visit, roots))
    return tuple(statements), trees


def _count_uses(roots):
    uses = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        uses[id(e)] = uses.get(id(e), 0) + 1
        if uses[id(e)] == 1:
            stack.extend(e.args)
    return uses

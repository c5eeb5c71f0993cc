"""Names the values that are used more than once, and cuts trees that grow deep.

Law: the values of the expressions do not change, and each shared node is computed
once, before its first use.

    out[i] = f(x) * f(x)   ->   v0 = f(x)
                                out[i] = v0 * v0
"""

from rushlight.ir.expr import Const, Let, Load, Pointer, Var

TRIVIAL = (Const, Var)
DEEP = 60  # levels from which a value gets a name: later passes recurse


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
    names, depths, statements = {}, {}, []

    def finish(e):
        args = tuple(names[id(arg)] for arg in e.args)
        unchanged = all(a is b for a, b in zip(args, e.args, strict=True))
        result = e if unchanged else e.rebuild(args)
        depth = 1 + max((depths.get(id(arg), 0) for arg in e.args), default=0)
        wanted = uses[id(e)] > 1 or keep_loads and isinstance(e, Load)
        if wanted or depth >= DEEP and not isinstance(e.type, Pointer):
            var = Var(f"{stem}{len(statements)}", e.type)
            statements.append(Let(var, result))
            result, depth = var, 0
        names[id(e)], depths[id(e)] = result, depth

    pending = list(reversed(roots))
    while pending:
        e = pending[-1]
        if id(e) in names:
            pending.pop()
        elif isinstance(e, TRIVIAL):
            names[id(e)] = e
        else:
            missing = [arg for arg in e.args if id(arg) not in names]
            if not missing:
                finish(e)
            pending.extend(reversed(missing))
    return tuple(statements), tuple(names[id(e)] for e in roots)


def _count_uses(roots):
    uses = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        uses[id(e)] = uses.get(id(e), 0) + 1
        if uses[id(e)] == 1:
            stack.extend(e.args)
    return uses

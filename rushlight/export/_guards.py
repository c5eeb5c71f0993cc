"""What a program's arguments must satisfy besides bounds, as text that files keep.

A guard is a pair: its code, with arguments as PyTorch writes them
(``L['x'].size()[0] % 2 == 0``), and a function of the arguments' leaves. Code from files is
parsed, never run: sizes, integers and arithmetic are all that it may have.
"""

import ast
import operator
import re
import warnings

from rushlight.export._roots import roots_of
from rushlight.ir.formulas import (
    COMPARISONS,
    SIGNS,
    Formula,
    evaluated,
    opposite,
    step_of,
)
from rushlight.ir.sizes import Size, Symbol
from rushlight.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

_SIGNS = {**SIGNS, "eq": "==", "ne": "!=", "and_": "and", "or_": "or"}
_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARED = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_LARGEST = 64  # of an exponent


def guard_of(formula, outcome, program):
    """A guard on a program's arguments.

    Args:
        formula: of symbols of their sizes.
        outcome: what it must be.
        program: the `ExportedProgram`.
    """
    users = program.graph_signature.user_inputs
    nodes = [one for one in program.graph.nodes if one.op == "placeholder"]
    nodes = nodes[len(nodes) - len(users) :]
    names = [source_of(path, program) for path in leaf_paths(program)]
    roots = roots_of([node.meta.get("val") for node in nodes], names)

    def holds(args):
        sizes = {name: root.solved(args) for name, root in roots.items()}
        found = evaluated(formula, sizes)
        return found is None or found == outcome

    if not outcome and formula.name in COMPARISONS:
        return spelled(opposite(formula), roots), holds
    code = spelled(formula, roots)
    return code if outcome else f"not ({code})", holds


def leaf_paths(program):
    """Where each leaf is among a program's arguments."""
    spec = program.call_spec.in_spec
    holes = tree_unflatten(list(range(spec.num_leaves)), spec)
    return [path for path, _ in tree_flatten_with_path(holes)[0]]


def source_of(path, program):
    """An argument as a guard's code names it."""
    part, key, *rest = path
    names = program.module_call_graph[0].signature.forward_arg_names
    if part.idx:
        name = f"L['{key.key}']"
    elif names and key.idx < len(names):
        name = f"L['{names[key.idx]}']"
    else:
        name = f"L['args'][{key.idx}]"
    return f"{name}{keystr(tuple(rest))}"


def spelled(expr, roots):
    """An expression of symbols, by the arguments that these are read from."""
    if isinstance(expr, Symbol):
        root = roots.get(expr.name)
        return expr.name if root is None else root.text()
    if isinstance(expr, (int, float, Size)):
        return str(expr)
    step = expr if isinstance(expr, Formula) else step_of(expr)
    sides = [spelled(one, roots) for one in (step.left, step.right)]
    if step.name in ("min", "max"):
        return f"{step.name}({', '.join(sides)})"
    sides = [
        text if isinstance(one, (int, float, Symbol, Size)) else f"({text})"
        for text, one in zip(sides, (step.left, step.right))
    ]
    return f" {_SIGNS[step.name]} ".join(sides)


def shown(code):
    """A guard's code, as messages have it."""
    return re.sub(r"L\['(\w+)'\]", r"\1", code)


def guard_from(code, program):
    """The guard of a code that a file has; None, with a warning, where it says more.

    Args:
        code: the text.
        program: the `ExportedProgram` that it is about.
    """
    leaves = {
        source_of(path, program): at for at, path in enumerate(leaf_paths(program))
    }
    try:
        holds = _Parsed(leaves).function(ast.parse(code, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        warnings.warn(
            f"the exported program has a guard that is not understood, and not checked: "
            f"{code[:200]}",
            stacklevel=2,
        )
        return None
    return code, lambda args: bool(holds(args))


class _Parsed:
    """Makes functions of arguments of a guard's syntax.

    Args:
        leaves: the number of each leaf, by the code that names it.
    """

    def __init__(self, leaves):
        self.leaves = leaves

    def function(self, tree):
        """A function from the leaves of the arguments.

        Raises:
            ValueError: the syntax is none of a guard.
        """
        if isinstance(tree, ast.Constant) and type(tree.value) in (int, float, bool):
            return lambda args: tree.value
        place = self.leaves.get(ast.unparse(tree))
        if place is not None:
            return lambda args: args[place]
        kind = getattr(self, f"_{type(tree).__name__}", None)
        if kind is None:
            raise ValueError(ast.dump(tree)[:100])
        return kind(tree)

    def _Subscript(self, tree):
        """``L['x'].size()[0]``."""
        of, at = tree.value, tree.slice
        sized = isinstance(of, ast.Call) and not of.args and not of.keywords
        sized = sized and isinstance(of.func, ast.Attribute) and of.func.attr == "size"
        place = self.leaves.get(ast.unparse(of.func.value)) if sized else None
        if (
            place is None
            or not isinstance(at, ast.Constant)
            or type(at.value) is not int
        ):
            raise ValueError("no size of an argument")
        return lambda args: args[place].size()[at.value]

    def _UnaryOp(self, tree):
        value = self.function(tree.operand)
        if isinstance(tree.op, ast.Not):
            return lambda args: not value(args)
        if isinstance(tree.op, ast.USub):
            return lambda args: -value(args)
        raise ValueError("no sign")

    def _BinOp(self, tree):
        left, right = self.function(tree.left), self.function(tree.right)
        if isinstance(tree.op, ast.Pow):
            if not isinstance(tree.right, ast.Constant) or tree.right.value > _LARGEST:
                raise ValueError("no small exponent")
            return lambda args: left(args) ** right(args)
        function = _BINARY.get(type(tree.op))
        if function is None:
            raise ValueError("no arithmetic")
        return lambda args: function(left(args), right(args))

    def _Call(self, tree):
        """``min(a, b)``."""
        name = getattr(tree.func, "id", None)
        if name not in ("min", "max") or tree.keywords or len(tree.args) < 2:
            raise ValueError("no function")
        pick = min if name == "min" else max
        values = [self.function(one) for one in tree.args]
        return lambda args: pick(value(args) for value in values)

    def _Compare(self, tree):
        values = [self.function(one) for one in (tree.left, *tree.comparators)]
        signs = [_COMPARED.get(type(one)) for one in tree.ops]
        if None in signs:
            raise ValueError("no comparison")

        def holds(args):
            found = [value(args) for value in values]
            return all(map(lambda sign, a, b: sign(a, b), signs, found, found[1:]))

        return holds

    def _BoolOp(self, tree):
        values = [self.function(one) for one in tree.values]
        every = all if isinstance(tree.op, ast.And) else any
        return lambda args: every(value(args) for value in values)

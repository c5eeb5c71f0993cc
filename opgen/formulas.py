"""Translates derivative formulas into Python over saved values."""

import ast
import builtins
import re
from dataclasses import dataclass, field

from opgen.schema import TENSOR_KINDS
from opgen.sources import defined_names

ARGUMENT, RESULT = 0, 1
OF_TENSOR = {
    "shape": 2, "dtype": 3, "ndim": 4, "strides": 5, "device": 6,
    "storage_offset": 11, "column_major": 12,
}  # fmt: skip
OF_LIST = {"shapes": 7, "dtypes": 8}
OF_RESULT = {"shape": 9, "dtype": 10}
GIVEN = {"grad", "grads", "needs"}
BUILTINS = {
    "None", "True", "False", "bool", "enumerate", "float", "int", "isinstance", "len",
    "list", "range", "reversed", "sorted", "tuple", "zip",
}  # fmt: skip
# `not_implemented` where PyTorch has no derivative, `not_implemented("WORDS")` where it
# has one that refuses with these words.
NOT_IMPLEMENTED = re.compile(r"""not_implemented(?:\((["'])(?P<words>.+)\1\))?""")


class FormulaError(ValueError):
    """A formula that names something unknown or isn't an expression."""


@dataclass
class Translation:
    """A formula as Python text, and what it needs to have saved."""

    text: str
    saved: dict[str, tuple[int, int]] = field(default_factory=dict)
    multi: bool = False


def translate(formula, entry, operators, family_names):
    """``formula`` in terms of saved values, operators and Python functions.

    A function may be the family's own or one of ``rushlight.operators.shared``.

    Args:
        formula: the text of one formula.
        entry: the declaration that it belongs to.
        operators: base names of all the operators.
        family_names: names that the family's Python file defines.

    Raises:
        FormulaError: the text is no expression, or a name in it means nothing.
    """
    try:
        tree = ast.parse(formula, mode="eval")
    except SyntaxError as error:
        raise FormulaError(f"'{formula}' is not an expression: {error.msg}") from None
    names = _Names(entry, operators, family_names, tree)
    tree = names.visit(tree)
    text = ast.unparse(tree)
    conditional = isinstance(tree.body, (ast.IfExp, ast.Lambda))
    names.translation.text = f"({text})" if conditional else text
    return names.translation


class _Names(ast.NodeTransformer):
    """Gives every free name of a formula its meaning."""

    def __init__(self, entry, operators, family_names, tree):
        self.translation = Translation("")
        self.operators = operators
        self.family_names = family_names
        self.shared_names = defined_names("rushlight.operators.shared") or {}
        self.args = {arg.name: (i, arg) for i, arg in enumerate(entry.schema.args)}
        self.results = {"result": 0} | {
            f"result{i}": i for i in range(len(entry.schema.returns))
        }
        attributes = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)
            and self._metadata(node) is not None
        }  # fmt: skip
        loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        self.plain = {node.id for node in loads if id(node) not in attributes}
        self.local = {node.id for node in loads if isinstance(node.ctx, ast.Store)}
        self.local |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}

    def _metadata(self, node):
        """The ``(what, index)`` of ``self.shape`` and the like, or None."""
        if not isinstance(node.value, ast.Name):
            return None
        name = node.value.id
        if name in self.args:
            index, arg = self.args[name]
            table = OF_LIST if arg.kind in (2, 3) else OF_TENSOR
            if arg.kind in TENSOR_KINDS and node.attr in table:
                return table[node.attr], index
        elif name in self.results and node.attr in OF_RESULT:
            return OF_RESULT[node.attr], self.results[name]
        return None

    def visit_Attribute(self, node):
        metadata = self._metadata(node)
        if metadata is None or (
            node.value.id in self.plain and metadata[0] not in OF_LIST.values()
        ):
            return self.generic_visit(node)
        name = f"{node.value.id}_{node.attr}"
        self.translation.saved[name] = metadata
        return ast.Name(name, ast.Load())

    def visit_Name(self, node):
        name = node.id
        if name in self.local:
            return node
        if name in self.args:
            self.translation.saved[name] = (ARGUMENT, self.args[name][0])
        elif name in self.results:
            self.translation.saved[name] = (RESULT, self.results[name])
        elif name in GIVEN:
            self.translation.multi |= name == "grads"
        elif name in self.operators:
            return ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load())
        elif name in self.family_names:
            return ast.Attribute(ast.Name("family", ast.Load()), name, ast.Load())
        elif name in self.shared_names:
            return ast.Attribute(ast.Name("shared", ast.Load()), name, ast.Load())
        elif name not in BUILTINS or not hasattr(builtins, name):
            raise FormulaError(
                f"'{name}' is no argument, result or operator, and the family's file "
                "doesn't define it"
            )
        return node

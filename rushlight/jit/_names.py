"""What names of a program mean: Python's scopes, or an archive's dotted names."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import typing

import rushlight as torch
from rushlight.jit import _annotated
from rushlight.jit._sources import error


class PythonNames:
    """Names of a function or class where it is defined: closure, globals, builtins."""

    def __init__(self, scopes, unit):
        self.scopes, self.unit = scopes, unit

    @classmethod
    def of_function(cls, python, unit, extra=None):
        """The names that a function sees."""
        plain = inspect.unwrap(python)
        scopes = [dict(extra or {})]
        code = getattr(plain, "__code__", None)
        for name, cell in zip(
            getattr(code, "co_freevars", ()), plain.__closure__ or ()
        ):
            try:
                scopes[0][name] = cell.cell_contents
            except ValueError:  # the name is not bound yet: the function's own, perhaps
                continue
        scopes += [plain.__globals__, vars(builtins)]
        return cls(scopes, unit)

    @classmethod
    def of_class(cls, python, unit):
        """The names that a class's methods see."""
        scopes = [{python.__name__: python}]
        for own in vars(python).values():
            own = getattr(own, "__func__", getattr(own, "fget", own))
            if inspect.isfunction(own):
                return cls([scopes[0], *cls.of_function(own, unit).scopes], unit)
        module = sys.modules.get(python.__module__)
        scopes += [vars(module) if module else {}, vars(builtins)]
        return cls(scopes, unit)

    def find(self, name):
        """The object of a name, in a tuple of one; None where there is none."""
        for scope in self.scopes:
            if name in scope:
                return (scope[name],)
        return None

    def evaluate(self, tree):
        """The object that an expression gives in Python."""
        scope: dict = {}
        for each in reversed(self.scopes):
            scope.update(each)
        code = compile(ast.Expression(tree), "<annotation>", "eval")
        return eval(
            code, scope
        )  # the program's own source, which Python has run already

    def annotation_of(self, hint):
        """The object of an annotation, which may be a text."""
        if isinstance(hint, str):
            return self.evaluate(ast.parse(hint, mode="eval").body)
        return hint

    def type_of(self, tree, place):
        """The type of an annotation."""
        if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
            tree = ast.parse(tree.value, mode="eval").body
        try:
            python = self.evaluate(tree)
        except NameError:
            pass
        else:
            if isinstance(python, typing.ForwardRef | str):
                python = self.annotation_of(getattr(python, "__forward_arg__", python))
            kind = _annotated.of_python(python, self.unit, place)
            if kind is not None:
                return kind
            raise error(f"Unknown type annotation: '{ast.unparse(tree)}'", place)
        return _annotated.of_tree(tree, self.class_named, place)

    def class_named(self, dotted):
        """The type of a class by the name that the program calls it by."""
        found = self.find(dotted)
        if found is None:
            if dotted == "Tensor":
                return _annotated.of_python(torch.Tensor, self.unit)
            return None
        return _annotated.of_python(found[0], self.unit)

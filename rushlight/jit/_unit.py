"""The functions and classes that were translated, each under one qualified name."""

import ast
import inspect
import re
import typing

import rushlight as torch
from rushlight.core import naming
from rushlight.jit import _annotated, _overloads, _types
from rushlight.jit._names import PythonNames
from rushlight.jit._passes import tidy
from rushlight.jit._schemas import Argument, Schema
from rushlight.jit._sources import (
    NotSupportedError,
    Range,
    Source,
    Untranslatable,
    error,
)
from rushlight.jit.ir import Function, Graph


def qualified(python, name=None):
    """The name of a Python function or class in archives."""
    module = getattr(python, "__module__", None) or "__main__"
    if naming.is_own(module):
        _, dot, rest = module.partition(".")
        module = f"torch{dot}{rest}"
    name = name or python.__name__
    name = re.sub(r"<(\w+)>", r"__\1__", name)
    path = module.replace(".<", "._").replace(">", "_")
    return f"__torch__.{name}" if path == "__main__" else f"__torch__.{path}.{name}"


def mangled(name, number):
    """The name of another thing that would be called the same."""
    path, _, last = name.rpartition(".")
    return f"{path}.___torch_mangle_{number}.{last}"


class Unit:
    """Functions and classes by name, and by the Python objects they were made of."""

    def __init__(self):
        self.functions, self.classes = {}, {}
        self.of_python = {}
        self.count = 0

    # -- names -------------------------------------------------------------------------

    def free(self, name):
        """The name, mangled where something else has it."""
        while name in self.functions or name in self.classes:
            name = mangled(re.sub(r"\.___torch_mangle_\d+", "", name), self.count)
            self.count += 1
        return name

    # -- types -------------------------------------------------------------------------

    def enum_type(self, python, place):
        """The type of an enumeration's members."""
        if python not in self.of_python:
            kinds = {_annotated.of_value(member.value, self) for member in python}
            if len(kinds) != 1:
                raise error(
                    f"Enum class '{python.__name__}' must have values of one type",
                    place,
                )
            kind = _types.EnumType(qualified(python), kinds.pop(), python)
            self.of_python[python] = kind
        return self.of_python[python]

    def named_tuple(self, python, place):
        """The type of a class of named tuples."""
        if python not in self.of_python:
            hints = (
                typing.get_type_hints(python)
                if hasattr(python, "__annotations__")
                else {}
            )
            parts = [
                _annotated.of_python(hints.get(field, torch.Tensor), self, place)
                for field in python._fields
            ]
            defaults = [
                python._field_defaults.get(field, ...) for field in python._fields
            ]
            name = qualified(python)
            kind = _types.TupleType(parts, name, python._fields, defaults, python)
            self.of_python[python] = kind
        return self.of_python[python]

    def type_of_object(self, python):
        """The type of an object of a translated class, or None."""
        kind = getattr(python, "_script_type", None)
        if isinstance(kind, _types.ClassType):
            return kind
        found = self.of_python.get(type(python))
        return (
            found
            if isinstance(found, _types.ClassType) and not found.is_module
            else None
        )

    def class_type(self, python, place):
        """The type of a class of the program, translated when it is first used."""
        if python in self.of_python:
            return self.of_python[python]
        if issubclass(python, torch.nn.Module):
            return None
        if python.__module__ == "builtins":
            return None
        return self.script_class(python)

    # -- functions ---------------------------------------------------------------------

    def script_function(self, python, name=None):
        """The translation of a Python function."""
        python = getattr(python, "__original_fn", python)
        if python in self.of_python:
            return self.of_python[python]
        source = Source.of(python)
        tree = definition(source, python)
        names = PythonNames.of_function(python, self)
        name = self.free(
            name
            or qualified(
                python, getattr(python, "__qualname__", None) and python.__name__
            )
        )
        function = self.define(tree, source, names, name, python=python)
        self.functions[name] = function
        self.of_python[python] = function
        return function

    def script_overload(self, python, number, declaration):
        """The translation of a Python function under one of its declared signatures."""
        key = (python, number)
        if key not in self.of_python:
            source = Source.of(python)
            tree = _overloads.with_signature(definition(source, python), declaration)
            names = PythonNames.of_function(python, self)
            name = self.free(f"{qualified(python, python.__name__)}__{number}")
            function = self.define(tree, source, names, name, python=python)
            self.functions[name] = self.of_python[key] = function
        return self.of_python[key]

    def define(self, tree, source, names, name, self_type=None, python=None):
        """A function of a tree: its schema now, its graph when it is asked for."""
        schema = signature(tree, source, names, self, name, self_type, python)

        def make(function):
            graph = Graph()
            self.compile(source, tree, names, function, graph, self_type)
            tidy(graph)
            return graph

        function = Function(name, schema, make, self_type)
        function.python = python
        if schema.returns == [None]:  # known when the graph is
            function.schema.returns = []
            function.infer = True
        else:
            function.infer = False
        return function

    # -- classes -----------------------------------------------------------------------

    def script_class(self, python):
        """The translation of a Python class that is no module."""
        if python in self.of_python:
            return self.of_python[python]
        if naming.is_own(python.__module__):
            raise Untranslatable(f"class {python.__qualname__}")
        source = Source.of(python)
        (tree,) = [
            node for node in source.parse().body if isinstance(node, ast.ClassDef)
        ]
        if len(python.__mro__) > 2:
            raise NotSupportedError(
                f"Can't compile a class that inherits from another: {python.__qualname__}"
            )
        kind = _types.ClassType(self.free(qualified(python)))
        kind.python = python
        self.of_python[python] = kind
        self.classes[kind.name] = kind
        try:
            self.class_methods(kind, python, tree, source)
        except BaseException:
            del self.of_python[python], self.classes[kind.name]
            raise
        return kind

    def class_methods(self, kind, python, tree, source):
        names = PythonNames.of_class(python, self)
        for name, hint in getattr(python, "__annotations__", {}).items():
            resolved = names.annotation_of(hint)
            kind.attributes[name] = _annotated.of_python(
                resolved, self, Range.of(source, tree)
            )
        defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        defined.sort(key=lambda node: node.name != "__init__")
        for node in defined:
            decorators = [ast.unparse(d) for d in node.decorator_list]
            own = inspect.getattr_static(python, node.name)
            full = f"{kind.name}.{node.name}"
            if isinstance(own, staticmethod):
                kind.static_methods[node.name] = self.define(node, source, names, full)
            elif any("ignore" in d or "unused" in d for d in decorators):
                continue
            elif isinstance(own, property):
                setter = any(d.endswith(".setter") for d in decorators)
                short = f"__{node.name}_{'setter' if setter else 'getter'}"
                full = f"{kind.name}.{short}"
                method = self.define(node, source, names, full, kind)
                kind.methods[short] = method
                kind.properties.setdefault(node.name, {})[
                    "set" if setter else "get"
                ] = method
            else:
                kind.methods[node.name] = self.define(node, source, names, full, kind)
        if "__init__" in kind.methods:
            kind.methods["__init__"].schema.returns = [_types.NoneType.get()]
            kind.methods["__init__"].infer = False
            _ = kind.methods["__init__"].graph  # attributes are known from here on

    def accessor(self, kind, name, word):
        """The method that gets or sets a property, or None."""
        return kind.properties.get(name, {}).get(word)

    def interface(self, python, is_module):
        """The type of an interface: its methods' schemas."""
        source = Source.of(python)
        (tree,) = [
            node for node in source.parse().body if isinstance(node, ast.ClassDef)
        ]
        kind = _types.InterfaceType(self.free(qualified(python)), is_module)
        self.of_python[python] = kind
        self.classes[kind.name] = kind
        names = PythonNames.of_class(python, self)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                full = f"{kind.name}.{node.name}"
                kind.methods[node.name] = signature(
                    node, source, names, self, full, kind, None
                )
                if kind.methods[node.name].returns == [None]:
                    kind.methods[node.name].returns = [_types.TensorType.get()]
        return kind


def definition(source, python):
    """The tree of a function in its source."""
    for node in ast.walk(source.parse()):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return node
        if isinstance(node, ast.Lambda):
            break
    raise NotSupportedError(f"Expected a single top-level function: {python}")


# -- signatures ------------------------------------------------------------------------

_COMMENT = re.compile(r"#\s*type:\s*(\(.*\))\s*->\s*(.+)$")


_OF_DEFAULTS = {
    _types.IntType: int,
    _types.FloatType: float,
    _types.BoolType: bool,
    _types.StringType: str,
}
_PLAIN = (bool, int, float, str)


def signature(tree, source, names, unit, name, self_type, python):
    """A function's schema from its annotations, or from its comment of types."""
    listed = [*tree.args.posonlyargs, *tree.args.args]
    if tree.args.vararg or tree.args.kwarg:
        what = tree.args.vararg or tree.args.kwarg
        place = Range.of(source, what)
        place.column -= 1  # the star belongs to it
        raise error(
            "Compiled functions can't take variable number of arguments or use "
            "keyword-only arguments with defaults",
            place,
            NotSupportedError,
        )
    given = comment_types(tree, source, names, unit, bool(self_type))
    defaults = default_values(tree, python, names)
    hints = declared_types(python)
    arguments = []
    for at, argument in enumerate([*listed, *tree.args.kwonlyargs]):
        kwarg_only = at >= len(listed)
        if self_type is not None and not at:
            arguments.append(Argument("self", self_type))
            continue
        place = Range.of(source, argument)
        kind = _types.TensorType.get()
        if argument.annotation is not None:
            kind = names.type_of(
                argument.annotation, Range.of(source, argument.annotation)
            )
        elif given is not None:
            kind = given[0][at - bool(self_type)]
        elif argument.arg in hints:
            kind = _annotated.of_python(hints[argument.arg], unit, place)
        default = defaults.get(argument.arg, ...)
        if type(default) is int and isinstance(kind, _types.FloatType):
            default = float(default)
        wanted = _OF_DEFAULTS.get(type(kind), object)
        if type(default) in _PLAIN and not isinstance(default, wanted):
            words = f'Expected a default value of type {kind} on parameter "{argument.arg}".'
            raise error(words, Range.of(source, tree))
        size = _broadcast(argument.annotation)
        if size and isinstance(default, (int, float)):
            default = [default] * size
        if kwarg_only and default is not ...:
            place = Range.of(source, tree.args.kw_defaults[at - len(listed)])
            raise error(
                "Compiled functions can't take variable number of arguments or use "
                "keyword-only arguments with defaults",
                place,
                NotSupportedError,
            )
        arguments.append(Argument(argument.arg, kind, default, kwarg_only, size=size))
    returns = [None]
    if tree.returns is not None:
        returns = [names.type_of(tree.returns, Range.of(source, tree.returns))]
    elif given is not None:
        returns = [given[1]]
    return Schema(name, "", arguments, returns)


def declared_types(python):
    """Types of a package's function by parameter, which ``nn.functional`` annotates."""
    hints = getattr(python, "__annotations__", {})
    return {name: hint for name, hint in hints.items() if not isinstance(hint, str)}


def _broadcast(annotation):
    """For how many dimensions one number may stand: ``BroadcastingList2[int]``; 0: none."""
    found = (
        re.search(r"BroadcastingList(\d)", ast.unparse(annotation))
        if annotation
        else None
    )
    return int(found[1]) if found else 0


def comment_types(tree, source, names, unit, is_method):
    """The types of ``# type: (int, Tensor) -> Tensor``, or None."""
    last = tree.body[0].lineno
    for line in source.lines[tree.lineno - 1 : last]:
        found = _COMMENT.search(line)
        if found:
            place = Range.of(source, tree)
            listed = ast.parse(
                found[1].replace("()", "(,)") if found[1] == "(,)" else found[1],
                mode="eval",
            ).body
            parts = listed.elts if isinstance(listed, ast.Tuple) else [listed]
            kinds = [names.type_of(part, place) for part in parts]
            result = ast.parse(found[2].strip(), mode="eval").body
            return kinds, names.type_of(result, place)
    return None


def default_values(tree, python, names):
    """Defaults by argument: the function's own, or what the text says."""
    if python is not None:
        found = inspect.signature(python).parameters
        return {
            name: parameter.default
            for name, parameter in found.items()
            if parameter.default is not inspect.Parameter.empty
        }
    listed = [*tree.args.posonlyargs, *tree.args.args]
    pairs = list(
        zip(listed[len(listed) - len(tree.args.defaults) :], tree.args.defaults)
    )
    pairs += [
        (a, d)
        for a, d in zip(tree.args.kwonlyargs, tree.args.kw_defaults)
        if d is not None
    ]
    return {argument.arg: names.evaluate(value) for argument, value in pairs}

"""Schemas of operators and functions, and which of them a call's operands fit.

The rules are TorchScript's: overloads in order, first as the operands are, then with
tensors taken as numbers and numbers as tensors (PyTorch's ``schema_matching``).
"""

from __future__ import annotations

import ast
import functools
import re

import rushlight as torch
from rushlight.jit import _builtins, _types
from rushlight.jit._types import (
    AnyType,
    BoolType,
    ComplexType,
    DeviceObjType,
    DictType,
    FloatType,
    FutureType,
    GeneratorType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
)
from rushlight.operators.extensions import CUSTOM

_PLAIN = {
    "Tensor": TensorType,
    "int": IntType,
    "SymInt": IntType,
    "float": FloatType,
    "bool": BoolType,
    "complex": ComplexType,
    "str": StringType,
    "Scalar": NumberType,
    "number": NumberType,
    "ScalarType": IntType,
    "Layout": IntType,
    "MemoryFormat": IntType,
    "QScheme": IntType,
    "Device": DeviceObjType,
    "Generator": GeneratorType,
    "Any": AnyType,
    "NoneType": NoneType,
}
DECODED = ("ScalarType", "Layout", "MemoryFormat", "Device")
_ALIAS = re.compile(r"\([a-z*]!?( -> [a-z*|]+)?\)")


class VarType(_types.Type):
    """A type that each call chooses: ``t`` of a schema."""

    def __init__(self, name):
        super().__init__()
        self._word = name

    def __eq__(self, other):
        return isinstance(other, VarType) and self._word == other._word

    def __hash__(self):
        return hash(self._word)


class Argument:
    """One argument: name, type, default, and whether it is given by name only."""

    __slots__ = ("name", "type", "default", "kwarg_only", "decoded", "N")

    def __init__(
        self, name, kind, default=..., kwarg_only=False, decoded=None, size=None
    ):
        self.name, self.type, self.default = name, kind, default
        self.kwarg_only, self.decoded, self.N = kwarg_only, decoded, size

    @property
    def default_value(self):
        """What it is where it is left out; None where it has to be given."""
        return None if self.default is ... else self.default

    def has_default_value(self):
        """Whether it may be left out."""
        return self.default is not ...

    def __str__(self):
        words = f"{self.type.str()} {self.name}"
        if self.default is ...:
            return words
        shown = (
            self.default if not isinstance(self.default, str) else f'"{self.default}"'
        )
        return f"{words}={shown}"


class Schema:
    """An operator's or function's name, arguments and results."""

    def __init__(self, name, overload, arguments, returns):
        self.name, self.overload_name = name, overload
        self.arguments, self.returns = list(arguments), list(returns)
        self.template = self.operator = None
        self.is_vararg = False

    def met_by(self, other):
        """Whether calls of this schema may be calls of another."""
        mine, theirs = self.arguments[1:], other.arguments[1:]
        return (
            [a.name for a in mine] == [a.name for a in theirs]
            and all(a.type.isSubtypeOf(b.type) for a, b in zip(mine, theirs))
            and all(b.isSubtypeOf(a) for a, b in zip(self.returns, other.returns))
        )

    def __str__(self):
        shown, star = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not star:
                shown.append("*")
                star = True
            shown.append(str(argument))
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        results = ", ".join(kind.str() for kind in self.returns)
        results = results if len(self.returns) == 1 else f"({results})"
        return f"{name}({', '.join(shown)}) -> {results}"

    __repr__ = __str__


# -- reading ---------------------------------------------------------------------------


def _split(text):
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


@functools.cache
def read_type(text):
    """The type that a schema spells."""
    text = text.strip()
    if not text.startswith("Future("):
        text = _ALIAS.sub("", text).strip()
    if text.endswith("?"):
        return OptionalType(read_type(text[:-1]))
    sized = re.fullmatch(r"(.+)\[\d*\]", text)
    if sized:
        return ListType(read_type(sized[1]))
    if text.startswith("Dict("):
        return DictType(*map(read_type, _split(text[5:-1])))
    if text.startswith("Future("):
        return FutureType(read_type(text[7:-1]))
    if text.startswith("("):
        return TupleType([read_type(part) for part in _split(text[1:-1])])
    if text in _PLAIN:
        return _PLAIN[text].get()
    if text.startswith(CUSTOM):
        return _types.CustomType.named(text)
    return VarType(text)


def _read_argument(text, kwarg_only):
    default = ...
    if "=" in text:
        text, _, shown = text.partition("=")
        default = ast.literal_eval(shown)
    kind, _, name = text.strip().rpartition(" ")
    bare = _ALIAS.sub("", kind).rstrip("?")
    read = read_type(kind)
    if default is None and not isinstance(read, OptionalType):
        read = OptionalType(read)
    return Argument(name, read, default, kwarg_only, bare if bare in DECODED else None)


def _end_of_arguments(text):
    """Where the bracket of the arguments closes."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and not depth:
            return at
    raise ValueError(f"{text}: no arguments")


def read_schema(line):
    """The schema of a line of the table, with the expression that runs it."""
    text, _, template = line.partition(" => ")
    end = _end_of_arguments(text)
    start = text.index("(")
    name, _, overload = text[:start].partition(".")
    arguments, kwarg_only = [], False
    for part in _split(text[start + 1 : end]):
        if part == "*":
            kwarg_only = True
        else:
            arguments.append(_read_argument(part, kwarg_only))
    result = text[end:].partition("-> ")[2]
    returns = [] if result.strip() == "()" else [read_type(result)]
    schema = Schema(name, overload, arguments, returns)
    schema.template = template
    return schema


@functools.cache
def _table():
    found: dict = {}
    for line in _builtins.lines():
        schema = read_schema(line)
        found.setdefault(schema.name, []).append(schema)
    return found


def _of_operator(name, overload):
    shown = overload._schema
    arguments = []
    for info in shown.arguments:
        default = info._default if hasattr(info, "_default") else ...
        kind = read_type(str(info.type))
        if default is None and not isinstance(kind, OptionalType):
            kind = OptionalType(kind)
        if isinstance(default, tuple):
            default = list(default)
        bare = str(info.type).rstrip("?")
        decoded = bare if bare in DECODED else None
        if decoded:
            default = default if default in (None, ...) else str(default)
        arguments.append(
            Argument(info.name, kind, default, info.kwarg_only, decoded, info.N)
        )
    returns = [read_type(str(info.type)) for info in shown.returns]
    over = "" if overload._overloadname == "default" else overload._overloadname
    schema = Schema(name, over, arguments, returns)
    schema.operator = overload
    return schema


@functools.cache
def overloads(name):
    """The schemas of an operator: those of the table, then of the registry."""
    namespace, _, bare = name.partition("::")
    found = list(_table().get(name, ()))
    packet = (
        getattr(getattr(torch.ops, namespace), bare, None)
        if namespace != "prim"
        else None
    )
    if packet is not None:
        given = [getattr(packet, over) for over in packet.overloads()]
        outs = [each.out for each in given if each.out is not None]
        given += [each for each in outs if len(each._schema.returns) == 1]
        found += [_of_operator(name, over) for over in given]
        found.sort(key=lambda s: any(a.name == "out" for a in s.arguments))
    return found


# -- fitting ---------------------------------------------------------------------------


class Misfit(Exception):
    """Why operands do not fit a schema."""


def solve(kind, variables):
    """A type with the variables put in."""
    if isinstance(kind, VarType):
        return variables.get(kind._word, AnyType.get())
    if not kind._parts:
        return kind
    parts = [solve(part, variables) for part in kind._parts]
    if isinstance(kind, (TupleType, _types.UnionType)):
        return (
            TupleType(parts) if isinstance(kind, TupleType) else _types.UnionType(parts)
        )
    return type(kind)(*parts)


def bind(formal, actual, variables):
    """Whether a type fits another that may have variables, which are then known."""
    if isinstance(formal, VarType):
        known = variables.get(formal._word)
        if known is None:
            variables[formal._word] = actual
            return True
        if actual.isSubtypeOf(known):
            return True
        wider = _types.unify(known, actual)
        if wider is not None and isinstance(wider, OptionalType):
            variables[formal._word] = wider
            return True
        return False
    if isinstance(formal, OptionalType) and not isinstance(actual, OptionalType):
        if isinstance(actual, NoneType):
            return True
        return bind(formal.getElementType(), actual, variables)
    if (
        formal._parts
        and type(formal) is type(actual)
        and len(formal._parts) == len(actual._parts)
    ):
        if not _has_variables(formal):
            return actual.isSubtypeOf(formal) or _covariant(formal, actual)
        return all(bind(f, a, variables) for f, a in zip(formal._parts, actual._parts))
    return actual.isSubtypeOf(formal)


def _covariant(formal, actual):
    # lists of tensors are lists of optional tensors where an operator only reads them
    return isinstance(formal, ListType) and actual._parts[0].isSubtypeOf(
        formal._parts[0]
    )


def _has_variables(kind):
    return isinstance(kind, VarType) or any(map(_has_variables, kind._parts))


def place(schema, positional, named):
    """Operands by argument, ``...`` where the default stands.

    Raises:
        Misfit: too many, unknown or missing ones.
    """
    given, named = [], dict(named)
    spare = list(positional)
    for argument in schema.arguments:
        if spare and not argument.kwarg_only:
            if argument.name in named:
                raise Misfit(
                    f"Argument {argument.name} specified both as positional and keyword argument."
                )
            given.append(spare.pop(0))
        elif argument.name in named:
            given.append(named.pop(argument.name))
        elif argument.default is not ...:
            given.append(...)
        else:
            raise Misfit(f"Argument {argument.name} not provided.")
    if spare:
        most = sum(not a.kwarg_only for a in schema.arguments)
        raise Misfit(
            f"Expected at most {most} arguments but found {len(positional)} positional arguments."
        )
    if named:
        raise Misfit(f"Unknown keyword argument '{next(iter(named))}'.")
    return given

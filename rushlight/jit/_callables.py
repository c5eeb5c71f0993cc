"""Translated functions and methods, as Python calls them."""

import copy
import inspect
import io

import rushlight as torch
from rushlight.jit import _annotated, _execute, _overloads, _runtime, _types
from rushlight.jit._failures import guarded
from rushlight.jit._inline import inlined
from rushlight.jit._modules import UNIT, settle_result
from rushlight.jit._print import code_of
from rushlight.jit._schemas import Misfit, place
from rushlight.jit._write import save_function


def checked(value, kind, name, function):
    """A value from Python as a program takes it: lists and dictionaries are copies.

    Raises:
        RuntimeError: it is of another type.
    """
    taken = taken_as(value, kind)
    if taken is not _NO:
        return taken
    found = _annotated.of_value(value, UNIT)
    raise RuntimeError(
        f"{function.base_name}() Expected a value of type '{kind}' for argument '{name}' but "
        f"instead found type '{found if found is not None else type(value).__name__}'.\n"
        f"Declaration: {function.schema}"
    )


_NO = object()
_SCALARS = {
    _types.IntType: (int,),
    _types.FloatType: (float, int),
    _types.ComplexType: (complex, float, int),
    _types.NumberType: (int, float, complex),
}


def taken_as(value, kind):
    """The value as a type of a program; ``_NO`` where it is none of it."""
    if isinstance(kind, _types.TensorType):
        return value if isinstance(value, torch.Tensor) else _NO
    if isinstance(kind, _types.AnyType):
        return value
    if isinstance(kind, _types.OptionalType):
        return None if value is None else taken_as(value, kind.getElementType())
    if type(kind) in _SCALARS:
        return _number(value, kind)
    if isinstance(kind, _types.BoolType):
        return value if isinstance(value, bool) else _NO
    if isinstance(kind, _types.StringType):
        return value if isinstance(value, str) else _NO
    if isinstance(kind, _types.ListType):
        return _all(value, [kind.getElementType()], (list, tuple, torch.Size), list)
    if isinstance(kind, _types.DictType):
        return _pairs(value, kind)
    return _other(value, kind)


_PLAIN = {
    _types.IntType: int,
    _types.FloatType: float,
    _types.BoolType: bool,
    _types.StringType: str,
    _types.TensorType: torch.Tensor,
}


def _number(value, kind):
    if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.requires_grad:
        value = value.item()
    if isinstance(kind, _types.IntType) and isinstance(
        value, (torch.dtype, torch.layout, torch.memory_format)
    ):
        return _runtime.code_of(value)
    if not isinstance(value, _SCALARS[type(kind)]):
        return _NO
    if isinstance(value, bool):
        return int(value) if isinstance(kind, _types.IntType) else float(value)
    return float(value) if isinstance(kind, _types.FloatType) else value


def _all(value, kinds, types, make):
    if not isinstance(value, types):
        return _NO
    plain = _PLAIN.get(type(kinds[0]))
    if plain is not None and all(type(item) is plain for item in value):
        return make(value)
    done = [taken_as(item, kinds[0]) for item in value]
    return _NO if any(item is _NO for item in done) else make(done)


def _pairs(value, kind):
    if not isinstance(value, dict):
        return _NO
    done = {
        taken_as(k, kind.getKeyType()): taken_as(v, kind.getValueType())
        for k, v in value.items()
    }
    return _NO if _NO in done or any(v is _NO for v in done.values()) else done


def _other(value, kind):
    if isinstance(kind, _types.NoneType):
        return None if value is None else _NO
    if isinstance(kind, _types.TupleType):
        parts = kind.elements()
        if not isinstance(value, tuple) or len(value) != len(parts):
            return _NO
        done = [taken_as(item, part) for item, part in zip(value, parts)]
        if any(item is _NO for item in done):
            return _NO
        return type(value)(*done) if hasattr(value, "_fields") else tuple(done)
    if isinstance(kind, _types.UnionType):
        for part in kind.containedTypes():
            taken = taken_as(value, part)
            if taken is not _NO:
                return taken
        return _NO
    if isinstance(kind, _types.DeviceObjType):
        return torch.device(value) if isinstance(value, (str, torch.device)) else _NO
    if isinstance(kind, _types.EnumType):
        return value if isinstance(value, kind.python) else _NO
    return value


def bind(function, operands, named, first):
    """Operands of a call from Python, in order, as the program takes them."""
    if not named and tuple(map(type, operands)) == _plain_types(function, first):
        return operands
    schema = function.schema
    arguments = schema.arguments[first:]
    try:
        given = place(_Rest(arguments), operands, named)
    except Misfit as misfit:
        raise RuntimeError(
            f"{function.base_name}() {misfit}\nDeclaration: {schema}"
        ) from None
    return [
        copy.copy(argument.default)
        if value is ...
        else checked(value, argument.type, argument.name, function)
        for argument, value in zip(arguments, given)
    ]


def _plain_types(function, first):
    """The types of operands that are taken as they are, where all are such."""
    if function.plain is None:
        arguments = function.schema.arguments[first:]
        function.plain = tuple(_PLAIN.get(type(a.type), _NO) for a in arguments)
    return function.plain


class _Rest:
    def __init__(self, arguments):
        self.arguments = arguments


class ScriptMethod:
    """A translated method of an object: called, it runs its program."""

    def __init__(self, owner, function):
        self.owner, self.function = owner, function
        self.__name__ = self.name = function.base_name

    def __call__(self, *operands, **named):
        given = bind(self.function, operands, named, 1)
        return guarded(_execute.ready(self.function), self.owner, *given)

    @property
    def graph(self):
        """The program."""
        return self.function.graph

    @property
    def schema(self):
        """Name, arguments and results."""
        return self.function.schema

    @property
    def inlined_graph(self):
        """The program with what it calls put in its place."""
        return inlined(self.function.graph)

    @property
    def code(self):
        """The program as text."""
        return code_of(self.function)

    @property
    def __signature__(self):
        return _signature(self.function.schema, 1)


class OverloadedMethod(ScriptMethod):
    """A method with several signatures: called, it runs the first that takes the operands."""

    def __init__(self, owner, functions):
        super().__init__(owner, functions[0])
        self.functions = functions
        self.__name__ = self.name = _overloads.stem(self.name)

    def __call__(self, *operands, **named):
        for function in self.functions[:-1]:
            try:
                given = bind(function, operands, named, 1)
            except RuntimeError:
                continue
            return guarded(_execute.ready(function), self.owner, *given)
        return ScriptMethod(self.owner, self.functions[-1])(*operands, **named)


def _signature(schema, first):
    made = []
    for argument in schema.arguments[first:]:
        kind = (
            inspect.Parameter.KEYWORD_ONLY
            if argument.kwarg_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        default = (
            inspect.Parameter.empty if argument.default is ... else argument.default
        )
        made.append(inspect.Parameter(argument.name, kind, default=default))
    return inspect.Signature(made)


class ScriptFunction:
    """A translated function: called, it runs its program."""

    def __init__(self, function, python=None):
        self.function = function
        self.name = self.__name__ = function.base_name
        self.qualified_name = function.name
        self.__doc__ = getattr(python, "__doc__", None)
        self._torchdynamo_inline = python

    def __call__(self, *operands, **named):
        given = bind(self.function, operands, named, 0)
        return guarded(_execute.ready(self.function), *given)

    @property
    def graph(self):
        """The program."""
        return self.function.graph

    @property
    def inlined_graph(self):
        """The program with what it calls put in its place."""
        return inlined(self.function.graph)

    @property
    def schema(self):
        """Name, arguments and results."""
        settle_result(self.function)
        return self.function.schema

    @property
    def code(self):
        """The program as text."""
        return code_of(self.function)

    @property
    def __signature__(self):
        return _signature(self.function.schema, 0)

    def graph_for(self, *operands, **named):
        """The program that runs for operands: the one there is."""
        return self.graph

    def save(self, filename, _extra_files=None):
        """Writes the function into an archive."""
        save_function(self, filename, _extra_files)

    def save_to_buffer(self, _extra_files=None):
        """The bytes of the function's archive."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

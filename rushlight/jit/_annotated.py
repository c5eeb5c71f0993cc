"""Types of programs from annotations: objects of :mod:`typing`, or texts of archives."""

import ast
import collections
import enum
import types
import typing

import rushlight as torch
from rushlight.futures import Future
from rushlight.jit import _types
from rushlight.jit._sources import ScriptError, error
from rushlight.jit.annotations import BroadcastingListCls
from rushlight.operators.extensions import CustomClass

_PLAIN = {
    int: _types.IntType,
    float: _types.FloatType,
    bool: _types.BoolType,
    complex: _types.ComplexType,
    str: _types.StringType,
    type(None): _types.NoneType,
    None: _types.NoneType,
    typing.Any: _types.AnyType,
    torch.Tensor: _types.TensorType,
    torch.device: _types.DeviceObjType,
    torch.dtype: _types.IntType,
    torch.layout: _types.IntType,
    torch.memory_format: _types.IntType,
    torch.Generator: _types.GeneratorType,
}
_NAMES = {
    "Tensor": _types.TensorType,
    "int": _types.IntType,
    "float": _types.FloatType,
    "bool": _types.BoolType,
    "complex": _types.ComplexType,
    "str": _types.StringType,
    "None": _types.NoneType,
    "NoneType": _types.NoneType,
    "Any": _types.AnyType,
    "Device": _types.DeviceObjType,
    "number": _types.NumberType,
    "Generator": _types.GeneratorType,
    "PyObject": _types.PyObjectType,
}


def of_python(annotation, unit, place=None):
    """The type that an annotation's object means.

    Args:
        annotation: a class, or what :mod:`typing` makes.
        unit: knows the program's own classes.
        place: where the annotation stands.

    Raises:
        ScriptError: programs have no such type.
    """
    try:
        plain = _PLAIN.get(annotation)
    except TypeError:
        plain = None
    if annotation is torch.Size:
        return _types.ListType.ofInts()
    if plain is not None:
        return plain.get()
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is not None:
        return _generic(annotation, origin, parts, unit, place)
    if isinstance(annotation, _types.Type):
        return annotation
    if isinstance(annotation, type):
        found = _of_class(annotation, unit, place)
        if found is not None:
            return found
    raise _unknown(annotation, place)


def _unknown(annotation, place):
    message = f"Unknown type annotation: '{annotation}'"
    return ScriptError(message) if place is None else error(message, place)


def _generic(annotation, origin, parts, unit, place):
    if origin is typing.Final:
        return of_python(parts[0], unit, place)
    if origin is typing.Union or origin is types.UnionType:
        return union([of_python(part, unit, place) for part in parts])
    if origin is tuple:
        parts = () if parts == ((),) else parts
        return _types.TupleType([of_python(part, unit, place) for part in parts])
    inner = [of_python(part, unit, place) for part in parts]
    if origin is list:
        return _types.ListType(*inner)
    if origin in (dict, collections.OrderedDict):
        return _types.DictType(*inner)
    if origin is Future:
        return _types.FutureType(*inner)
    raise _unknown(annotation, place)


def union(kinds):
    """Values of any of the types: a plain or an optional type where that says it."""
    rest = [kind for kind in kinds if not isinstance(kind, _types.NoneType)]
    if len(rest) == 1:
        inner = rest[0]
    elif set(rest) == {
        _types.IntType.get(),
        _types.FloatType.get(),
        _types.ComplexType.get(),
    }:
        inner = _types.NumberType.get()
    else:
        return _types.UnionType(kinds)
    return inner if len(rest) == len(kinds) else _types.optional(inner)


def _of_class(python, unit, place):
    if issubclass(python, torch.Tensor):
        return _types.TensorType.get()
    if issubclass(python, BroadcastingListCls):
        plain = python is BroadcastingListCls
        return _types.ListType.ofInts() if plain else _types.ListType.ofFloats()
    if issubclass(python, enum.Enum):
        return unit.enum_type(python, place)
    if issubclass(python, tuple) and hasattr(python, "_fields"):
        return unit.named_tuple(python, place)
    if python in (list, tuple, dict):
        name = python.__name__
        raise error(
            f"Attempted to use {name} without a contained type. Please add a contained "
            f"type, e.g. {name.capitalize()}[int]",
            place,
        )
    return unit.class_type(python, place)


# -- texts -----------------------------------------------------------------------------


def of_tree(tree, lookup, place):
    """The type that a piece of a program's text means.

    ``lookup`` gives the type of a dotted name that is none of the language's.
    """
    if isinstance(tree, ast.Constant):
        if tree.value is None:
            return _types.NoneType.get()
        if isinstance(tree.value, str):
            return of_tree(ast.parse(tree.value, mode="eval").body, lookup, place)
    if isinstance(tree, ast.Name) and tree.id in _NAMES:
        return _NAMES[tree.id].get()
    if isinstance(tree, ast.Subscript):
        return _subscripted(tree, lookup, place)
    if isinstance(tree, (ast.Name, ast.Attribute)):
        found = lookup(ast.unparse(tree))
        if found is not None:
            return found
    raise error(f"Unknown type name '{ast.unparse(tree)}'", place)


def _subscripted(tree, lookup, place):
    name = ast.unparse(tree.value).rpartition(".")[2]
    listed = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    parts = [of_tree(part, lookup, place) for part in listed]
    makers = {
        "List": _types.ListType,
        "Dict": _types.DictType,
        "Future": _types.FutureType,
        "Await": _types.AwaitType,
        "RRef": _types.RRefType,
        "Final": lambda inner: inner,
        "Optional": _types.optional,
    }
    if name in ("Tuple", "tuple"):
        return _types.TupleType(parts)
    if name == "Union":
        return union(parts)
    make = makers.get(name.capitalize() if name in ("list", "dict") else name)
    if make is None:
        raise error(f"Unknown type constructor {name}", place)
    return make(*parts)


def of_value(python, unit):
    """The type that a value of Python has in a program, or None.

    Args:
        python: a number, text, tensor, or lists, tuples and dictionaries of such.
    """
    plain = _PLAIN.get(type(python))
    if plain is not None:
        return plain.get()
    if isinstance(python, torch.Tensor):
        return _types.TensorType.get()
    if isinstance(python, torch.Size):
        return _types.ListType.ofInts()
    if isinstance(python, tuple):
        if hasattr(python, "_fields"):
            return unit.named_tuple(type(python), None)
        parts = [of_value(item, unit) for item in python]
        return None if None in parts else _types.TupleType(parts)
    if isinstance(python, list):
        return _of_items(python, unit, _types.ListType)
    if isinstance(python, dict):
        keys = _of_items(list(python), unit, _types.ListType)
        values = _of_items(list(python.values()), unit, _types.ListType)
        if None in (keys, values):
            return None
        return _types.DictType(keys.getElementType(), values.getElementType())
    if isinstance(python, enum.Enum):
        return unit.enum_type(type(python), None)
    if isinstance(python, CustomClass):
        return _types.CustomType.named(python._type())
    return unit.type_of_object(python)


def _of_items(items, unit, make):
    element = None
    for item in items:
        kind = of_value(item, unit)
        if kind is None:
            return None
        element = kind if element is None else _types.unify(element, kind)
        if element is None:
            return None
    return None if element is None else make(element)

"""A schema from the annotations of a Python function."""

import types
import typing
from collections.abc import Sequence

from rushlight.core import naming
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.tensor import Tensor

NUMBERS = ({int, float, bool}, {int, float, bool, complex})
PLAIN = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "Scalar",
    DType: "ScalarType",
    Device: "Device",
}
RETURNED = (Tensor, int, float, bool)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None, tags=()):
    """A schema from a function's annotations.

    Args:
        prototype_function: the function.
        mutates_args: the names of arguments that it writes to, or ``"unknown"``.
        op_name: the operator's name, to stand before the schema.
        tags: what is known of the operator; a schema does not say it.

    Raises:
        ValueError: an annotation is missing or has no place in a schema.

    >>> def scale(x: Tensor, factor: float = 2.0) -> Tensor: ...
    >>> infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    import inspect

    signature = inspect.signature(prototype_function)

    def fail(words):
        shown = str(signature).replace("rushlight", naming.package)
        raise ValueError(
            f"infer_schema(func): {words} Got func with signature {shown})"
        )

    names = _annotations(prototype_function)
    parts, starred = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        ):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        annotation = names.get(name, parameter.annotation)
        if annotation is parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        kind = _kind(annotation)
        if kind is None:
            known = ", ".join(sorted(set(PLAIN.values())))
            fail(
                f"Parameter {name} has unsupported type {annotation}. The valid types "
                f"are: {known}, lists of them and | None."
            )
        named = mutates_args != "unknown" and name in mutates_args
        if named or (mutates_args == "unknown" and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                fail(
                    f"Parameter {name} is in mutable_args but only Tensors are mutated"
                )
            kind = kind.replace("Tensor", f"Tensor(a{_count(parts)}!)", 1)
        default = _default(parameter.default, parameter.empty)
        if default is None:
            fail(
                f"Parameter {name} has an unsupported default value type "
                f"{type(parameter.default)}."
            )
        parts.append(f"{kind} {name}{default}")
    unknown = set(mutates_args) - set(signature.parameters)
    if mutates_args != "unknown" and unknown:
        fail(f"{unknown} in mutates_args were not found in the function's signature.")
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    result = _result(names.get("return", signature.return_annotation))
    if result is None:
        fail(f"Return has unsupported type {signature.return_annotation}.")
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _count(parts):
    return sum(part != "*" for part in parts)


def _annotations(function):
    """The annotations, those that are text resolved where the function stands."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name of it is not there, or is no type
        return {}


def _arguments(annotation):
    """What a union is of, None among it as its type; nothing for other annotations."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return ()


def _kind(annotation):
    """An argument's type in a schema; None where there is none for it."""
    if isinstance(annotation, type) and annotation in PLAIN:
        return PLAIN[annotation]
    options = _arguments(annotation)
    if options:
        others = [kind for kind in options if kind is not type(None)]
        number = "Scalar" if len(others) > 1 and set(others) in NUMBERS else None
        found = _kind(others[0]) if len(others) == 1 else number
        return found and found + ("?" if len(others) < len(options) else "")
    if typing.get_origin(annotation) in (list, Sequence):
        found = _kind(typing.get_args(annotation)[0])
        return found and found + "[]"
    return None


def _default(value, empty):
    """A default as a schema has it; None where it cannot."""
    if value is empty:
        return ""
    if value is None or isinstance(value, (bool, int, float)):
        return f"={value}"
    if isinstance(value, (str, Device)):
        return f'="{value}"'
    if isinstance(value, DType):
        return f"={value.name}"
    return None


def _result(annotation):
    """The type of what a function returns; None where it has no place in a schema."""
    if annotation in (None, type(None)):
        return "()"
    if typing.get_origin(annotation) is tuple:
        kinds = [_result(kind) for kind in typing.get_args(annotation)]
        return None if None in kinds else f"({', '.join(kinds)})"
    if annotation in RETURNED or annotation == list[Tensor]:
        return _kind(annotation)
    if typing.get_origin(annotation) is list:
        return "Tensor[]" if typing.get_args(annotation) == (Tensor,) else None
    return "Scalar" if _kind(annotation) == "Scalar" else None

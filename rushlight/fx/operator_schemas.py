"""The signatures of functions and modules, and arguments by their names."""

import inspect
import numbers
import types
import typing
from typing import Any, NamedTuple

from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.packet import OperatorPacket
from rushlight.dispatch.schema import KINDS
from rushlight.fx import _names

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]

_Parameter = inspect.Parameter
_BASES: dict[str, Any] = {
    "Tensor": Tensor,
    "Tensor|Scalar": Tensor,
    "Scalar": numbers.Number,
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "ScalarType": int,
    "Layout": int,
    "MemoryFormat": int,
}
_KIND_NAMES = {number: name for name, number in reversed(KINDS.items())}


class ArgsKwargsPair(NamedTuple):
    """Positional arguments and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _python_type(kind, name):
    """The type that a kind of argument has in Python."""
    text = _KIND_NAMES[kind]
    optional = text.endswith("?") or name in ("dtype", "layout", "memory_format")
    text = text.removesuffix("?")
    many = text.endswith("[]")
    base = _BASES.get(text.removesuffix("[]").removesuffix("?"), Any)
    found = typing.List[base] if many else base  # noqa: UP006
    return typing.Optional[found] if optional else found  # noqa: UP045


def _signature_of(op):
    """An operator's schema as a signature; ``self`` is ``input``, as for users."""
    parameters = []
    for name, kind, default, by_name, size, _ in op.signature.rows:
        if kind == KINDS["int[]"] and size and isinstance(default, int):
            default = [default] * size
        parameters.append(
            _Parameter(
                "input" if name == "self" else name,
                _Parameter.KEYWORD_ONLY
                if by_name
                else _Parameter.POSITIONAL_OR_KEYWORD,
                default=_Parameter.empty if default is ... else default,
                annotation=_python_type(kind, name),
            )
        )
    count = len(op.returns)
    results = Tensor if count == 1 else typing.Tuple[(Tensor,) * count]  # noqa: UP006
    # A default before one without can be given by name only.
    for place in range(len(parameters) - 1, 0, -1):
        later, earlier = parameters[place], parameters[place - 1]
        if later.kind is _Parameter.POSITIONAL_OR_KEYWORD is earlier.kind and (
            later.default is _Parameter.empty is not earlier.default
        ):
            parameters[place - 1] = earlier.replace(default=_Parameter.empty)
    return inspect.Signature(parameters, return_annotation=results)


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of an operator; None where it is no operator.

    Args:
        op: the function.
        return_schemas: whether the operators themselves are given as well.

    >>> import rushlight as rl
    >>> get_signature_for_torch_op(rl.relu)[0].parameters["input"].name
    'input'
    """
    if isinstance(op, Operator):
        overloads = [op]
    elif isinstance(op, OperatorPacket):
        overloads = list(op.overloads)
    else:
        return (None, None) if return_schemas else None
    found = [_signature_of(each) for each in overloads]
    return (found, overloads) if return_schemas else found


def check_for_mutable_operation(target, args, kwargs):
    """Refuses a call that changes its arguments.

    Args:
        target: the function; ``args`` and ``kwargs`` are what it is called with.

    Raises:
        RuntimeError: it changes them.
    """
    _, overloads = get_signature_for_torch_op(target, return_schemas=True)
    fitting = []
    for op in overloads or ():
        for form in (op, op.out) if op.out is not None else (op,):
            try:
                _signature_of(form).bind(*args, **kwargs)
            except TypeError:
                continue
            fitting.append(form)
    if fitting and all(form._schema.is_mutable for form in fitting):
        op = fitting[0]
        raise RuntimeError(
            f"Tried to trace mutable operation {op.namespace}::{op.name}. FX only "
            "supports functional code, so operations that mutate operands in-place "
            "(e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x):
    """The type of a list or tuple of types; other values as they are."""
    if not isinstance(x, (list, tuple)):
        return x
    kinds = [create_type_hint(each) for each in x]
    if not all(isinstance(kind, type) or typing.get_origin(kind) for kind in kinds):
        return x
    first = kinds[0] if kinds else Any
    same = all(kind == first for kind in kinds)
    if isinstance(x, list):
        return typing.List[first if same else Any]  # noqa: UP006
    return typing.Tuple[first if same else Any, ...]  # noqa: UP006


def type_matches(signature_type, argument_type):
    """Whether an argument of a type fits a parameter of a type.

    >>> type_matches(int, bool), type_matches(str, int)
    (True, False)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    origin = typing.get_origin(signature_type)
    inner = typing.get_args(signature_type)
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(each, argument_type) for each in inner)
    if origin is list and inner == (int,) and argument_type is int:
        return True  # one number for all
    if origin in (list, tuple):
        given = typing.get_args(argument_type)
        if typing.get_origin(argument_type) not in (list, tuple):
            return argument_type in (list, tuple)
        return all(type_matches(inner[0], each) for each in given if each is not ...)
    if signature_type is numbers.Number:
        return argument_type in (int, float, complex, numbers.Number)
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def normalize_function(
    target,
    args,
    kwargs=None,
    arg_types=None,
    kwarg_types=None,
    normalize_to_only_use_kwargs=False,
):
    """The arguments of a call by the names of the function's signature.

    Args:
        target: the function.
        args: what it is called with; ``kwargs`` too.
        arg_types: types of the arguments, to choose between signatures.
        kwarg_types: types of those by name.
        normalize_to_only_use_kwargs: whether none stays positional.

    Returns:
        ``ArgsKwargsPair``, or None where the signature is not known.

    Raises:
        RuntimeError: several signatures fit and no types were given.

    >>> import rushlight.nn.functional as F
    >>> normalize_function(F.relu, (1,))
    ArgsKwargsPair(args=(1,), kwargs={'inplace': False})
    """
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        if not _is_python(target):
            return None
        try:
            signature = inspect.signature(inspect.unwrap(target))
        except (TypeError, ValueError):
            return None
        return _by_name(signature, args, kwargs, normalize_to_only_use_kwargs)
    fitting = [sig for sig in signatures if _fits(sig, args, kwargs)]
    if len(fitting) > 1:
        if arg_types is None and kwarg_types is None:
            listed = "\n".join(map(str, signatures))
            raise RuntimeError(
                "Tried to normalize arguments to "
                f"{_names.qualified_name(target)} but the schema match was ambiguous! "
                "Please provide argument types to the normalize_arguments() call. "
                f"Available schemas:\n{listed}"
            )
        chosen = [s for s in fitting if _fits_types(s, arg_types, kwarg_types)]
        if (
            not chosen
        ):  # PyTorch has overloads for numbers where a tensor may be one here
            chosen = [
                s for s in fitting if _fits_types(s, arg_types, kwarg_types, True)
            ]
        fitting = chosen[:1]
    if not fitting:
        return None
    return _by_name(fitting[0], args, kwargs, normalize_to_only_use_kwargs)


def _is_python(target):
    return callable(target) and (
        inspect.isfunction(target) or hasattr(target, "__wrapped__")
    )


def _fits(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _fits_types(signature, arg_types, kwarg_types, numbers=False):
    """Whether arguments of the given types fit a signature; numbers for tensors, too."""
    try:
        bound = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
    except TypeError:
        return False
    return all(
        type_matches(signature.parameters[name].annotation, kind)
        or (numbers and kind in (int, float, complex, bool) and name != "input")
        for name, kind in bound.arguments.items()
    )


def normalize_module(
    root, target, args, kwargs=None, normalize_to_only_use_kwargs=False
):
    """As ``normalize_function``, for the call of a module.

    Args:
        root: the module that the path starts from.
        target: the path.
        args: what it is called with; ``kwargs`` too.
        normalize_to_only_use_kwargs: whether none stays positional.

    Raises:
        RuntimeError: the path leads nowhere.
    """
    try:
        called = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that "
            "target!"
        ) from error
    home = _names.in_package(type(called).__module__)
    if not home.startswith("torch.nn.modules."):
        return None
    signature = inspect.signature(called.forward)
    return _by_name(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _by_name(signature, args, kwargs, only_kwargs) -> ArgsKwargsPair | None:
    """Arguments by name, with defaults filled in; None where that cannot be."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds & {_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD}:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    named: dict[str, Any] = {}
    positional: list[Any] = []
    for place, (name, value) in enumerate(bound.arguments.items()):
        if not only_kwargs and place < len(args):
            positional.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(positional), named)

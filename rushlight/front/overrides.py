"""Interception of calls in Python: function modes and ``__torch_function__``.

A type with ``__torch_function__`` takes the calls that one of its values is an argument
of; a mode takes all calls of its block. Both are asked before anything is converted.
"""

from __future__ import annotations

import functools
from keyword import iskeyword
from types import ModuleType
from typing import Any

from rushlight.core import naming
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.overridable import Attribute, Overridable
from rushlight.dispatch.packet import OperatorPacket
from rushlight.dispatch.torch_function import _SKIPPING as _SKIPPING
from rushlight.dispatch.torch_function import (
    BaseTorchFunctionMode as BaseTorchFunctionMode,
)
from rushlight.dispatch.torch_function import TorchFunctionMode as TorchFunctionMode
from rushlight.dispatch.torch_function import (
    _get_current_function_mode as _get_current_function_mode,
)
from rushlight.dispatch.torch_function import (
    _get_current_function_mode_stack as _get_current_function_mode_stack,
)
from rushlight.dispatch.torch_function import (
    _get_overloaded_args as _get_overloaded_args,
)
from rushlight.dispatch.torch_function import _pop_mode as _pop_mode
from rushlight.dispatch.torch_function import (
    _pop_mode_temporarily as _pop_mode_temporarily,
)
from rushlight.dispatch.torch_function import _push_mode as _push_mode
from rushlight.dispatch.torch_function import (
    enable_reentrant_dispatch,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    redispatch_function,
    wrap_torch_function,
)
from rushlight.dispatch.torch_function import (
    has_torch_function_unary as has_torch_function_unary,
)
from rushlight.dispatch.torch_function import (
    has_torch_function_variadic as has_torch_function_variadic,
)

__all__ = [
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


# Functions that only look at classes, or make values of what is no tensor.
_IGNORED = """
    tensor as_tensor asarray from_numpy frombuffer is_tensor is_storage set_printoptions
    manual_seed initial_seed seed typename get_default_dtype set_default_dtype
    set_default_device get_default_device is_grad_enabled set_grad_enabled no_grad
    enable_grad inference_mode promote_types can_cast finfo iinfo from_dlpack
    broadcast_shapes get_num_threads set_num_threads get_rng_state set_rng_state
    is_inference_mode_enabled
""".split()


def get_ignored_functions():
    """Functions that types cannot take the calls of; modes see some of them."""
    import rushlight as rl

    found = {getattr(rl, name) for name in _IGNORED if hasattr(rl, name)}
    found |= {has_torch_function, handle_torch_function, Tensor.__new__}
    found |= {Tensor._make_subclass, Tensor._make_wrapper_subclass, Tensor.as_subclass}
    return found


def _positions():
    """Where functions are found, with the names that they are found by."""
    import rushlight as rl

    yield rl.functional, f"{naming.package}.functional"
    yield rl.nn.functional, f"{naming.package}.nn.functional"
    yield rl, naming.package
    yield Tensor, f"{naming.package}.Tensor"
    for name in ("linalg", "fft", "special"):
        yield getattr(rl, name), f"{naming.package}.{name}"


def _overridable_in(place):
    """Names and functions of a module or class that can be intercepted."""
    ignored = get_ignored_functions()
    for name in sorted(dir(place)):
        if name.startswith("__") and isinstance(place, ModuleType):
            continue
        value = getattr(place, name, None)
        if name in _DUNDERS and place is Tensor:
            yield name, value
        elif isinstance(value, (OperatorPacket, Overridable)):
            if (isinstance(place, type) or not name.startswith("_")) and (
                not _is_in(value, ignored)
            ):
                yield name, value


def _is_in(value, functions):
    return isinstance(value, Overridable) and value in functions


# Methods behind Python's own functions and operators.
_DUNDERS = frozenset(
    """
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__
    __truediv__ __rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__
    __mod__ __rmod__ __imod__ __pow__ __rpow__ __ipow__ __matmul__ __rmatmul__ __and__
    __rand__ __iand__ __or__ __ror__ __ior__ __xor__ __rxor__ __ixor__ __lshift__
    __rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__ __lt__ __le__ __eq__
    __ne__ __gt__ __ge__ __neg__ __invert__ __abs__ __pos__ __getitem__ __setitem__
    __len__ __bool__ __float__ __int__ __complex__ __index__ __contains__
    __repr__ __format__ __reduce_ex__ __deepcopy__ __array__
    """.split()
)


def _attributes():
    """The attributes of tensors that can be intercepted, by name."""
    for name, value in vars(Tensor).items():
        compiled = type(value).__name__ == "getset_descriptor"
        if (compiled and not name.startswith("__")) or isinstance(value, Attribute):
            yield name, value


@functools.cache
def _names():
    """Where each function is found, as text; several may be one and the same."""
    found: dict = {}
    for place, home in _positions():
        for name, function in _overridable_in(place):
            found.setdefault(function, f"{home}.{name}")
    for name, attribute in _attributes():
        for how in ("__get__", "__set__", "__delete__"):
            if hasattr(attribute, how):
                method = getattr(attribute, how)
                found[method] = f"{naming.package}.Tensor.{name}.{how}"
    return found


def get_overridable_functions():
    """The functions that types can take the calls of, by where they are."""
    found: dict[Any, list] = {}
    for place, _ in _positions():
        found[place] = [function for _, function in _overridable_in(place)]
    for _, attribute in _attributes():
        found[attribute] = [attribute.__get__]
    return found


def resolve_name(f):
    """Where a function is found, as text; None where it is not.

    Args:
        f: what a handler got.

    >>> import rushlight as rl
    >>> resolve_name(rl.Tensor.add).partition(".")[2]
    'Tensor.add'
    """
    if isinstance(f, Operator):
        return str(f)
    try:
        return _names().get(f)
    except TypeError:  # it cannot be looked up
        return None


def get_testing_overrides():
    """A function of the same arguments for each that can be intercepted.

    They do nothing but return -1; in tests of types that take all calls they say what
    the functions may be called with.
    """
    return {
        function: _dummy(function)
        for functions in get_overridable_functions().values()
        for function in functions
    }


def _dummy(function):
    """A function that takes what another one takes, and returns -1."""
    if isinstance(function, OperatorPacket):
        rows = function.overloads[0].signature.rows
        names = [(row[0] + "_" * iskeyword(row[0]), row[2] is not ...) for row in rows]
        at = [name for name, _ in names]
        if not function.method and at and at[0] == "self":
            names[0] = ("input", names[0][1])
        if function.overloads[0].out is not None and not function.method:
            names.append(("out", True))
        optional = False
        parts = []
        for name, has_default in names:
            optional = optional or has_default
            parts.append(f"{name}=None" if optional else name)
        return eval(f"lambda {', '.join(parts)}: -1")
    if isinstance(function, Overridable):
        try:
            code = function.__wrapped__.__code__
        except AttributeError:
            return lambda *args, **kwargs: -1
        plain = code.co_flags & 12 == 0  # neither *args nor **kwargs
        count = code.co_argcount
        defaults = len(function.__wrapped__.__defaults__ or ())
        if plain:
            listed = [
                name if at < count - defaults else f"{name}=None"
                for at, name in enumerate(code.co_varnames[:count])
            ]
            listed += [
                f"{name}=None"
                for name in code.co_varnames[count : count + code.co_kwonlyargcount]
            ]
            return eval(f"lambda {', '.join(listed)}: -1")
    if getattr(function, "__name__", "") == "__get__":
        return lambda self: -1
    return lambda *args, **kwargs: -1

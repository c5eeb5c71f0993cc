"""Interception of calls in Python: function modes and ``__torch_function__``."""

from __future__ import annotations

import contextlib
import functools

from rushlight.core import naming
from rushlight.core.state import (
    function_modes,
    pop_mode,
    push_mode,
    silenced_overrides,
)
from rushlight.core.tensor import Tensor


class TorchFunctionMode:
    """Sees every operator call in its ``with`` block.

    Subclasses override ``__torch_function__(self, func, types, args, kwargs)``; calls
    that it makes itself are not intercepted again by the same mode.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__"
        )

    def __enter__(self):
        push_mode(self)
        return self

    def __exit__(self, *raised):
        pop_mode()


def _intercepts(kind):
    """Whether a type has a way of its own to take calls."""
    hook = getattr(kind, "__torch_function__", None)
    return hook is not None and not getattr(hook, "passes_by", False)


def has_torch_function(relevant_args):
    """Whether a mode, or one of the values by its type, intercepts calls."""
    silenced = silenced_overrides()
    if silenced < 2 and function_modes():
        return True
    return not silenced and any(_intercepts(type(arg)) for arg in relevant_args)


def has_torch_function_unary(obj):
    """Whether a mode, or a value by its type, intercepts calls."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs):
    """Whether one of the values intercepts calls by its type."""
    return has_torch_function(objs)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks modes and types for the result of a call written in Python.

    Args:
        public_api: the function that was called.
        relevant_args: the arguments whose types may take the call.
        args: what it was called with; ``kwargs`` too.

    Raises:
        TypeError: none of them has a result.
    """
    kinds: list = []
    for arg in relevant_args:
        kind = type(arg)
        if not _intercepts(kind) or kind in kinds:
            continue
        places = (i for i, other in enumerate(kinds) if issubclass(kind, other))
        kinds.insert(next(places, len(kinds)), kind)
    if function_modes() and not silenced_overrides():
        mode = pop_mode()
        try:
            result = mode.__torch_function__(public_api, tuple(kinds), args, kwargs)
        finally:
            push_mode(mode)
        if result is not NotImplemented:
            return result
    for kind in kinds:
        result = kind.__torch_function__(public_api, tuple(kinds), args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement "
        f"__torch_function__: {kinds}"
    )


def wrap_torch_function(dispatcher):
    """A decorator that lets types and modes take the calls of a function.

    Args:
        dispatcher: called with the same arguments, gives those whose types count.
    """

    def inner(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def is_tensor_like(inp):
    """Whether a value is a tensor or stands for one."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func):
    """Whether a function is one of a tensor's."""
    name = getattr(func, "__name__", None)
    return name == "__get__" or (
        name is not None and getattr(Tensor, name, None) is func
    )


def get_ignored_functions():
    """Functions that types cannot take the calls of."""
    import rushlight as rl

    return {rl.tensor, rl.as_tensor, rl.from_numpy, rl.is_tensor, rl.is_storage}


def get_overridable_functions():
    """The functions that types can take the calls of, by where they are."""
    import rushlight as rl
    from rushlight.dispatch.packet import OperatorPacket

    found: dict = {}
    for place in (rl, rl.nn.functional, rl.linalg, rl.special, Tensor):
        held = [
            value
            for name in dir(place)
            if not name.startswith("__")
            and isinstance(value := getattr(place, name, None), OperatorPacket)
        ]
        found[place] = held
    return found


def resolve_name(f):
    """Where a function is found, as text; None where it is not.

    >>> import rushlight as rl
    >>> resolve_name(rl.add).partition(".")[2]
    'add'
    """
    for place, functions in get_overridable_functions().items():
        for function in functions:
            if function is f:
                home = getattr(place, "__name__", "")
                home = f"{naming.package}.{home}" if isinstance(place, type) else home
                return f"{home}.{f.__name__}"
    return None


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """A block in which a type may make calls that it takes itself: it always may."""
    yield

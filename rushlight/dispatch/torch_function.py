"""Function modes and ``__torch_function__``: who takes a call before it is dispatched."""

import contextlib
import functools
import threading
from types import FunctionType

from rushlight.core.state import OverridesScope, function_modes, silenced_overrides
from rushlight.core.tensor import Tensor
from rushlight.dispatch.interception import FunctionModeScope
from rushlight.dispatch.overridable import Overridable
from rushlight.dispatch.signature import pop_mode, push_mode, takes_calls


class TorchFunctionMode(FunctionModeScope):
    """Sees every call in its ``with`` block.

    Subclasses define ``__torch_function__(self, func, types, args, kwargs)``; calls that
    it makes itself go to the modes around it.

    >>> import rushlight as rl
    >>> class Names(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     _ = rl.ones(2).add(1).sum()
    ones
    add
    sum
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__"
        )

    @classmethod
    def push(cls, *args, **kwargs):
        """An instance; PyTorch's old way of making one."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every call go on."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    """The innermost mode of this thread, or None."""
    stack = function_modes()
    return stack[-1] if stack else None


def _get_current_function_mode_stack():
    """The modes of this thread; the last runs first."""
    return list(function_modes())


def _push_mode(mode):
    push_mode(mode)


def _pop_mode():
    return pop_mode()


@contextlib.contextmanager
def _pop_mode_temporarily():
    """A block without the innermost mode, which it yields."""
    mode = pop_mode()
    try:
        yield mode
    finally:
        push_mode(mode)


# -- functions written in Python ---------------------------------------------------------


class _Skipping(threading.local):
    """Whether the next question of a thread is answered with no."""

    next = False


_SKIPPING = _Skipping()


def has_torch_function(relevant_args):
    """Whether a mode, or one of the values by its type, intercepts calls.

    Args:
        relevant_args: the arguments whose types count.

    >>> has_torch_function((1, 2))
    False
    """
    if _SKIPPING.next:
        _SKIPPING.next = False
        return False
    if function_modes() and silenced_overrides() < 2:
        return True
    return any(takes_calls(arg) for arg in relevant_args)


def has_torch_function_unary(obj):
    """Whether a mode, or a value by its type, intercepts calls."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs):
    """Whether a mode, or one of the values by its type, intercepts calls."""
    return has_torch_function(objs)


def _get_overloaded_args(relevant_args, get_type_fn=None):
    """The values that take calls, one of each type, subclasses before their bases."""
    kind_of = get_type_fn or type
    if silenced_overrides():
        return []
    found: list = []
    for arg in relevant_args:
        kind = kind_of(arg)
        hook = getattr(kind, "__torch_function__", None)
        if hook is None or getattr(hook, "passes_by", False):
            continue
        if any(kind_of(other) is kind for other in found):
            continue
        positions = (
            at for at, other in enumerate(found) if issubclass(kind, kind_of(other))
        )
        found.insert(next(positions, len(found)), arg)
    return found


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks modes and types for the result of a call written in Python.

    Args:
        public_api: the function that was called.
        relevant_args: the arguments whose types may take the call.
        args: what it was called with; ``kwargs`` too.
        kwargs: what it was called with by name.

    Raises:
        TypeError: none of them has a result.

    >>> class Own:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> def double(x):
    ...     return handle_torch_function(double, (x,), x)
    >>> double(Own())
    'double'
    """
    values = _get_overloaded_args(relevant_args)
    kinds = tuple(type(value) for value in values)
    mode = None
    if function_modes() and silenced_overrides() < 2:
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in values:
        result = value.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    message = (
        f"no implementation found for '{name}' on types that implement "
        f"__torch_function__: {list(kinds)}"
    )
    if mode is not None:
        message += f" nor in mode {mode}"
    raise TypeError(message)


def wrap_torch_function(dispatcher):
    """A decorator that lets types and modes take the calls of a function.

    Args:
        dispatcher: called with the same arguments, gives those whose types count.

    >>> @wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
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


def redispatch_function(func, types, args, kwargs):
    """Runs a function that was intercepted; what it calls itself is intercepted again.

    Args:
        func: the function; ``types``, ``args`` and ``kwargs`` as a handler gets them.

    >>> redispatch_function(len, (), ([1, 2],), None)
    2
    """
    kwargs = kwargs or {}
    if isinstance(func, Overridable):
        return func.__wrapped__(*args, **kwargs)
    if isinstance(func, FunctionType):
        _SKIPPING.next = True
        try:
            return func(*args, **kwargs)
        finally:
            _SKIPPING.next = False
    with OverridesScope(2):
        return func(*args, **kwargs)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """A block in which a type may make calls that it takes itself: it always may."""
    yield


# -- what can be intercepted -------------------------------------------------------------


def is_tensor_like(inp):
    """Whether a value is a tensor or stands for one.

    Args:
        inp: any value.

    >>> from rushlight import ones
    >>> is_tensor_like(ones(2)), is_tensor_like([1, 2])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func):
    """Whether a function is one of a tensor's.

    Args:
        func: what a handler got.

    >>> is_tensor_method_or_property(Tensor.add), is_tensor_method_or_property(len)
    (True, False)
    """
    name = getattr(func, "__name__", None)
    if name == "__get__":
        return True
    return getattr(func, "__objclass__", None) is Tensor

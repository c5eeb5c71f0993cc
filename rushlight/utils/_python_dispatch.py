"""Modes and wrapper types that take operators: ``__torch_dispatch__``."""

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

from rushlight.core.subclass import is_absent, share_storage
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key


class TorchDispatchMode(python_key.DispatchModeScope):
    """Sees every operator of its ``with`` block, below autograd.

    Subclasses define ``__torch_dispatch__(self, func, types, args, kwargs)``; operators
    that it calls itself go to the modes around it, then to the types of their arguments.

    >>> import rushlight as rl
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     _ = rl.ones(2) + 1
    aten.ones.default
    aten.add.Tensor
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None):
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_dispatch__"
        )

    @classmethod
    def push(cls, *args, **kwargs):
        """An instance; PyTorch's old way of making one."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the framework itself."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every operator go on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    """The innermost mode of this thread, or None."""
    stack = python_key.modes()
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack():
    """The modes of this thread; the last runs first."""
    return list(python_key.modes())


def _push_mode(mode):
    python_key.push_mode(mode)


def _pop_mode(k=None):
    return python_key.pop_mode()


def _len_torch_dispatch_stack():
    """How many modes this thread has."""
    return len(python_key.modes())


def _get_dispatch_stack_at(index):
    """A mode of this thread; the last runs first."""
    return python_key.modes()[index]


_push_on_torch_dispatch_stack = _push_mode
_pop_torch_dispatch_stack = _pop_mode


def _detect_infra_mode(key):
    """A mode of the framework's own that is on: there is none."""


def _unset_infra_mode(key):
    """Takes a mode of the framework's own off the stack: there is none."""


@contextlib.contextmanager
def _disable_infra_mode(key):
    """A block without a mode of the framework's own, which it yields: there is none."""
    yield None


@contextlib.contextmanager
def _pop_mode_temporarily(k=None):
    """A block without the innermost mode, which it yields."""
    mode = python_key.pop_mode()
    try:
        yield mode
    finally:
        python_key.push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes():
    """A block without any mode; it yields those that were there, the innermost first."""
    stack = python_key.modes()
    with python_key.without_modes():
        yield list(reversed(stack))


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Whether a mode sees this thread's operators."""
    return bool(python_key.modes())


def any_torch_dispatch_mode_on_stack(*, include_infra_modes=True):
    """Whether a mode sees this thread's operators."""
    return bool(python_key.modes())


# -- wrapper types ---------------------------------------------------------------------


class TensorWithFlatten(Protocol):
    """What a wrapper type has so that tools can take it apart and make it again."""

    def __tensor_flatten__(self) -> tuple[list[str], object]:
        """The names of the tensors inside, and what else belongs to it."""

    @staticmethod
    def __tensor_unflatten__(inner_tensors, flatten_spec, outer_size, outer_stride):
        """The tensor that the other method took apart."""


TraceableWrapperSubclass = TensorWithFlatten


def is_traceable_wrapper_subclass_type(t):
    """Whether a type can be taken apart and made again."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and callable(getattr(t, "__tensor_flatten__", None))
        and callable(getattr(t, "__tensor_unflatten__", None))
    )


def is_traceable_wrapper_subclass(t):
    """Whether a value is a tensor of a type that can be taken apart and made again."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A wrapper like ``t`` around other tensors.

    Args:
        t: the wrapper.
        callback: ``callback(name, tensor)`` gives what is to be inside instead.
        outer_size: the new sizes, by default the old ones; ``outer_stride`` too.

    Raises:
        AssertionError: the type does not make what it was asked for.
    """
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(made.shape) != tuple(outer_size):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape "
            f"equal to {outer_size}, but got: {made.shape}"
        )
    if tuple(made.stride()) != tuple(outer_stride):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have stride "
            f"equal to {outer_stride}, but got: {made.stride()}"
        )
    return made


# -- aliasing --------------------------------------------------------------------------


@dataclass
class AliasInfo:
    """Which memory an argument or a result shares."""

    alias_set: set
    is_write: bool
    name: str | None


@dataclass
class SchemaInfo:
    """What a schema says of the memory that a call shares and writes."""

    args: list
    outs: list


_INFOS: dict = {}


def get_alias_info(func):
    """What an operator's schema says of the memory that a call shares and writes.

    Args:
        func: the operator.
    """
    found = _INFOS.get(func)
    if found is None:
        schema = func._schema
        found = SchemaInfo(
            [_alias_info(one) for one in schema.arguments],
            [_alias_info(one) for one in schema.returns],
        )
        _INFOS[func] = found
    return found


def _alias_info(argument):
    info = argument.alias_info
    return AliasInfo(
        set() if info is None else set(info.before_set),
        info is not None and info.is_write,
        argument.name or None,
    )


def _bound(func, args, kwargs):
    """A call's arguments by position in the schema; None where one was left out."""
    rows = func.signature.rows
    bound: list = list(args) + [None] * (len(rows) - len(args))
    for at, row in enumerate(rows):
        if row[0] in (kwargs or {}):
            bound[at] = kwargs[row[0]]
    return bound


def return_and_correct_aliasing(func, args, kwargs, out):
    """A handler's result as the operator's callers expect it.

    What an operator writes into is returned itself; a view without memory belongs to
    the same storage as the tensor it looks at.

    Args:
        func: the operator.
        args: the arguments of the call; ``kwargs`` too.
        out: the result so far.
    """
    info = get_alias_info(func)
    bound = _bound(func, args, kwargs)
    if func.is_view or func.view_or_copy:
        for given, value in zip(info.args, bound):
            if not given.alias_set or not isinstance(value, Tensor):
                continue
            for one in out if isinstance(out, (list, tuple)) else (out,):
                _correct_storage_aliasing(value, one)
    written = [value for given, value in zip(info.args, bound) if given.is_write]
    if not written or not any(one.is_write for one in info.outs):
        return out
    if len(info.outs) == 1 and not isinstance(out, (list, tuple)):
        return written[0]
    return type(out)(written)


def _correct_storage_aliasing(source: Any, view: Any):
    if (
        isinstance(view, Tensor)
        and is_absent(view)
        and is_absent(source)
        and view is not source
    ):
        share_storage(view, source)


__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]

"""What pipes are made with, and what their values should be."""

import functools
import types
import typing
from abc import ABCMeta

from rushlight.utils.data.datapipes._hook_iterator import _SnapshotState, hook_iterator


class _DataPipeMeta(ABCMeta):
    """The type of pipes."""


def _reset_unless_restored(function):
    @functools.wraps(function)
    def reset(pipe, *args, **kwargs) -> None:
        if pipe._snapshot_state is not _SnapshotState.Restored:
            pipe._number_of_samples_yielded = 0
            pipe._fast_forward_iterator = None
            function(pipe, *args, **kwargs)
        pipe._snapshot_state = _SnapshotState.Iterating

    return reset


class _IterDataPipeMeta(_DataPipeMeta):
    """The type of pipes that are iterated over: it watches over their iterators."""

    def __new__(cls, name, bases, namespace, **kwargs):
        if "reset" in namespace:
            namespace["reset"] = _reset_unless_restored(namespace["reset"])
        if "__iter__" in namespace:
            hook_iterator(namespace)
        return super().__new__(cls, name, bases, namespace, **kwargs)


def element_type(cls):
    """What a pipe says that its values are: ``int`` of ``class A(IterDataPipe[int])``."""
    for base in getattr(cls, "__orig_bases__", ()):
        if isinstance(typing.get_origin(base), _DataPipeMeta):
            return typing.get_args(base)[0]
    return typing.Any


def is_of(value: typing.Any, hint: typing.Any) -> bool:
    """Whether a value is what a hint says, element by element of tuples, lists and dicts.

    >>> from rushlight.utils.data.datapipes._typing import is_of
    >>> is_of([1, 2], list[int]), is_of((1, "a"), tuple[int, int])
    (True, False)
    """
    if hint is typing.Any or isinstance(hint, (typing.TypeVar, str)):
        return True
    kind: typing.Any = typing.get_origin(hint) or hint
    parts = typing.get_args(hint)
    if kind in (typing.Union, types.UnionType):
        return any(is_of(value, part) for part in parts)
    if hint is None:
        return value is None
    if not isinstance(kind, type):
        return True
    if not isinstance(value, kind):
        return False
    inner: typing.Any = value
    if not parts:
        return True
    if kind is tuple and parts[-1:] != (...,):
        return len(parts) == len(inner) and all(map(is_of, inner, parts))
    if kind in (list, set, tuple):
        return all(is_of(each, parts[0]) for each in inner)
    if kind is dict:
        return all(
            is_of(key, parts[0]) and is_of(each, parts[1])
            for key, each in inner.items()
        )
    return True

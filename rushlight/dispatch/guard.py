"""Dispatch keys that a block adds to its thread's calls, or has them pass by."""

from __future__ import annotations

from rushlight.core.state import (
    excluded_keys,
    included_keys,
    set_grad_enabled,
    set_keys,
)
from rushlight.dispatch.keys import KeySet


class Guard:
    """A block whose calls carry some more keys and pass some by, in this thread.

    Args:
        include: the keys to add; ``exclude``: those to pass by.

    >>> import rushlight as rl
    >>> from rushlight.dispatch.keys import DispatchKey, KeySet
    >>> with Guard(exclude=KeySet.of(DispatchKey.Autograd)):
    ...     (rl.ones(1, requires_grad=True) * 2).requires_grad
    False
    """

    __slots__ = ("before", "exclude", "include")

    def __init__(self, include=None, exclude=None):
        self.include = (include or KeySet()).bits
        self.exclude = (exclude or KeySet()).bits
        self.before = []

    def __enter__(self):
        included, excluded = included_keys(), excluded_keys()
        self.before.append((included, excluded))
        set_keys(included | self.include, excluded | self.exclude)
        return self

    def __exit__(self, *raised):
        set_keys(*self.before.pop())


class GradMode:
    """A block that records gradients, or does not, in this thread.

    Args:
        enabled: whether calls in the block are recorded.

    >>> import rushlight as rl
    >>> with GradMode(False):
    ...     (rl.ones(1, requires_grad=True) * 2).requires_grad
    False
    """

    __slots__ = ("enabled", "previous")

    def __init__(self, enabled):
        self.enabled = enabled

    def __enter__(self):
        self.previous = set_grad_enabled(self.enabled)

    def __exit__(self, *raised):
        set_grad_enabled(self.previous)

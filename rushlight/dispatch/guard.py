"""Dispatch keys that a block adds to its thread's calls, or has them pass by."""

from rushlight.core.state import GradModeScope, KeysScope
from rushlight.dispatch.keys import KeySet


class Guard(KeysScope):
    """A block whose calls carry some more keys and pass some by, in this thread.

    Args:
        include: the keys to add; ``exclude``: those to pass by.

    >>> import rushlight as rl
    >>> from rushlight.dispatch.keys import DispatchKey, KeySet
    >>> with Guard(exclude=KeySet.of(DispatchKey.Autograd)):
    ...     (rl.ones(1, requires_grad=True) * 2).requires_grad
    False
    """

    __slots__ = ()

    def __init__(self, include=None, exclude=None):
        super().__init__((include or KeySet()).bits, (exclude or KeySet()).bits)


class GradMode(GradModeScope):
    """A block that records gradients, or does not, in this thread.

    Args:
        enabled: whether calls in the block are recorded.

    >>> import rushlight as rl
    >>> with GradMode(False):
    ...     (rl.ones(1, requires_grad=True) * 2).requires_grad
    False
    """

    __slots__ = ("mode",)

    def __init__(self, enabled):
        self.mode = enabled

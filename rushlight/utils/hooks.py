"""Handles that take registered hooks away again."""

from __future__ import annotations

import weakref
from collections import OrderedDict

from rushlight.core.pickling import warn_of_hooks as warn_if_has_hooks

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class RemovableHandle:
    """Removes one hook from the dictionary that it was registered in.

    Usable as a context manager: the hook is removed on leaving the block.

    Args:
        hooks_dict: an ``OrderedDict`` from handle numbers to hooks.
        extra_dict: one more dictionary, or a list of them, that loses the same key.

    >>> hooks = OrderedDict()
    >>> handle = RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove()
    >>> len(hooks)
    0
    """

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or ()
        self.extra_dict_ref = tuple(weakref.ref(each) for each in extras)

    def remove(self) -> None:
        """Forget the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        extras = tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id, extras

    def __setstate__(self, state):
        hooks, self.id, extras = state
        # A dictionary that died before pickling comes back as a dead reference.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(
            weakref.ref(OrderedDict() if each is None else each) for each in extras
        )
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


def unserializable_hook(f):
    """Marks a hook of a tensor as one that need not be warned of when it is pickled."""
    f.__torch_unserializable__ = True
    return f


def __getattr__(name):
    if name == "BackwardHook":  # layers stand on this module
        from rushlight.nn.modules._backward_hook import BackwardHook

        return BackwardHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Modules that hold settings: how a block of a program changes some of them."""

from __future__ import annotations

import contextlib
import sys


def patcher(name):
    """The ``patch`` of a module of settings.

    Args:
        name: the module's name.
    """

    @contextlib.contextmanager
    def patch(changes=None, **more):
        """A block, or a function, with other settings."""
        if isinstance(changes, str):
            changes = {changes: more.pop("value")}
        module = sys.modules[name]
        changes = {**(changes or {}), **more}
        before = {name: getattr(module, name) for name in changes}
        vars(module).update(changes)
        try:
            yield
        finally:
            vars(module).update(before)

    return patch

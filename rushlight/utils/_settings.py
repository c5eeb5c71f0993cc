"""Modules that hold settings: how a block of a program changes some of them."""

from __future__ import annotations

import contextlib
import copy
import sys


def place_of(module, name):
    """The object that has a setting, and its name there: ``triton.cudagraphs``."""
    *sections, last = name.split(".")
    for section in sections:
        module = getattr(module, section)
    return module, last


def copier(name):
    """The ``get_config_copy`` of a module of settings.

    Args:
        name: the module's name.
    """

    def get_config_copy():
        """The settings as they are, by their names."""
        return {
            key: copy.deepcopy(value)
            for key, value in vars(sys.modules[name]).items()
            if not key.startswith("_") and not callable(value)
        }

    return get_config_copy


def patcher(name):
    """The ``patch`` of a module of settings.

    Args:
        name: the module's name.
    """

    @contextlib.contextmanager
    def patch(changes=None, value=None, **more):
        """A block, or a function, with other settings."""
        if isinstance(changes, str):
            changes = {changes: value}
        module = sys.modules[name]
        changes = {**(changes or {}), **more}
        owners = {one: place_of(module, one) for one in changes}
        before = {one: getattr(*owners[one]) for one in changes}
        for one, value in changes.items():
            setattr(*owners[one], value)
        try:
            yield
        finally:
            for one, value in before.items():
                setattr(*owners[one], value)

    return patch

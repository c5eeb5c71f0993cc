"""Modules that hold settings: how a block of a program changes some of them."""

import copy
import operator
import sys
from types import ModuleType

from rushlight.core.state import AttributeScope


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
            if not key.startswith("_")
            and not callable(value)
            and not isinstance(value, ModuleType)
        }

    return get_config_copy


def patcher(name):
    """The ``patch`` of a module of settings.

    Args:
        name: the module's name.
    """

    def patch(changes=None, value=None, **more):
        """A block, or a function, with other settings."""
        if isinstance(changes, str):
            changes = {changes: value}
        module, changes = sys.modules[name], {**(changes or {}), **more}
        for one in changes:
            operator.attrgetter(one)(
                module
            )  # a setting that it does not have is refused
        return AttributeScope(module, **changes)

    return patch


def keeper(name):
    """What gives a module settings that change nothing, for programs that set them.

    Args:
        name: the module's name.
    """

    def keep(value, names):
        vars(sys.modules[name]).update(dict.fromkeys(names.split(), value))

    return keep


class Settings(ModuleType):
    """A module that has the settings it was written with, and no others."""

    def __setattr__(self, name, value):
        settings = vars(self)
        name = settings["_aliases"].get(name, name)
        if name not in settings and name[:2] != "__" and not settings["_known"](name):
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        super().__setattr__(name, value)


def sealed(name, known=lambda name: False, **aliases):
    """Has a module refuse settings that it does not have; its ``__getattr__``.

    Args:
        name: the module's name.
        known: whether there is a setting that has no value yet.
        aliases: further names of its settings.
    """
    module = sys.modules[name]
    vars(module).update(_aliases=aliases, _known=known)
    module.__class__ = Settings

    def __getattr__(name):
        if name in aliases:
            return getattr(module, aliases[name])
        raise AttributeError(f"{module.__name__}.{name} does not exist")

    return __getattr__

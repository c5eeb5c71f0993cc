"""PyTorch's names written on Rushlight's modules, classes, functions and values."""

import importlib
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec

from rushlight._name_errors import guard
from rushlight.core import naming
from rushlight.core.type_names import rename_type
from rushlight.dispatch import signature
from rushlight.dispatch.overridable import Overridable
from rushlight.operators import return_types
from rushlight.torch_compat import names

_COMPILED_FUNCTION = type(rename_type)
_FUNCTIONS = (types.FunctionType, _COMPILED_FUNCTION, Overridable)
_HEAP = 1 << 9  # the flag of classes written in Python


def version():
    """The version that programs are told, which compares as versions do."""
    from rushlight.torch_version import __version__

    return __version__


def rename_values():
    """Types, data types, sizes and the like print with PyTorch's name."""
    naming.package = names.THEIRS
    signature.KIND_NAMES = tuple(
        word.replace(names.OURS, names.THEIRS) for word in signature.KIND_NAMES
    )
    for kind in return_types._known.values():
        kind.__module__ = names.MOVED[return_types.__name__]
    for module in {place.rpartition(".")[0] for place in names.HOMES}:
        rename_homes(module)


def rename_homes(own):
    """Names what PyTorch defines elsewhere than a module of Rushlight's does."""
    for place, name in names.HOMES.items():
        module, _, attribute = place.rpartition(".")
        value = getattr(sys.modules.get(module), attribute, None)
        if module == own and value is not None:
            compiled = isinstance(value, type) and not value.__flags__ & _HEAP
            of_values = own.startswith("rushlight.core.")  # C's types in PyTorch
            change = rename_type if compiled or of_values else rename
            change(value, *name.rsplit(".", 1))
    lent = names.LENT.get(own)
    for value in list(vars(sys.modules[own]).values()) if lent else ():
        if isinstance(value, (type, *_FUNCTIONS)) and value.__module__ == own:
            settle(value, own, lent)


def rename(value, module, name):
    """Gives a class or a function PyTorch's place and name."""
    value.__module__ = module
    if value.__qualname__ != name:
        value.__name__ = value.__qualname__ = name


def rename_loaded():
    """Names every module that is there already."""
    loaded = [name for name in sys.modules if names.theirs(name) is not None]
    fronts = [name for name in names.FRONTS if name in loaded]
    for name in sorted(set(loaded) - set(fronts)) + fronts:
        relabel(name, sys.modules[name])
    for name in names.LENT:
        if name in sys.modules:
            rename_homes(name)


def relabel(own, module):
    """Gives a module PyTorch's name, and with it all that the module defines.

    Args:
        own: the module's name in Rushlight.
        module: the module, which has run.
    """
    public = names.theirs(own)
    sys.modules[public] = module
    module.__spec__ = public_spec(public, own, module.__spec__)
    module.__loader__ = module.__spec__.loader
    package = hasattr(module, "__path__")
    module.__package__ = public if package else public.rpartition(".")[0]
    front = own in names.FRONTS
    for name, value in list(vars(module).items()):
        if isinstance(value, type):
            home = value.__module__
        elif isinstance(value, _FUNCTIONS):
            home = value.__module__ or ""
        else:
            continue
        if home == own:
            settle(value, own, public)
        elif front and not name.startswith("_") and _homeless(home):
            if not isinstance(value, type) or value.__flags__ & _HEAP:
                settle(value, home, public)
    module.__name__ = public
    rename_homes(own)
    guard(module, lambda name: submodule(f"{public}.{name}") if package else None)


def submodule(public):
    """A module of that name, which PyTorch imports with its package; None for no such."""
    own = names.ours(public)
    if own is None or importlib.util.find_spec(own) is None:
        return None
    return importlib.import_module(own)


def _homeless(home):
    return home.startswith("rushlight.") and names.theirs(home) is None


def settle(value, own, public):
    """Writes a module's new name on what it defines, and on a class's methods."""
    try:
        value.__module__ = public
    except (AttributeError, TypeError):
        return  # a compiled type that PyTorch has no name for
    if isinstance(value, type):
        for method in vars(value).values():
            if isinstance(method, types.FunctionType) and method.__module__ == own:
                method.__module__ = public


class Alias:
    """Loads a module by giving the one that Rushlight already has."""

    def __init__(self, own, loader=None):
        self.own = own
        self.loader = loader

    def create_module(self, spec):
        """The module itself: there is no second copy of it."""
        return importlib.import_module(self.own)

    def exec_module(self, module):
        """Nothing: the module has run."""

    def get_code(self, fullname):
        """The module's code, for ``python -m``."""
        return self._original().get_code(self.own)

    def get_source(self, fullname):
        """The module's text, for tracebacks and inspection."""
        return self._original().get_source(self.own)

    def get_filename(self, fullname):
        """The module's file."""
        return self._original().get_filename(self.own)

    def get_resource_reader(self, fullname):
        """The files beside a package's modules."""
        return self._original().get_resource_reader(self.own)

    def is_package(self, fullname):
        """Whether the module has submodules."""
        return self._original().is_package(self.own)

    def _original(self):
        if isinstance(self.loader, Alias):
            return self.loader._original()
        return self.loader or importlib.util.find_spec(self.own).loader


def public_spec(public, own, spec):
    """A module's specification under PyTorch's name."""
    loader = spec.loader if spec is not None else None
    made = ModuleSpec(public, Alias(own, loader), origin=getattr(spec, "origin", None))
    if spec is not None:
        made.submodule_search_locations = spec.submodule_search_locations
        made.has_location = spec.has_location
        made.cached = spec.cached
    return made

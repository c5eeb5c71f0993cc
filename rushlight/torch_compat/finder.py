"""Imports of ``torch`` answered with Rushlight's modules, and the metadata beside them."""

import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder

from rushlight.torch_compat import names

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Finder:
    """Stands first in ``sys.meta_path``.

    No class of ``importlib.abc``: importing that would take longer than all the rest.

    Args:
        install: what a child process calls to get the names as well.
    """

    def __init__(self, install):
        self.install = install

    def find_spec(self, fullname, path=None, target=None):
        """Where a module is: one of PyTorch's, or one of Rushlight's to be named."""
        if (
            fullname == names.THEIRS
            or fullname.startswith(names.THEIRS + ".")
            or fullname in names.FOUND
        ):
            return self.find_theirs(fullname)
        if names.theirs(fullname) is not None:
            return self.find_ours(fullname, path)
        if fullname in names.LENT:
            from rushlight.torch_compat.relabel import rename_homes

            spec = PathFinder.find_spec(fullname, path)
            return hooked(spec, lambda module: rename_homes(fullname))
        if fullname == "multiprocessing.spawn":
            return hooked(
                PathFinder.find_spec(fullname, path),
                lambda spawn: carry_to_children(spawn, self.install),
            )
        return None

    def find_theirs(self, fullname):
        """One of PyTorch's modules, if Rushlight has it."""
        from rushlight.torch_compat import refused
        from rushlight.torch_compat.relabel import public_spec

        spec = refused.spec_of(fullname)
        if spec is not None:
            return spec
        own = names.ours(fullname)
        inside, imports, package = requester()
        if own is None and inside:
            own = names.OURS + fullname.removeprefix(names.THEIRS)
        found = sys.modules.get(own) if own else None
        try:
            spec = found.__spec__ if found else own and importlib.util.find_spec(own)
        except ModuleNotFoundError:
            spec = None
        if spec is not None:
            return public_spec(fullname, own, spec)
        if package is not None:
            raise no_such_name(fullname, package)
        if imports or own is None:  # a search of the folder would load a second copy
            raise no_such_module(fullname)
        return None

    def find_ours(self, fullname, path):
        """One of Rushlight's modules, which gets its other name once it has run."""
        from rushlight.torch_compat.relabel import relabel

        spec = PathFinder.find_spec(fullname, path)
        return hooked(spec, lambda module: relabel(fullname, module))

    def find_distributions(self, context=None):
        """The installed package that ``importlib.metadata`` is asked for."""
        name = getattr(context, "name", None)
        if name is not None and name.lower().replace("_", "-") != names.THEIRS:
            return []
        return [_distribution()]


def _distribution():
    from importlib.metadata import Distribution

    class TorchDistribution(Distribution):
        """What is known of the package: its name and version."""

        def read_text(self, filename):
            texts = {
                "METADATA": (
                    f"Metadata-Version: 2.1\nName: {names.THEIRS}\nVersion: {names.VERSION}\n"
                    "Summary: Rushlight under PyTorch's name\n"
                ),
                "INSTALLER": "rushlight\n",
                "top_level.txt": "torch\n",
            }
            return texts.get(filename)

        def locate_file(self, path):
            return os.path.join(os.path.dirname(_PACKAGE.rstrip(os.sep)), path)

    return TorchDistribution()


class _Hooked:
    """A loader that tells somebody when the module has run."""

    def __init__(self, loader, done):
        self.loader = loader
        self.done = done

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.done(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)


def hooked(spec, done):
    """The specification, with ``done`` called on the module once it has run."""
    if spec is not None and spec.loader is not None:
        spec.loader = _Hooked(spec.loader, done)
    return spec


# -- what is missing ------------------------------------------------------------------


def requester():
    """Who looks for a module: whether Rushlight does, whether it is to be imported, and
    the package of a ``from`` import that asks whether a name is a module."""
    frame = sys._getframe(3)
    package, imports = None, False
    while frame is not None and "importlib" in frame.f_code.co_filename:
        if frame.f_code.co_name == "_find_and_load_unlocked":
            imports = True
        if frame.f_code.co_name == "_handle_fromlist":
            package = frame.f_locals.get("module")
        frame = frame.f_back
    inside = frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)
    return inside, imports, package if imports else None


def no_such_module(fullname):
    """The error of ``import package.name`` for a module that is nowhere."""
    from rushlight._name_errors import nearest

    home, _, name = fullname.rpartition(".")
    package = sys.modules.get(home)
    near = nearest(package, name, modules=True) if package else ""
    return ModuleNotFoundError(f"No module named {fullname!r}{near}", name=fullname)


def no_such_name(fullname, package):
    """The error of ``from package import name`` for a name that is nowhere."""
    from rushlight._name_errors import nearest

    name = fullname.rpartition(".")[2]
    return ImportError(
        f"cannot import name {name!r} from {package.__name__!r}: Rushlight does not have "
        f"it{nearest(package, name)}",
        name=package.__name__,
        path=getattr(package, "__file__", None),
    )


# -- child processes ------------------------------------------------------------------


class _InstallHere:
    """Unpickled in a child process before its program is imported, installs there."""

    def __init__(self, install):
        self.install = install

    def __reduce__(self):
        return self.install, ()


def carry_to_children(spawn, install):
    """Processes that start anew, and not as copies, get the names as well."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        return {"rushlight": _InstallHere(install), **prepare(name)}

    spawn.get_preparation_data = get_preparation_data

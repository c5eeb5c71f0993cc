"""PyTorch's paths of modules that lie in fewer files here, and their older names."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_FUSED = "qat.modules.conv_fused qat.modules.linear_fused qat.modules.linear_relu"
PATHS = {
    "intrinsic": (
        f"modules modules.fused qat qat.modules {_FUSED} quantized quantized.modules "
        "quantized.modules.bn_relu quantized.modules.conv_add quantized.modules.conv_relu "
        "quantized.modules.linear_relu quantized.dynamic quantized.dynamic.modules "
        "quantized.dynamic.modules.linear_relu"
    ).split(),
    "qat": (
        "dynamic dynamic.modules dynamic.modules.linear modules modules.conv "
        "modules.embedding_ops modules.linear"
    ).split(),
    "quantizable": "modules modules.activation modules.rnn".split(),
    "quantized": (
        "dynamic dynamic.modules dynamic.modules.conv dynamic.modules.linear "
        "dynamic.modules.rnn functional modules modules.activation modules.batchnorm "
        "modules.conv modules.dropout modules.embedding_ops modules.functional_modules "
        "modules.linear modules.normalization modules.rnn modules.utils reference "
        "reference.modules reference.modules.conv reference.modules.linear "
        "reference.modules.sparse reference.modules.utils"
    ).split(),
}
# Files of other names, or of several of PyTorch's files.
FILES = {
    "quantized.modules.utils": "quantized.common",
    "quantized.modules.linear": "quantized.linear",
    "quantized.modules.embedding_ops": "quantized.embedding",
}


class _Alias(ModuleType):
    """A module that has what another one has, which is loaded when it is asked for."""

    def __init__(self, name, home):
        super().__init__(name, f"Stands for `{home}`.")
        self.__path__, self._home = [], home
        self.__spec__ = ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name):
        found = sys.modules.get(f"{self.__name__}.{name}")
        if found is not None:
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._home), name)

    def __dir__(self):
        return dir(import_module(self._home))


def child(package, name):
    """An alias inside of a module that has a file, as an attribute of it."""
    found = sys.modules.get(f"{package}.{name}")
    if found is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return found


def _home(path):
    """The module that holds a path's names: without ``modules``, or the one around it."""
    parts = [part for part in path.split(".") if part != "modules"]
    return FILES.get(path) or ".".join(parts if parts[-1] in _REAL else parts[:-1])


_REAL = set(PATHS) | {"dynamic", "functional", "rnn", "fused", "reference"}


def _register(start, package, home, paths):
    for path in paths:
        name, parts = f"{start}.{package}.{path}", path.split(".")
        if name in sys.modules:
            continue
        whole = f"{package}.{path}"
        if "modules" in parts and package != "quantizable" and whole not in _OWN:
            whole = _home(whole)
        sys.modules[name] = _Alias(name, f"{home}.{whole}")


_OWN = {"qat.modules", "intrinsic.qat.modules"}  # have files here


def register(name):
    """Registers PyTorch's paths of modules that have no file of that path here.

    Args:
        name: of the package that holds the packages of `PATHS`.
    """
    for package in ("intrinsic", "qat", "quantized"):
        paths = [
            path
            for path in PATHS[package]
            if "modules" in path.split(".") and f"{package}.{path}" not in _OWN
        ]
        _register(name, package, name, paths)


def forward(name):
    """Functions of a module that is the older name of a package.

    Args:
        name: of that module: ``nn.…`` for a package of ``ao.nn``.

    Returns:
        tuple: ``__getattr__`` and ``__dir__``.
    """
    start, _, package = name.rpartition(".")
    root = start.rpartition(".")[0]
    moved = f"{root}.ao.nn"
    _register(start, package, moved, PATHS[package])
    home = import_module(f"{moved}.{package}")
    return lambda wanted: getattr(home, wanted), lambda: dir(home)

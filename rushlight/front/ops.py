"""What can be called: operators declared in YAML, computed in the file beside it.

``operators.call`` holds every operator by its base name; ``ops.aten`` and the namespaces of
operators from outside hold the same packets, overload by overload.
"""

from importlib import import_module

from rushlight.core import naming
from rushlight.operators.extensions import load_library, loaded_libraries
from rushlight.operators.registry import call

__all__ = ["call", "load_library", "loaded_libraries"]
_LAZY = {
    "onednn": "rushlight.ao._operators.onednn",
    "prims": "rushlight._prims",
    "quantized": "rushlight.ao._operators.library",
}


def define_later(namespace, module):
    """Has a namespace's operators defined by a module when they are first asked for.

    Args:
        namespace: the namespace.
        module: the module's name.
    """
    _LAZY[namespace] = module


class _Namespace:
    """Operators of one namespace: ``ops.aten.add.Tensor``."""

    def __init__(self, name):
        self._name = name
        self.__name__ = f"{naming.package}.ops.{name}"

    def _packets(self):
        from rushlight.dispatch.dispatcher import packets

        if self._name in _LAZY:  # defined when it is first asked for
            import_module(_LAZY.pop(self._name))
        return packets()

    def __dir__(self):
        return sorted(name for space, name in self._packets() if space == self._name)

    def __getattr__(self, name):
        found = self._packets().get((self._name, name))
        if found is None and self._name == "higher_order":
            found = import_module("rushlight._higher_order_ops.base").OPERATORS.get(
                name
            )
        if found is None:
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute '{name}': no such "
                "operator is registered"
            )
        return found

    def __repr__(self):
        return f"<operators of namespace '{self._name}'>"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)

# cython: auto_pickle=False
"""The names of types in Python's own errors, which quote ``tp_name``.

A type of C's has the name that it was compiled with, its module before it; one written in
Python has its own word alone. PyTorch has it the other way about: ``'Tensor' object is not
callable``, but ``'torch.device' object is not callable``.
"""

import cython
from cython.cimports.rushlight.core._python import (
    Py_SET_TYPE,
    PyType_Modified,
    PyTypeObject,
    p_object,
)

from rushlight.core import naming

_HEAP = cython.declare(cython.ulong, 1 << 9)
_kept = cython.declare(list, [])


@cython.cfunc
def _body(kind) -> cython.pointer(PyTypeObject):
    return cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, cython.cast(object, kind))
    )


@cython.cfunc
def _call(kind, name: str):
    text: bytes = name.encode()
    _kept.append(text)  # the type borrows it for good
    _body(kind).tp_name = text
    PyType_Modified(_body(kind))


def rename_type(kind: type, module: str, name: str):
    """Gives a type another name, which errors quote whole, such as ``torch.Size``.

    Args:
        kind: a compiled type, or a class written in Python.
        module: the module that it is found in.
        name: the class.
    """
    if _body(kind).tp_flags & _HEAP:
        kind.__module__ = module
        kind.__name__ = kind.__qualname__ = name
    _call(kind, f"{module}.{name}")


_own_module = type.__dict__["__module__"]


@cython.cclass
class TensorMeta(type):
    """The type of `Tensor`, whose module is not in the name that errors quote."""

    @property
    def __module__(self):
        if _body(self).tp_flags & _HEAP:
            return _own_module.__get__(self)
        return naming.package

    @__module__.setter
    def __module__(self, module):
        _own_module.__set__(self, module)

    def __repr__(self):
        return f"<class '{self.__module__}.{self.__qualname__}'>"


def name_alone(kind: type):
    """Has errors quote a compiled type by its word, as they do classes of Python's."""
    name: str = kind.__name__
    Py_SET_TYPE(cython.cast(p_object, kind), _body(TensorMeta))
    _call(kind, name)

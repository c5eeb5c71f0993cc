"""Other names for compiled types, which Python itself does not let one rename."""

import cython
from cython.cimports.rushlight.core._python import (
    PyType_Modified,
    PyTypeObject,
    p_object,
)

_kept = cython.declare(list, [])


def rename_type(kind: type, name: str):
    """Gives a compiled type another full name, such as ``torch.Tensor``.

    Args:
        kind: a type of a compiled module; classes written in Python are renamed by
            assigning ``__module__`` and ``__qualname__``.
        name: the module and the class, with a dot between them.

    Raises:
        TypeError: the type is a class written in Python.
    """
    heap: cython.ulong = 1 << 9
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    if body.tp_flags & heap:
        raise TypeError(f"{kind!r} is no compiled type: assign its __module__")
    text: bytes = name.encode()
    _kept.append(text)  # the type borrows it for good
    body.tp_name = text
    PyType_Modified(body)

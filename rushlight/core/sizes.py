"""Sizes as Python sees them: made without a list, read without a Python frame.

A `Size` is a tuple whose slices are sizes again. A ``__getitem__`` in Python would cost
every ``x.shape[0]`` a call, so the class gets its subscript here.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.cpython.tuple import PyTuple_GET_SIZE, PyTuple_SET_ITEM
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.sizes import (
    PyNumber_AsSsize_t,
    PyType_GenericAlloc,
    PyTypeObject,
    binaryfunc,
)

from rushlight.core.layout import Size

_SIZE = cython.declare(cython.pointer(PyTypeObject))
_SIZE = cython.cast(cython.pointer(PyTypeObject), Size)
_PLAIN = cython.declare(binaryfunc)
_PLAIN = _SIZE.tp_as_mapping.mp_subscript


@cython.cfunc
def new_size(sizes: cython.pointer(int64_t), ndim: cython.int) -> object:
    """A `Size` of ``ndim`` sizes."""
    i: cython.int
    result: object = PyType_GenericAlloc(_SIZE, ndim)
    for i in range(ndim):
        value = cython.cast(object, sizes[i])
        Py_INCREF(value)
        PyTuple_SET_ITEM(result, i, value)
    return result


@cython.cfunc
def as_size(numbers: object) -> object:
    """A tuple of sizes as a `Size`."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = PyTuple_GET_SIZE(numbers)
    result: object = PyType_GenericAlloc(_SIZE, n)
    for i in range(n):
        value = cython.cast(tuple, numbers)[i]
        Py_INCREF(value)
        PyTuple_SET_ITEM(result, i, value)
    return result


@cython.cfunc
def item_of(sizes: object, index: object) -> object:
    """``sizes[index]``: a number, or of a slice a `Size`."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t
    if isinstance(index, slice):
        return as_size(_PLAIN(sizes, index))
    if type(index) is int:
        i, n = PyNumber_AsSsize_t(index, IndexError), PyTuple_GET_SIZE(sizes)
        i = i + n if i < 0 else i
        if 0 <= i < n:
            return cython.cast(tuple, sizes)[i]
    return _PLAIN(sizes, index)


_SIZE.tp_as_mapping.mp_subscript = item_of

# The parts of CPython's attribute descriptors that Cython's own declarations leave out.
from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject* Py_TYPE(PyObject* value)
    ctypedef object (*getter)(object, void*)
    ctypedef int (*setter)(object, PyObject*, void*) except -1
    ctypedef struct PyGetSetDef:
        const char* name
        getter get
        setter set
        const char* doc
        void* closure
    ctypedef struct PyGetSetDescrObject:
        PyGetSetDef* d_getset

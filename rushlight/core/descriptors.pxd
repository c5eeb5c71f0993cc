# The parts of CPython's attribute descriptors that Cython's own declarations leave out.
from cpython.object cimport PyObject
from rushlight.core._python cimport PyTypeObject

cdef extern from "Python.h":
    PyObject* Py_TYPE(PyObject* value)
    PyObject* _PyType_Lookup(PyTypeObject* type, PyObject* name)  # of its own and its bases'
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

from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject* PyFunction_GetCode(object function)
    PyObject* PyFunction_GetDefaults(object function)
    PyObject* PyFunction_GetKwDefaults(object function)

# Whether a function is what it was: a few comparisons of pointers.
cdef bint same_function(object function, tuple facts) except -1

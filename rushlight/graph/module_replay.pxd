from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        void* c_profilefunc
        void* c_tracefunc
    PyThreadState* PyThreadState_Get() nogil
    PyObject* PyCell_GET(object cell)
    PyObject** _PyObject_GetDictPtr(object owner)
    ctypedef struct PyTypeObject:
        unsigned int tp_version_tag

cdef enum:
    TENSORS_MOST = 256              # of one stretch

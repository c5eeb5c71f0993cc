from libc.stdint cimport int64_t


cdef extern from "Python.h":
    ctypedef object (*binaryfunc)(object, object)
    ctypedef struct PyMappingMethods:
        binaryfunc mp_subscript
    ctypedef struct PyTypeObject:
        PyMappingMethods* tp_as_mapping
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    Py_ssize_t PyNumber_AsSsize_t(object, object) except? -1


cdef object new_size(int64_t* sizes, int ndim)
cdef object as_size(object numbers)
cdef object item_of(object sizes, object index)

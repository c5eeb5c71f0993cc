# The few parts of CPython's C interface that Cython's own declarations leave out.
from cpython.object cimport PyObject

# Objects without a count of references, one and many: named as Cython's p_char and pp_char.
ctypedef PyObject* p_object
ctypedef PyObject** pp_object

cdef extern from "Python.h":
    ctypedef void (*destructor)(PyObject*) noexcept
    ctypedef struct PyTypeObject
    ctypedef object (*newfunc)(PyTypeObject*, PyObject*, PyObject*)
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
        unsigned int tp_version_tag
        void* tp_call
        PyObject* tp_dict
        const char* tp_name
        destructor tp_dealloc
        newfunc tp_new
        void* tp_finalize
    void* PyVectorcall_Call
    void PyType_Modified(PyTypeObject* type)
    void Py_SET_TYPE(PyObject* object, PyTypeObject* type)
    object PyObject_Vectorcall(PyObject* callable, PyObject** args, size_t nargsf, PyObject* kwnames)
    int PyErr_CheckSignals() except -1
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf)
    PyObject* PyTuple_GET_ITEM(PyObject* t, Py_ssize_t i)
    PyObject* PyDict_GetItem(PyObject* d, PyObject* key)
    void PyErr_SetObject(PyObject* type, PyObject* value)
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)
    void Py_FatalError(const char* message) noexcept
    void PyObject_GC_Track(PyObject*)
    void PyObject_GC_UnTrack(PyObject*)
    int PyObject_CallFinalizerFromDealloc(PyObject*)

cdef extern from "pythread.h":
    long PyThread_get_thread_ident() nogil
    long PyThread_get_thread_native_id() nogil

cdef extern from *:
    int __builtin_clzll(unsigned long long bits) nogil

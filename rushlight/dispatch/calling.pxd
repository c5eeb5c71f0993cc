from cpython.object cimport PyObject
# TypeError in PyTorch's words for arguments that no overload takes.
cdef object raise_mismatch(str name, list overloads, PyObject** args, Py_ssize_t n, PyObject* kwnames, int code, bint method)
cdef void enable_vectorcall(object kind, object instance, void* field, unsigned long flags) noexcept

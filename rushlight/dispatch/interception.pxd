from cpython.object cimport PyObject

# What modes and the arguments' types make of a call; PASS_BY where nobody takes it.
cdef object ask(object function, tuple args, dict keywords, list values)
cdef object intercept(object function, PyObject** args, Py_ssize_t n, PyObject* kwnames)
cdef str name_of(object function)

from cpython.object cimport PyObject

# What modes and the arguments' types make of a call; PASS_BY where nobody takes it.
cdef object ask(object function, tuple args, dict keywords, list values)
cdef object intercept(object function, PyObject** args, Py_ssize_t n, PyObject* kwnames)
# The same for functions in Python, spelled out; with the last, for modes alone.
cdef object intercept_python(
    object function, PyObject** args, Py_ssize_t n, PyObject* kwnames, object spelling, bint modal
)
cdef str name_of(object function)
# Notes a value in the order in which those who take calls are asked.
cdef object put_in_line(list found, type kind, object value)

from cpython.object cimport PyObject

cdef enum:
    MAX_ARGS = 24

# Arguments bound to a schema: borrowed from the caller, or owned by `made`.
ctypedef struct Bound:
    PyObject* slots[24]
    PyObject* made[24]
    int n_made
    int strict                      # a function's: lists are lists, `self` is `input`
    int exotic                      # an argument takes calls by its type
    PyObject* fault                 # a value of the right type that cannot be converted

cdef class Signature:
    cdef readonly str name
    cdef readonly int n_args
    cdef int n_positional
    cdef unsigned char kinds[24]
    cdef unsigned short flags[24]   # 1 written, 2 aliased by the result, 4 varargs
    cdef unsigned char list_size[24]
    cdef readonly tuple names
    cdef readonly tuple defaults    # Ellipsis: required
    cdef readonly tuple rows
    # 0 where the arguments fit; else a code for explain()
    cdef int bind(self, PyObject** args, Py_ssize_t n, PyObject* kwnames, Bound* bound) except -1
    cdef bint is_first_of_many(self, int i, PyObject* value, Bound* bound) except -1
    cdef int fill_defaults(self, Bound* bound) except -1
    cdef int gather(self, int i, PyObject** args, Py_ssize_t n, Bound* bound) except -1
    cdef int accept_slowly(self, int i, int kind, object item, Bound* bound) except -1
    cdef int bind_keyword(self, object key, PyObject* value, Bound* bound) except -1
    cdef int accept(self, int i, PyObject* value, Bound* bound) except -1
    cdef int find(self, object key)

# How many function modes are on, in all threads: none is asked where there is none.
cdef int watchers
# Whether a value takes calls by its type: nothing is converted before it was asked.
cdef bint asks(object item) except -1
# The same of a value, or of one in a list.
cdef bint asks_within(object item) except -1

cdef void release(Bound* bound) noexcept
cdef int own(Bound* bound, int slot, object value) except -1
cdef dict keyword_dict(PyObject** args, Py_ssize_t n, PyObject* kwnames)

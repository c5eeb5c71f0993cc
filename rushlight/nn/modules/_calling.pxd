from cpython.object cimport PyObject

# What calls of modules go through while a thread's operators are followed.
cdef class Follower:
    cdef object call(self, object module, dict fields, tuple args)

cdef set_follower(Follower follower)

# Whether anything is called beside a module's ``forward``, or instead of it.
cdef bint is_watched(object module, dict fields) except? -1
# The same, of what this module has alone.
cdef bint has_own(object module, dict fields) except? -1
# What the class of an object has by a name, as it lies there; or NULL.
cdef PyObject* class_attribute(object item, str name) noexcept

# A `__call__` of modules: a method by vectorcall.
cdef class ModuleCall:
    cdef void* vectorcall
    cdef dict __dict__

cdef ModuleCall module_call(void* entry, object documented)
# The arguments of a vectorcall as a tuple and a dict.
cdef tuple packed(PyObject** args, Py_ssize_t n, PyObject* kwnames)
# What a module's ``forward`` gives for a call's arguments, of which it is the first.
cdef object call_forward(object module, PyObject** args, Py_ssize_t n, PyObject* kwnames)

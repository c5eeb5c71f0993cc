from libc.stdint cimport int64_t
from rushlight.graph.program cimport Instruction
from rushlight.graph.tape cimport Call, Value

# Whether a constant is one of the integers.
cdef bint is_integer(object item) except -1

# The integers of a path and its program, and all else that they are.
cdef class Reading:
    cdef readonly list ints
    cdef readonly list marks
    cdef readonly list starts
    cdef readonly list sizes
    cdef readonly list windows
    cdef readonly list numbers
    cdef dict calls
    cdef object value(self, Value v)
    cdef object constant(self, object item)
    cdef object call(self, Call call)
    cdef object arguments(self, Call call)
    cdef object launch(self, Instruction step)
    cdef bint item(self, object item) except -1

# Makes calls and launches of those of a family, and of other integers.
cdef class Writing:
    cdef bytes held  # the integers, of its own: others ask the family meanwhile
    cdef int64_t* ints
    cdef Py_ssize_t at
    cdef int64_t next(self) noexcept
    cdef Value value(self, Value like)
    cdef object constant(self, object like)
    cdef Call call(self, Call like)
    cdef Instruction launch(self, Instruction like)
    cdef object item(self, object like, list calls, object number, tuple moves)

from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator

# What takes this view of `source` again from another base; `number`: which of several results.
cdef object replay_of(Operator op, Tensor source, PyObject** slots, int number)
# Lets a replayed view that was reshaped in place, from this offset, be replayed as it is now.
cdef int replay_reshaped(Tensor tensor, int64_t offset) except -1

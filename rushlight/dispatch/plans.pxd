from libc.stdint cimport int64_t

from rushlight.backends.cpu.launch cimport NativeKernel
from rushlight.core.tensor cimport Tensor

# How many threads are writing down a plan right now: nothing is asked while it is 0.
cdef int recording

# What functions that run kernels tell the plan that is being written down, if any.
cdef int note_fresh(Tensor made) except -1
cdef int note_launch(NativeKernel kernel, list operands, const int64_t* ints, int n_ints, int64_t total, int64_t grain) except -1
cdef int note_flag(Tensor flag) except -1
cdef int note_check() except -1
cdef int note_refused() except -1

# One int64 of this thread that a kernel overwrites when it meets a bad index, and a look at it.
cdef Tensor the_flag()
cdef bint taken_down(Tensor flag, int64_t* fault) except -1

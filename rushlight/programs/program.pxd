from libc.stdint cimport int64_t
from rushlight.backends.cpu.launch cimport NativeKernel
from rushlight.programs.tape cimport Call, Tape

cdef enum:
    OPERANDS = 24
    # what a step does
    RUN = 0                         # one call of the path
    LAUNCH = 1                      # one kernel
    # how a kernel goes over its elements
    FLAT = 0                        # one run of elements
    STRIDED = 1                     # two loops inside, the others here
    RAW = 2                         # as the integers say

cdef class Step:
    cdef int kind
    cdef readonly Call call
    cdef readonly NativeKernel kernel
    cdef int mode
    cdef int n
    cdef int bases[24]              # slots; -1 a constant, -2 - i the number of parameter i
    cdef int64_t shifts[24]         # bytes
    cdef list constants
    cdef int codes[24]              # the type that a parameter is passed in
    cdef double numbers[48]         # 16 bytes for each parameter
    cdef int64_t ints[96]
    cdef int n_ints
    cdef int64_t total
    cdef int64_t grain
    cdef int outer                  # loops outside of the kernel's own
    cdef int64_t sizes[8]
    cdef int64_t strides[24][8]
    cdef readonly list asked        # slots that get memory before
    cdef readonly list taken        # pairs of slots: the first gets the memory of the second
    cdef readonly list freed        # slots that nobody wants any more afterwards
    cdef readonly object told       # for those who read programs
    cdef object launch(self, Tape tape)

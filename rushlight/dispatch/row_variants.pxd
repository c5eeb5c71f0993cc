from libc.stdint cimport int64_t, uint64_t
from rushlight.runtime.cpu.launch cimport NativeKernel

cdef enum:
    ANY_WAY = 0
    CONTIGUOUS
    TRANSPOSED
    STRIDED

cdef class Ways:
    cdef readonly object source     # a Rowwise or a Reduction
    cdef readonly tuple kinds       # what it is specialised for
    cdef readonly bint several      # whether a launch chooses
    cdef readonly uint64_t varying  # operands that have an element for each place, as bits
    cdef readonly int64_t longest   # places of a row that is turned
    cdef list kernels
    cdef NativeKernel native(self, int way)

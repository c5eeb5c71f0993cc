from libc.stdint cimport int64_t

ctypedef void (*kernel_t)(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

cdef class NativeKernel:
    cdef kernel_t fn
    cdef readonly str name
    cdef object keep                # keeps the mapped image alive

# Runs fn over [0, total) in chunks of `grain` (or as one piece when total <= grain) on the pool; releases nothing, takes no GIL.
cdef void parallel_for(kernel_t fn, char** data, const int64_t* ints, int64_t total, int64_t grain) noexcept nogil

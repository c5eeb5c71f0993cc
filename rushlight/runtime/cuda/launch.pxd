from libc.stdint cimport int64_t

# cuLaunchKernel
ctypedef int (*launch_t)(
    void* function,
    unsigned int, unsigned int, unsigned int,
    unsigned int, unsigned int, unsigned int,
    unsigned int shared,
    void* stream,
    void** parameters,
    void** extra,
) noexcept nogil

cdef enum:
    MOST_DATA = 24                  # as in codegen.emit.device
    MOST_INTS = 64
    MOST_NUMBERS = 12
    ROOM = 440

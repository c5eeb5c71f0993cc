from libc.stdint cimport int64_t

# Places of figures among `COUNTS` and `BYTES`
cdef enum:
    ALLOCATIONS = 0
    SEGMENTS = 1
    ACTIVE = 2
    INACTIVE_SPLITS = 3
    ALLOCATED_BYTES = 4
    RESERVED_BYTES = 5
    ACTIVE_BYTES = 6
    INACTIVE_SPLIT_BYTES = 7
    REQUESTED_BYTES = 8

cdef class Figure:
    cdef public int64_t current, peak, allocated, freed
    cpdef int change(self, int64_t amount) except -1

cdef class Statistics:
    cdef readonly dict pools        # by name of a figure and of a kind of pool
    cdef readonly dict alone
    cdef public dict events
    cdef list rows                  # the same figures, three kinds of pool for each name
    cdef void change(self, int which, bint small, int64_t amount) noexcept

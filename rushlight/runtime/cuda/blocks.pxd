from libc.stdint cimport int64_t, uintptr_t

cpdef enum:
    UNIT = 512
    SMALL = 1 << 20                 # requests up to here are small
    SMALL_SEGMENT = 2 << 20
    MIDDLE = 10 << 20               # requests below here share segments
    MIDDLE_SEGMENT = 20 << 20
    ROUND_LARGE = 2 << 20

cdef class Block:
    cdef readonly uintptr_t address
    cdef readonly int64_t size
    cdef readonly int64_t asked     # bytes, before rounding
    cdef readonly Pool pool
    cdef readonly object stream     # the handle of the queue that it is used on
    cdef readonly Segment segment
    cdef readonly Block before      # the segment's neighbouring parts
    cdef readonly Block after
    cdef readonly bint taken
    cdef readonly set users         # other queues that use it; None: there are none
    cdef readonly int waits         # events that it waits for before it is free
    cpdef bint is_free(self) noexcept
    cdef int join(self, Block neighbour) except -1
    cdef Block split(self, int64_t size)

cdef class Segment:
    cdef readonly uintptr_t address
    cdef readonly int64_t size
    cdef readonly Pool pool
    cdef readonly object stream
    cdef readonly Block first

cdef class Pool:
    cdef readonly bint small
    cdef readonly tuple name        # GENERAL, or that of a graph's or user's own memory
    cdef readonly dict rows         # by queue: blocks, sorted by size and address
    cdef int add(self, Block block) except -1
    cdef int remove(self, Block block) except -1
    cdef Block best(self, object stream, int64_t size, int64_t limit)

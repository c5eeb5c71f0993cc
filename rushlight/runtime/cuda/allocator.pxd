from libc.stdint cimport int64_t, uintptr_t
from rushlight.runtime.cuda.blocks cimport Block, Pool
from rushlight.runtime.cuda.memory_stats cimport Statistics

cdef class DeferredLock:
    cdef Allocator owner
    cdef object lock, acquire, release
    cdef readonly int depth
    cdef list late                  # addresses that came back meanwhile
    cdef int enter(self) except -1
    cdef int leave(self) except -1

cdef class Allocator:
    cdef readonly object ctx
    cdef readonly DeferredLock guard
    cdef readonly object settings
    cdef int64_t largest_cut        # of the settings
    cdef bint evenly                # whether sizes are rounded to units alone
    cdef readonly Statistics statistics
    cdef readonly dict pools        # by name: for small and large requests
    cdef readonly dict segments     # by address
    cdef readonly dict blocks       # those that are taken, by address
    cdef readonly dict waiting               # by queue: events and the blocks that wait for them
    cdef list idle                  # events to be used again
    cdef list held                  # blocks given back while a graph is being written down
    cdef public int writing         # graphs that are being written down
    cdef readonly list routes                # (pool's name, whether a queue's requests go there)
    cdef readonly dict holders      # how often a pool of somebody's own is in use
    cdef readonly double share      # of the device's memory that may be taken
    cdef readonly object limit               # the same in bytes, when it is known
    # Memory for the queue of a handle; more than nothing.
    cdef uintptr_t take(self, int64_t n_bytes, object stream) except? 0
    cdef Block take_block(self, int64_t n_bytes, object stream)
    cdef int let_go_of(self, uintptr_t address) except -1
    cpdef give_back(self, uintptr_t address)
    cdef Pool pool_for(self, int64_t size, object stream)
    cdef Block find(self, Pool pool, int64_t size, object stream)
    cdef bint may_cut(self, Block block, int64_t size) noexcept
    cdef int cut(self, Block block, int64_t size) except -1
    cdef int count(self, Block block) except -1
    cdef int settle(self, Block block) except -1
    cdef int take_in(self, Block block, Block neighbour) except -1

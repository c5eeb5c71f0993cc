from libc.stdint cimport int64_t

# At least `size` bytes that are the calling thread's own until its next call; NULL where there is no memory.
cdef char* scratch(int64_t size) noexcept nogil

from libc.stdint cimport int64_t

# All switches of the process in one number: what a plan or a compiled call was made under.
cdef int64_t switch_bits() noexcept

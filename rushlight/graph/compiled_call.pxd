from libc.stdint cimport int64_t

# How many elements the largest of some arguments has.
cdef int64_t most_of(object items) except -2

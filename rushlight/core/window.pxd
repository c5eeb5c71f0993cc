from libc.stdint cimport int64_t
from rushlight.core.storage cimport Storage

# Integers of a Python sequence; returns how many.
cdef int read_sizes(object sizes, int64_t* into) except -1
# RuntimeError for a stride below zero, and for a window that leaves its storage.
cdef int refuse_negative(int ndim, const int64_t* strides) except -1
cdef int check_window(Storage storage, int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int64_t itemsize) except -1

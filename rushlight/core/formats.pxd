from libc.stdint cimport int64_t

# Strides of a fresh tensor in a memory format; RuntimeError where it has too few dimensions.
cdef int format_strides(int ndim, const int64_t* sizes, int64_t* strides, object memory_format) except -1

from libc.stdint cimport int64_t

cdef extern from *:
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil

# The number of elements; RuntimeError where it, or a size, is not an int64 from 0 up.
cdef int64_t count_elements(int ndim, const int64_t* sizes) except -1
# Bytes from the storage's start to the end of the last element; 0 where there is none.
# Strides NULL means row-major. RuntimeError where the number is none of 63 bits.
cdef int refuse_window(int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int64_t itemsize, size_t n_bytes) except -1
cdef int64_t span(int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int64_t itemsize) except -1
cdef int64_t multiply(int64_t a, int64_t b) except? -1

cdef bint is_contiguous(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint is_channels_last(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint is_dense(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint overlaps_itself(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef int row_major(int ndim, const int64_t* sizes, int64_t* strides) noexcept nogil
# Strides that show `old` geometry as `sizes`, without copying; 0 where that cannot be.
cdef bint view_strides(int ndim, const int64_t* sizes, const int64_t* strides,
                       int new_ndim, const int64_t* new_sizes, int64_t* new_strides) noexcept nogil
cdef int wrap_dim(int64_t dim, int ndim, bint scalar_ok=*) except -1

from libc.stdint cimport int64_t

cdef bint is_contiguous(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint is_channels_last(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint is_dense(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef bint overlaps_itself(int ndim, const int64_t* sizes, const int64_t* strides) noexcept nogil
cdef int row_major(int ndim, const int64_t* sizes, int64_t* strides) noexcept nogil
# Strides that show `old` geometry as `sizes`, without copying; 0 where that cannot be.
cdef bint view_strides(int ndim, const int64_t* sizes, const int64_t* strides,
                       int new_ndim, const int64_t* new_sizes, int64_t* new_strides) noexcept nogil
cdef int wrap_dim(int64_t dim, int ndim, bint scalar_ok=*) except -1

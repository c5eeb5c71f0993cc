from libc.stdint cimport int64_t

cdef enum:
    PARALLEL_WORK = 393216          # multiplications below which a second thread costs more

# Of the result: a block's rows and columns, and how many blocks there are.
ctypedef struct Blocks:
    int64_t rows
    int64_t columns
    int64_t chunks

cdef int64_t covering(int64_t count, int64_t size) noexcept
cdef Blocks cut(
    int64_t rows, int64_t columns, int64_t depth, int64_t batch, bint direct,
    int64_t capacity, int64_t width, int threads)
cdef Blocks cut_for_dots(
    int64_t rows, int64_t columns, int64_t depth, int64_t batch, int64_t threads)
cdef Blocks cut_for_tiles(
    int64_t rows, int64_t columns, int64_t depth, int64_t batch, int64_t capacity,
    int threads)

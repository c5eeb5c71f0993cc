from libc.stdint cimport int64_t

# The largest order of matrices that these tasks are for.
cdef enum:
    SMALL = 16
    # The largest whose factorization is repeated where a pivot is zero.
    REPEATED = 128

# Tasks named as the routines they stand for, for real numbers and small orders.
cdef int small_potrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int small_potrs(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int small_getrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int repeated_getrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int small_getrs(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int small_trsm(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int small_qr(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

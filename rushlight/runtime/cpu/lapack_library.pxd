ctypedef void (*set_threads_t)(int number) noexcept nogil

# The numbers of the routines.
cdef enum:
    POTRF = 0
    POTRI = 1
    POTRS = 2
    GETRF = 3
    GETRS = 4
    TRSM = 5
    GEQRF = 6
    ORGQR = 7
    ORMQR = 8
    GESDD = 9
    GEEV = 10
    SYEVD = 11
    SYTRF = 12
    SYTRS = 13
    HETRF = 14
    HETRS = 15
    GELS = 16
    GELSY = 17
    GELSD = 18
    GELSS = 19

cdef char* routine(int number, int kind)
cdef int use_threads(int wanted) except? -1

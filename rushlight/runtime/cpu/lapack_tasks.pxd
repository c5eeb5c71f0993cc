# Routines of LAPACK and BLAS as Fortran has them: every argument is an address, and the
# lengths of the letters follow. One type stands for all four number types.
from libc.stdint cimport int64_t

ctypedef void (*set_threads_t)(int number) noexcept nogil
ctypedef void (*potrf_t)(char* uplo, int* n, char* a, int* lda, int* info, size_t) noexcept nogil
ctypedef void (*potrs_t)(char* uplo, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, int* info, size_t) noexcept nogil
ctypedef void (*getrf_t)(int* m, int* n, char* a, int* lda, int* ipiv, int* info) noexcept nogil
ctypedef void (*getrs_t)(char* trans, int* n, int* nrhs, char* a, int* lda, int* ipiv, char* b, int* ldb, int* info, size_t) noexcept nogil
ctypedef void (*trsm_t)(char* side, char* uplo, char* trans, char* diag, int* m, int* n, char* alpha, char* a, int* lda, char* b, int* ldb, size_t, size_t, size_t, size_t) noexcept nogil
ctypedef void (*geqrf_t)(int* m, int* n, char* a, int* lda, char* tau, char* work, int* lwork, int* info) noexcept nogil
ctypedef void (*orgqr_t)(int* m, int* n, int* k, char* a, int* lda, char* tau, char* work, int* lwork, int* info) noexcept nogil
ctypedef void (*ormqr_t)(char* side, char* trans, int* m, int* n, int* k, char* a, int* lda, char* tau, char* c, int* ldc, char* work, int* lwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*gesdd_t)(char* jobz, int* m, int* n, char* a, int* lda, char* s, char* u, int* ldu, char* vt, int* ldvt, char* work, int* lwork, int* iwork, int* info, size_t) noexcept nogil
ctypedef void (*gesdd_c)(char* jobz, int* m, int* n, char* a, int* lda, char* s, char* u, int* ldu, char* vt, int* ldvt, char* work, int* lwork, char* rwork, int* iwork, int* info, size_t) noexcept nogil
ctypedef void (*geev_t)(char* jobvl, char* jobvr, int* n, char* a, int* lda, char* wr, char* wi, char* vl, int* ldvl, char* vr, int* ldvr, char* work, int* lwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*geev_c)(char* jobvl, char* jobvr, int* n, char* a, int* lda, char* w, char* vl, int* ldvl, char* vr, int* ldvr, char* work, int* lwork, char* rwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*syevd_t)(char* jobz, char* uplo, int* n, char* a, int* lda, char* w, char* work, int* lwork, int* iwork, int* liwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*syevd_c)(char* jobz, char* uplo, int* n, char* a, int* lda, char* w, char* work, int* lwork, char* rwork, int* lrwork, int* iwork, int* liwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*sytrf_t)(char* uplo, int* n, char* a, int* lda, int* ipiv, char* work, int* lwork, int* info, size_t) noexcept nogil
ctypedef void (*sytrs_t)(char* uplo, int* n, int* nrhs, char* a, int* lda, int* ipiv, char* b, int* ldb, int* info, size_t) noexcept nogil
ctypedef void (*gels_t)(char* trans, int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, char* work, int* lwork, int* info, size_t) noexcept nogil
ctypedef void (*gelsy_t)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, int* jpvt, char* rcond, int* rank, char* work, int* lwork, int* info) noexcept nogil
ctypedef void (*gelsy_c)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, int* jpvt, char* rcond, int* rank, char* work, int* lwork, char* rwork, int* info) noexcept nogil
ctypedef void (*gelss_t)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, char* s, char* rcond, int* rank, char* work, int* lwork, int* info) noexcept nogil
ctypedef void (*gelss_c)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, char* s, char* rcond, int* rank, char* work, int* lwork, char* rwork, int* info) noexcept nogil
ctypedef void (*gelsd_t)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, char* s, char* rcond, int* rank, char* work, int* lwork, int* iwork, int* info) noexcept nogil
ctypedef void (*gelsd_c)(int* m, int* n, int* nrhs, char* a, int* lda, char* b, int* ldb, char* s, char* rcond, int* rank, char* work, int* lwork, char* rwork, int* iwork, int* info) noexcept nogil

# Tasks: one loop over matrices `begin` to `end` of a batch each.
cdef int run_potrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_potrs(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_getrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_getrs(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_trsm(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_qr(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_ormqr(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_gesdd(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_syevd(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_geev(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_sytrf(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
cdef int run_lstsq(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

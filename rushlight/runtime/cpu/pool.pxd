from libc.stdint cimport int64_t

ctypedef int (*task_t)(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

cdef enum:
    MAX_THREADS = 256
    MAX_CHUNKS = 2048               # eight for each thread: who ends last has an eighth more

cdef int n_threads                  # that share a kernel's work, the caller included

# One participant's share of the chunks, alone on its cache line.
cdef struct Share:
    int64_t next
    int64_t end
    int64_t padding[6]

# A parallel_for under way; lives on its caller's stack.
cdef struct Job:
    task_t task
    char** data
    const int64_t* ints
    int64_t total
    int64_t chunk
    int64_t active                  # workers inside; guarded by the pool's mutex
    int64_t owner                   # the caller's thread, where its kernels are timed; or 0
    int n_shares
    int faults                      # what chunks returned, joined by `or`
    Job* following
    Share shares[256]

# Runs task over [0, total) in chunks that depend on `total` and `grain` alone.
# Returns what the chunks did, joined by `or`: 0 where nothing went wrong.
cdef int run_chunks(task_t task, char** data, const int64_t* ints, int64_t total, int64_t grain) noexcept nogil

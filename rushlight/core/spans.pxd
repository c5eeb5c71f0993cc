from cpython.object cimport PyObject
from libc.stdint cimport int64_t

cdef enum:
    # What a span is of: Span.kind
    SPAN_OPERATOR = 0
    SPAN_BACKWARD = 1               # the sweep at one node, hooks and accumulation included
    SPAN_NODE = 2                   # the node's own formula
    SPAN_ANNOTATION = 3             # a block that was given a name
    SPAN_PROGRAM = 4                # a compiled program, or one of its kernels
    SPAN_MEMORY = 5                 # a block taken or given back: no length

# Whether memory is watched: blocks that are taken and given back leave a span of no length.
cdef bint watching_memory
# Whether anything is recorded in any thread.
cdef bint recording_spans

# Whether the calling thread is recorded.
cdef bint is_profiled() noexcept
# Begins a span of the calling thread; the token ends it. -1: nothing is recorded.
cdef int64_t begin_span(int kind, object what, object info, int64_t sequence) except -2
cdef void end_span(int64_t token) noexcept
# A block of memory that was taken (more bytes) or given back (fewer); the GIL is held.
cdef void note_block(void* block, int64_t change) noexcept

# Whether kernels of recorded threads are timed; read without the GIL.
cdef bint timing_kernels

# A kernel's launch, or what one thread of the pool did of it.
ctypedef struct KernelSpan:
    int64_t start
    int64_t end
    int64_t owner                   # Python's number of the thread that launched it
    int64_t thread                  # the system's number of the thread that ran
    int64_t total                   # of a launch its length, of a worker its chunks
    void* fn                        # where the machine code starts
    int worker                      # 0: the launch itself, by the thread that launches

# Nanoseconds of the clock that never goes back.
cdef int64_t now() noexcept nogil
# Python's number of the calling thread, where its kernels are timed, or 0.
cdef int64_t timed_thread() noexcept nogil
# When a kernel begins; 0 where the calling thread's are not timed.
cdef int64_t begin_kernel() noexcept nogil
# Writes a span of a kernel that began then.
cdef void end_kernel(void* fn, int64_t total, int64_t begun, int64_t owner, int worker) noexcept nogil

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

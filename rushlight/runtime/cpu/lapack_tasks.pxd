# Routines of LAPACK and BLAS as Fortran has them: every argument is an address, and the
# lengths of the letters follow the last one. As many are always passed: who is called
# takes its own.
from libc.stdint cimport int64_t

from rushlight.core.tensor cimport Tensor
from rushlight.runtime.cpu.launch cimport kernel_t

ctypedef void (*routine_t)(
    void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
    void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
) noexcept nogil

# A routine that small matrices call, too.
ctypedef void (*getrf_t)(int* m, int* n, char* a, int* lda, int* ipiv, int* info) noexcept nogil

cdef enum:
    MOST_ARGUMENTS = 20  # the lengths of letters included

# What an argument is, by three integers of a call: its kind and what the kind says.
cdef enum:
    ARG_NUMBER  # the address of a number or letter
    ARG_EACH  # a matrix's place: which of the call's addresses, bytes between matrices
    ARG_WORKSPACE  # memory whose length the routine tells: bytes of an element, a form
    ARG_LENGTH  # the length of a workspace: the number of its argument
    ARG_MEMORY  # memory: bytes
    ARG_ZEROS  # memory that is cleared for each matrix: bytes
    ARG_BITS  # the address of an integer of the call: which
    ARG_CODE  # the address of a code that nobody reads
    ARG_NOTHING  # no address

# How a routine tells a length at the beginning of a workspace.
cdef enum:
    LENGTH_AS_FLOAT
    LENGTH_AS_DOUBLE
    LENGTH_AS_INT

# A call as the pool's task takes it: ``ints`` holds the number of arguments, three integers
# for each, and two of whatever ARG_BITS points to.
cdef struct LapackCall:
    char* data[8]
    int64_t ints[63]
    int addresses

# The arguments of one thread's call, and the memory that is freed after it.
cdef struct IndexOffsets:
    void* at[20]
    void* held[20]
    int numbers[20]
    double asked[40]

# Tasks: one loop over matrices `begin` to `end` of a batch each.
cdef int run_routine(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil
# Whether this thread's launches are all written down.
cdef bint recorded() noexcept
cdef int unpack_pairs(char** data, const int64_t* ints, int64_t begin, int64_t end) noexcept nogil

# A call is put together in the order of its routine's arguments.
cdef int begin_call(LapackCall* c, int number, int kind) except? -1
cdef int argument(LapackCall* c, int what, int64_t a, int64_t b) noexcept
cdef void number(LapackCall* c, int64_t value) noexcept
cdef void numbers(LapackCall* c, int64_t* ints, int count) noexcept
cdef void each(LapackCall* c, char* first, int64_t step) noexcept
cdef void matrices(LapackCall* c, Tensor a) noexcept
cdef void each_code(LapackCall* c, Tensor codes) noexcept
cdef void queried(LapackCall* c, int64_t item, int64_t form, bint length) noexcept
cdef void bits(LapackCall* c, int64_t kind, double value) noexcept
cdef int64_t real_bytes(int64_t kind) noexcept
cdef int call_each(LapackCall* c, int64_t count, int64_t work) except? -1
cdef int spread(kernel_t task, char** data, int64_t* ints, int64_t count, int64_t work) except? -1

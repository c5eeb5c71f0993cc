from libc.stdint cimport int64_t

cdef enum:
    MAX_OPERANDS = 12
    PLAN_DIMS = 64

ctypedef struct Operand:
    char* data
    int ndim
    const int64_t* sizes
    const int64_t* strides      # in elements
    int itemsize

# One N-d loop for all operands; dimension 0 is the innermost. Strides in bytes.
ctypedef struct LoopPlan:
    int ndim
    int n_operands
    int64_t sizes[64]
    int64_t strides[12][64]

cdef int broadcast_operands(Operand* operands, int count, int64_t* sizes) except -1
# Strides for a fresh output: the inputs' common order of dimensions. True where row-major.
cdef bint output_strides(Operand* inputs, int count, int ndim, const int64_t* sizes, int64_t* strides) noexcept nogil
# Sort dimensions by stride and merge those that continue each other.
cdef void make_plan(LoopPlan* plan, Operand* operands, int count, int ndim, const int64_t* sizes) noexcept nogil

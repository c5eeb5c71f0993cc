from libc.stdint cimport int64_t, uintptr_t
from rushlight.core.device cimport Backend, PlannedLaunch
from rushlight.core.state cimport ThreadState
from rushlight.runtime.cuda.allocator cimport Allocator

# cuLaunchKernel
ctypedef int (*launch_t)(
    void* function,
    unsigned int, unsigned int, unsigned int,
    unsigned int, unsigned int, unsigned int,
    unsigned int shared,
    void* stream,
    void** parameters,
    void** extra,
) noexcept nogil

# cublasLtMatmul, and cublasLtMatmulDescSetAttribute
ctypedef int (*matmul_t)(
    void* handle, void* described, void* alpha,
    void* left, void* left_layout, void* right, void* right_layout, void* beta,
    void* added, void* added_layout, void* out, void* out_layout,
    void* algorithm, void* room, size_t n_bytes, void* stream,
) noexcept nogil
ctypedef int (*set_attribute_t)(void* described, int which, void* value, size_t n_bytes) noexcept nogil

cdef enum:
    MOST_DATA = 24                  # as in codegen.schedule.gpu_lowering
    MOST_INTS = 64
    MOST_NUMBERS = 12
    ROOM = 440
    MOST_DEVICES = 16                 # that a thread's state has queues of

# A device, as far as launches are concerned.
cdef class DeviceContext:
    cdef readonly int index
    cdef readonly int64_t serial    # no other device of the process ever has it
    cdef public Allocator allocator
    cdef public uintptr_t fault     # where kernels note what they refuse; 0: not yet
    cdef uintptr_t queue(self, ThreadState* st) except? 1

# One launch but for its pointers and numbers: made once for a layout, then repeated.
cdef class LaunchPlan(PlannedLaunch):
    cdef readonly DeviceContext context
    cdef readonly object kernel
    cdef uintptr_t function
    cdef readonly unsigned int grid, threads, shared
    cdef readonly bint elementwise  # it takes numbers, and no chunk
    cdef int64_t total, chunk
    cdef int n_data                 # pointers
    cdef int64_t ints[64]
    cdef int take_addresses(self, tuple addresses, char** data) except -1
    cdef int put_with(self, char** data, double* numbers, int64_t* ints) except -1

# A product by cuBLASLt but for its addresses.
cdef class ProductPlan(PlannedLaunch):
    cdef readonly DeviceContext context
    cdef readonly object prepared
    cdef object otherwise, still_holds
    cdef void* words[12]            # what the library is given, see `ProductPlan`
    cdef int64_t n_bytes
    cdef uintptr_t aligned[4]
    cdef int multiply(self, char** data) except -1

# A kernel of devices: its plans by layout.
cdef class CachedKernel:
    cdef readonly dict plans

cdef class CompiledBackend(Backend):
    pass

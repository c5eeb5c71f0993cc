from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from rushlight.runtime.cpu.launch cimport NativeKernel, kernel_t
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Kernel, Operator

cdef class ReductionKernel(Kernel):
    cdef readonly object source     # compiler.reduction.Reduction
    cdef str rule
    cdef str name
    cdef int dim_at                 # positions of arguments, -1 where there are none
    cdef int keepdim_at
    cdef int dtype_at
    cdef int correction_at
    cdef int n_outputs
    cdef bint positional            # results are positions: the order of loops matters
    cdef bint in_parts              # it may be applied to its own results
    cdef bint nonempty              # of no elements it does not exist
    cdef dict special               # (input, output, compute) names -> Ways
    cdef uint64_t reduced_dims(self, Tensor x, object dim) except? 0
    cdef DType result_dtype(self, Tensor x, object wanted)
    cdef object find(self, Tensor x, DType out)
    cdef object reduce(self, Tensor x, uint64_t gone, bint keepdim, object wanted, object correction)
    cdef int check_freedom(self, int64_t count, object correction) except -1
    cdef int check_real(self, object wanted) except -1
    cdef object check_empty(self, Tensor x, uint64_t gone)
    cdef int check_size(self, Tensor x, int d) except -1
    cdef object launch(self, Tensor x, Tensor out, Tensor second, uint64_t gone, bint keepdim, int64_t count, double number, object found)

from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from rushlight.runtime.cpu.launch cimport NativeKernel, kernel_t
from rushlight.core.device cimport Device
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Kernel, Operator
from rushlight.dispatch.loops cimport Call

cdef bint steps_freely(Tensor t) noexcept

cdef class PointwiseKernel(Kernel):
    cdef readonly object source     # compiler.pointwise.Pointwise
    cdef int n_operands
    cdef unsigned char positions[12]
    cdef tuple static_positions
    cdef int n_outputs
    cdef int rule
    cdef object rule_function
    cdef unsigned int promoting     # bit i: operand i takes part in promotion
    cdef int mask_at                # argument that must be boolean, or -1
    cdef int n_optional             # trailing numbers left out where they equal the default
    cdef object defaults
    cdef kernel_t native[256]       # by left-out operands and compute dtype: nothing mixed, no statics
    cdef short native_result[256]   # dtype code of what native[i] writes
    cdef Tensor run_uniform(self, Operator op, PyObject** slots, int count)
    cdef dict special
    cdef dict device_kernels                 # kernels of other devices, by kind and as `native`
    cdef object checker             # refuses operands by their types, or None
    cdef unsigned int wide          # bit i: a number is not rounded to half precision
    cdef bint alone_wide            # and of the very type, too: its kernel rounds in between
    cdef int wide_lone              # operand that is not, if it has one element; or -1
    cdef bint swapped               # the second operand comes first where layouts differ
    cdef unsigned int strict        # bit i: a number must be within the type's range
    cdef unsigned int shaped        # bit i: a number counts as a tensor of no dimension
    cdef bint copied                # layouts count as those of dense copies
    cdef bint plain_result          # a new result is row-major
    cdef int kept                   # by category: a new result has the operand's strides
    cdef int resolve(self, Call* call) except -1
    cdef int check_operands(self, Call* call) except -1
    cdef object compute_types(self, Call* call)
    cdef bint result_strides(self, Call* call, int64_t* strides) noexcept
    cdef bint keeps_steps(self, Call* call) noexcept
    cdef Tensor fresh_output(self, Call* call, int code, Device device)
    cdef int prepare_target(self, Tensor t, Call* call, Operator op, DType result) except -1
    cdef int place_targets(self, Operator op, Call* call, list targets, tuple outs) except -1
    cdef int refuse_reading(self, Tensor t, Call* call) except -1
    cdef Tensor run_converted(self, Operator op, PyObject** slots, Call* call, Tensor target, DType result)
    cdef tuple resolve_by_function(self, Call* call)
    cdef object run_form(self, Operator op, PyObject** slots, Call* call, tuple statics, tuple outs)
    cdef NativeKernel find(self, Call* call, tuple statics, tuple outs)
    cdef tuple operand_types(self, Call* call)
    cdef object find_for_device(self, Call* call, Device device, tuple statics, tuple outs)

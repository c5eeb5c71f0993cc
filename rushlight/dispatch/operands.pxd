from libc.stdint cimport int64_t
from rushlight.core.device cimport Device
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.loops cimport Call

cdef enum:
    BESIDE_NUMBER = 1 << 12  # of `shaped`: results are laid out as beside a number
    HALVES_ROUND = 1 << 30   # of `strict`: a half takes what is too large for infinite

cdef int code_of_number(object value) except -2
cdef int promote_call(Call* call, unsigned int promoting) except -1
cdef int add_operand(Call* call, object value) except -1
# Shape, device and uniformity of the inputs; an error names the operator.
cdef int examine(Call* call, str name) except -1
cdef str describe(Call* call, str name)
cdef int number_code(int compute, bint wide) noexcept
cdef int store_numbers(Call* call, unsigned int wide, unsigned int strict) except -1
cdef int set_output(Call* call, int k, Tensor t) except -1
# True where the strides that suit the inputs are row-major.
cdef bint strides_of_result(Call* call, unsigned int promoting, bint swapped, bint copied, unsigned int shaped, int64_t* strides) noexcept
cdef Tensor laid_out(Call* call, int code, Device device)
cdef Device device_of_call(Call* call)
cdef bint same_sizes(Tensor t, Call* call) noexcept
cdef int refuse_growth(Tensor t, Call* call) except -1

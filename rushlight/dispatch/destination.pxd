from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator

# The output that a function's last elementwise call may write, or NULL.
cdef PyObject* destination

cdef bint may_write(Operator op, PyObject** slots, uint64_t keys, object target) noexcept
cdef object run_direct(Operator op, PyObject** slots, uint64_t keys, Tensor target)
cdef Tensor take_destination(int ndim, const int64_t* sizes, int code, PyObject** operands, int count)
cdef bint large(Tensor t) noexcept
cdef bint wants_graph(Operator op, PyObject** slots) noexcept

from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator
from rushlight.dispatch.python_kernels cimport PythonKernel
from rushlight.graph.tape cimport Call, Tape

# What an operator may be noted as.
cdef object loaded(Operator op, uint64_t keys)
cdef bint may_be_parts(Operator op, uint64_t keys) except -1
cdef bint may_be_one(Operator op) except -1
cdef int never_one(Operator op) except -1
cdef bint draws(Operator op) except -1
cdef bint drops(Operator op, PyObject** slots) except -1
cdef bint any_wants(Operator op, PyObject** slots) except -1
cdef bint has_known_sizes(Operator op) except -1
cdef bint sizes_hang_on_elements(Operator op, PyObject** slots) except -1

# Whether this operator makes memory now that is written to.
cdef bint fills(Operator op) except -1

# A call as it is before it runs, and what it gave.
cdef Call noted(Tape tape, Operator op, PyObject** slots, uint64_t keys)
cdef bint note_results(Tape tape, Call call, Operator op, PyObject** slots, object result) except -1
cdef bint keep_roots(Call call, Operator op, PyObject** slots, object result) except -1
cdef bint keeps_looks(Tape tape, Call call, PyObject** slots) except -1
cdef bint writes_given(Call call) except -1
cdef object keep_view(Tape tape, Operator op, PyObject** slots, object result)

# Whether an operator's floats change values only, and whether a kernel is compiled for one.
cdef bint floats_vary(Operator op) except -1
cdef bint is_static(Operator op, int i) except -1

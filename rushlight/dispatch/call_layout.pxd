from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator

# What a call's path follows from, as up to 200 integers: their number, or -1 where that is
# not all of it. `allowed` are the keys that operands may have.
cdef int describe(Operator op, PyObject** slots, int64_t* words, uint64_t allowed) except -2
# One argument, behind `n` integers: how many there are then.
cdef int describe_one(object item, int64_t* words, int n, uint64_t allowed) except -2
cdef int describe_text(str item, int64_t* words, int n) except -2
cdef int describe_tensor(Tensor t, int64_t* words, int n, uint64_t allowed) except -2
cdef int describe_place(Tensor t, int64_t* words, int n) except -2
# The same of which tensors share memory.
cdef int describe_sharing(list tensors, int64_t* words, int n) except -2

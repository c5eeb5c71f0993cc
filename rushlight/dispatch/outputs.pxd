from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor

cdef enum:
    CAST = 0
    EXACT = 1
    ANY = 2
    JOINED = 3
    KERNEL = 4
    TRUTH = 5
    FIELD = 6
    LONE = 7

cdef str type_name(DType dtype)
cdef str plain_name(DType dtype)
cdef int check_output_type(int rule, DType result, Tensor target, str name) except -1
cdef int fit_output(Tensor target, int ndim, const int64_t* sizes, const int64_t* strides, bint quiet) except -1
cdef resize_output(Tensor target, list wanted, bint quiet)
cpdef prepared(str name, Tensor target, object sizes, bint quiet=*, tuple operands=*)
cdef int fit_like(Tensor target, Tensor result, bint quiet, bint plain) except -1
cdef int refuse_shared(PyObject** slots, int first, int last, Tensor target, int least) except -1
cdef int refuse_reading(PyObject** slots, int last, object target, int overlap) except -1
cpdef warn_of_expanded(str name)
cpdef write_to_overlapping(Tensor target, Tensor result, bint changed_only)
cdef refuse_gradient(str name)
cdef refuse_output(str name, object target, Tensor result)

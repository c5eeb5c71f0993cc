from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.loops cimport Call

# Values moved on devices whose backend is asked.
cdef class Copies:
    # Whether generated kernels run where a tensor is; whether they read the source, too.
    cdef bint compiles(self, Tensor t) noexcept
    cdef bint reaches(self, Tensor target, Tensor source) noexcept
    # Runs the copy of a prepared call.
    cdef int run(self, Call* call, DType source, Tensor target, object value) except -1
    # Converts and broadcasts values of a size that fits.
    cdef int move(self, Tensor target, Tensor source, bint same, bint non_blocking) except -1
    # Refuses to give values that there are none of.
    cdef int refuse_source(self) except -1
    # The tensor, or the same window on a copy of its storage on the host.
    cdef Tensor host_copy(self, Tensor t)
    # Writes what a tensor of the host's holds.
    cdef int take(self, Tensor target, Tensor here, bint non_blocking) except -1
    # Writes one number everywhere; in a new tensor, a backend without kernels its own way.
    cdef int put(self, Tensor target, object value) except -1
    cdef int fill(self, Tensor result, object value) except -1
    # Writes a tensor's values into a new one.
    cdef int convert(self, Tensor result, Tensor source, bint non_blocking) except -1
    # Writes tensors behind one another along a dimension.
    cdef int join(self, Tensor out, list parts, int axis) except -1

cdef class HostCopies(Copies):
    cdef bint compiles(self, Tensor t) noexcept
    cdef bint reaches(self, Tensor target, Tensor source) noexcept
    cdef int run(self, Call* call, DType source, Tensor target, object value) except -1
    cdef Tensor host_copy(self, Tensor t)
    cdef int take(self, Tensor target, Tensor here, bint non_blocking) except -1
    cdef int convert(self, Tensor result, Tensor source, bint non_blocking) except -1

cdef class MetaCopies(Copies):
    cdef int move(self, Tensor target, Tensor source, bint same, bint non_blocking) except -1
    cdef int refuse_source(self) except -1
    cdef int put(self, Tensor target, object value) except -1
    cdef int fill(self, Tensor result, object value) except -1
    cdef int join(self, Tensor out, list parts, int axis) except -1

cdef Copies copies_of(Tensor tensor)

from libc.stdint cimport int64_t
from rushlight.core.tensor cimport Tensor

cdef int64_t NO_FAULT
cdef int64_t LATER

# Reading by an index; this one is of devices whose backend is asked.
cdef class IndexedReads:
    cdef object flags  # of each thread the one that its last call was given
    # Copies slices of (outer, size, inner); what is bad, NO_FAULT, or LATER.
    cdef int64_t pick(self, Tensor out, Tensor x, Tensor index, int64_t outer, int64_t size, int64_t inner, int wrap) except? 0
    cdef int64_t copy_rows(self, Tensor out, Tensor x, Tensor index, int64_t outer, int64_t size, int64_t width, int wrap) except? 0
    # Copies an element for each place; extents are outer, count, size, inner.
    cdef int64_t gather(self, Tensor out, Tensor x, Tensor positions, int64_t* extents) except? 0
    # Says what is raised if the last call of this thread met what is bad.
    cdef int refuse_later(self, str operator, object make, tuple args) except -1
    # An index of this device's for a tensor of another's, or an error.
    cdef Tensor bring(self, Tensor x, Tensor index)
    # Indices where the tensor is.
    cdef list take(self, Tensor x, list indices)

cdef class HostIndexedReads(IndexedReads):
    cdef int64_t copy_rows(self, Tensor out, Tensor x, Tensor index, int64_t outer, int64_t size, int64_t width, int wrap) except? 0
    cdef int64_t gather(self, Tensor out, Tensor x, Tensor positions, int64_t* extents) except? 0
    cdef Tensor bring(self, Tensor x, Tensor index)

cdef class MetaIndexedReads(IndexedReads):
    cdef int64_t pick(self, Tensor out, Tensor x, Tensor index, int64_t outer, int64_t size, int64_t inner, int wrap) except? 0
    cdef int64_t gather(self, Tensor out, Tensor x, Tensor positions, int64_t* extents) except? 0
    cdef list take(self, Tensor x, list indices)

cdef IndexedReads reads_of(Tensor tensor)

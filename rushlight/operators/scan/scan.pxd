from libc.stdint cimport int64_t
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor

# Scans on devices whose backend is asked; extents are outer, size, inner.
cdef class Scans:
    # Writes what a kernel makes of the elements so far, in the result's type.
    cdef int cumulate(self, str name, Tensor out, Tensor x, int64_t* extents) except -1
    # Writes the extremes so far, and where they were.
    cdef int extremes(self, Tensor out, Tensor index, Tensor x, int64_t* extents, int largest) except -1
    # Launches a scan: the backend's own, or one that takes a thread for a row.
    cdef int run(self, str name, DType dtype, int64_t frozen, list tensors, list ints, int64_t* extents) except -1

cdef class HostScans(Scans):
    cdef int cumulate(self, str name, Tensor out, Tensor x, int64_t* extents) except -1
    cdef int extremes(self, Tensor out, Tensor index, Tensor x, int64_t* extents, int largest) except -1

cdef class MetaScans(Scans):
    cdef int cumulate(self, str name, Tensor out, Tensor x, int64_t* extents) except -1
    cdef int extremes(self, Tensor out, Tensor index, Tensor x, int64_t* extents, int largest) except -1

from rushlight.core.tensor cimport Tensor

# Each raises RuntimeError where the memory of what is written may not be as it is.
cpdef refuse_internal_overlap(Tensor t)
cpdef refuse_partial_overlap(Tensor out, Tensor input)
cpdef refuse_overlap(Tensor out, Tensor input)
cdef bint repeats_elements(Tensor t) noexcept

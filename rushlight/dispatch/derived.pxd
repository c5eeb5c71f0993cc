from rushlight.core.tensor cimport Tensor

# `target.copy_(source)`, whatever backend they are on.
cdef object copy_into(Tensor target, object source)

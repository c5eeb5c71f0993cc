from rushlight.core.tensor cimport Tensor

# One function, or one object, with a form for each kind of device.
cdef class KernelTable:
    cdef list forms
    # That of a tensor's kind.
    cdef object form(self, Tensor operand)

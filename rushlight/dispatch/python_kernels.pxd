from rushlight.dispatch.dispatcher cimport Kernel

cdef class PythonKernel(Kernel):
    cdef readonly object function
    cdef readonly bint with_keyset  # function(keyset, *args)

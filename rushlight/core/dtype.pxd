cdef class DType:
    cdef readonly int code          # PyTorch's ScalarType number
    cdef readonly int itemsize
    cdef readonly str name          # "float32"
    cdef readonly int category      # 0 bool, 1 integer, 2 floating, 3 complex, 4 opaque
    cdef readonly bint is_signed

cdef DType dtype_of(int code)
cdef DType default_dtype()
cdef int promote_codes(int a, int b) except -1

# DType.code: PyTorch's ScalarType numbers. The rows of dtype.py have all of them. Names
# of both enums are there for Python, too: `from rushlight.core.dtype import FLOATING`.
cpdef enum:
    CODE_UINT8 = 0
    CODE_INT8 = 1
    CODE_INT16 = 2
    CODE_INT32 = 3
    CODE_INT64 = 4
    CODE_FLOAT16 = 5
    CODE_FLOAT32 = 6
    CODE_FLOAT64 = 7
    CODE_COMPLEX32 = 8
    CODE_COMPLEX64 = 9
    CODE_COMPLEX128 = 10
    CODE_BOOL = 11
    CODE_QINT8 = 12
    CODE_QUINT8 = 13
    CODE_QINT32 = 14
    CODE_BFLOAT16 = 15
    CODE_FLOAT8_E5M2 = 23
    CODE_FLOAT8_E4M3FN = 24
    CODE_FLOAT8_E5M2FNUZ = 25
    CODE_FLOAT8_E4M3FNUZ = 26
    CODE_UINT16 = 27
    CODE_UINT32 = 28
    CODE_UINT64 = 29
    CODE_FLOAT8_E8M0FNU = 44

# DType.category, each wider than the one before.
cpdef enum:
    BOOLEAN = 0
    INTEGER = 1
    FLOATING = 2
    COMPLEX = 3
    OPAQUE = 4

cdef class DType:
    cdef readonly int code          # CODE_FLOAT32 ...
    cdef readonly int itemsize
    cdef readonly str name          # "float32"
    cdef readonly int category      # BOOLEAN, INTEGER, FLOATING, COMPLEX or OPAQUE
    cdef readonly bint is_signed

cdef DType dtype_of(int code)
cdef DType default_dtype()
cdef int promote_codes(int a, int b) except -1

# Where Tensor finds the callables behind Python's operators; names in slots.SLOT_NAMES.
cdef enum:
    SLOT_ADD
    SLOT_RADD
    SLOT_SUB
    SLOT_RSUB
    SLOT_MUL
    SLOT_RMUL
    SLOT_TRUEDIV
    SLOT_RTRUEDIV
    SLOT_FLOORDIV
    SLOT_RFLOORDIV
    SLOT_MOD
    SLOT_RMOD
    SLOT_POW
    SLOT_RPOW
    SLOT_MATMUL
    SLOT_RMATMUL
    SLOT_AND
    SLOT_RAND
    SLOT_OR
    SLOT_ROR
    SLOT_XOR
    SLOT_RXOR
    SLOT_LSHIFT
    SLOT_RLSHIFT
    SLOT_RSHIFT
    SLOT_RRSHIFT
    SLOT_LT
    SLOT_LE
    SLOT_EQ
    SLOT_NE
    SLOT_GT
    SLOT_GE
    SLOT_NEG
    SLOT_INVERT
    SLOT_ABS
    SLOT_POS
    SLOT_IADD
    SLOT_ISUB
    SLOT_IMUL
    SLOT_ITRUEDIV
    SLOT_IFLOORDIV
    SLOT_IMOD
    SLOT_IPOW
    SLOT_IAND
    SLOT_IOR
    SLOT_IXOR
    SLOT_ILSHIFT
    SLOT_IRSHIFT
    SLOT_GETITEM
    SLOT_SETITEM
    SLOT_REPR
    SLOT_REDUCE
    SLOT_DEEPCOPY
    SLOT_LEGACY
    SLOT_CONTAINS
    SLOT_GRAD_FN
    SLOT_SET_DATA
    SLOT_FORMAT
    SLOT_ARRAY
    SLOT_DLPACK
    SLOT_ITER
    SLOT_ITEM
    SLOT_TAKEN
    SLOT_SET_GRAD
    SLOT_REQUIRE_GRAD
    SLOT_DATA

# What is bound to a slot, and calls of it. TypeError where nothing is bound, but of two operands.
cdef object bound(int slot)
cdef object unary(int slot, object a)
cdef object binary_slot(int slot, object a, object b)
# The same, where a TypeError means NotImplemented.
# What the tensor's type, or a mode, makes of a method; PASS_BY where neither takes it.
cdef object taken(str name, tuple args)

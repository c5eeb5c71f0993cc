# Written by opgen, from dispatch/enums.py.

# What an argument of a schema takes.
cdef enum:
    ARG_TENSOR = 0
    ARG_OPTIONAL_TENSOR = 1
    ARG_TENSORS = 2
    ARG_OPTIONAL_TENSORS = 3
    ARG_TENSOR_OR_SCALAR = 4
    ARG_SCALAR = 5
    ARG_OPTIONAL_SCALAR = 6
    ARG_INT = 7
    ARG_OPTIONAL_INT = 8
    ARG_INTS = 9
    ARG_OPTIONAL_INTS = 10
    ARG_FLOAT = 11
    ARG_OPTIONAL_FLOAT = 12
    ARG_BOOL = 13
    ARG_OPTIONAL_BOOL = 14
    ARG_STR = 15
    ARG_OPTIONAL_STR = 16
    ARG_DTYPE = 17
    ARG_DEVICE = 18
    ARG_LAYOUT = 19
    ARG_MEMORY_FORMAT = 20
    ARG_GENERATOR = 21
    ARG_FLOATS = 22
    ARG_ANY = 23
    ARG_BOOLS = 24
    ARG_SCALARS = 25

# How the types of an elementwise operator's results come of its operands'.
cdef enum:
    RULE_PROMOTE = 0
    RULE_PROMOTE_FLOAT = 1
    RULE_BOOL = 2
    RULE_SAME = 3
    RULE_INT64 = 4
    RULE_REAL = 5
    RULE_FLOAT = 6
    RULE_PROMOTE_INTEGER = 7
    RULE_FIRST = 8

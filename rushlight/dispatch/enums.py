"""Numbers that Python, generated tables and compiled modules share.

`opgen.enums` writes ``enums.pxd`` of them, so that both sides of Cython's boundary have one
numbering.
"""

import enum


class ArgumentKind(enum.IntEnum):
    """What an argument of a schema takes."""

    TENSOR = 0
    OPTIONAL_TENSOR = 1
    TENSORS = 2
    OPTIONAL_TENSORS = 3
    TENSOR_OR_SCALAR = 4
    SCALAR = 5
    OPTIONAL_SCALAR = 6
    INT = 7
    OPTIONAL_INT = 8
    INTS = 9
    OPTIONAL_INTS = 10
    FLOAT = 11
    OPTIONAL_FLOAT = 12
    BOOL = 13
    OPTIONAL_BOOL = 14
    STR = 15
    OPTIONAL_STR = 16
    DTYPE = 17
    DEVICE = 18
    LAYOUT = 19
    MEMORY_FORMAT = 20
    GENERATOR = 21
    FLOATS = 22
    ANY = 23
    BOOLS = 24
    SCALARS = 25


class PromotionRule(enum.IntEnum):
    """How the types of an elementwise operator's results come of its operands'."""

    PROMOTE = 0
    PROMOTE_FLOAT = 1
    BOOL = 2
    SAME = 3
    INT64 = 4
    REAL = 5
    FLOAT = 6
    PROMOTE_INTEGER = 7
    FIRST = 8  # computed in the widest type, written in the first one's


# Kinds that None is taken for.
OPTIONAL_KINDS = frozenset(
    int(ArgumentKind[name])
    for name in """
        OPTIONAL_TENSOR OPTIONAL_SCALAR OPTIONAL_INT OPTIONAL_INTS OPTIONAL_FLOAT
        OPTIONAL_BOOL OPTIONAL_STR DTYPE DEVICE LAYOUT MEMORY_FORMAT GENERATOR
    """.split()
)
# What messages call a value of each kind.
KIND_NAMES = (
    "Tensor",
    "Tensor",
    "tuple of Tensors",
    "tuple of Tensors",
    "Tensor",
    "Number",
    "Number",
    "int",
    "int",
    "tuple of ints",
    "tuple of ints",
    "float",
    "float",
    "bool",
    "bool",
    "str",
    "str",
    "rushlight.dtype",
    "rushlight.device",
    "rushlight.layout",
    "rushlight.memory_format",
    "rushlight.Generator",
    "tuple of floats",
    "object",
    "tuple of bools",
    "tuple of Scalars",
)

# What a name begins with in compiled modules.
PREFIXES = {ArgumentKind: "ARG_", PromotionRule: "RULE_"}

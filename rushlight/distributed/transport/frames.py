"""The header before everything that a collective sends, and what it says of the call."""

import struct

PREFIX = struct.Struct("<QQI")  # position, sequence number, octets that follow
SIGNATURE = struct.Struct("<QiBBBB6I")
HEADER_SIZE = 64
PADDING = bytes(HEADER_SIZE - PREFIX.size - SIGNATURE.size)
DIMS = 6
OPERATORS = """
    barrier all_reduce reduce broadcast all_gather gather scatter reduce_scatter
    all_to_all monitored_barrier rendezvous release message coalesced
""".split()
REDUCTIONS = ["", "sum", "avg", "product", "min", "max", "band", "bor", "bxor"]
REDUCTIONS += ["premul_sum"]
DTYPES = """
    none uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64
    complex128 bool bfloat16 uint16 uint32 uint64 float8_e5m2 float8_e4m3fn
    float8_e5m2fnuz float8_e4m3fnuz
""".split()
CODES = {
    "operator": {name: code for code, name in enumerate(OPERATORS)},
    "reduction": {name: code for code, name in enumerate(REDUCTIONS)},
    "dtype": {name: code for code, name in enumerate(DTYPES)},
}


class Collective:
    """One collective: what must be the same on every rank.

    Args:
        operator: its name, one of ``OPERATORS``.
        dtype: the name of the elements' type.
        sizes: the sizes that all ranks share; None where ranks may differ.
        root: the rank that it starts or ends at; -1 without one.
        reduction: how values become one; empty where they do not.
    """

    __slots__ = ("operator", "signature", "sequence")

    def __init__(self, operator, dtype="none", sizes=None, root=-1, reduction=""):
        self.operator, self.sequence = operator, 0
        known = sizes is not None
        count = 1
        for size in sizes or ():
            count *= size
        dims = tuple(min(size, 0xFFFFFFFF) for size in (sizes or ())[:DIMS])
        self.signature = SIGNATURE.pack(
            count if known else 0,
            root,
            CODES["operator"][operator],
            CODES["dtype"].get(dtype, 0),
            CODES["reduction"][reduction],
            len(sizes) if known else 255,
            *dims + (0,) * (DIMS - len(dims)),
        )

    def __str__(self):
        return f"{describe(self.signature)} (sequence number {self.sequence})"


def header(position, sequence, length, signature):
    """The octets of a header.

    Args:
        position: how far the sender has come, in steps that all ranks count alike.
        sequence: the number of the collective in its group.
        length: the octets that follow.
        signature: what the collective is.
    """
    return PREFIX.pack(position, sequence, length) + signature + PADDING


def parse(data, start=0):
    """Position, sequence number, length and signature of a header.

    Args:
        data: octets.
        start: where the header begins.
    """
    first = start + PREFIX.size
    signature = bytes(data[first : first + SIGNATURE.size])
    return *PREFIX.unpack_from(data, start), signature


def call_facts(signature):
    """The type and the sizes that a signature has.

    Args:
        signature: what a collective is.

    Returns:
        The type's name, and a list; of the first six sizes, where there are more.
    """
    _, _, _, dtype, _, ndim, *dims = SIGNATURE.unpack(signature)
    return DTYPES[dtype], list(dims[:ndim] if ndim != 255 else [])


def describe(signature):
    """A signature in words, as ``all_reduce(sum) of float32[2, 3]``."""
    count, root, operator, dtype, reduction, ndim, *dims = SIGNATURE.unpack(signature)
    said = [REDUCTIONS[reduction]] if reduction else []
    said += [f"root={root}"] if root >= 0 else []
    text = OPERATORS[operator] + (f"({', '.join(said)})" if said else "")
    if dtype == 0:
        return text
    if ndim == 255:
        return f"{text} of {DTYPES[dtype]}"
    more = ["..."] if ndim > DIMS else []
    sizes = ", ".join([str(size) for size in dims[:ndim]] + more)
    return f"{text} of {DTYPES[dtype]}[{sizes}]"

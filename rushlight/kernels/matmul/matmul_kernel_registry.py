"""The native kernels of products: those that are built in, found by kind and types."""

import functools

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.schedule.contraction import matrix_tile, unit_tile
from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir.expr import Type
from rushlight.kernels.epilogue import Epilogue
from rushlight.kernels.loop_helpers import (
    multiply_add,
    multiply_fours,
    multiply_pairs,
    multiply_shorts,
)


def ready(function, epilogue):
    """The loops as they are emitted: final as written, but for those that are traced."""
    from rushlight.codegen.lower import lower

    return function if epilogue is None else lower(function)


@functools.cache
def matrix_kernel(kind: str, a_type: str, b_type: str, compute: str):
    """The native kernel of one kind, from the cache or built; see `epilogue_kernel`."""
    return epilogue_kernel(kind, a_type, b_type, compute, "", None)


def epilogue_kernel(kind, a_type, b_type, compute, named_by, epilogue, digest=""):
    """The native kernel of one kind with an epilogue.

    Args:
        kind: ``product``, ``pairs`` (of bfloat16, held as float32), ``fours`` (of bytes,
            held as int32), ``twos`` (of 16 bits, too), ``tiles_`` and what AMX multiplies
            (bfloat16 is held as int16), ``dot_tiles``, ``dots``, ``combine`` or
            ``transposed_sum``.
        a_type, b_type: what the operands hold.
        compute: what sums are.
        named_by: what the kernel's name ends in.
        epilogue: of the sums, as `Epilogue`, or None.
        digest: of all that decides what the epilogue computes.
    """
    types = [Type(a_type), Type(b_type), Type(compute)]
    if kind.startswith("tiles_"):
        name = "_".join([kind, *map(str, dict.fromkeys(types))]) + named_by
    else:
        name = "_".join([kind, *dict.fromkeys((a_type, b_type, compute))]) + named_by

    def write():
        return ready(builder_of(kind)(name, types, epilogue), epilogue)

    return host.code_cache.native(name, digest, write)


STEPS = {
    "product": multiply_add,
    "pairs": multiply_pairs,
    "fours": multiply_fours,
    "twos": multiply_shorts,
}


def builder_of(kind):
    """What writes the loops of a kind, given their name, their types and the epilogue."""
    from rushlight.kernels.matmul import amx_tiles, dot_tiles, gemv
    from rushlight.kernels.matmul.contraction import product

    if kind.startswith("tiles_"):
        step, writer = kind.removeprefix("tiles_"), amx_tiles.TileProduct
        tile = unit_tile()
        return lambda name, types, epilogue: product(
            name, *types, tile, step, epilogue, writer
        )
    if kind in STEPS:
        return lambda name, types, epilogue: product(
            name, *types, matrix_tile(types[2].name, current()), STEPS[kind], epilogue
        )
    if kind == "transposed_sum":
        return lambda name, types, _: gemv.transposed_sum(
            name, types[2], lanes_of(types)
        )
    write = {
        "dot_tiles": dot_tiles.dot_tiles,
        "dots": gemv.dots,
        "combine": gemv.combine,
    }[kind]
    return lambda name, types, epilogue: write(name, *types, lanes_of(types), epilogue)


def lanes_of(types):
    """Lanes of vectors of sums."""
    return matrix_tile(types[2].name, current()).lanes


@functools.cache
def scaled(dtype, sums, added):
    """Finds kernels whose results are multiplied, and a multiple added to them.

    Args:
        added: 1 for an addend of adjacent columns, 0 for a value for each row, -1 for
            none.
    """
    number = sums, False
    others = (number,) if added < 0 else (number, number, (sums, bool(added)))

    def times(total, alpha, beta=None, addend=None):
        product = total * alpha
        return product if addend is None else multiply_add(addend, beta, product)

    epilogue = Epilogue(times, others, sums)
    words = {-1: "_times", 0: "_times_and_row", 1: "_times_and_more"}[added]

    @functools.cache
    def find(kind):
        types = kind, dtype, dtype, sums
        return epilogue_kernel(*types, words, epilogue, fingerprint(times))

    return find


def paired(a, b):
    """Whether neighbours along the depth lie together in pairs, in both operands."""
    steps = (*a.stride()[:-1], *b.stride()[:-2], b.stride(-1), a.shape[-1])
    return (
        current().has("dot_bf16")
        and a.stride(-1) == 1
        and b.stride(-2) == 1
        and not any(step & 1 for step in steps)
        and a.shape[-2] > 1
        and b.shape[-1] > 1
        and host.matmul.on_words(a, b)
    )


@functools.cache
def width_of(sums):
    """The columns of a tile, and so of a panel."""
    return matrix_tile(sums, current()).width


@functools.cache
def depth_of(sums):
    """The depth that one block has."""
    return matrix_tile(sums, current()).depth

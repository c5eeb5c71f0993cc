"""Which products a unit of tiles forms, and what it needs for them.

Linux gives a process the memory that tiles are kept in between its turns only if it asks;
it is asked with the first product that is worth it. Where it refuses, as it does where a
signal's stack would be too small for it, products go by vectors.
"""

import functools

from rushlight.core.roles import host

contraction = host.matmul
SIDE = 32  # rows and columns of the sums that four tiles hold
# Each size, and their product, below which vectors are as fast.
LEAST, LEAST_WORK = 2, 1 << 15
TOGETHER = {"bf16": 2, "int8": 4}  # elements of a word
ARCH_REQ_XCOMP_PERM, XTILEDATA, SYS_ARCH_PRCTL = 0x1023, 18, 158


@functools.cache
def has(kind):
    """Whether this process may multiply by tiles: ``bf16``, or ``int8``."""
    from rushlight.codegen.target import current

    return current().has(f"tiles_{kind}") and permitted()


@functools.cache
def permitted():
    """Asks the system for room for tiles; whether there is some."""
    import ctypes

    asked = ctypes.CDLL(None).syscall(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA)
    return asked == 0


def serves(a, b, kind="bf16"):
    """Whether the product of these operands, of a kind and on the host, is worth tiles."""
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    return (
        min(rows, columns, depth) >= LEAST
        and rows * depth * columns >= LEAST_WORK
        and has(kind)
    )


def lying(a, b):
    """Both operands with elements beside each other along one side or the other."""
    return tuple(x if 1 in x.stride()[-2:] else x.contiguous() for x in (a, b))


@functools.cache
def depth_of(kind):
    """The elements of one block of the depth."""
    from rushlight.codegen.schedule.contraction import unit_tile

    return unit_tile().depth * TOGETHER[kind]


def waiting(a, shape, sums, kind="bf16"):
    """Where sums of a type wait for more depth: whole tiles; None where none do."""
    if a.shape[-1] <= depth_of(kind):
        return None
    sides = [-(-size // SIDE) * SIDE for size in shape[-2:]]
    return contraction.fresh(a, (*shape[:-2], *sides), sums)

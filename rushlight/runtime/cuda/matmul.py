"""Products of matrices on a device, by kernels of our own.

A kernel is made for types and a tile (`rushlight.kernels.matmul.device_tiles`), and kept like any
other. Halves, and floats that may be rounded, are multiplied by matrix units
(`rushlight.kernels.matmul.mma`) where a product fills one of theirs; halves whose rows begin
where copies can be, by those of a warpgroup (`rushlight.kernels.matmul.wgmma`) on devices
that have them.
"""

import functools
import struct
from dataclasses import dataclass

from rushlight.runtime.cuda.device_kernel import DeviceKernel

UNITS_SINCE = 8  # the generation whose units multiply what PTX's products take
# The one generation whose units take products of groups, and what PTX calls it.
GROUPS_OF, GROUPS_NAME = (9, 0), "sm_90a"
LETTERS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


@dataclass(frozen=True)
class Way:
    """How a product is multiplied.

    Attributes:
        kind: by lanes (``product``), a warp's units or a group's.
        tile: of a block.
        threads: of a block.
        turned: for groups, which factors lie along rows or columns.
        shared: bytes of shared memory that a launch asks for.
    """

    kind: str
    tile: object
    threads: int
    transposed: tuple | None = None
    shared: int = 0


@functools.cache
def kernel(element, compute, result, way):
    """The kernel for types and a way."""
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower
    from rushlight.codegen.target import gpu
    from rushlight.ir.expr import Type
    from rushlight.kernels.matmul import device_tiles, mma, wgmma

    tile = way.tile
    name = f"{way.kind}_{element}_{compute}_{result}_{tile.rows}_{tile.columns}"
    if way.transposed:
        name += "".join("_turned" if side else "_plain" for side in way.transposed)

    def made():
        out = Type(result)
        if way.kind == "groups":
            function = wgmma.product(name, Type(element), tile, way.transposed, out)
        elif way.kind == "units":
            function = mma.product(name, Type(element), tile, out)
        else:
            types = Type(element), Type(compute)
            function = device_tiles.product(name, *types, tile, result=out)
        return lower(function)

    sources = mma.product, device_tiles.product, wgmma.product
    found = DeviceKernel(name, fingerprint(*sources), made)
    if way.kind == "groups":
        found.target = gpu(GROUPS_NAME)
    return found


def chosen(ctx, element, compute, sizes, factors, batch) -> Way:
    """The way for a product.

    Args:
        factors: of both, the address and the steps.
    """
    from rushlight.kernels.matmul import device_tiles, mma, wgmma
    from rushlight.runtime.cuda.cublas import reduced_precision

    facts = ctx.properties
    rows, columns, _ = sizes
    short = reduced_precision()
    if facts.major >= UNITS_SINCE and mma.take(element, compute, sizes, short):
        transposed = None
        if (facts.major, facts.minor) == GROUPS_OF and element != "float32":
            transposed = wgmma.transposed(sizes, *factors)
        if transposed is not None:
            count = facts.multi_processor_count
            large = wgmma.tile_for(rows, columns, batch, count)
            return Way("groups", large, large.threads, transposed, large.shared)
        tile = mma.tile_for(rows, columns)
        return Way("units", tile, mma.threads_of(tile))
    tile = device_tiles.tile_for(rows, columns)
    return Way("product", tile, tile.threads)


def run(ctx, element, compute, result, sizes, operands, scales, batch):
    """Multiplies in this thread's queue; see `rushlight.core.device.Backend`.

    Raises:
        NotImplementedError: nothing multiplies values of the type.
    """
    from rushlight.kernels.matmul import device_tiles

    if compute not in LETTERS:
        raise NotImplementedError(
            f"the backend 'cuda' does not multiply matrices of {element}"
        )
    rows, columns, depth = sizes
    out, left, right, added = operands
    way = chosen(ctx, element, compute, sizes, (left, right), batch)
    steps = [item[1:] if item else (0, 0, 0) for item in (out, left, right, added)]
    add = added is not None
    ints, count = device_tiles.integers(rows, columns, depth, add, steps, way.tile)
    letter = LETTERS[compute]
    whole = (lambda v: v) if letter in "fd" else int
    for scale in scales:
        word = struct.pack(letter, whole(scale)).ljust(8, b"\0")
        ints.append(int.from_bytes(word, "little", signed=True))
    addresses = [item[0] if item else 0 for item in (out, left, right, added)]
    kernel(element, compute, result, way).run_blocks(
        ctx,
        (*addresses, 0, 0),
        tuple(ints),
        count * batch,
        way.threads,
        ((4, device_tiles.SCALARS), (5, device_tiles.SCALARS + 1)),
        way.shared,
    )

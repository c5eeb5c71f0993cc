"""Products of matrices on a card, by kernels of our own.

A kernel is made for types and a tile (`rushlight.codegen.tiles`), and kept like any
other. Halves, and floats that may be rounded, are multiplied by matrix units
(`rushlight.codegen.units`) where a product fills one of theirs.
"""

from __future__ import annotations

import functools
import struct

from rushlight.backends.nvidia.kernels import DeviceKernel

UNITS_SINCE = 8  # the generation whose units multiply what PTX's products take
LETTERS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


@functools.cache
def kernel(element, compute, result, tile, by_units=False):
    """The kernel for types and a tile: lanes multiply, or the card's matrix units."""
    from rushlight.codegen import tiles, units
    from rushlight.codegen.expr import Type
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower

    kind = "units" if by_units else "product"
    name = f"{kind}_{element}_{compute}_{result}_{tile.rows}_{tile.columns}"

    def made():
        if by_units:
            return lower(units.product(name, Type(element), tile, Type(result)))
        types = Type(element), Type(compute)
        return lower(tiles.product(name, *types, tile, result=Type(result)))

    return DeviceKernel(name, fingerprint(units.product, tiles.product), made)


def chosen(card, element, compute, sizes):
    """The tile for a product, how many threads have one, and whether units multiply."""
    from rushlight.backends.nvidia.blas import reduced_precision
    from rushlight.codegen import tiles, units

    modern = card.properties.major >= UNITS_SINCE
    if modern and units.take(element, compute, sizes, reduced_precision()):
        tile = units.tile_for(*sizes[:2])
        return tile, units.threads_of(tile), True
    tile = tiles.tile_for(*sizes[:2])
    return tile, tile.threads, False


def run(card, element, compute, result, sizes, operands, scales, batch):
    """Multiplies in this thread's queue; see `rushlight.core.device.Backend`.

    Raises:
        NotImplementedError: nothing multiplies values of the type.
    """
    from rushlight.codegen import tiles

    if compute not in LETTERS:
        raise NotImplementedError(
            f"the backend 'cuda' does not multiply matrices of {element}"
        )
    rows, columns, depth = sizes
    out, left, right, added = operands
    tile, threads, by_units = chosen(card, element, compute, sizes)
    steps = [item[1:] if item else (0, 0, 0) for item in (out, left, right, added)]
    add = added is not None
    ints, count = tiles.integers(rows, columns, depth, add, steps, tile)
    letter = LETTERS[compute]
    whole = (lambda v: v) if letter in "fd" else int
    for scale in scales:
        word = struct.pack(letter, whole(scale)).ljust(8, b"\0")
        ints.append(int.from_bytes(word, "little", signed=True))
    addresses = [item[0] if item else 0 for item in (out, left, right, added)]
    kernel(element, compute, result, tile, by_units).run_blocks(
        card,
        (*addresses, 0, 0),
        tuple(ints),
        count * batch,
        threads,
        ((4, tiles.SCALARS), (5, tiles.SCALARS + 1)),
    )

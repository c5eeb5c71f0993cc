"""Products of matrices on a card, by kernels of our own.

A kernel is made for types and a tile (`rushlight.codegen.tiles`), and kept like any
other.
"""

from __future__ import annotations

import functools
import struct

from rushlight.backends.nvidia.kernels import DeviceKernel

LETTERS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


@functools.cache
def kernel(element, compute, tile):
    """The kernel for types and a tile."""
    from rushlight.codegen import tiles
    from rushlight.codegen.expr import Type
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower

    name = f"product_{element}_{compute}_{tile.rows}_{tile.columns}"

    def made():
        return lower(tiles.product(name, Type(element), Type(compute), tile))

    return DeviceKernel(name, fingerprint(tiles.product), made)


def run(card, element, compute, sizes, operands, scales, batch):
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
    tile = tiles.tile_for(rows, columns)
    steps = [item[1:] if item else (0, 0, 0) for item in (out, left, right, added)]
    add = added is not None
    ints, count = tiles.integers(rows, columns, depth, add, steps, tile)
    letter = LETTERS[compute]
    whole = (lambda v: v) if letter in "fd" else int
    for scale in scales:
        word = struct.pack(letter, whole(scale)).ljust(8, b"\0")
        ints.append(int.from_bytes(word, "little", signed=True))
    addresses = [item[0] if item else 0 for item in (out, left, right, added)]
    kernel(element, compute, tile).run_blocks(
        card,
        (*addresses, 0, 0),
        tuple(ints),
        count * batch,
        tile.threads,
        ((4, tiles.SCALARS), (5, tiles.SCALARS + 1)),
    )

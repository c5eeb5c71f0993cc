"""Attention on a card, by its matrix units; see `rushlight.codegen.attention`."""

from __future__ import annotations

import functools
import struct

from rushlight.backends.nvidia.kernels import DeviceKernel
from rushlight.backends.nvidia.products import UNITS_SINCE

NOTHING = (0, 0, 0, 0)


HALVES = "float16", "bfloat16"


def takes(card, element, depth, width, masked):
    """Whether a card's units attend to queries and values, and PyTorch's switches allow it.

    One kernel is both of PyTorch's: its flash kernels take no masks.
    """
    from rushlight.backends import cuda
    from rushlight.codegen.attention import MOST

    flash = cuda.flash_sdp_enabled() and not masked
    allowed = flash or cuda.mem_efficient_sdp_enabled()
    modern = card.properties.major >= UNITS_SINCE
    fits = element in HALVES and max(depth, width) <= MOST
    return allowed and modern and fits


@functools.cache
def kernel(kind, element, mask, tile):
    """The kernel of one direction for types and a tile."""
    from rushlight.codegen import attention
    from rushlight.codegen.expr import Type
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower

    write = getattr(attention, kind)
    sizes = f"{tile.slice}_{tile.depth}_{tile.width}"
    name = f"attention_{kind}_{element}_{mask or 'none'}_{sizes}"

    def made():
        return lower(write(name, Type(element), tile, mask and Type(mask)))

    return DeviceKernel(name, fingerprint(write), made)


def run(card, results, operands, log_mass, is_causal, scale):
    """Attends in this thread's queue; see `rushlight.core.device.Backend`.

    Raises:
        NotImplementedError: there is no kernel for operands of the type or on the card.
    """
    from rushlight.codegen import attention

    query, _, value, _ = operands
    element, modern = query.dtype.name, card.properties.major >= UNITS_SINCE
    if (
        element not in HALVES
        or not modern
        or max(query.shape[3], value.shape[3]) > attention.MOST
    ):
        raise NotImplementedError(
            f"the backend 'cuda' has no attention of {element} in heads of {query.shape[3]} "
            f"and {value.shape[3]} for this card"
        )
    width = value.shape[3]
    tile = attention.tile_for(query.shape[3], width)
    given = results, *operands
    launch(
        *(card, "forward", tile, given, (log_mass,), is_causal, scale),
        *(
            (tile.rows, query.shape[2]),
            attention.parts_of(query.shape[3], width),
            query.shape[1],
        ),
    )


def launch(card, kind, tile, operands, vectors, is_causal, scale, rows, parts, heads):
    """Runs a kernel over the blocks of all heads.

    Args:
        operands: result, queries, keys, values and mask in their order.
        vectors: dense tensors with a number for each query.
        rows: how many queries, or keys, a block has, of how many.
        parts: into how many blocks their results are divided.
        heads: that blocks are counted for.
    """
    from rushlight.codegen import attention

    mask = operands[-1]
    query, key, value = operands[1:4]
    batch, all_heads, queries, depth = query.shape
    sizes = all_heads, all_heads // key.shape[1], queries, key.shape[2], depth
    sizes = *sizes, value.shape[3], is_causal
    steps = [NOTHING if t is None else t.stride() for t in operands]
    word = struct.pack("f", scale).ljust(8, b"\0")
    word = int.from_bytes(word, "little", signed=True)
    ints, blocks = attention.integers(sizes, rows, parts, steps, word)
    addresses = [0 if t is None else t.data_ptr() for t in (*operands, *vectors)]
    types = query.dtype.name, None if mask is None else mask.dtype.name
    kernel(kind, *types, tile).run_blocks(
        card,
        (*addresses, 0),
        tuple(ints),
        batch * heads * blocks,
        tile.threads,
        ((len(addresses), len(ints) - 1),),
    )

"""Attention on a device by its tensor cores; see `kernels.attention.device_attention`."""

import functools
import struct

from rushlight.core.switches import switch
from rushlight.core.window import address_of
from rushlight.runtime.cuda.cublas import reduced_precision
from rushlight.runtime.cuda.device_kernel import DeviceKernel
from rushlight.runtime.cuda.matmul import GROUPS_NAME, GROUPS_OF, UNITS_SINCE

NOTHING = (0, 0, 0, 0)


HALVES = "float16", "bfloat16"
LEAST_OF_GROUPS = 128  # queries: as many as a block of groups has


def most_of(module, element, drops):
    """The longest head of a type, with dropout or without."""
    if element == "float32":
        return module.MOST_FLOATS
    return module.MOST_DROPPING if drops else module.MOST


def takes(ctx, element, depth, width, masked, dropout):
    """Whether a device's units attend to queries and values, and PyTorch's switches allow it.

    One kernel is both of PyTorch's: its flash kernels take no masks, and halves alone.
    """
    from rushlight.kernels.attention import device_attention

    flash = switch("flash_sdp") and not masked and element in HALVES
    allowed = flash or bool(switch("mem_efficient_sdp"))
    most = most_of(device_attention, element, dropout)
    return allowed and fits(ctx, element, depth, width, most)


def fits(ctx, element, depth, width, most):
    """Whether a device has units for a type, and heads are short enough.

    Floats are rounded to TF32, where PyTorch's switches allow that for products.
    """
    modern = ctx.properties.major >= UNITS_SINCE
    known = element in HALVES or element == "float32" and reduced_precision()
    return modern and known and max(depth, width) <= most


@functools.cache
def kernel(kind, element, mask, dropout, described, tile):
    """The kernel of results (by warps or groups), or of one gradient.

    Args:
        described: whether seed and offset are in memory, not among the integers of a launch.
    """
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower
    from rushlight.codegen.target import gpu
    from rushlight.ir.expr import Type
    from rushlight.kernels.attention import (
        device_attention,
        device_attention_gradients,
        wgmma_attention,
    )

    sizes = f"{tile.slice}_{tile.depth}_{tile.width}"
    if kind in device_attention_gradients.KINDS:
        sizes = f"{sizes}_{tile.part}"
    name = f"attention_{kind}_{element}_{mask or 'none'}_{sizes}"
    name = f"{name}_dropout{'_shown' * described}" if dropout else name

    def made():
        types = name, Type(element), tile, mask and Type(mask), dropout
        if kind == "forward":
            return lower(device_attention.forward(*types))
        if kind == "groups":
            return lower(wgmma_attention.forward(*types))
        return lower(device_attention_gradients.gradient(kind, *types))

    sources = (
        device_attention.forward,
        wgmma_attention.forward,
        device_attention_gradients.gradient,
    )
    found = DeviceKernel(name, fingerprint(*sources), made)
    if kind == "groups":
        found.target = gpu(GROUPS_NAME)
    return found


def run(ctx, results, operands, log_mass, is_causal, scale, dropout):
    """Attends in this thread's queue; see `rushlight.core.device.Backend`.

    Raises:
        NotImplementedError: there is no kernel for operands of the type or on the device.
    """
    from rushlight.kernels.attention import device_attention, wgmma_attention

    query, _, value, _ = operands
    depth, width = query.shape[3], value.shape[3]
    drops = dropout is not None
    most = most_of(device_attention, query.dtype.name, drops)
    if not fits(ctx, query.dtype.name, depth, width, most):
        raise NotImplementedError(
            f"the backend 'cuda' has no attention of {query.dtype.name} in heads of "
            f"{depth} and {width} for this card"
        )
    if by_groups(ctx, query, value):
        tile = wgmma_attention.tile_for(depth, width)
        given = (results, *operands), (log_mass,), is_causal, scale, dropout
        rest = (tile.rows, query.shape[2]), 1, query.shape[1]
        shared = wgmma_attention.shared_of(tile)
        launch(ctx, "groups", tile, *given, *rest, shared)
        return
    sizes = depth, width, drops, query.element_size()
    tile, parts = device_attention.tile_for(*sizes), device_attention.parts_of(*sizes)
    rows = tile.rows, query.shape[2]
    given = (results, *operands), (log_mass,), is_causal, scale, dropout
    launch(ctx, "forward", tile, *given, rows, parts, query.shape[1])


def by_groups(ctx, query, value):
    """Whether units of warpgroups attend: there are enough queries for a block."""
    from rushlight.kernels.attention.wgmma_attention import MOST

    facts = ctx.properties
    return (
        (facts.major, facts.minor) == GROUPS_OF
        and query.dtype.name in HALVES
        and max(query.shape[3], value.shape[3]) <= MOST
        and query.shape[2] >= LEAST_OF_GROUPS
    )


def run_gradients(
    ctx, results, grad, out, operands, log_mass, is_causal, scale, dropout
):
    """Gradients in this thread's queue; whether there are kernels for them.

    That of queries comes first: it leaves what those of keys need.
    """
    from rushlight.kernels.attention import device_attention_gradients as gradients

    query, key, value, mask = operands
    depth, width = query.shape[3], value.shape[3]
    masked, drops = mask is not None, dropout is not None
    most = most_of(gradients, query.dtype.name, drops)
    if not fits(ctx, query.dtype.name, depth, width, most):
        return False
    results = dict(zip(gradients.KINDS, results, strict=True))
    if results["query"] is None and results["key"] is not None:
        results["query"] = room_like(query)
    vectors = log_mass, room_like(log_mass)
    for kind, result in results.items():
        if result is None:
            continue
        own = query if kind == "query" else key
        sizes, size = (kind, depth, width, masked), query.element_size()
        tile = gradients.tile_for(*sizes, drops, size)
        _, parts = gradients.part_of(*sizes, size)
        given = result, query, key, value, grad, out, mask
        rows = tile.rows, own.shape[2]
        rest = is_causal, scale, dropout, rows, parts, own.shape[1]
        launch(ctx, kind, tile, given, vectors, *rest)
    return True


def room_like(tensor):
    """Dense memory for as many elements."""
    from rushlight.core.factories import empty

    return empty(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


def launch(
    ctx, kind, tile, operands, vectors, is_causal, scale, dropout, rows, parts, heads,
    shared=0,
):  # fmt: skip
    """Runs a kernel over the blocks of all heads.

    Args:
        operands: result, queries, keys and values, then what the kernel takes beside
            them; the mask is the last.
        vectors: dense, with a number for each query.
        rows: how many queries, or keys, a block has, of how many.
        parts: into how many blocks their results are divided.
        heads: that blocks are counted for.
        shared: bytes of shared memory, where they are a launch's.
    """
    from rushlight.kernels.attention import device_attention
    from rushlight.kernels.attention.dropout_mask import least_word

    mask = operands[-1]
    query, key, value = operands[1:4]
    batch, all_heads, queries, depth = query.shape
    sizes = all_heads, all_heads // key.shape[1], queries, key.shape[2], depth
    sizes = *sizes, value.shape[3], is_causal
    steps = [NOTHING if t is None else t.stride() for t in operands]
    chance, place = dropout or (0.0, (0, 0))
    described = not isinstance(place, tuple)  # it is in memory when the kernel runs
    seed, offset = (0, 0) if described else place
    word = struct.pack("ff", scale, 1.0 / (1.0 - chance))
    word = int.from_bytes(word, "little", signed=True)
    drawn = seed, offset, least_word(chance)
    ints, blocks = device_attention.integers(sizes, rows, parts, steps, word, drawn)
    addresses = [0 if t is None else address_of(t) for t in (*operands, *vectors)]
    types = query.dtype.name, None if mask is None else mask.dtype.name
    held = [(len(addresses), len(ints) - 1)]
    addresses.append(0)
    if dropout is not None:
        if not described:
            held.append((len(addresses), device_attention.stream_at()))
        addresses.append(address_of(place) if described else 0)
    kernel(kind, *types, dropout is not None, described, tile).run_blocks(
        ctx,
        tuple(addresses),
        tuple(ints),
        batch * heads * blocks,
        tile.threads,
        tuple(held),
        shared,
    )

"""Attention by units in its meaning: results, races, waits that are needed."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.lower import lower
from rushlight.ir import expr as ir
from rushlight.ir import spec
from rushlight.ir.builder import Builder
from rushlight.ir.expr import AwaitCopies, Barrier, Place, ShowUnits, Var
from rushlight.kernels.attention import (
    device_attention,
    device_attention_gradients,
    wgmma_attention,
)
from rushlight.kernels.attention.dropout_mask import least_word
from tests.codegen.grid_kernels import without

TILE = device_attention.AttentionTile(16, 16, 16, warps=2)


def drawn(*sizes, seed=0):
    return np.random.default_rng([seed, *sizes]).standard_normal(sizes)


def steps_of(array):
    return [step // array.itemsize for step in array.strides]


WORD = (1 << 32) - 1


def philox_words(places, seed):
    """The words at places of the stream of a seed, as Philox's authors describe it."""
    step = places // 4
    a, b, c, d = step & WORD, step >> 32, 0 * step, 0 * step
    k, j = seed & WORD, seed >> 32 & WORD
    for _ in range(10):
        first, second = (
            x.astype(np.uint64) * np.uint64(factor)
            for x, factor in ((a, 0xD2511F53), (c, 0xCD9E8D57))
        )
        halves = [(x & np.uint64(WORD), x >> np.uint64(32)) for x in (first, second)]
        (low, high), (other_low, other_high) = (
            [half.astype(np.int64) for half in both] for both in halves
        )
        a, b, c, d = other_high ^ b ^ k, other_low, high ^ d ^ j, low
        k, j = k + 0x9E3779B9 & WORD, j + 0xBB67AE85 & WORD
    return np.choose(places % 4, [a, b, c, d])


def growths(shape, dropout):
    """What weights are multiplied by: zero, or one over the chance to be kept.

    Args:
        dropout: the chance to be left out, seed and offset; or None.
    """
    if dropout is None:
        return 1.0
    chance, seed, offset = dropout
    words = philox_words(np.arange(np.prod(shape)) + offset, seed).reshape(shape)
    numbers = words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return (numbers > np.float32(chance)) / (1 - chance)


def drawn_of(dropout):
    """The integers of a launch with dropout, and both factors of weights."""
    if dropout is None:
        return (0, 0, 0), (0.25, 1.0)
    chance, seed, offset = dropout
    return (seed, offset, least_word(chance)), (0.25, 1 / (1 - chance))


def words_of(dropout, factor, integers):
    """What kernels read words from: factors, and with dropout seed and offset."""
    at = device_attention.stream_at()
    return (factor,) if dropout is None else (factor, integers[at : at + 2])


def run_forward(
    function,
    queries,
    keys,
    causal=False,
    mask=None,
    heads=(2, 1),
    dropout=None,
    kind=np.float16,
    tile=TILE,
):
    """Results and logarithms of masses, and what they should be."""
    batch, shared = 2, heads[0] // heads[1]
    half = [
        drawn(batch, h, n, 16, seed=k).astype(np.float16).astype(kind)
        for k, (h, n) in enumerate(
            [(heads[0], queries), (heads[1], keys), (heads[1], keys)]
        )
    ]
    out = np.full((batch, heads[0], queries, 16), np.nan, kind)
    log_mass = np.full((batch, heads[0], queries), np.nan, np.float32)
    mask = np.zeros((1, 1, 1, 1), kind) if mask is None else mask
    spread = np.broadcast_to(mask, (batch, heads[0], queries, keys))
    sizes = heads[0], shared, queries, keys, 16, 16, causal
    scale = int.from_bytes(struct.pack("f", 0.25).ljust(8, b"\0"), "little")
    steps = [steps_of(array) for array in (out, *half, spread)]
    rows = tile.rows, queries
    places, factors = drawn_of(dropout)
    ints, blocks = device_attention.integers(sizes, rows, 1, steps, scale, places)
    integers, factor = np.array(ints, np.int64), np.array(factors, np.float32)
    words = words_of(dropout, factor, integers)
    operands = [a.ctypes.data for a in (out, *half, mask, log_mass, *words, integers)]
    total = batch * heads[0] * blocks
    reference_grid.run(function, [*operands, total], 3, tile.threads)
    query, key, value = (array.astype(np.float64) for array in half)
    key, value = (np.repeat(array, shared, 1) for array in (key, value))
    scores = query @ key.swapaxes(2, 3) * 0.25 + spread
    if causal:
        scores[..., ~np.tri(queries, keys, dtype=bool)] = -np.inf
    top = scores.max(-1, keepdims=True)
    mass = np.exp(scores - top)
    total = mass.sum(-1, keepdims=True)
    weights = mass / total * growths(mass.shape, dropout)
    np.testing.assert_allclose(out, weights @ value, atol=4e-3)
    np.testing.assert_allclose(log_mass, (top + np.log(total))[..., 0], atol=1e-4)


@pytest.fixture(scope="module")
def plain():
    return lower(device_attention.forward("attend", ir.f16, TILE))


@pytest.mark.parametrize("sizes", [(1, 1), (16, 17), (33, 40)])
def test_blocks_of_queries_attend_to_slices_of_keys(plain, sizes):
    run_forward(plain, *sizes)


def test_later_keys_are_hidden_and_masks_added(plain):
    run_forward(plain, 40, 33, causal=True)
    added = lower(device_attention.forward("attend", ir.f16, TILE, ir.f32))
    run_forward(added, 17, 20, mask=drawn(1, 2, 17, 20).astype(np.float32))


SEED = (1 << 63) - 12345
GROUPS = wgmma_attention.tile_for(16, 16)


@pytest.fixture(scope="module")
def by_groups():
    made = wgmma_attention.forward("attend", ir.f16, GROUPS, ir.f32, True)
    return lower(made)


def run_groups(function, queries, keys, causal=False):
    mask = drawn(1, 1, queries, keys).astype(np.float32)
    mask[..., 0] = -np.inf
    mask[..., 0, 0] = 0.0
    rest = {"heads": (1, 1), "dropout": (0.2, SEED, 4), "tile": GROUPS}
    run_forward(function, queries, keys, causal, mask, **rest)


@pytest.mark.parametrize("sizes", [(70, 68), (3, 130)])
def test_groups_of_queries_attend_to_slices_of_keys(by_groups, sizes):
    run_groups(by_groups, *sizes)


@pytest.mark.parametrize("kind, number", [(Barrier, 0), (Barrier, 1), (ShowUnits, 1)])
def test_what_groups_wait_for_is_needed(by_groups, kind, number):
    with pytest.raises(RaceError):
        run_groups(without(by_groups, kind, number), 3, 130)


DROPOUTS = [(33, 40, 0), (40, 33, 8), (20, 36, (1 << 33) + 4), (20, 36, 6)]


@pytest.fixture(scope="module")
def dropping():
    return lower(device_attention.forward("attend", ir.f16, TILE, dropout=True))


@pytest.mark.parametrize("queries, keys, offset", DROPOUTS)
def test_weights_are_left_out_by_the_words_of_their_places(
    dropping, queries, keys, offset
):
    run_forward(dropping, queries, keys, dropout=(0.3, SEED, offset))


def test_without_chance_nothing_is_left_out(dropping):
    run_forward(dropping, 17, 20, causal=True, dropout=(0.0, -5, 0))


@pytest.mark.parametrize("queries, keys, offset", DROPOUTS)
@pytest.mark.parametrize("kind", device_attention_gradients.KINDS)
def test_gradients_leave_out_the_same_weights(kind, queries, keys, offset):
    run_gradient(kind, queries, keys, dropout=(0.3, SEED, offset))


def test_the_least_word_that_keeps_is_the_first_whose_number_is_above():
    for chance in (0.0, 1e-9, 0.1, 0.25, 1 / 3, 0.999, 1 - 2.0**-24):
        least = least_word(chance)
        words = np.array([max(least - 1, 0), min(least, WORD)])
        numbers = words.astype(np.float32) * np.float32(2.0**-32)
        above = numbers + np.float32(2.0**-33) > np.float32(chance)
        assert above.tolist() == [least == 0, True]


def run_gradient(
    kind,
    queries,
    keys,
    causal=False,
    mask=None,
    change=None,
    dropout=None,
    element=ir.f16,
):
    """A gradient of attention with two heads for each of keys, and what it should be."""
    batch, heads, groups = 1, 2, 1
    dtype = np.dtype(element.name)
    tile = device_attention_gradients.GradientTile(16, 16, 16, warps=2, part=16)
    counts = {"query": queries, "key": keys, "value": keys, "grad": queries}
    own = {name: groups if name in ("key", "value") else heads for name in counts}
    half = {
        name: drawn(batch, own[name], n, 16, seed=k).astype(np.float16).astype(dtype)
        for k, (name, n) in enumerate(counts.items())
    }
    q, k, v, g = (half[name].astype(np.float64) for name in counts)
    mask = np.zeros((1, 1, 1, 1), np.float32) if mask is None else mask
    spread = np.broadcast_to(mask, (batch, heads, queries, keys))
    scores = q @ k.swapaxes(2, 3) * 0.25 + spread
    if causal:
        scores[..., ~np.tri(queries, keys, dtype=bool)] = -np.inf
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    mass = weights.sum(-1, keepdims=True)
    weights /= mass
    growth = growths(weights.shape, dropout)
    half["out"] = (weights * growth @ v).astype(np.float16).astype(dtype)
    delta = (half["out"].astype(np.float64) * g).sum(-1)
    slopes = weights * (growth * (g @ v.swapaxes(2, 3)) - delta[..., None])
    wanted = {
        "query": slopes @ k * 0.25,
        "key": (slopes.swapaxes(2, 3) @ q * 0.25).sum(1, keepdims=True),
        "value": ((weights * growth).swapaxes(2, 3) @ g).sum(1, keepdims=True),
    }[kind]
    log_mass = np.ascontiguousarray((top + np.log(mass))[..., 0], np.float32)
    deltas = np.full_like(log_mass, np.nan) if kind == "query" else delta.astype("f")
    types = element, tile, ir.f32
    drops = dropout is not None
    function = lower(
        device_attention_gradients.gradient(kind, "gradient", *types, drops)
    )
    function = change(function) if change else function
    result = np.full(half[kind].shape, np.nan, dtype)
    operands = [
        result,
        *(half[name] for name in device_attention_gradients.OPERANDS[1:-1]),
    ]
    sizes = heads, heads // groups, queries, keys, 16, 16, causal
    scale = int.from_bytes(struct.pack("f", 0.25).ljust(8, b"\0"), "little")
    steps = [steps_of(array) for array in (*operands, spread)]
    rows = tile.rows, counts[kind]
    places, factors = drawn_of(dropout)
    ints, blocks = device_attention.integers(sizes, rows, 1, steps, scale, places)
    integers, factor = np.array(ints, np.int64), np.array(factors, np.float32)
    words = words_of(dropout, factor, integers)
    arrays = *operands, mask, log_mass, deltas, *words, integers
    total = batch * own[kind] * blocks
    addresses = [array.ctypes.data for array in arrays]
    reference_grid.run(function, [*addresses, total], 2, tile.threads)
    np.testing.assert_allclose(result, wanted, atol=1e-2)
    np.testing.assert_allclose(deltas, delta, atol=1e-3)


@pytest.mark.parametrize("sizes", [(1, 1), (17, 40), (40, 17)])
@pytest.mark.parametrize("kind", device_attention_gradients.KINDS)
def test_blocks_of_rows_have_the_gradients_of_whole_matrices(kind, sizes):
    run_gradient(kind, *sizes)


@pytest.mark.parametrize("sizes", [(33, 40), (17, 3)])
def test_floats_are_rounded_to_products_of_tf32(sizes):
    function = lower(device_attention.forward("attend", ir.f32, TILE))
    run_forward(function, *sizes, causal=True, kind=np.float32)
    dropping = lower(device_attention.forward("attend", ir.f32, TILE, ir.f32, True))
    mask = drawn(1, 2, *sizes).astype(np.float32)
    dropout = 0.4, SEED, 4
    run_forward(dropping, *sizes, mask=mask, dropout=dropout, kind=np.float32)


@pytest.mark.parametrize("kind", device_attention_gradients.KINDS)
def test_gradients_of_floats_are_those_of_whole_matrices(kind):
    run_gradient(kind, 17, 40, element=ir.f32)
    run_gradient(kind, 36, 20, causal=True, dropout=(0.3, 5, 0), element=ir.f32)


@pytest.mark.parametrize("kind", device_attention_gradients.KINDS)
def test_gradients_do_not_flow_to_hidden_keys(kind):
    mask = drawn(1, 2, 20, 35).astype(np.float32)
    mask[..., 1] = -np.inf
    run_gradient(kind, 20, 35, causal=True, mask=mask)


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("kind", device_attention_gradients.KINDS)
def test_every_barrier_of_a_gradient_is_needed(kind, number):
    with pytest.raises(RaceError, match="no barrier between"):
        run_gradient(kind, 40, 40, change=lambda f: without(f, Barrier, number))


@pytest.mark.parametrize("number", range(2))
def test_every_barrier_is_needed(plain, number):
    with pytest.raises(RaceError, match="no barrier between"):
        run_forward(without(plain, Barrier, number), 70, 40)


def test_copies_must_be_waited_for(plain):
    with pytest.raises(AssertionError):
        run_forward(without(plain, AwaitCopies), 16, 40)


def grid_function(write, kind=ir.f16):
    """A function over one array, written by ``write(builder, array, shared)``."""
    b, out = Builder(), Var("out", ir.Pointer(kind))
    shared = Var("shared", ir.Pointer(kind))
    b.add(ir.Array(shared, 256, shared=True))
    write(b, out, shared)
    return ir.Function("example", (out,), b.statements, grid=True)


def run(function, threads=32):
    out = np.arange(256, dtype=np.float16)
    reference_grid.run(function, [out.ctypes.data], 1, threads)
    return out


def test_a_copy_writes_from_when_it_is_asked_for_until_it_is_waited_for():
    def write(b, out, shared, order):
        number = Place("thread") * 8
        b.add(ir.CopyAsync(shared, number, out, number, ir.Const(ir.i64, 16)))
        b.add(ir.CommitCopies())
        for statement in order[:2]:
            b.add(statement)
        value = b.let("value", ir.load(shared, (Place("thread") + 1) % 32 * 8))
        for statement in order[2:]:
            b.add(statement)
        b.store(out, number, value)

    wait, meet = AwaitCopies(0), Barrier()
    found = run(grid_function(lambda *args: write(*args, (wait, meet))))
    assert found[::8].tolist() == [*range(8, 256, 8), 0]
    for order in ((wait,), (meet, ir.CommitCopies(), wait)):
        with pytest.raises(RaceError, match="no barrier between"):
            run(grid_function(lambda *args, order=order: write(*args, order)))


def test_a_group_of_copies_is_waited_for_alone():
    def write(b, out, shared):
        for k, size in ((0, 16), (8, 6)):
            at = Place("thread") * 8 + 0
            b.add(ir.CopyAsync(shared, at, out, at + 8 - k, ir.Const(ir.i64, size)))
            b.add(ir.CommitCopies())
        b.add(AwaitCopies(1))
        first = b.let("first", ir.load(shared, 0))
        b.add(AwaitCopies(0))
        last = [b.let("last", ir.load(shared, n)) for n in (0, 2, 3)]
        for n, value in enumerate((first, *last)):
            b.store(out, n, value)

    assert run(grid_function(write), 1)[:4].tolist() == [8, 0, 2, 0]


@pytest.mark.parametrize("turned", [False, True])
def test_lanes_get_words_of_rows_of_shared_memory(turned):
    def write(b, out, shared):
        lane = Place("thread")
        for n in range(8):
            b.store(shared, lane * 8 + n, ir.load(out, lane * 8 + n))
        b.add(Barrier())
        rows = b.let("rows", ir.UnitRows(turned, shared, lane * 8))
        words = ir.Reinterpret(ir.Pointer(ir.u32), out)
        b.add(Barrier())
        for n in range(4):
            b.store(words, lane * 4 + n, ir.Extract(n, rows))

    found = run(grid_function(write)).reshape(32, 4, 2)
    blocks = np.arange(256).reshape(4, 8, 8)
    blocks = blocks.swapaxes(1, 2) if turned else blocks
    for lane in range(32):
        row, pair = divmod(lane, 4)
        wanted = blocks[:, row, 2 * pair : 2 * pair + 2]
        assert (found[lane] == wanted).all()


def test_the_host_does_not_copy_beside_what_it_does():
    pointer = Var("x", ir.Pointer(ir.f16))
    zero = ir.Const(ir.i64, 0)
    copy = ir.CopyAsync(pointer, zero, pointer, zero, zero)
    for statement in (copy, ir.CommitCopies(), AwaitCopies(0)):
        with pytest.raises(spec.SpecError, match="only the threads of a grid"):
            spec.verify(ir.Function("example", (pointer,), (statement,)))


def test_units_take_words_of_halves_of_one_type():
    word, zero = ir.Const(ir.u32, 0), ir.Const(ir.f32, 0)
    for packed, values in (("float32", [word] * 6), ("float16", [zero] * 6)):
        product = ir.UnitProduct(0, *values, *[zero] * 4, packed=packed)
        let = ir.Let(Var("x", ir.f32), product)
        with pytest.raises(spec.SpecError, match="6 words of halves"):
            spec.verify(ir.Function("example", (), (let,), grid=True))

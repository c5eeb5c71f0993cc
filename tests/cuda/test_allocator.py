"""Memory of a card: what is kept, cut, joined, counted and given back."""

from __future__ import annotations

import gc
import random

import pytest

from rushlight.core.errors import AcceleratorError, OutOfMemoryError
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.blocks import MIDDLE_SEGMENT
from rushlight.runtime.cuda.memory_settings import Settings
from rushlight.runtime.cuda.memory_stats import BYTES, COUNTS, flat

MIB = 1 << 20

pytestmark = pytest.mark.imagined


def current(allocator, name):
    return allocator.statistics.current(name)


def sound(allocator):
    """What must hold of an allocator at any time."""
    taken = active = idle = split = 0
    for address, segment in allocator.segments.items():
        blocks = list(segment.blocks())
        assert blocks[0].address == segment.address == address
        assert sum(block.size for block in blocks) == segment.size
        for one, other in zip(blocks, blocks[1:]):
            assert one.address + one.size == other.address
            assert other.before is one
            assert not (one.is_free() and other.is_free()), "not joined"
        for block in blocks:
            taken += block.size * block.taken
            free = block.is_free()
            active += block.size * (not free)
            idle += free
            split += free and len(blocks) > 1
            assert (block.address in block.pool.blocks) == free
            assert (block.address in allocator.blocks) == block.taken
    assert current(allocator, "allocated_bytes") == taken
    assert current(allocator, "active_bytes") == active
    assert current(allocator, "inactive_split") == split
    assert current(allocator, "segment") == len(allocator.segments)
    listed = sum(len(p.blocks) for pools in allocator.pools.values() for p in pools)
    assert listed == idle


def test_a_block_that_came_back_is_given_out_again_without_asking_the_driver(machine):
    allocator = machine.card().allocator
    first = allocator.allocate(1000)
    allocator.free(first)
    assert allocator.allocate(900) == first
    assert machine.fake.names("cuMemAlloc", "cuMemFree") == ["cuMemAlloc"]
    sound(allocator)


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (13 * MIB, 14 * MIB),
    ],
)
def test_segments_have_pytorchs_sizes(machine, asked, segment):
    allocator = machine.card().allocator
    allocator.allocate(asked)
    assert current(allocator, "reserved_bytes") == segment
    taken = current(allocator, "allocated_bytes")
    assert asked <= taken <= asked + MIB, "no more than a rest too small to cut"
    assert current(allocator, "requested_bytes") == asked


def test_nothing_is_asked_for_zero_bytes(machine):
    allocator = machine.card().allocator
    assert allocator.allocate(0) == 0
    allocator.free(0)
    assert machine.fake.names("cuMemAlloc") == []


def test_memory_of_another_address_is_refused(machine):
    allocator = machine.card().allocator
    address = allocator.allocate(8)
    with pytest.raises(RuntimeError, match="Invalid device pointer"):
        allocator.free(address + 512)
    allocator.free(address)
    with pytest.raises(RuntimeError, match="Invalid device pointer"):
        allocator.free(address)


def test_queues_do_not_share_free_blocks(machine):
    card = machine.card()
    side = card.streams.give()
    first = card.allocator.allocate(4096)
    card.allocator.free(first)
    assert card.allocator.allocate(4096, side.handle) != first
    sound(card.allocator)


@pytest.mark.parametrize("seed", range(5))
def test_a_block_waits_for_the_other_queues_that_use_it(machine, seed):
    machine.start(seed=seed)
    card = machine.card()
    side = card.streams.give()
    first = card.allocator.allocate(4096)
    card.call("cuMemsetD8Async", first, 1, 4096, side.handle)
    card.allocator.used_by(first, side)
    card.allocator.free(first)
    assert current(card.allocator, "allocated_bytes") == 0
    assert current(card.allocator, "active_bytes") == 4096
    again = [card.allocator.allocate(4096)]
    while again[-1] != first:
        assert machine.fake.pending() or len(again) < 3
        again.append(card.allocator.allocate(4096))
        machine.fake.step()
    assert not machine.fake.pending(), "it came back before the work was done"
    sound(card.allocator)


def test_idle_memory_goes_back_when_it_is_asked_to_or_the_card_is_full(machine):
    machine.start(memory=64 * MIB)
    allocator = machine.card().allocator
    allocator.free(allocator.allocate(40 * MIB))
    assert current(allocator, "reserved_bytes") == 40 * MIB
    kept = allocator.allocate(60 * MIB)
    assert current(allocator, "reserved_bytes") == 60 * MIB
    assert allocator.statistics.events["num_alloc_retries"] == 1
    allocator.free(kept)
    allocator.release_idle()
    assert current(allocator, "reserved_bytes") == 0
    assert not machine.fake.device
    sound(allocator)


def test_a_full_card_is_told_with_the_allocators_state_and_stays_usable(machine):
    machine.start(memory=64 * MIB)
    allocator = machine.card().allocator
    kept = allocator.allocate(40 * MIB)
    with pytest.raises(OutOfMemoryError) as told:
        allocator.allocate(30 * MIB)
    text = str(told.value)
    for part in (
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0",
        "total capacity of 64.00 MiB of which 24.00 MiB is free",
        "40.00 MiB is allocated",
        "remedy",
    ):
        assert part in text
    assert allocator.statistics.events["num_ooms"] == 1
    sound(allocator)
    assert allocator.allocate(20 * MIB)
    allocator.free(kept)
    sound(allocator)


def test_a_cap_is_kept(machine):
    allocator = machine.card().allocator
    allocator.cap(0.5)
    allocator.allocate(30 * MIB)
    with pytest.raises(OutOfMemoryError, match="32.00 MiB allowed"):
        allocator.allocate(4 * MIB)
    allocator.cap(1.0)
    assert allocator.allocate(4 * MIB)


@pytest.mark.parametrize("code", [1, 700])
def test_other_errors_of_the_driver_are_not_taken_for_a_lack_of_memory(machine, code):
    allocator = machine.card().allocator
    machine.fake.fail("cuMemAlloc", code)
    with pytest.raises(AcceleratorError, match="CUDA error: .*\n.*cuMemAlloc") as told:
        allocator.allocate(100)
    assert told.value.error_code == code
    assert not isinstance(told.value, OutOfMemoryError)
    sound(allocator)
    assert allocator.allocate(100)


def test_what_garbage_collection_gives_back_amid_an_allocation_waits(
    machine, monkeypatch
):
    allocator = machine.card().allocator
    addresses = [allocator.allocate(700) for _ in range(8)]

    class Holder:
        def __init__(self, address):
            self.address, self.me = address, self

        def __del__(self):
            allocator.free(self.address)

    for address in addresses:
        Holder(address)
    ask = machine.fake.cuMemAlloc

    def ask_later(size):
        gc.collect()
        assert current(allocator, "allocation") == 8, "given back in the middle"
        return ask(size)

    monkeypatch.setattr(machine.fake, "cuMemAlloc", ask_later)
    gc.disable()
    try:
        allocator.allocate(3 * MIB)
    finally:
        gc.enable()
    assert current(allocator, "allocation") == 1
    sound(allocator)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_calls_leaves_it_sound(machine, seed):
    machine.start(memory=96 * MIB, seed=seed)
    card, draw = machine.card(), random.Random(seed)
    allocator = card.allocator
    streams = [card.default_stream, card.streams.give(), card.streams.give()]
    held: list = []
    for turn in range(600):
        what = draw.random()
        if what < 0.5 or not held:
            size = draw.choice([1, 600, 5000, MIB - 1, 3 * MIB, 9 * MIB, 12 * MIB])
            stream = draw.choice(streams)
            try:
                address = allocator.allocate(draw.randint(1, size), stream.handle)
            except OutOfMemoryError:
                address = None
            if address:
                card.call("cuMemsetD8Async", address, turn % 256, 1, stream.handle)
                held.append(address)
        elif what < 0.9:
            allocator.free(held.pop(draw.randrange(len(held))))
        elif what < 0.97:
            address, stream = draw.choice(held), draw.choice(streams)
            card.call("cuMemsetD8Async", address, turn % 256, 1, stream.handle)
            allocator.used_by(address, stream)
        elif what < 0.98:
            allocator.release_idle()
        else:
            machine.fake.drain()
        if turn % 20 == 0:
            sound(allocator)
    for address in held:
        allocator.free(address)
    allocator.release_idle()
    sound(allocator)
    assert current(allocator, "reserved_bytes") == 0
    assert not machine.fake.device


def test_figures_have_pytorchs_names(machine):
    torch = pytest.importorskip("torch")
    allocator = machine.card().allocator
    allocator.free(allocator.allocate(3 * MIB))
    told = flat(allocator.statistics.nested())
    # What PyTorch's own table asks for is what its statistics hold.
    asked = {
        const
        for const in torch.cuda.memory.memory_summary.__code__.co_consts
        if isinstance(const, tuple)
        for const in const
        if isinstance(const, str) and "_" in const
    }
    for metric in {*COUNTS, *BYTES} | (asked & {*COUNTS, *BYTES}):
        for pool in ("all", "large_pool", "small_pool"):
            for figure in ("current", "peak", "allocated", "freed"):
                assert f"{metric}.{pool}.{figure}" in told
    assert told["num_alloc_retries"] == 0
    assert told["allocated_bytes.all.peak"] == 3 * MIB


def test_a_snapshot_accounts_for_every_byte(machine):
    allocator = machine.card().allocator
    kept = [allocator.allocate(n) for n in (100, 5000, 3 * MIB, 12 * MIB)]
    allocator.free(kept.pop(1))
    told = allocator.snapshot()
    assert sum(s["total_size"] for s in told) == current(allocator, "reserved_bytes")
    assert sum(s["allocated_size"] for s in told) == current(
        allocator, "allocated_bytes"
    )
    for segment in told:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
        assert {b["state"] for b in segment["blocks"]} <= {
            *("active_allocated", "inactive", "active_pending_free")
        }


def test_large_blocks_stay_whole_where_that_is_asked_for(machine, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:24")
    machine.start(memory=256 * MIB)
    allocator = machine.card().allocator
    allocator.free(allocator.allocate(100 * MIB))
    allocator.allocate(12 * MIB)
    assert current(allocator, "reserved_bytes") == 112 * MIB, "it was not cut"
    allocator.allocate(100 * MIB - MIDDLE_SEGMENT // 2)
    assert current(allocator, "reserved_bytes") == 112 * MIB, "it is near enough"


@pytest.mark.parametrize(
    "text",
    [
        *("nonsense", "max_split_size_mb:5", "roundup_power2_divisions:3", "what:1"),
        "garbage_collection_threshold:2",
    ],
)
def test_settings_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match=text.partition(":")[0]):
        Settings(text)


def test_sizes_can_be_rounded_between_powers_of_two():
    settings = Settings("roundup_power2_divisions:4")
    assert settings.rounded(1200 << 10) == 1280 << 10
    assert settings.rounded(1 << 20) == 1 << 20
    assert Settings().rounded(513) == 1024


def test_a_pool_of_ones_own_serves_only_its_block(machine):
    allocator = machine.card().allocator
    with allocator.route((0, 77), lambda stream: True):
        inside = allocator.allocate(5000)
    outside = allocator.allocate(5000)
    assert allocator.blocks[inside].pool.name == (0, 77)
    assert allocator.blocks[outside].pool.name == (0, 0)
    allocator.free(inside)
    assert allocator.allocate(5000) != inside
    allocator.release_idle()
    assert (0, 77) not in allocator.pools
    sound(allocator)


def test_cards_have_their_own_memory(machine):
    first, second = machine.card(0), machine.card(1)
    one, other = first.allocator.allocate(100), second.allocator.allocate(100)
    assert machine.fake.device[one].where == 0
    assert machine.fake.device[other].where == 1
    assert contexts.current_index() == 0

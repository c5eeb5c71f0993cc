"""``cuda`` as programs use it, on a card that is not there, beside PyTorch's words."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.runtime.cuda import contexts

MIB = 1 << 20


@pytest.mark.imagined
def test_a_program_finds_what_a_card_is_like(machine):
    assert rl.cuda.device_count() == 2
    assert rl.cuda.get_device_name(1) == "Imagined H200"
    assert rl.cuda.get_device_capability("cuda:0") == (9, 0)
    told = rl.cuda.get_device_properties()
    assert told.multi_processor_count == 132 and told.total_memory == 64 * MIB
    assert repr(told).startswith("_CudaDeviceProperties(name='Imagined H200', major=9")
    assert rl.cuda.is_bf16_supported() and rl.cuda.is_tf32_supported()
    assert rl.cuda.can_device_access_peer(0, 1)


def test_blocks_choose_a_card_and_give_it_back(machine):
    assert rl.cuda.current_device() == 0
    with rl.cuda.device(1):
        assert rl.cuda.current_device() == 1
        with rl.cuda.device(-1):
            assert rl.cuda.current_device() == 1
    assert rl.cuda.current_device() == 0
    rl.cuda.set_device("cuda:1")
    assert rl.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        rl.cuda.set_device(7)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        rl.cuda.synchronize("cpu")


def test_queues_of_a_block_are_the_current_ones_there(machine):
    side = rl.cuda.Stream()
    assert rl.cuda.current_stream() == rl.cuda.default_stream()
    with rl.cuda.stream(side):
        assert rl.cuda.current_stream() == side
        with rl.cuda.stream(None):
            assert rl.cuda.current_stream() == side
    assert rl.cuda.current_stream().cuda_stream == 0
    with side:
        assert rl.cuda.current_stream() == side
    other = rl.cuda.Stream(device=1)
    with rl.cuda.stream(other):
        assert rl.cuda.current_device() == 1
    assert rl.cuda.current_device() == 0
    again = rl.cuda.ExternalStream(side.cuda_stream)
    assert again == side and hash(again) == hash(side)
    assert side._as_parameter_.value == side.cuda_stream


def test_events_order_queues_and_take_time(machine):
    one, two = rl.cuda.Stream(), rl.cuda.Stream()
    start, end = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    start.record(one)
    two.wait_event(start)
    end.record(two)
    rl.cuda.synchronize()
    assert start.query() and end.query() and start.elapsed_time(end) > 0
    assert one.record_event().device == rl.device("cuda", 0)
    assert repr(rl.cuda.Event()) == "<torch.cuda.Event uninitialized>"


def test_a_summary_is_pytorchs_table(machine, monkeypatch):
    torch = pytest.importorskip("torch")
    allocator = machine.card().allocator
    held = [allocator.allocate(n) for n in (100, 3 * MIB, 900, 12 * MIB, 700 << 10)]
    for address in held[1:3]:
        allocator.free(address)
    told = rl.cuda.memory_stats()
    monkeypatch.setattr(torch.cuda.memory, "memory_stats", lambda device=None: told)
    monkeypatch.setattr(torch.cuda.memory, "_get_device_index", lambda *a, **k: 0)
    for short in (False, True):
        assert rl.cuda.memory_summary(abbreviated=short) == torch.cuda.memory_summary(
            abbreviated=short
        )


@pytest.mark.imagined
def test_memory_is_counted_capped_and_given_back(machine):
    address = rl.cuda.caching_allocator_alloc(3 * MIB)
    assert rl.cuda.memory_allocated() == 3 * MIB
    assert rl.cuda.memory_reserved() == 20 * MIB
    assert rl.cuda.mem_get_info() == (44 * MIB, 64 * MIB)
    rl.cuda.caching_allocator_delete(address)
    assert rl.cuda.memory_allocated() == 0 and rl.cuda.max_memory_allocated() == 3 * MIB
    rl.cuda.reset_peak_memory_stats()
    assert rl.cuda.max_memory_allocated() == 0
    rl.cuda.empty_cache()
    assert rl.cuda.memory_reserved() == 0
    rl.cuda.set_per_process_memory_fraction(0.25)
    with pytest.raises(rl.OutOfMemoryError, match="16.00 MiB allowed"):
        rl.cuda.caching_allocator_alloc(20 * MIB)
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        rl.cuda.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="must be `float`"):
        rl.cuda.set_per_process_memory_fraction(1)


@pytest.mark.imagined
def test_a_pool_keeps_what_its_block_asks_for_apart(machine):
    pool = rl.cuda.MemPool()
    with rl.cuda.use_mem_pool(pool):
        inside = rl.cuda.caching_allocator_alloc(1000)
    outside = rl.cuda.caching_allocator_alloc(1000)
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert len(rl.cuda.memory_snapshot()) == 2
    for address in (inside, outside):
        rl.cuda.caching_allocator_delete(address)
    del pool
    rl.cuda.empty_cache()
    assert rl.cuda.memory_snapshot() == []


def test_work_of_a_block_is_written_down_and_replayed(machine):
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        assert rl.cuda.is_current_stream_capturing()
        address = rl.cuda.caching_allocator_alloc(512)
        queue = contexts.current_stream(machine.card())
        machine.card().call("cuMemsetD8Async", address, 3, 512, queue.handle)
    assert not rl.cuda.is_current_stream_capturing()
    graph.replay()
    rl.cuda.synchronize()
    other = rl.cuda.CUDAGraph()
    with rl.cuda.graph(other, pool=graph.pool()):
        pass
    assert other.pool() == graph.pool()
    rl.cuda.caching_allocator_delete(address)
    graph.reset()
    other.reset()


@pytest.mark.imagined
def test_generators_are_seeded_read_and_set(machine):
    rl.cuda.manual_seed_all(5)
    assert rl.cuda.initial_seed() == 5
    state = rl.cuda.get_rng_state()
    assert state.dtype is rl.uint8 and state.shape == (16,)
    rl.cuda.default_generators[0].take(4)
    assert rl.cuda.get_rng_state().tolist() != state.tolist()
    rl.cuda.set_rng_state(state)
    assert rl.cuda.get_rng_state().tolist() == state.tolist()
    assert len(rl.cuda.get_rng_state_all()) == 2
    with pytest.raises(TypeError, match="ByteTensor"):
        rl.cuda.set_rng_state(rl.zeros(16))


@pytest.mark.imagined
def test_a_machine_without_a_driver_answers_at_once_and_imports_nothing():
    program = (
        "import rushlight as rl, sys\n"
        "assert not rl.cuda.is_available() and not rl.cuda.is_initialized()\n"
        "assert 'cuda' not in sys.modules\n"
        "assert rl.cuda.memory_allocated() == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class _Nccl:
    """A library that tells its version."""

    @staticmethod
    def ncclGetVersion(number):
        number._obj.value = 22705
        return 0


def test_nccl_tells_its_version_and_what_it_takes(machine):
    from rushlight.runtime.cuda.nccl import NCCL

    held = NCCL.found, NCCL.missing
    NCCL.replace(_Nccl)
    try:
        assert rl.cuda.nccl.version() == (2, 27, 5)
        x = rl.ones(2, 3, device="cuda")
        assert rl.cuda.nccl.is_available([x])
        assert not rl.cuda.nccl.is_available([x, x])  # of one card
        assert not rl.cuda.nccl.is_available([x.t()])
        assert not rl.cuda.nccl.is_available([rl.ones(2)])
    finally:
        NCCL.found, NCCL.missing = held

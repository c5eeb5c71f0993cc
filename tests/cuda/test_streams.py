"""Queues, moments, locked memory and graphs, on a card that is not there."""

from __future__ import annotations

import ctypes
import threading

import pytest

from rushlight.core.errors import AcceleratorError
from rushlight.runtime.cuda import code_cache, contexts, graphs, pinned_memory
from rushlight.runtime.cuda.streams import KEPT, Event
from tests.cuda.driver import near

TEXT = """
.version 7.8
.target sm_90
.address_size 64

.visible .entry double_it(
	.param .u64 .ptr .align 1 double_it_param_0,
	.param .align 8 .b8 double_it_param_1[24],
	.param .u64 double_it_param_2
)
{
	ret;
}
"""

pytestmark = pytest.mark.imagined


def fill(card, address, value, size, stream):
    card.call("cuMemsetD8Async", address, value, size, stream.handle)


def read(address, size):
    return ctypes.string_at(near(address), size)


@pytest.mark.parametrize("seed", range(8))
def test_a_queue_that_waits_for_an_event_sees_what_was_before_it(machine, seed):
    machine.start(seed=seed)
    card = machine.card()
    first, second = card.streams.give(), card.streams.give()
    one, two = card.allocator.allocate(64), card.allocator.allocate(64)
    fill(card, one, 7, 64, first)
    second.wait_stream(first)
    card.call("cuMemcpyAsync", two, one, 64, second.handle)
    second.synchronize()
    assert read(two, 64) == b"\7" * 64


def test_without_an_event_some_order_shows_what_is_not_there_yet(machine):
    seen = set()
    for seed in range(20):
        machine.start(seed=seed)
        card = machine.card()
        first, second = card.streams.give(), card.streams.give()
        one, two = card.allocator.allocate(64), card.allocator.allocate(64)
        fill(card, one, 7, 64, first)
        card.call("cuMemcpyAsync", two, one, 64, second.handle)
        card.synchronize()
        seen.add(read(two, 1))
    assert len(seen) == 2, "the imagined driver finds missing waits"


def test_queues_are_given_out_in_turn_and_come_again(machine):
    streams = machine.card().streams
    given = [streams.give() for _ in range(KEPT + 1)]
    assert len({s.handle for s in given}) == KEPT
    assert given[0] == given[-1]
    assert streams.give(-3).priority == -3
    assert streams.give(-99).priority == streams.range()[1]
    assert streams.give(5).priority == 0


def test_events_tell_when_they_have_come_and_how_long_it_took(machine):
    card = machine.card()
    stream = card.streams.give()
    start, end = Event(timing=True), Event(timing=True)
    assert start.query(), "what was never recorded holds nothing up"
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed(end)
    start.record(stream)
    end.record(stream)
    end.synchronize()
    assert start.query() and start.elapsed(end) > 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed(Event().record(stream))


def test_an_event_belongs_to_one_card(machine):
    event = Event().record(machine.card(0).default_stream)
    with pytest.raises(RuntimeError, match="does not match"):
        event.record(machine.card(1).default_stream)


def test_each_thread_has_its_own_card_and_queue(machine):
    card = machine.card(1)
    queue = card.streams.give()
    assert contexts.use(1) == 0
    contexts.use_stream(queue)
    seen = []

    def other():
        seen.append((contexts.current_index(), contexts.current_stream(card).handle))
        contexts.ctx(0).synchronize()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [(0, 0)]
    assert contexts.current_stream(contexts.ctx()) == queue


def test_a_card_that_is_not_there_is_refused_with_how_many_there_are(machine):
    with pytest.raises(
        RuntimeError, match="invalid device ordinal\n.*cuda:2.*and 2 can"
    ):
        contexts.use(2)
    assert contexts.current_index() == 0


def test_an_error_of_a_kernel_is_told_with_what_to_do(machine):
    card = machine.card()
    machine.fake.fail("cuStreamSynchronize", 700)
    with pytest.raises(AcceleratorError) as told:
        card.default_stream.synchronize()
    text = str(told.value)
    assert text.startswith("CUDA error: an illegal memory access was encountered")
    assert "CUDA_LAUNCH_BLOCKING=1" in text and told.value.error_code == 700


def test_locked_memory_waits_for_the_queues_that_copy_from_it(machine):
    card = machine.card()
    queue = card.streams.give()
    address, target = pinned_memory.allocate(1000), card.allocator.allocate(1000)
    card.call("cuMemcpyAsync", target, address, 1000, queue.handle)
    pinned_memory.used_by(address, queue)
    pinned_memory.free(address)
    assert pinned_memory.allocate(1000) != address or not machine.fake.pending()
    queue.synchronize()
    pinned_memory.look_at_events()
    assert pinned_memory.allocate(600) == address
    assert pinned_memory.figures()["active_bytes"]["current"] >= 1024
    pinned_memory.release_idle()


def test_a_graph_does_its_work_when_it_is_launched_and_each_time(machine):
    card = machine.card()
    queue = card.streams.give()
    contexts.use_stream(queue)
    graph = graphs.Graph()
    graph.begin(queue)
    assert queue.capturing()
    inside = card.allocator.allocate(128, queue.handle)
    fill(card, inside, 9, 128, queue)
    graph.end()
    assert not queue.capturing()
    assert card.allocator.blocks[inside].pool.name == graph.name
    for _ in range(2):
        ctypes.memset(near(inside), 0, 128)
        graph.replay()
        queue.synchronize()
        assert read(inside, 128) == b"\x09" * 128
    card.allocator.free(inside)
    card.allocator.release_idle()
    assert graph.name in card.allocator.pools, "a launch still needs the memory"
    graph.reset()
    card.allocator.release_idle()
    assert not card.allocator.segments
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_a_wait_while_a_graph_is_written_down_makes_it_invalid(machine):
    card = machine.card()
    queue = card.streams.give()
    contexts.use_stream(queue)
    graph = graphs.Graph()
    graph.begin(queue)
    with pytest.raises(AcceleratorError):
        queue.synchronize()
    with pytest.raises(AcceleratorError):
        graph.end()
    assert not card.allocator.writing and not card.allocator.routes
    graph.reset()


def test_the_first_queue_cannot_be_written_down(machine):
    card = machine.card()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graphs.Graph().begin(card.default_stream)


def test_kernels_are_assembled_once_and_found_on_disk(machine, tmp_path, monkeypatch):
    tmp_path = tmp_path / "own"
    tmp_path.mkdir()
    monkeypatch.setattr(code_cache, "folder", lambda: str(tmp_path))
    before = dict(code_cache.counts)

    def change(name):
        return code_cache.counts[name] - before[name]

    def ask(build=lambda: TEXT):
        return machine.card().modules.function(b"key", "double_it", build)

    found = ask()
    assert found.parameters == [8, 24, 8]
    assert ask() is found
    assert change("assembled") == 1
    machine.start()
    ask(build=None)  # nothing is built where the machine code is there
    assert (change("assembled"), change("loaded")) == (1, 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    machine.start()
    ask()
    assert (change("assembled"), change("refused")) == (2, 1)
    machine.start()
    ask()
    assert change("loaded") == 2, "the damaged file was replaced"


def test_text_that_is_no_kernel_is_refused(machine, tmp_path, monkeypatch):
    tmp_path = tmp_path / "own"
    tmp_path.mkdir()
    monkeypatch.setattr(code_cache, "folder", lambda: str(tmp_path))
    with pytest.raises(AcceleratorError):
        machine.card().modules.function(b"1", "double_it", lambda: "nothing")
    with pytest.raises(AcceleratorError):
        machine.card().modules.function(b"2", "another", lambda: TEXT)
    assert not list(tmp_path.iterdir()), "nothing is kept of it"


def test_cards_that_reach_one_another_are_opened_once(machine):
    first, second = machine.card(0), machine.card(1)
    assert first.open_to(second) and first.open_to(second)
    assert machine.fake.names("cuCtxEnablePeerAccess") == ["cuCtxEnablePeerAccess"]


def test_a_random_stream_is_a_seed_and_a_place(machine):
    generator = machine.card().generator
    generator.manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1
    assert generator.take(5) == (2**64 - 1, 0)
    state = generator.state()
    assert generator.take(1)[1] == 8
    generator.restore(state)
    assert generator.take(1)[1] == 8
    with pytest.raises(RuntimeError, match="wrong size"):
        generator.restore(b"123")
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)

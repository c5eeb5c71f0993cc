"""Tensors on a card that is not there: their memory, and copies in the order of queues."""

import gc

import pytest

import rushlight as rl
from rushlight.backends import register_backend
from rushlight.core.storage import wrap_address
from rushlight.runtime.cuda import contexts, pinned_memory
from rushlight.runtime.cuda.backend import serve


@pytest.fixture
def cards(machine):
    before = serve()
    yield machine
    gc.collect()
    register_backend("cuda", before)


def test_elements_go_to_a_card_and_back(cards):
    x = rl.arange(12.0).reshape(3, 4)
    there = x.to("cuda")
    assert str(there.device) == "cuda:0" and there.is_cuda
    assert rl.equal(there.cpu(), x) and rl.equal(there.t().cpu(), x.t())
    assert there[1, 2].item() == 6.0
    assert rl.zeros(2, 2, device="cuda:1").fill_(3).tolist() == [[3.0, 3.0]] * 2
    there[0] = 7
    assert there.cpu()[0].tolist() == [7.0] * 4


@pytest.mark.imagined
def test_a_card_s_memory_comes_back_when_its_tensor_goes(cards):
    card = cards.card()
    x = rl.empty(1000, device="cuda")
    assert len(card.allocator.blocks) == 1
    view = x[10:]
    del x
    assert len(card.allocator.blocks) == 1
    del view
    assert not card.allocator.blocks


@pytest.mark.parametrize("seed", range(5))
def test_copies_keep_the_order_of_their_queue(cards, seed):
    cards.start(cards=2, seed=seed) if seed else None
    serve()
    backend = rl.backends.backend_for("cuda")
    first = rl.arange(1000.0).to("cuda")
    second = rl.empty(1000, device="cuda")
    second.copy_(first)
    first.copy_(rl.zeros(1000))
    assert second.cpu().tolist() == list(range(1000))
    other = backend.streams.stream(rl.device("cuda", 0))
    event = backend.streams.event(rl.device("cuda", 0))
    event.record(backend.streams.current_stream(rl.device("cuda", 0)))
    other.wait_event(event)
    before = backend.streams.set_stream(other)
    try:
        third = second.clone()
        assert third.cpu().tolist() == list(range(1000))
    finally:
        backend.streams.set_stream(before)
    del third
    backend.streams.synchronize(rl.device("cuda", 0))


def test_locked_memory_is_copied_while_the_host_goes_on(cards):
    backend = rl.backends.backend_for("cuda")
    address = backend.memory.pin(4000)
    here = rl.empty(0).set_(wrap_address(address, 4000, None), 0, (1000,))
    here.copy_(rl.arange(1000.0))
    there = rl.empty(1000, device="cuda")
    there.copy_(here, non_blocking=True)
    backend.memory.unpin(address, 4000)  # it waits for the queue by itself
    assert pinned_memory.block_of(address) is None
    assert there.cpu().tolist() == list(range(1000))


def test_two_cards_exchange_elements(cards):
    x = rl.arange(100.0).to("cuda:0")
    y = rl.empty(100, device="cuda:1")
    y.copy_(x)
    assert y.tolist() == list(range(100)) and str(y.device) == "cuda:1"
    assert contexts.current_index() == 0

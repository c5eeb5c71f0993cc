"""Memory of a card that is lent to other libraries, and borrowed from them."""

from __future__ import annotations

import types

import pytest

import rushlight as rl


@pytest.fixture
def card(machine):
    machine.start(cards=1)
    return machine


def test_a_tensor_of_a_card_is_lent_by_dlpack_without_a_copy(card):
    x = rl.arange(6.0, device="cuda").view(2, 3).t()
    assert x.__dlpack_device__() == (2, 0)
    y = rl.from_dlpack(x)
    assert y.device == x.device and y.stride() == x.stride()
    assert y.data_ptr() == x.data_ptr()
    y.mul_(2)
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]]


def test_who_takes_a_tensor_waits_for_the_work_that_makes_it(card):
    x = rl.ones(8, device="cuda") + 1
    stream = rl.cuda.Stream()
    before = len(card.fake.calls)
    x.__dlpack__(stream=stream.cuda_stream)
    asked = [(name, args) for name, args in card.fake.calls[before:]]
    waits = [args for name, args in asked if name == "cuStreamWaitEvent"]
    assert [int(args[0]) for args in waits] == [stream.cuda_stream]
    before = len(card.fake.calls)
    for unordered in (-1, 1, None):  # none is wanted, or the queue is the same
        x.__dlpack__(stream=unordered)
    assert "cuStreamWaitEvent" not in [name for name, _ in card.fake.calls[before:]]


def test_queues_that_are_none_are_refused(card):
    x = rl.ones(8, device="cuda")
    with pytest.raises(TypeError, match="stream must be ``int`` or ``none``"):
        x.__dlpack__(stream=1.0)
    with pytest.raises(BufferError, match="per-thread default stream"):
        x.__dlpack__(stream=2)


def test_a_tensor_is_described_as_numba_and_cupy_do(card):
    x = rl.arange(6, dtype=rl.int16, device="cuda").view(2, 3)
    assert x.__cuda_array_interface__ == {
        "version": 2,
        "typestr": "<i2",
        "shape": (2, 3),
        "strides": None,
        "data": (x.data_ptr(), False),
    }
    assert x.t().__cuda_array_interface__["strides"] == (2, 6)


@pytest.mark.parametrize("function", [rl.as_tensor, rl.asarray])
def test_an_array_that_is_described_so_is_a_tensor_over_its_memory(card, function):
    x = rl.arange(6.0, device="cuda").view(2, 3)
    told = dict(x.__cuda_array_interface__, strides=(12, 4))
    array = types.SimpleNamespace(__cuda_array_interface__=told)
    y = function(array)
    assert y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()
    z = rl.tensor(array)
    assert z.is_cuda and z.data_ptr() != x.data_ptr() and z.tolist() == x.tolist()


def test_what_is_not_on_a_card_has_no_such_description(card):
    assert not hasattr(rl.ones(2), "__cuda_array_interface__")
    for tensor, kind, words in (
        (rl.ones(2), AttributeError, "on non-CUDA tensor type: torch.FloatTensor If"),
        (rl.eye(2).to_sparse().cuda(), AttributeError, "on sparse type: torch.cuda.sp"),
        (rl.ones(2, device="cuda", requires_grad=True), RuntimeError, "requires grad"),
    ):
        with pytest.raises(kind, match=words):
            getattr(tensor, "__cuda_array_interface__")  # noqa: B009


def test_an_array_of_a_type_that_tensors_lack_is_refused(card):
    told = dict(typestr="<c32", shape=(1,), strides=None, data=(0, False), version=2)
    with pytest.raises(TypeError, match="can't convert an array of type <c32"):
        rl.as_tensor(types.SimpleNamespace(__cuda_array_interface__=told))

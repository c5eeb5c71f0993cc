"""A backend that lives outside: memory of its own, a training step, streams of its kind."""

import gc
import importlib.util
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.backends import Backend, backend_for, register_backend
from rushlight.core import device_roles

EXAMPLE = Path(__file__).parents[2] / "examples" / "shelf_backend.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("shelf_backend", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shelf(example):
    made, library, before = example.install()
    yield made
    library._destroy()
    gc.collect()
    assert made.memory.rows == {}  # whatever was put there has been taken back
    register_backend("privateuseone", before)


def test_a_network_learns_on_memory_that_no_kernel_reaches(example, shelf):
    there, weights = example.train("privateuseone")
    here, expected = example.train("cpu")
    assert there == here
    for found, wanted in zip(weights, expected):
        assert rl.equal(found, wanted)


def test_bytes_go_there_and_back_whatever_their_layout(shelf):
    x = rl.arange(24.0).reshape(2, 3, 4)
    there = x.to("privateuseone")
    assert rl.equal(there.cpu(), x) and there.device.type == "privateuseone"
    assert rl.equal(there.transpose(0, 2)[1:].cpu(), x.transpose(0, 2)[1:])
    assert there[1, 2, 3].item() == 23.0 and there[0, :, 1].tolist() == [1.0, 5.0, 9.0]
    assert rl.equal(there.double().cpu(), x.double())
    there[:, 1] = rl.tensor([9.0, 8.0, 7.0, 6.0])
    x[:, 1] = rl.tensor([9.0, 8.0, 7.0, 6.0])
    assert rl.equal(there.cpu(), x)
    there.t_() if there.dim() == 2 else there.transpose_(0, 1)
    there.fill_(2)
    assert there.sum().item() == 48.0 and there.shape == (3, 2, 4)


def test_views_written_in_place_change_what_they_look_at(shelf):
    x = rl.zeros(3, 4, device="privateuseone")
    x[1:, ::2].add_(1)
    assert x.tolist() == [[0.0] * 4, [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]]


def test_storages_grow_where_they_lie_and_read_their_bytes(shelf):
    x = rl.tensor([1, 2, 3], dtype=rl.uint8).to("privateuseone")
    storage = x.untyped_storage()
    assert storage.tolist() == [1, 2, 3] and storage[1] == 2
    storage.resize_(5)
    storage[4] = 7
    assert storage.tolist()[:3] == [1, 2, 3] and storage[4] == 7
    assert storage.cpu().device.type == "cpu" and storage.clone().tolist()[:3] == [
        1,
        2,
        3,
    ]


def test_graphs_of_autograd_need_nothing_from_a_backend(shelf):
    x = rl.tensor([1.0, 2.0, 3.0]).to("privateuseone").requires_grad_()
    (x * x.exp()).sum().backward()
    assert x.grad.device.type == "privateuseone"
    y = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (y * y.exp()).sum().backward()
    assert rl.allclose(x.grad.cpu(), y.grad)


def test_what_a_backend_does_not_do_is_refused_in_its_name():
    bare = Backend("bare")
    before = register_backend("privateuseone", bare)
    try:
        assert backend_for("privateuseone") is bare
        with pytest.raises(
            NotImplementedError, match="'bare' does not allocate memory"
        ):
            rl.empty(2, device="privateuseone")
        assert rl.empty(0, device="privateuseone").numel() == 0
        streams = bare.streams
        refused = streams.stream, streams.event, streams.current_stream, bare.generator
        for ask in refused:
            with pytest.raises(NotImplementedError, match="'bare' does not"):
                ask(rl.device("privateuseone"))
    finally:
        register_backend("privateuseone", before)


def test_the_host_keeps_its_own_backend():
    with pytest.raises(RuntimeError, match="have their backend"):
        register_backend("cpu", Backend("mine"))
    with pytest.raises(TypeError, match="a backend is a Backend"):
        register_backend("privateuseone", object())


def test_a_backend_out_of_memory_says_so():
    class Full(device_roles.Memory):
        def allocate(self, n_bytes, device):
            return 0

    full = Backend("full")
    full.memory = Full("full")
    before = register_backend("privateuseone", full)
    try:
        with pytest.raises(RuntimeError, match="out of memory, 8 bytes"):
            rl.empty(2, device="privateuseone")
    finally:
        register_backend("privateuseone", before)

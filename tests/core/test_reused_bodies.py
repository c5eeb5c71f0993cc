"""Tensors that were let go leave their bodies to new ones, and nothing else."""

import gc
import weakref

import pytest

import rushlight as rl


def burdened(kind):
    """A tensor with something that a new one does not have."""
    t = rl.arange(6.0)
    if kind == "attribute":
        t.note = "kept"
    elif kind == "gradient":
        t.requires_grad_()
        (t * t).sum().backward()
    elif kind == "hook":
        t.requires_grad_()
        t.register_hook(lambda grad: grad)
    elif kind == "history":
        t = rl.arange(6.0, requires_grad=True) * 2
    elif kind == "view":
        t = rl.arange(8.0)[2:]
    elif kind == "view of many dimensions":
        t = rl.zeros(1, 1, 1, 1, 1, 1, 1, 2)
    elif kind == "count of its own":
        t = t.data
        t.add_(1)
    elif kind == "changed":
        for _ in range(5):
            t.add_(1)
    elif kind == "inference":
        with rl.inference_mode():
            t = rl.arange(6.0)
    elif kind == "number":
        t = rl.tensor(2.0) * 1
    elif kind == "resized":
        t.resize_(100)
    return t


KINDS = (
    "attribute", "gradient", "hook", "history", "view", "view of many dimensions",
    "count of its own", "changed", "inference", "number", "resized",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", ["fresh", "view", "result"])
def test_a_new_tensor_has_nothing_of_one_that_was_let_go(kind, make):
    source = rl.arange(3.0)
    for _ in range(20):
        burdens = [burdened(kind) for _ in range(3)]
        del burdens
        new = {
            "fresh": lambda: rl.zeros(3),
            "view": lambda: source[:],
            "result": lambda: source + 1,
        }[make]()
        assert new.__dict__ == {} and new.shape == (3,) and new.stride() == (1,)
        assert new.storage_offset() == 0 and new.is_contiguous()
        assert new.grad is None and new.grad_fn is None and not new.requires_grad
        assert new._backward_hooks is None and new.output_nr == 0
        assert new._version == 0 and not new.is_inference()
        assert (new._base is source) == (make == "view")
        assert len(new.untyped_storage()) == 12
        assert new.untyped_storage().resizable()


def test_memory_of_tensors_that_are_held_is_not_taken():
    kept = [rl.full((4,), float(i)) for i in range(600)]  # more than are kept for later
    views = [t[1:] for t in kept]
    storages = [t.untyped_storage() for t in kept[:10]]
    del kept
    fresh = [rl.full((4,), -1.0) for _ in range(600)]
    assert all(view.tolist() == [float(i)] * 3 for i, view in enumerate(views))
    assert all(len(storage) == 16 for storage in storages)
    assert all(t.tolist() == [-1.0] * 4 for t in fresh)


def test_a_storage_that_somebody_watches_is_not_used_again():
    t = rl.ones(4)
    watched = weakref.ref(t.untyped_storage())
    seen = weakref.ref(t)
    del t
    assert watched() is None and seen() is None


def test_cycles_through_attributes_and_gradients_are_found():
    t = rl.ones(2, requires_grad=True)
    t.itself = t
    seen = weakref.ref(t)
    del t
    gc.collect()
    assert seen() is None
    t = rl.ones(2, requires_grad=True)
    t.register_hook(lambda grad, held=[]: held.append(t))
    seen = weakref.ref(t)
    t = None
    u = rl.ones(2, requires_grad=True)
    u.grad = rl.ones(2)
    u.grad.back = u
    seen_u = weakref.ref(u)
    del u
    gc.collect()
    assert seen() is None and seen_u() is None


def test_long_chains_of_gradients_end_without_a_deep_stack():
    t = first = rl.ones(1)
    for _ in range(200_000):
        t.grad = rl.ones(1)
        t = t.grad
    del t, first
    y = rl.ones(1, requires_grad=True)
    for _ in range(50_000):
        y = y * 1.0
    del y


def test_the_memory_of_what_was_let_go_is_counted_as_free():
    before = rl.cpu.memory_stats()["allocated_bytes.all.current"]
    for _ in range(10):
        many = [rl.zeros(1000) + 1 for _ in range(300)]
    assert rl.cpu.memory_stats()["allocated_bytes.all.current"] > before
    del many
    gc.collect()
    assert rl.cpu.memory_stats()["allocated_bytes.all.current"] == before

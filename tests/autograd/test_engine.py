"""The sweep itself: depth, lifetime, threads, and who is told what went wrong."""

import gc
import sys
import threading
import weakref

import pytest

import rushlight as rl


def chain(length):
    leaf = rl.ones(2, requires_grad=True)
    value = leaf
    for _ in range(length):
        value = value + 1.0
    return leaf, value


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_hundred_thousand_nodes_neither_recurse_nor_overflow():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        leaf, value = chain(100_000)
        value.sum().backward()
        assert leaf.grad.tolist() == [1.0, 1.0]
        node = weakref.ref(value.grad_fn)
        del value
        assert node() is None
    finally:
        sys.setrecursionlimit(limit)


def test_a_deep_graph_can_be_dropped_without_backward(no_collector):
    leaf, value = chain(100_000)
    first = value.grad_fn
    for _ in range(99_999):
        first = first.next_functions[0][0]
    ends = weakref.ref(first), weakref.ref(value)
    del first, value
    assert [end() for end in ends] == [None, None]


def test_graphs_die_without_the_garbage_collector(no_collector):
    leaf = rl.ones(3, requires_grad=True)
    loss = (leaf.exp() * leaf).sum()
    nodes = [weakref.ref(loss.grad_fn)]
    nodes.append(weakref.ref(loss.grad_fn.next_functions[0][0]))
    loss.backward()
    del loss
    assert [node() for node in nodes] == [None, None]


def test_the_accumulator_dies_with_its_graph_and_is_made_again(no_collector):
    leaf = rl.ones(1, requires_grad=True)
    value = leaf * 2
    accumulator = weakref.ref(value.grad_fn.next_functions[0][0])
    assert accumulator().variable is leaf
    del value
    assert accumulator() is None
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0]


def test_a_leaf_in_a_cycle_with_its_graph_is_collected():
    leaf = rl.ones(1, requires_grad=True)
    leaf.result = leaf * 2
    watched = weakref.ref(leaf)
    del leaf
    gc.collect()
    assert watched() is None


def test_inner_gradients_are_freed_as_the_sweep_passes():
    leaf, value = chain(200)
    big = (rl.ones(1000, 100) * value.sum()).sum()
    alive = []

    def count(grad):
        alive.append(len(alive))

    value.register_hook(count)
    big.backward()
    assert alive == [0]


def test_two_threads_may_go_through_one_graph():
    leaf = rl.ones(4, requires_grad=True)
    value = leaf
    for _ in range(300):
        value = value * 1.001
    loss = value.sum()
    errors = []

    def work():
        try:
            for _ in range(5):
                rl.autograd.grad(loss, leaf, retain_graph=True)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_the_mode_of_one_thread_is_not_the_others():
    seen = []
    with rl.no_grad():
        thread = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_the_version_error_names_the_line_that_changed_the_tensor():
    leaf = rl.ones(2, requires_grad=True)
    hidden = leaf * 1
    loss = (hidden * hidden).sum()
    hidden.add_(1)  # the guilty line
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = str(caught.value)
    assert "needed by: MulBackward0" in text
    assert f"{__file__}:" in text
    assert "hidden.add_(1)  # the guilty line" in text


def test_an_error_leaves_the_engine_usable():
    leaf = rl.ones(2, requires_grad=True)
    value = leaf * 2

    def fail(grad):
        raise KeyError("hook")

    handle = value.register_hook(fail)
    loss = value.sum()
    for _ in range(3):
        with pytest.raises(KeyError):
            loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    assert leaf.grad.tolist() == [2.0, 2.0]
    assert rl.is_grad_enabled()


def test_a_nested_backward_over_the_same_graph_keeps_both_counts_right():
    leaf = rl.ones(2, requires_grad=True)
    shared = leaf * 3
    loss = (shared * shared).sum() + shared.sum()
    inner = []

    def again(grad):
        if not inner:
            inner.append(None)
            inner[0] = rl.autograd.grad(loss, leaf, retain_graph=True)[0].tolist()

    shared.register_hook(again)
    loss.backward(retain_graph=True)
    assert inner == [[21.0, 21.0]]
    assert leaf.grad.tolist() == [21.0, 21.0]


def test_the_first_gradient_is_kept_without_a_copy():
    leaf = rl.ones(2, requires_grad=True)
    seen = []
    leaf.register_hook(lambda grad: seen.append(grad.data_ptr()))
    (leaf * rl.ones(2)).sum().backward()
    assert leaf.grad.data_ptr() == seen[0]


def test_callbacks_outside_of_backward_are_refused():
    engine = rl.autograd.Variable._execution_engine
    with pytest.raises(RuntimeError, match="during backward"):
        engine.queue_callback(lambda: None)


def test_a_node_can_be_called_by_hand():
    leaf = rl.ones(2, requires_grad=True)
    node = (leaf * 3).grad_fn
    first, second = node(rl.ones(2))
    assert first.tolist() == [3.0, 3.0]
    assert second is None
    with pytest.raises(TypeError, match="expected 1 arguments"):
        node(rl.ones(2), rl.ones(2))


def test_metadata_is_the_users():
    node = (rl.ones(2, requires_grad=True) * 3).grad_fn
    node.metadata["origin"] = "test"
    assert node.metadata == {"origin": "test"}


def test_increment_version_trips_the_check():
    leaf = rl.ones(2, requires_grad=True)
    hidden = leaf * 1
    loss = (hidden * hidden).sum()
    rl.autograd.graph.increment_version(hidden)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()

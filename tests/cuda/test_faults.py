"""Indices that lead outside are told when somebody waits, by the operator that met them."""

import contextlib
import threading

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.runtime.cuda import faults

WAITING = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize")


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(memory=1 << 27)


def embedding_gradient(x, i):
    grad = rl.ones(1, 1, device="cuda")
    return rl.ops.aten.embedding_dense_backward(grad, i, 5, -1, False)


def reduced(x, i):
    return x.clone().scatter_reduce(0, i, x[:1], "amax")


# What to call with a vector of five and one place, by the operator that is told.
CALLS = {
    "index": lambda x, i: x[i],
    "index of two": lambda x, i: x.view(1, 5)[i * 0, i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "embedding": lambda x, i: F.embedding(i, x[:, None].clone()),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x[:, None].clone()),
    "embedding_dense_backward": embedding_gradient,
    "take": lambda x, i: x.take(i),
    "put_": lambda x, i: x.clone().put_(i, x[:1]),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x[:1]),
    "scatter_reduce": reduced,
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "scatter_reduce of slices": lambda x, i: x.index_reduce(0, i, x[:1], "prod"),
    "index written": lambda x, i: x.clone().index_put_((i,), x[:1]),
    "nll_loss": lambda x, i: F.nll_loss(x[None], i),
    "nll_loss_forward": lambda x, i: F.nll_loss(x[None], i, reduction="none"),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[None], i),
    "max_unpool2d": lambda x, i: F.max_unpool1d(x[None, :1], i[None], 5),
}


def waits(machine):
    """How often the driver was asked to wait, or to copy to the host."""
    return len(machine.fake.names(*WAITING))


@pytest.mark.parametrize("name", CALLS)
def test_nobody_waits_for_an_operator_that_looks_at_indices(name, machine):
    call = CALLS[name]
    x, good = rl.arange(5.0, device="cuda"), rl.tensor([3], device="cuda")
    bad = rl.tensor([9], device="cuda")
    wanted = call(x, good).tolist()
    machine.fake.calls.clear()
    call(x, good)
    out = call(x, bad)
    after = [call(x, good) for _ in range(2)]
    assert waits(machine) == 0
    told = name.partition(" ")[0]
    with pytest.raises((IndexError, RuntimeError), match=f"9(?s:.*)operator: {told}"):
        out.tolist()
    assert [each.tolist() for each in after] == [wanted] * 2
    rl.cuda.synchronize()


WAYS = {
    "device": lambda event: rl.cuda.synchronize(),
    "stream": lambda event: rl.cuda.current_stream().synchronize(),
    "event": lambda event: event.synchronize(),
    "number": lambda event: rl.ones(1, device="cuda").item(),
    "copy": lambda event: rl.ones(2, device="cuda").cpu(),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_wait_tells_of_it_once(name, own):
    x, bad = rl.arange(5.0, device="cuda"), rl.tensor([9, 1], device="cuda")
    queue = rl.cuda.Stream() if own else rl.cuda.current_stream()
    queue.wait_stream(rl.cuda.default_stream())
    with rl.cuda.stream(queue):
        x[bad]
        event = rl.cuda.Event()
        event.record()
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            WAYS[name](event)
        WAYS[name](event)
        assert x[bad - bad].tolist() == [0.0, 0.0]


def test_what_a_queue_refused_waits_for_that_queue_or_is_seen_before():
    x, bad = rl.arange(5.0, device="cuda"), rl.tensor([9], device="cuda")
    side = rl.cuda.Stream()
    side.wait_stream(rl.cuda.current_stream())
    rl.cuda.synchronize()
    for _ in range(20):  # the other queue's work is done in some of these, as drawn
        told = 0
        with rl.cuda.stream(side):
            x.take(bad)
        for wait in (rl.cuda.current_stream().synchronize, side.synchronize):
            try:
                wait()
            except IndexError as error:
                told += "operator: take" in str(error)
        assert told == 1


def test_no_memory_of_operands_is_kept_for_an_error():
    x = rl.zeros(1 << 16, device="cuda")
    held = rl.cuda.memory_allocated()
    for _ in range(5):
        x.clone().index_select(0, rl.tensor([3], device="cuda"))
    assert rl.cuda.memory_allocated() == held


def test_words_are_used_again_and_a_thousand_calls_are_waited_for(machine):
    x, good = rl.arange(5.0, device="cuda"), rl.tensor([3], device="cuda")
    board = machine.card().faults
    for _ in range(20):
        x[good].tolist()
    assert len(board.idle) + len(board.taken) == faults.PAGE
    machine.fake.calls.clear()
    for _ in range(2 * faults.MOST_WAITING):
        x[good]
    assert waits(machine) <= 3
    assert len(board.waiting) <= faults.MOST_WAITING


def test_calls_of_other_threads_stay_theirs(machine):
    x, good = rl.arange(5.0, device="cuda"), rl.tensor([3], device="cuda")
    found = []

    def work(bad):
        place = rl.tensor([9 if bad else 3], device="cuda")
        queue = rl.cuda.Stream()
        with rl.cuda.stream(queue):
            for _ in range(20):
                x[place]
            try:
                queue.synchronize()
            except IndexError as error:
                found.append(str(error))

    threads = [threading.Thread(target=work, args=(k == 1,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found  # whoever waits first is told
    assert all("operator: index" in text for text in found)
    with contextlib.suppress(IndexError):  # what was done after that
        rl.cuda.synchronize()
    assert x[good].tolist() == [3.0]


def test_with_launches_that_block_the_operator_raises(machine):
    machine.card().blocking = True
    x, bad = rl.arange(5.0, device="cuda"), rl.tensor([9], device="cuda")
    with pytest.raises(IndexError, match="operator: take"):
        x.take(bad)


def test_gradients_of_indices_do_not_wait(machine):
    table = rl.randn(7, 3, device="cuda", requires_grad=True)
    words = rl.tensor([1, 6, 1], device="cuda")
    labels = rl.tensor([2, 0, 1], device="cuda")
    for _ in range(2):
        machine.fake.calls.clear()
        rows = F.embedding(words, table)
        loss = F.cross_entropy(rows + table[words].gather(1, labels[:, None]), labels)
        loss.backward()
        assert waits(machine) == 0
    assert table.grad.isfinite().all().item()


def test_a_graph_names_the_operator_that_refused():
    x, i = rl.arange(5.0, device="cuda"), rl.tensor([3], device="cuda")
    graph, queue = rl.cuda.CUDAGraph(), rl.cuda.Stream()
    x.take(i), x[i]
    queue.wait_stream(rl.cuda.current_stream())
    with rl.cuda.graph(graph, stream=queue):
        out = x.index_select(0, i) + x.take(i)
    i.fill_(7)
    graph.replay()
    with pytest.raises(IndexError, match=r"7(?s:.*)operator: index_select, in a CUDA"):
        out.tolist()
    i.fill_(2)
    graph.replay()
    assert out.tolist() == [4.0]

"""Backward runs each node in its forward's stream, and the caller's streams wait for it."""

from __future__ import annotations

import pytest

import rushlight as rl

SEEDS = range(12)


def side_streams(count):
    """Streams that have waited for what is in the current one."""
    made = [rl.cuda.Stream() for _ in range(count)]
    for stream in made:
        stream.wait_stream(rl.cuda.current_stream())
    return made


def one_stream(x, w):
    """Forward in a stream, backward outside of it."""
    (side,) = side_streams(1)
    with rl.cuda.stream(side):
        loss = ((x * w).sin() * x).sum()
    loss.backward()


def two_streams(x, w):
    """A leaf is used in two streams, whose results meet in a third."""
    first, second = side_streams(2)
    with rl.cuda.stream(first):
        a = (x * w).sin()
    with rl.cuda.stream(second):
        b = (x + w).cos()
    rl.cuda.current_stream().wait_stream(first)
    rl.cuda.current_stream().wait_stream(second)
    (a * b).sum().backward()


def begun_elsewhere(x, w):
    """The gradient of the result is made in the caller's stream, backward is called there."""
    (side,) = side_streams(1)
    y = (x * w).exp()
    with rl.cuda.stream(side):
        z = y * x
    z.backward(x.cos())


def called_in_a_stream(x, w):
    """Backward is called in another stream than all of the forward."""
    y = (x * w).sin() * x
    (side,) = side_streams(1)
    with rl.cuda.stream(side):
        y.sum().backward()
    rl.cuda.current_stream().wait_stream(side)


def twice(x, w):
    """Gradients are added to those of another stream's sweep."""
    for side in side_streams(2):
        with rl.cuda.stream(side):
            loss = (x * w).sin().sum()
        loss.backward()


PROGRAMS = [one_stream, two_streams, begun_elsewhere, called_in_a_stream, twice]


def data(device):
    rl.manual_seed(0)
    x = rl.randn(50).to(device)
    return x, rl.randn(50).to(device).requires_grad_()


def expected(program):
    """The gradients without any streams."""

    class Nothing:
        def wait_stream(self, other):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *raised):
            pass

    x, w = data("cpu")
    kept = rl.cuda.Stream, rl.cuda.stream, rl.cuda.current_stream
    rl.cuda.Stream = rl.cuda.current_stream = Nothing
    rl.cuda.stream = lambda stream: stream
    try:
        program(x, w)
    finally:
        rl.cuda.Stream, rl.cuda.stream, rl.cuda.current_stream = kept
    return w.grad


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_the_same_in_every_order_of_queues(program, machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    wanted = expected(program)
    for seed in SEEDS:
        machine.start(seed=seed)
        x, w = data("cuda")
        program(x, w)
        assert (w.grad.cpu() - wanted).abs().max() < 1e-5, f"order {seed}"
        del x, w


def test_gradients_that_are_asked_for_are_there_for_the_caller(machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    for seed in SEEDS:
        machine.start(seed=seed)
        x, w = data("cuda")
        (side,) = side_streams(1)
        with rl.cuda.stream(side):
            y = (x * w).sin().sum()
            (first,) = rl.autograd.grad(y, w, create_graph=True)
        (second,) = rl.autograd.grad(first.sum(), w)
        wanted = -(x * x).cpu() * (x * w).detach().sin().cpu()
        assert (second.cpu() - wanted).abs().max() < 1e-5, f"order {seed}"
        del x, w, y, first, second


def test_memory_that_another_stream_uses_is_not_given_out_before_it_is_done(
    machine, monkeypatch
):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    for seed in SEEDS:
        machine.start(seed=seed)
        x = rl.ones(1000, device="cuda")
        (side,) = side_streams(1)
        with rl.cuda.stream(side):
            y = x * 2
        x.record_stream(side)
        del x
        other = rl.full((1000,), 7.0, device="cuda")
        side.synchronize()
        assert y.cpu().unique().tolist() == [2.0], f"order {seed}"
        del y, other
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        rl.ones(3).record_stream(3)

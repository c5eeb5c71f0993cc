"""Checkpointed parts have the gradients of plain ones, at half the memory."""

import pytest

import rushlight as rl
from rushlight.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
)


def model():
    rl.manual_seed(0)
    return rl.nn.Sequential(
        rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Dropout(0.5), rl.nn.Linear(8, 2)
    )


def gradients(run):
    net = model()
    x = rl.ones(3, 4, requires_grad=True)
    rl.manual_seed(1)
    out = run(net, x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    "run",
    [
        lambda net, x, r: checkpoint(net, x, use_reentrant=r),
        lambda net, x, r: checkpoint_sequential(net, 2, x, use_reentrant=r),
    ],
    ids=["checkpoint", "sequential"],
)
def test_results_and_gradients_are_the_same_with_dropout_in_it(run, reentrant):
    plain = gradients(lambda net, x: net(x))
    for a, b in zip(plain, gradients(lambda net, x: run(net, x, reentrant))):
        assert (a == b).all()


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_part_runs_once_more_in_backward(reentrant):
    calls = []

    def part(x):
        calls.append(1)
        return (x * x).sin()

    x = rl.ones(2, requires_grad=True)
    y = checkpoint(part, x, use_reentrant=reentrant)
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2


def test_saved_values_are_not_kept():
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    def part(x):
        return x.exp().sin().tanh()

    x = rl.ones(100, requires_grad=True)
    with rl.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        part(x)
        whole = sum(kept)
        kept.clear()
        checkpoint(part, x, use_reentrant=False)
    assert whole >= 300 and sum(kept) == 0


def test_keyword_arguments_and_nests_pass_through():
    x = rl.ones(2, requires_grad=True)
    out = checkpoint(
        lambda pair, scale: {"y": pair[0] * scale},
        (x, 1),
        scale=3.0,
        use_reentrant=False,
    )
    out["y"].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_part_that_computes_something_else_is_found_out():
    sizes = iter([2, 3])

    def part(x):
        return (x[: next(sizes)] * 2).exp()

    x = rl.ones(3, requires_grad=True)
    y = checkpoint(part, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()


def test_backward_twice_through_a_retained_graph():
    x = rl.ones(2, requires_grad=True)
    y = checkpoint(lambda v: v.exp() * v, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert (x.grad == 2 * first).all()


def test_the_way_must_be_chosen():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
        checkpoint(lambda x: x, rl.ones(1, requires_grad=True))


def test_a_reentrant_part_is_refused_where_some_gradients_are_asked_for():
    x = rl.ones(2, requires_grad=True)
    loss = checkpoint(rl.sin, x, use_reentrant=True).sum()
    for sweep in (
        lambda: rl.autograd.grad(loss, x, retain_graph=True),
        lambda: loss.backward(inputs=[x], retain_graph=True),
    ):
        with pytest.raises(RuntimeError, match="incompatible with .grad"):
            sweep()
    loss.backward()
    assert x.grad is not None and rl.autograd._is_checkpoint_valid()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_parts_of_tensors_without_memory_are_computed_again(device, reentrant):
    from rushlight._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = rl.ones(3, device=device, requires_grad=True)
        checkpoint(
            lambda v: (v * 2).tanh(), x, use_reentrant=reentrant
        ).sum().backward()
        assert x.grad.shape == (3,) and x.grad.device.type == device

"""Models in stages learn as PyTorch's do, and as one process does, by every schedule."""

import json
from itertools import product
from types import SimpleNamespace

import pytest

import rushlight as rl
from rushlight.distributed.pipelining import schedules
from rushlight.distributed.pipelining._split_backward import SplitBackward
from tests.distributed.launching import run

F = rl.nn.functional
MICROBATCHES = 2, 3, 4, 6, 8, 11, 16, 19


def results(framework):
    outputs = run("pipelined.py", 2, framework)
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def test_models_in_stages_learn_as_pytorchs():
    pytest.importorskip("torch.distributed.pipelining")
    expected, found = results("torch"), results("rushlight")
    for ours, theirs in zip(found, expected):
        assert len(theirs) == 9
        wrong = {key: (ours.get(key), theirs[key]) for key in theirs}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        assert not wrong, wrong


def order(module, name, size, per_rank, microbatches):
    """The actions of every process, by stages that nothing runs on; or what is raised."""
    total = size * per_rank
    stages = [
        SimpleNamespace(
            group=None,
            group_size=size,
            group_rank=0,
            num_stages=total,
            stage_index=index,
            is_first=index == 0,
            is_last=index == total - 1,
            submod=None,
            has_backward=True,
            join=lambda flight: None,
        )
        for index in range(per_rank)
    ]
    try:
        made = getattr(module, name)(stages, microbatches, loss_fn=F.mse_loss)
    except ValueError as error:
        return str(error)
    return {
        rank: [str(each) for each in actions if each is not None]
        for rank, actions in made.pipeline_order.items()
    }


def test_orders_of_microbatches_are_pytorchs():
    theirs = pytest.importorskip("torch.distributed.pipelining.schedules")
    names = {
        "ScheduleInterleaved1F1B": (1, 2, 3),
        "ScheduleInterleavedZeroBubble": (1, 2, 3),
        "ScheduleZBVZeroBubble": (1, 2),
        "ScheduleDualPipeV": (2,),
    }
    for name, counts in names.items():
        for size, per_rank, microbatches in product((2, 3, 8), counts, MICROBATCHES):
            case = name, size, per_rank, microbatches
            assert order(schedules, *case) == order(theirs, *case), case


class Branches(rl.nn.Module):
    """One weight at two places of the way, one beside it, one that no input reaches."""

    def __init__(self):
        super().__init__()
        rl.manual_seed(0)
        self.shared, self.gate = rl.nn.Linear(5, 5), rl.nn.Linear(5, 5)
        self.scale = rl.nn.Parameter(rl.randn(5))
        self.table, self.unused = rl.nn.Parameter(rl.randn(4, 5)), rl.nn.Linear(2, 2)

    def forward(self, x):
        doubled = self.scale * self.scale
        h = self.shared(x).tanh() * doubled
        h = self.shared(h) + self.gate(x).sigmoid() * doubled.sum()
        beside = (self.table * self.scale).exp()
        return h + beside, beside.sum(1), x.detach()


def gradients(split):
    net = Branches()
    x = rl.linspace(-1, 1, 20).view(4, 5).requires_grad_()
    outputs = net(x)
    grads = [rl.ones_like(each).cumsum(0) for each in outputs]
    if split:
        halves = SplitBackward(outputs, grads, [x], net.parameters())
        halves.run_inputs()
        assert x.grad is not None and all(p.grad is None for p in net.parameters())
        halves.run_weights()
    else:
        rl.autograd.backward(outputs[:2], grads[:2])
    return {"x": x.grad, **{name: p.grad for name, p in net.named_parameters()}}


def test_the_halves_of_a_backward_are_the_whole():
    whole, halves = gradients(False), gradients(True)
    for name, expected in whole.items():
        if expected is None:
            assert halves[name] is None
        else:
            rl.testing.assert_close(halves[name], expected)

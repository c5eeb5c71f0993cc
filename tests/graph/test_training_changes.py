"""Compiled models that are changed between steps of training learn as uncompiled ones."""

import random

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint

SCALE = {"of all": 1.0}  # a number that models read
SWEEPS = []


class Sine(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        SWEEPS.append(1)
        return grad * ctx.saved_tensors[0].cos()


def written_at_once(m, x):
    y = m.first(x).clone()
    y[:, 0] = 1.0
    return m.last(y.mul_(2))


def counting(m, x):
    m.calls += 1
    m.history.append(float(m.calls))
    return m.last(m.first(x) * m.calls)


def cut_off(m, x):
    with rl.no_grad():
        y = m.first(x)
    return m.last(y + x)


def hooked(m, x):
    y = m.first(x)
    if y.requires_grad:
        y.register_hook(lambda grad: grad * SCALE["of all"])
    return m.last(y)


def keeping(m, x):
    m.kept = m.first(x)
    return m.last(m.kept)


def branching(m, x):
    return m.last(m.first(x) if x.sum() > 0 else x)


def resetting(m, x):
    m.norm.running_mean.zero_()
    return m.last(m.norm(m.first(x)))


def summing(m, x):
    return m.last(m.first(x + sum(p.sum() for p in m.first.parameters())))


def table(m, x):
    return {"y": m.last(m.first(x)), "n": x.shape[0]}["y"]


FORWARDS = {
    "layers": lambda m, x: m.last(m.drop(m.norm(m.first(x)).relu())) * SCALE["of all"],
    "counts its calls": counting,
    "draws from random": lambda m, x: m.last(m.first(x) * random.random()),
    "draws from NumPy": lambda m, x: m.last(m.first(x) * float(np.random.rand())),
    "has a part without gradients": cut_off,
    "has a function of its own": lambda m, x: m.last(Sine.apply(m.first(x))),
    "has a checkpoint": lambda m, x: m.last(
        checkpoint(lambda y: m.first(y).tanh(), x, use_reentrant=False)
    ),
    "writes to a view": written_at_once,
    "branches on elements": branching,
    "returns a table": table,
    "reads tensors that it has": lambda m, x: m.last(m.first(x) @ m.w + m.more["b"]),
    "hooks a tensor": hooked,
    "draws elements": lambda m, x: m.last(rl.where(rl.rand(4) > 0.5, m.first(x), x)),
    "keeps a tensor": keeping,
    "drops elements": lambda m, x: m.last(
        F.dropout(m.first(x), SCALE["of all"] / 10, training=m.training)
    ),
    "resets a buffer": resetting,
    "reads its parameters": summing,
}


class Model(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.3)
        self.w, self.more = rl.randn(4, 4), {"b": rl.ones(4)}
        self.call, self.calls, self.history = call, 0, []
        self.kept = rl.zeros(1)

    def forward(self, x):
        return self.call(self, x)


def scaled(m, step):
    SCALE["of all"] = 1.0 + step * 0.5


def evaluated(m, step):
    m.train(step % 2 == 0)


def frozen(m, step):
    m.first.requires_grad_(step < 5)


def replaced(m, step):
    if step == 5:
        m.first = nn.Linear(4, 4)


def with_other_data(m, step):
    m.first.weight.data = m.first.weight.data.clone() * 1.1


def with_other_parameters(m, step):
    if step % 3 == 0:
        m.last.bias = nn.Parameter(rl.full((4,), float(step)))


def tripled(module, grad_input, grad_output):
    return tuple(None if grad is None else grad * 3 for grad in grad_input)


def with_hooks(m, step):
    if step == 4:
        m.first.register_forward_hook(lambda module, args, out: out * 2)
    if step == 6:
        m.last.register_full_backward_hook(tripled)
    if step == 7:
        m.first.weight.register_hook(lambda grad: grad * 0.5)


def with_another_forward(m, step):
    if step == 5:
        before = m.first.forward
        m.first.forward = lambda x: before(x) + 1


def with_another_buffer(m, step):
    m.norm.running_mean = rl.full((4,), float(step))


def with_other_settings(m, step):
    m.drop.p, m.norm.momentum, m.norm.eps = 0.1 * (step % 4), 0.1 * step, 1e-5 + step


def with_other_tensors(m, step):
    m.w, m.more["b"] = rl.full((4, 4), float(step)), rl.full((4,), float(step))
    if step == 5:
        with rl.no_grad():
            m.first.weight.add_(0.1)


def in_double_precision(m, step):
    if step == 6:
        m.double()
        m.w, m.more["b"] = m.w.double(), m.more["b"].double()


def with_another_child(m, step):
    if step == 5:
        m.first = nn.Sequential(m.first, nn.Tanh())


CHANGES = [
    lambda m, step: None, scaled, evaluated, frozen, replaced, with_other_data,
    with_other_parameters, with_hooks, with_another_forward, with_another_buffer,
    with_other_settings, with_other_tensors, in_double_precision, with_another_child,
]  # fmt: skip


def swept(model, loss, step):
    """The gradients of a step; in one of them, those of a norm of gradients."""
    if step != 8:
        return loss.backward()
    learning = [p for p in model.parameters() if p.requires_grad]
    found = rl.autograd.grad(loss, learning, create_graph=True, allow_unused=True)
    sum(grad.pow(2).sum() for grad in found if grad is not None).backward()


def trained(forward, change, compiled):
    """What is seen of ten steps: losses, gradients, parameters, buffers, and counts."""
    SCALE["of all"] = 1.0
    SWEEPS.clear()
    rl.manual_seed(0), random.seed(0), np.random.seed(0)
    model, seen = Model(FORWARDS[forward]), []
    run = rl.compile(model) if compiled else model
    optimizer = rl.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for step in range(10):
        change(model, step)
        x = rl.randn(3 if step < 7 else 5, 4).to(model.last.weight.dtype)
        x.requires_grad_(step % 3 == 1)
        loss = run(x).pow(2).mean()
        optimizer.zero_grad()
        swept(model, loss, step)
        optimizer.step()
        tensors = [*model.parameters(), *model.buffers(), model.kept]
        tensors += [] if x.grad is None else [x.grad]
        numbers = [loss.item()] + [one.sum().item() for one in tensors]
        seen.append((numbers, (len(SWEEPS), model.calls, len(model.history))))
    return seen


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_model_that_is_changed_between_steps_learns_as_uncompiled(forward):
    for change in CHANGES:
        wanted = trained(forward, change, compiled=False)
        found = trained(forward, change, compiled=True)
        for step, ((ours, counts), (right, their_counts)) in enumerate(
            zip(found, wanted, strict=True)
        ):
            assert counts == their_counts, (change, step)
            close = pytest.approx(right, rel=1e-4, abs=1e-4, nan_ok=True)
            assert ours == close, (change, step)

"""Launches that are made once for a layout and then repeated by compiled code."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import functional
from rushlight.runtime.cuda import contexts, device_kernel, launch


def launches(machine):
    """Queue and grid of each launch so far."""
    calls = [args for name, args in machine.fake.calls if name == "cuLaunchKernel"]
    return [(stream or 0, grid) for _, grid, _, stream in calls]


def test_launches_of_one_layout_are_planned_once(machine, monkeypatch):
    planned = []
    plan = device_kernel.DeviceKernel.plan_elements

    def counted(self, *args):
        planned.append(self.name)
        return plan(self, *args)

    monkeypatch.setattr(device_kernel.DeviceKernel, "plan_elements", counted)
    a, b = (rl.arange(6.0, device="cuda").reshape(2, 3) + n for n in (0, 10))
    a + b, a + b
    planned.clear()
    sums = [a + b, b + a, a + a, b + b]
    assert planned == []
    for found, expected in zip(sums, (10.0, 10.0, 0.0, 20.0), strict=True):
        assert found[0, 0].item() == expected
    assert (a.t() + b.t()).tolist() == (a + b).t().tolist()
    assert (a[:1] + b[:1]).tolist() == [[10.0, 12.0, 14.0]]
    assert planned, "other strides and sizes have plans of their own"


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_a_plan_for_wide_loads_is_not_taken_by_operands_that_begin_elsewhere(
    machine, shift
):
    size = device_kernel.WIDE_FROM
    x = rl.arange(size + 8.0, device="cuda")
    for start in (0, shift, 0):
        part = x[start : start + size]
        assert (part + part)[:3].tolist() == [2.0 * (start + k) for k in range(3)]


def test_a_plan_goes_to_the_queue_and_the_card_of_the_moment(machine):
    a = rl.ones(4, device="cuda:0")
    other = rl.ones(4, device="cuda:1")
    a + a, a + a, other + other
    side = rl.cuda.Stream()
    side.wait_stream(rl.cuda.current_stream())
    before = len(launches(machine))
    with rl.cuda.stream(side):
        found = a + a
    assert found.device.index == 0
    twice = other + other
    assert twice.device.index == 1
    queues = [queue for queue, _ in launches(machine)[before:]]
    assert queues == [side.cuda_stream, 0]
    side.synchronize()
    assert found.tolist() == twice.tolist() == [2.0] * 4
    assert contexts.current_index() == 0


FUNCTIONS = {
    "layer_norm": lambda x: functional.layer_norm(x, (6,)),
    "softmax": lambda x: x.softmax(1),
    "sum": lambda x: x.sum(0),
    "linear": lambda x: functional.linear(x, x[:2] * 2, x[0, :2]),
    "cross_entropy": lambda x: functional.cross_entropy(
        x, rl.arange(4, device=x.device)
    ),
    "triu": lambda x: x.triu(),
    "pad": lambda x: functional.pad(x, (1, 2)),
    "roll": lambda x: x.roll(1, 0),
    "cat": lambda x: rl.cat([x, x * 2]),
    "cumsum": lambda x: x.cumsum(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_repeated_on_a_card_gives_what_the_host_gives(machine, name):
    rl.manual_seed(0)
    function = FUNCTIONS[name]
    for turn in range(4):
        x = rl.randn(5, 6)[turn % 2 :][:4]  # where it begins changes
        there = x.to("cuda")[:]
        found = function(there).cpu()
        assert rl.allclose(found, function(x), rtol=1e-5, atol=1e-6), turn
    wide = rl.randn(4, 12)[:, ::2]  # and its strides
    for _ in range(3):
        found = function(wide.to("cuda", copy=True).as_strided((4, 6), (6, 1))).cpu()
        assert rl.allclose(found, function(wide.contiguous()), rtol=1e-5, atol=1e-6)


def test_plans_of_one_kernel_are_kept_in_bounds(machine):
    kernel = device_kernel.DeviceKernel("nothing", b"", None)
    for n in range(3 * device_kernel.KEPT):
        kernel.plan(n, lambda n=n: n)
    assert len(kernel.plans) <= device_kernel.KEPT


def test_places_of_a_random_stream_share_a_plan(machine, monkeypatch):
    made = []
    plan = device_kernel.launch.LaunchPlan
    monkeypatch.setattr(
        device_kernel.launch, "LaunchPlan", lambda *a: made.append(1) or plan(*a)
    )
    drawn = [rl.rand(100, device="cuda").cpu() for _ in range(5)]
    assert len(made) <= 2
    assert not any(rl.equal(drawn[0], other) for other in drawn[1:])
    rl.cuda.manual_seed(3)
    first = rl.rand(100, device="cuda").cpu()
    rl.cuda.manual_seed(3)
    assert rl.equal(rl.rand(100, device="cuda").cpu(), first)


def test_a_plan_is_told_how_many_pointers_it_has(machine):
    card = machine.card()
    plan = launch.LaunchPlan(card, None, 0, 2, (0, 32, 0), (), 0)
    with pytest.raises(ValueError, match="3 pointers, not 2"):
        plan.run((0, 0, 0))
    plan.run((0, 0))
    assert "cuLaunchKernel" not in machine.fake.names()


def test_a_refused_launch_of_a_plan_is_told_with_its_kernels_name(machine):
    a = rl.ones(4, device="cuda")
    a + a, a + a
    machine.fake.fail("cuLaunchKernel", 719)
    with pytest.raises(RuntimeError, match=r"unspecified launch failure\n.*add"):
        a + a


def test_a_copy_inside_of_a_function_is_repeated_with_it(machine):
    """A copy is no launch: a plan without it would leave out what it moved."""
    x = rl.arange(6.0, device="cuda")
    y = rl.zeros(6, device="cuda")
    for turn in range(4):
        x += 1
        y.copy_(x)
        assert y.tolist() == [turn + 1.0 + k for k in range(6)]
        assert rl.stack([x, y])[1].tolist() == y.tolist()


LOOKUPS = {
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "embedding": lambda x, i: functional.embedding(i, x[:, None]),
    "take": lambda x, i: x.take(i),
    "nll_loss": lambda x, i: functional.nll_loss(x[None], i),
    "one_hot": lambda x, i: functional.one_hot(i, 4),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_index_outside_is_refused_after_calls_that_were_repeated(machine, name):
    call = LOOKUPS[name]
    x = rl.arange(5.0, device="cuda")
    good, bad = (rl.tensor([n], device="cuda") for n in (1, 9))
    for _ in range(4):
        expected = call(x, good).tolist()
    with pytest.raises((IndexError, RuntimeError), match="9 |values must be smaller"):
        call(x, bad).tolist()
    assert call(x, good).tolist() == expected


def test_functions_that_draw_are_run_each_time(machine):
    machine.start(memory=1 << 27)
    x = rl.full((4, 40), 0.5, device="cuda")
    q = rl.randn(1, 2, 20, 16, device="cuda")
    F = rl.nn.functional
    for draw in (
        lambda: rl.rand_like(x),
        lambda: rl.randn_like(x),
        lambda: rl.randint_like(x, 1000),
        lambda: rl.bernoulli(x),
        lambda: x.clone().uniform_(),
        lambda: x.clone().exponential_(),
        lambda: rl.randperm(40, device="cuda"),
        lambda: rl.multinomial(x, 20),
        lambda: F.dropout(x),
        lambda: F.alpha_dropout(x, training=True),
        lambda: F.rrelu(-x, training=True),
        lambda: F.gumbel_softmax(x),
        lambda: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5),
    ):
        found = [draw().cpu() for _ in range(4)]
        for k, one in enumerate(found):
            assert not any(rl.equal(one, other) for other in found[:k])

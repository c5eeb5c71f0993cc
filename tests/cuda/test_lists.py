"""Kernels over lists of tensors on an imagined card: optimizers, scalers, ``foreach``."""

from __future__ import annotations

import copy

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.codegen.schedule import gpu_entries
from rushlight.core.device import backend_for
from rushlight.operators import batched_launch
from tests.cuda.test_kernels import swish

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=2, memory=1 << 28)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


def launches(machine):
    return len(machine.fake.names("cuLaunchKernel"))


SIZES = [(3, 5), (), (4097,), (0,), (1,), (2, 4096)]


@pytest.mark.parametrize("count", [1, 6, 330])
def test_every_element_of_every_tensor_is_computed_once(machine, count):
    sizes = [SIZES[n % 6] if n < 6 else (n % 7,) for n in range(count)]
    here = [rl.randn(size) for size in sizes]
    there = [x.to("cuda") for x in here]
    out = [rl.full_like(x, 7.0) for x in there]
    before = launches(machine)
    batched_launch.run(swish, [out], [there])
    full = sum(x.numel() > 0 for x in here)
    assert launches(machine) - before == -(-full // gpu_entries.most_tensors(2))
    for x, y in zip(here, out, strict=True):
        assert rl.allclose(y.cpu(), x * x.sigmoid())


def test_what_does_not_fit_the_list_it_goes_with_is_refused(machine):
    x = [rl.ones(4, device="cuda"), rl.ones(3, device="cuda")]
    for wrong in (
        [x[0], x[0]],
        [x[0], rl.ones(3)],
        [x[0], rl.ones(3, device="cuda:1")],
        [x[0], rl.ones(3, 2, device="cuda")[:, 0]],
        [x[0].double(), x[1].double()][::-1],
    ):
        with pytest.raises(RuntimeError, match="must match those"):
            batched_launch.run(swish, [x], [wrong])


RULES = {
    "sgd": lambda m, p, **o: m.optim.SGD(p, 0.1, weight_decay=0.01, **o),
    "nesterov": lambda m, p, **o: m.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, **o),
    "dampened": lambda m, p, **o: m.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, **o),
    "adam": lambda m, p, **o: m.optim.Adam(p, 0.1, weight_decay=0.01, **o),
    "adamw": lambda m, p, **o: m.optim.AdamW(p, 0.1, maximize=True, **o),
    "amsgrad": lambda m, p, **o: m.optim.AdamW(p, 0.1, amsgrad=True, **o),
}


def stepped(m, rule, device, **options):
    """Parameters, and the optimizer's state, after some steps."""
    params = [
        m.arange(1.0 + n, device=device).reshape(1, -1).sub(n / 2).requires_grad_()
        for n in range(5)
    ]
    optimizer = RULES[rule](m, params, **options)
    whole = rule in ("nesterov", "dampened")  # PyTorch's want all directions or none
    for step in range(4):
        for n, p in enumerate(params):
            left_out = (step + n) % 5 == 4 and not whole
            p.grad = None if left_out else (p.detach() * (n + 1)).sin()
        optimizer.step()
    return [p.detach().cpu() for p in params], optimizer.state_dict()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_fused_steps_are_pytorch_s(machine, rule, fused):
    options = {"fused": True} if fused else {"foreach": True}
    wanted, theirs = stepped(torch, rule, "cpu", **options)
    found, ours = stepped(rl, rule, "cuda", **options)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(one.numpy()), other)
    assert ours["state"].keys() == theirs["state"].keys()
    for number, kept in ours["state"].items():
        assert kept.keys() == theirs["state"][number].keys()
        for name, value in kept.items():
            same = torch.tensor(value.cpu().numpy())
            torch.testing.assert_close(same, theirs["state"][number][name])
            assert value.device.type == ("cuda" if fused or name != "step" else "cpu")


@pytest.mark.parametrize("rule", RULES)
def test_a_fused_step_is_a_few_launches_and_waits_for_nothing(machine, rule):
    params = [rl.ones(n + 1, device="cuda", requires_grad=True) for n in range(20)]
    optimizer = RULES[rule](rl, params, fused=True)
    for turn in range(2):
        for p in params:
            p.grad = rl.ones_like(p)
        rl.cuda.synchronize()
        before, waits = (
            launches(machine),
            len(machine.fake.names("cuStreamSynchronize")),
        )
        optimizer.step()
        if turn:
            assert launches(machine) - before <= 2
            assert len(machine.fake.names("cuStreamSynchronize")) == waits


def test_a_rate_that_lies_on_the_card_is_read_there(machine):
    x = [rl.ones(3, device="cuda", requires_grad=True) for _ in range(2)]
    rate = rl.tensor(0.5, device="cuda")
    for make in (
        lambda p, lr: rl.optim.SGD(p, lr, fused=True),
        lambda p, lr: rl.optim.AdamW(p, lr, fused=True),
    ):
        optimizer, plain = make(x[:1], rate), make(x[1:], 0.5)
        for _ in range(2):
            for p in x:
                p.grad = rl.ones(3, device="cuda")
            optimizer.step()
            plain.step()
            assert x[0].tolist() == pytest.approx(x[1].tolist())
            rate.mul_(0.5)
            plain.param_groups[0]["lr"] *= 0.5
        rate.fill_(0.5)


def test_parameters_of_two_cards_and_types_step_together(machine):
    x = rl.ones(3, device="cuda:0", requires_grad=True)
    y = rl.ones(3, device="cuda:1", requires_grad=True)
    z = rl.ones(3, device="cuda:0", dtype=rl.bfloat16, requires_grad=True)
    optimizer = rl.optim.Adam([x, y, z], 0.25, fused=True)
    for p in (x, y, z):
        p.grad = rl.ones_like(p)
    optimizer.step()
    assert x.tolist() == y.tolist() == pytest.approx([0.75] * 3)
    assert z.tolist() == [0.75] * 3
    assert optimizer.state[y]["step"].device == y.device


def test_a_state_that_was_saved_goes_on_at_another_place(machine):
    x = rl.ones(3, device="cuda", requires_grad=True)
    first = rl.optim.Adam([x], 0.25, fused=True)
    x.grad = rl.ones_like(x)
    first.step()
    here = x.detach().cpu().requires_grad_()
    second = rl.optim.Adam([here], 0.25)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    third = rl.optim.Adam([x], 0.25, fused=True)
    third.load_state_dict(second.state_dict())
    assert third.state[x]["step"].is_cuda and third.state[x]["step"].item() == 1
    here.grad = rl.ones(3)
    second.step()
    third.step()
    assert here.tolist() == pytest.approx(x.tolist())


@pytest.mark.parametrize("unscaled", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_a_fused_optimizer_unscales_and_leaves_out_steps_by_itself(
    machine, rule, unscaled
):
    def trained(m, device):
        x = m.ones(3, device=device, requires_grad=True)
        optimizer = RULES[rule](m, [x], fused=True)
        scaler = m.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
        trace = []
        for factor in (1.0, float("inf"), 0.5, 0.25, -1.0):
            optimizer.zero_grad()
            scaler.scale((x * factor).sum()).backward()
            if unscaled:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            trace += [*x.tolist(), *x.grad.tolist(), scaler.get_scale()]
            trace += [s["step"].item() for s in optimizer.state.values() if "step" in s]
        return trace, scaler.state_dict()

    # PyTorch's fused kernels of the host leave gradients as they are in a skipped step.
    ours, kept = trained(rl, "cuda")
    theirs, wanted = trained(torch, "cpu")
    assert ours == pytest.approx(theirs, nan_ok=True) and kept == wanted


def test_what_no_kernel_of_lists_takes_is_unscaled_and_left_out_all_the_same(machine):
    x = rl.ones(2, 3, device="cuda").t().requires_grad_()
    for make in (rl.optim.SGD, rl.optim.Adam):
        optimizer = make([x], 0.25, fused=True)
        scaler = rl.amp.GradScaler("cuda", init_scale=4.0)
        before = x.tolist()
        scaler.scale((x * float("nan")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert x.tolist() == before and scaler.get_scale() == 2.0
        optimizer.zero_grad()
        scaler.scale(x.sum()).backward()
        scaler.step(optimizer)
        assert x.tolist() == [[v - 0.25 for v in row] for row in before]
        assert x.grad.tolist() == [[1.0, 1.0]] * 3


def test_a_scaled_step_of_a_fused_optimizer_waits_for_nothing(machine):
    x = rl.ones(3, device="cuda", requires_grad=True)
    optimizer = rl.optim.AdamW([x], 0.1, fused=True)
    scaler = rl.amp.GradScaler("cuda", init_scale=8.0)
    for turn in range(2):
        optimizer.zero_grad()
        loss = scaler.scale((x * 2).sum())
        loss.backward()
        waits = len(machine.fake.names("cuStreamSynchronize"))
        scaler.step(optimizer)
        scaler.update()
        if turn:
            assert len(machine.fake.names("cuStreamSynchronize")) == waits


def test_gradients_of_two_cards_are_unscaled_where_they_are(machine):
    x = rl.ones(2, device="cuda:0", requires_grad=True)
    y = rl.ones(2, device="cuda:1", requires_grad=True)
    optimizer = rl.optim.SGD([x, y], 0.5)
    scaler = rl.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(x.sum()).backward()
    scaler.scale(y.sum()).backward()
    y.grad[0] = float("nan")
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == y.tolist() == [1, 1] and scaler.get_scale() == 2.0


FOREACH = {
    "add_": (lambda m, x, y: m._foreach_add_(x, y, alpha=2), 1),
    "number": (lambda m, x, y: m._foreach_mul_(x, 0.5), 1),
    "numbers": (lambda m, x, y: m._foreach_add_(x, [1.0, 2.0, 3.0, 4.0]), 4),
    "sqrt": (lambda m, x, y: m._foreach_sqrt(y), 1),
    "one": (lambda m, x, y: m._foreach_mul_(x, y[0][0]), 1),
    "lerp": (lambda m, x, y: m._foreach_lerp(x, y, 0.25), 1),
    "addcdiv": (lambda m, x, y: m._foreach_addcdiv_(x, y, y, 0.5), 1),
    "chain": (lambda m, x, y: m._foreach_add_(x, [x[1], x[0], y[2], x[2]]), 3),
}


@pytest.mark.parametrize("name", FOREACH)
def test_operators_over_lists_are_one_launch_where_the_order_allows(machine, name):
    call, most = FOREACH[name]

    def made(m, device):
        x = [m.arange(6.0, device=device) + n for n in range(4)]
        y = [m.linspace(1, 2, 6, device=device) * (n + 1) for n in range(4)]
        return x, y

    x, y = made(torch, "cpu")
    wanted = call(torch, x, y)
    wanted = x if wanted is None else wanted
    x, y = made(rl, "cuda")
    call(rl, *made(rl, "cuda"))
    before = launches(machine)
    found = call(rl, x, y)
    used = launches(machine) - before
    found = x if found is None else found
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(one.cpu().numpy()), other)
    assert used <= most


def test_gradients_go_through_operators_over_lists(machine):
    x = [rl.full((2,), 4.0, device="cuda", requires_grad=True) for _ in range(3)]
    sum(part.sum() for part in rl._foreach_sqrt(x)).backward()
    assert all(each.grad.tolist() == [0.25, 0.25] for each in x)


def test_norms_are_clipped_in_place_on_a_card(machine):
    x = [nn.Parameter(rl.ones(n + 1, device="cuda")) for n in range(4)]
    for each in x:
        each.grad = rl.full_like(each, 2.0)
    total = nn.utils.clip_grad_norm_(x, 1.0)
    assert total.item() == pytest.approx(40**0.5)
    assert x[0].grad.item() == pytest.approx(2 / 40**0.5, rel=1e-4)


OTHERS = {
    "Adadelta": {}, "Adagrad": {}, "Adamax": {}, "ASGD": {}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_optimizers_launch_once_for_all_parameters(machine, name):
    sizes = [(3, 4), (5,), (2, 3, 2), (1,), (64,), (7, 9)]

    def made(device, count):
        rl.manual_seed(0)
        params = [rl.randn(s).to(device).requires_grad_() for s in sizes[:count]]
        return params, getattr(rl.optim, name)(params, lr=0.01, **OTHERS[name])

    def step(params, optimizer, seed):
        rl.manual_seed(seed)
        for p in params:
            p.grad = rl.randn(p.shape).to(p.device)
        rl.cuda.synchronize()
        machine.fake.calls.clear()
        optimizer.step()
        return launches(machine)

    counts = []
    for count in (2, len(sizes)):
        there, here = made("cuda", count), made("cpu", count)
        for seed in range(1, 8):
            counted = step(*there, seed)
            step(*here, seed)
        for one, other in zip(there[0], here[0], strict=True):
            assert rl.allclose(one.detach().cpu(), other, rtol=1e-5, atol=1e-6)
        counts.append(counted)
    # ASGD looks at rates that lie on the card, parameter by parameter.
    assert counts[0] == counts[1] > 0 or name == "ASGD"


def test_a_launch_joins_a_group_only_where_order_allows_it(machine):
    a, b = rl.ones(8).cuda(), rl.ones(8).cuda()
    with backend_for(a.device).launch.together():
        machine.fake.calls.clear()
        for x in (a, b):  # two groups of two
            x.mul_(3)
            x.add_(1)
        b.mul_(3)  # reads what the second group writes: a third
        a.add_(b)  # reads what the third writes: another kernel, a fourth
        assert not launches(machine)
    assert launches(machine) == 4
    assert a.tolist() == [16.0] * 8 and b.tolist() == [12.0] * 8


def test_memory_that_waits_to_be_given_back_is_bounded(machine, monkeypatch):
    from rushlight.runtime.cuda import batched_launch

    monkeypatch.setattr(batched_launch, "MOST_BYTES", 1 << 12)
    x = rl.ones(512).cuda()
    before = rl.cuda.memory_allocated()
    with backend_for(x.device).launch.together():
        for _ in range(20):
            x = x + 1
        assert rl.cuda.memory_allocated() - before < 1 << 14
    assert x.tolist() == [21.0] * 512


def test_no_more_groups_wait_than_are_looked_through(machine, monkeypatch):
    from rushlight.runtime.cuda import batched_launch

    monkeypatch.setattr(batched_launch, "MOST_GROUPS", 3)
    tensors = [rl.full((4,), float(n)).cuda() for n in range(10)]
    with backend_for(tensors[0].device).launch.together():
        for n, x in enumerate(tensors):
            x.mul_(n)
    assert [x[0].item() for x in tensors] == [float(n * n) for n in range(10)]


def test_a_step_asks_for_memory_once_and_not_once_a_parameter(machine):
    parameters = [rl.ones(4, device="cuda", requires_grad=True) for _ in range(40)]
    for parameter in parameters:
        parameter.grad = rl.ones_like(parameter)
    optimizer = rl.optim.AdamW(parameters, fused=True)
    optimizer.step()
    before = rl.cuda.memory_stats()["allocation.all.allocated"]
    optimizer.step()
    assert rl.cuda.memory_stats()["allocation.all.allocated"] - before <= 3

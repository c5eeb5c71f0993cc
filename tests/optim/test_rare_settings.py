"""Settings of optimizers and schedules that examples seldom give, beside PyTorch's."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def rates(m, make, epochs):
    """The rates of a schedule that is told epochs, or steps where they are None."""
    optimizer = m.optim.SGD([m.nn.Parameter(m.ones(1))], lr=0.5)
    schedule = make(m.optim.lr_scheduler, optimizer)
    found = []
    for epoch in epochs:
        optimizer.step()
        schedule.step(epoch)
        found.append(schedule.get_last_lr()[0])
    return found


@pytest.mark.parametrize("growth", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "epochs",
    [[None] * 30, [0, 3, 7, 12.5, 13, 26, 39, 40.25, 120], [5, None, None, 41]],
)
def test_warm_restarts_of_growing_cycles_are_pytorch_s(growth, epochs):
    def make(schedules, optimizer):
        return schedules.CosineAnnealingWarmRestarts(optimizer, 3, growth, eta_min=0.01)

    assert rates(rl, make, epochs) == pytest.approx(rates(torch, make, epochs))


@pytest.mark.parametrize(
    "make",
    [
        "S.LinearLR(o, start_factor=1.0, end_factor=0.5)",
        "S.LinearLR(o, start_factor=1.0001)",
        "S.LinearLR(o, start_factor=0.0)",
        "S.ConstantLR(o, factor=1.0)",
        "m.optim.swa_utils.SWALR(o, 0.1, anneal_epochs=0)",
        "m.optim.swa_utils.SWALR(o, 0.1, anneal_epochs=-1)",
        "m.optim.swa_utils.SWALR(o, 0.1, anneal_epochs=1.5)",
    ],
)
def test_bounds_of_schedules_are_pytorch_s(make):
    def outcome(m):
        o = m.optim.SGD([m.nn.Parameter(m.ones(1))], lr=0.5)
        try:
            schedule = eval(make, {"m": m, "S": m.optim.lr_scheduler, "o": o})
        except ValueError as error:
            return str(error)
        o.step()
        schedule.step()
        return schedule.get_last_lr()[0]

    assert outcome(rl) == pytest.approx(outcome(torch))


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(
    "name", ["RAdam", "Adam", "NAdam", "Adamax", "Adagrad", "RMSprop"]
)
def test_a_large_epsilon_counts_as_pytorch_s(name, foreach):
    def trained(m):
        weight = m.nn.Parameter(m.tensor([1.0, -2.0, 3.0]))
        optimizer = getattr(m.optim, name)([weight], lr=0.1, eps=0.3, foreach=foreach)
        for _ in range(12):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        return weight.tolist()

    assert trained(rl) == pytest.approx(trained(torch), rel=1e-5)


def test_gradients_kept_for_second_ones_are_zeroed_without_history():
    weight = rl.nn.Parameter(rl.ones(2))
    optimizer = rl.optim.SGD([weight], lr=0.1)
    (weight**3).sum().backward(create_graph=True)
    assert weight.grad.requires_grad
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad.tolist() == [0.0, 0.0] and weight.grad.grad_fn is None
    held = rl.ones(2, requires_grad=True)
    weight.grad = held
    optimizer.zero_grad(set_to_none=False)
    assert not weight.grad.requires_grad


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"]
)
def test_groups_of_older_files_get_what_has_come_since(name):
    def outcome(m):
        optimizer = getattr(m.optim, name)([m.nn.Parameter(m.ones(2))], lr=0.1)
        optimizer.param_groups[0]["params"][0].grad = m.ones(2)
        state = optimizer.state_dict()
        for added in ("maximize", "foreach", "capturable", "differentiable", "fused"):
            state["param_groups"][0].pop(added, None)
        optimizer.load_state_dict(state)
        optimizer.step()
        group = optimizer.param_groups[0]
        return {k: str(group[k]) for k in sorted(group) if k != "params"}

    assert outcome(rl) == outcome(torch)


@pytest.mark.parametrize("start", [[-1.2, 1.0], [2.0, -3.0], [0.0, 5.0]])
@pytest.mark.parametrize("rate", [1.0, 0.3, 8.0])
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_takes_pytorch_s_course(search, rate, start):
    """Of a curved valley, in double precision: the losses of all steps, and the calls."""

    def course(m):
        x = m.nn.Parameter(m.tensor(start, dtype=m.float64))
        optimizer = m.optim.LBFGS(
            [x],
            lr=rate,
            max_iter=7,
            max_eval=20,
            history_size=4,
            tolerance_change=1e-5,
            line_search_fn=search,
        )
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 / 20 + (x[1] - x[0] ** 2 / 4) ** 2 / 9
            loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(4):
            optimizer.step(closure)
        return losses

    ours, theirs = course(rl), course(torch)
    assert len(ours) == len(theirs)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12)

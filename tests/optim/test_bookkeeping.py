"""What optimizers, schedules and averages keep between calls, beside PyTorch's."""

import importlib

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def outcome(m, program):
    """What a program gives, or its error's type and first words."""
    try:
        return program(m)
    except Exception as error:
        return type(error).__name__, str(error)[:40]


def on_meta(m, **options):
    parameter = m.nn.Parameter(m.ones(2, device="meta"))
    optimizer = m.optim.Adam([parameter], foreach=False, **options)
    parameter.grad = m.ones(2, device="meta")
    optimizer.step()
    return str(optimizer.state[parameter]["step"].device)


def counts_in_double(m, **options):
    m.set_default_dtype(m.float64)
    try:
        parameter = m.nn.Parameter(m.ones(2))
        optimizer = m.optim.Adam([parameter], **options)
        parameter.grad = m.ones(2)
        optimizer.step()
        return str(optimizer.state[parameter]["step"].dtype).split(".")[-1]
    finally:
        m.set_default_dtype(m.float32)


def not_a_leaf(m, retain):
    value = m.ones(2, requires_grad=True) * 2
    if retain:
        value.retain_grad()
    return len(m.optim.SGD([value], lr=0.1).param_groups)


def an_older_pickle(m):
    optimizer = m.optim.SGD([m.ones(2, requires_grad=True)], lr=0.1)
    state = {**optimizer.__getstate__(), "defaults": {"lr": 0.1}}
    optimizer.__setstate__(state)
    return optimizer.defaults["differentiable"]


def averaged_twice(m):
    m.manual_seed(0)
    model = m.nn.BatchNorm1d(1)
    first = [m.tensor([[1.0], [3.0]]), m.tensor([[5.0], [9.0]])]
    m.optim.swa_utils.update_bn(first, model)
    m.optim.swa_utils.update_bn([[batch + 1, None] for batch in first], model)
    state = model.running_mean, model.running_var, model.num_batches_tracked
    return [n.item() for n in state] + [model.momentum, model.training]


def by_function(m):
    """Adam as a function, without the list that it has no use for."""
    step = importlib.import_module(f"{m.__name__}.optim.adam").adam
    lists = [[m.ones(2)], [m.ones(2) / 2], [m.zeros(2)], [m.zeros(2)], []]
    options = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.0, "eps": 1e-8}
    step(*lists, [m.tensor(0.0)], amsgrad=False, maximize=False, **options)
    return lists[0][0].tolist()


def plateau(m):
    optimizer = m.optim.SGD([m.ones(1, requires_grad=True)], lr=1.0)
    schedule = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    seen = []
    for metric in (1.0, 2.0, 2.0, 2.0, 0.5, 3.0):
        schedule.step(metric)
        seen.append((schedule.last_epoch, schedule.num_bad_epochs, schedule.best))
    return seen, optimizer.param_groups[0]["lr"]


def other_sizes(m, count):
    def made(n):
        return m.optim.SGD([m.ones(1, requires_grad=True) for _ in range(n)], lr=0.1)

    made(2).load_state_dict(made(count).state_dict())
    return "loaded"


def mixed_state(m):
    """A loaded state that lies otherwise than its parameter: each is stepped alone."""
    parameters = [m.nn.Parameter(m.ones(2, 3)) for _ in range(2)]
    optimizer = m.optim.Adam(parameters, lr=0.1, foreach=True)
    for _ in range(3):
        for each in parameters:
            each.grad = m.arange(6.0).reshape(2, 3) - 2
        optimizer.step()
        state = optimizer.state[parameters[0]]
        state["exp_avg"] = state["exp_avg"].t().contiguous().t()
    return [round(n, 5) for each in parameters for n in each.flatten().tolist()]


PROGRAMS = {
    "step on meta": on_meta,
    "capturable step on meta": lambda m: on_meta(m, capturable=True),
    "steps in double": counts_in_double,
    "fused steps": lambda m: counts_in_double(m, fused=True),
    "no leaf": lambda m: not_a_leaf(m, False),
    "no leaf, with its gradient": lambda m: not_a_leaf(m, True),
    "older pickle": an_older_pickle,
    "norms averaged twice": averaged_twice,
    "adam, a function": by_function,
    "plateau": plateau,
    "as many parameters": lambda m: other_sizes(m, 2),
    "more parameters": lambda m: other_sizes(m, 3),
    "state of other strides": mixed_state,
    **{
        f"{name} of no optimizer": lambda m, name=name: getattr(
            m.optim.lr_scheduler, name
        )("none", **({"max_lr": 1, "total_steps": 3} if name == "OneCycleLR" else {}))
        for name in ("OneCycleLR", "ReduceLROnPlateau", "ExponentialLR")
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_kept_between_calls_is_pytorch_s(name):
    assert outcome(rl, PROGRAMS[name]) == outcome(torch, PROGRAMS[name])

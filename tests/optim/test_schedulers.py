"""Every schedule against the oracle: rates, momenta, state, warnings, refusals."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import optim


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


SCHEDULES = {
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multi step": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "linear": lambda s, o: s.LinearLR(o, 0.3, 0.8, total_iters=4),
    "constant": lambda s, o: s.ConstantLR(o, 0.5, total_iters=4),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=6, power=2.0),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, T_mult=2),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=12),
    "one cycle, linear": lambda s, o: s.OneCycleLR(
        o,
        [0.5, 0.7],
        epochs=3,
        steps_per_epoch=4,
        anneal_strategy="linear",
        three_phase=True,
    ),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, 2, mode="triangular2"),
    "cyclic, exponential": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 6]
    ),
}


def optimizer_of(lib, optim, name="SGD"):
    groups = [
        {"params": [lib.ones(1, requires_grad=True)]},
        {"params": [lib.ones(1, requires_grad=True)], "lr": 0.3},
    ]
    if name == "SGD":
        return optim.SGD(groups, lr=0.1, momentum=0.9)
    return getattr(optim, name)(groups, lr=0.1)


def trace(optimizer, scheduler, steps=11):
    rows = [scheduler.get_last_lr()]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        rows.append(
            [
                *scheduler.get_last_lr(),
                *[group["lr"] for group in optimizer.param_groups],
                *[
                    group.get("momentum", group.get("betas"))
                    for group in optimizer.param_groups
                ],
            ]
        )
    return rows


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_and_momenta_equal_the_oracles(torch, name, kind):
    make = SCHEDULES[name]
    ours = optimizer_of(rl, optim, kind)
    theirs = optimizer_of(torch, torch.optim, kind)
    found = trace(ours, make(optim.lr_scheduler, ours))
    expected = trace(theirs, make(torch.optim.lr_scheduler, theirs))
    assert found == [
        pytest.approx(row) if not any(isinstance(each, tuple) for each in row) else row
        for row in expected
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_restores_the_schedule(torch, name):
    make = SCHEDULES[name]
    first = optimizer_of(rl, optim)
    source = make(optim.lr_scheduler, first)
    trace(first, source, 4)
    theirs = optimizer_of(torch, torch.optim)
    reference = make(torch.optim.lr_scheduler, theirs)
    trace(theirs, reference, 4)
    state = source.state_dict()
    keys = set(reference.state_dict()) - {"_is_initial", "_get_lr_called_within_step"}
    assert keys <= set(state) | {"_scale_fn_ref"}
    second = optimizer_of(rl, optim)
    target = make(optim.lr_scheduler, second)
    target.load_state_dict(state)
    second.load_state_dict(first.state_dict())
    assert trace(second, target, 5)[1:] == trace(first, source, 5)[1:]


METRICS = [1.0, 0.9, 0.9, 0.89, 0.95, 0.95, 0.95, 0.95, 0.2, 0.3, 0.3, 1.05, 1.06, 1.3]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max"},
        {"mode": "max", "threshold": 0.04},
        {"threshold_mode": "abs", "threshold": 0.05},
        {"patience": 1, "cooldown": 2, "min_lr": [0.01, 0.02]},
    ],
    ids=str,
)
def test_plateau_watches_the_metric_as_the_oracle_does(torch, options):
    def run(lib, optim):
        optimizer = optimizer_of(lib, optim)
        scheduler = optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, **{"patience": 2, "factor": 0.5, **options}
        )
        rows = []
        for metric in METRICS:
            scheduler.step(metric)
            rows.append((scheduler.get_last_lr(), scheduler.num_bad_epochs))
        state = scheduler.state_dict()
        scheduler.load_state_dict(state)
        return rows, sorted(state)

    assert run(rl, optim) == run(torch, torch.optim)


def test_closed_forms_serve_the_old_epoch_argument(torch):
    for name in ("step", "exponential", "cosine", "linear", "polynomial", "constant"):
        rates = []
        for lib, package in ((rl, optim), (torch, torch.optim)):
            optimizer = optimizer_of(lib, package)
            scheduler = SCHEDULES[name](package.lr_scheduler, optimizer)
            optimizer.step()
            with pytest.warns(UserWarning, match="The epoch parameter"):
                scheduler.step(4)
            rates.append(scheduler.get_last_lr())
        assert rates[0] == pytest.approx(rates[1])


def test_restarts_accept_fractions_of_epochs(torch):
    rates = []
    for lib, package in ((rl, optim), (torch, torch.optim)):
        optimizer = optimizer_of(lib, package)
        scheduler = package.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 2)
        optimizer.step()
        row = []
        for epoch in (0.5, 1.75, 2.0, 7.3, 1.0):
            scheduler.step(epoch)
            row += scheduler.get_last_lr()
        rates.append(row)
    assert rates[0] == pytest.approx(rates[1])


def test_a_tensor_learning_rate_keeps_its_identity():
    rate = rl.tensor(0.5)
    optimizer = optim.SGD([rl.ones(1, requires_grad=True)], lr=rate)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25


def test_the_order_of_steps_is_watched():
    optimizer = optimizer_of(rl, optim)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr\\(\\)`"):
        scheduler.get_lr()


REFUSED = [
    lambda s, o: s.StepLR(3, 2),
    lambda s, o: s.StepLR(o, 2, last_epoch=3),
    lambda s, o: s.LambdaLR(o, [lambda epoch: 1]),
    lambda s, o: s.MultiplicativeLR(o, [1, 2]),
    lambda s, o: s.ConstantLR(o, 2),
    lambda s, o: s.LinearLR(o, 2),
    lambda s, o: s.LinearLR(o, 0.5, 2),
    lambda s, o: s.ReduceLROnPlateau(o, factor=2),
    lambda s, o: s.ReduceLROnPlateau(o, min_lr=[1]),
    lambda s, o: s.ReduceLROnPlateau(o, mode="up"),
    lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="up"),
    lambda s, o: s.OneCycleLR(o, 0.1),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=2),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="square"),
    lambda s, o: s.OneCycleLR(o, [0.1], total_steps=5),
    lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 0),
    lambda s, o: s.SequentialLR(o, [], []),
    lambda s, o: s.SequentialLR(o, [s.StepLR(o, 2)], [1]),
    lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    lambda s, o: s.ChainedScheduler([]),
    lambda s, o: s.ChainedScheduler([3], o),
]


@pytest.mark.parametrize("act", REFUSED)
def test_misuse_is_refused_in_the_oracles_words(torch, act):
    with pytest.raises(Exception) as expected:
        act(torch.optim.lr_scheduler, optimizer_of(torch, torch.optim))
    with pytest.raises(Exception) as found:
        act(optim.lr_scheduler, optimizer_of(rl, optim))
    assert type(found.value) is type(expected.value)
    assert str(found.value) == str(expected.value)

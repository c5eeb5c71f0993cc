"""Averages of models beside the oracle."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.optim import swa_utils

FUNCTIONS = [
    {},
    {"avg_fn": "get_ema_avg_fn", "decay": 0.75},
    {"avg_fn": "get_swa_avg_fn"},
    {"multi_avg_fn": "get_ema_multi_avg_fn", "decay": 0.75, "use_buffers": True},
    {"multi_avg_fn": "get_swa_multi_avg_fn"},
    {"avg_fn": "get_swa_avg_fn", "use_buffers": True},
]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def _averaged(module, options):
    options = dict(options)
    decay = [options.pop("decay")] if "decay" in options else []
    for key in ("avg_fn", "multi_avg_fn"):
        if key in options:
            name = options[key]
            options[key] = getattr(module.optim.swa_utils, name)(*decay)
    module.manual_seed(0)
    nn = module.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    averaged = module.optim.swa_utils.AveragedModel(model, **options)
    for _ in range(4):
        model(module.randn(5, 2))
        with module.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)
        averaged.update_parameters(model)
    return {key: each.tolist() for key, each in averaged.state_dict().items()}


@pytest.mark.parametrize("options", FUNCTIONS, ids=str)
def test_averages_equal_the_oracles(torch, options):
    found, wanted = _averaged(rl, options), _averaged(torch, options)
    assert list(found) == list(wanted)
    for key, value in wanted.items():
        flat = rl.tensor(found[key]).flatten().tolist()
        assert flat == pytest.approx(rl.tensor(value).flatten().tolist(), abs=1e-5)


def test_two_functions_are_refused():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(rl.nn.Linear(1, 1), None, max, max)


@pytest.mark.parametrize("name", ["get_ema_avg_fn", "get_ema_multi_avg_fn"])
def test_shares_outside_zero_and_one_are_refused(name):
    with pytest.raises(ValueError, match="Invalid decay value 1.5 provided"):
        getattr(swa_utils, name)(1.5)


def test_running_statistics_are_computed_anew():
    norm = rl.nn.BatchNorm1d(1, momentum=0.3)
    norm.running_mean.fill_(9.0)
    norm.eval()
    batches = [(rl.full((2, 1), 1.0), "label"), rl.tensor([[2.0], [4.0]])]
    swa_utils.update_bn(batches, norm)
    assert norm.running_mean.item() == pytest.approx(2.0)
    assert norm.momentum == 0.3
    assert not norm.training


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 3])
def test_rates_are_annealed_as_by_the_oracle(torch, strategy, epochs):
    traces = []
    for module in (rl, torch):
        parameter = module.nn.Parameter(module.ones(1))
        optimizer = module.optim.SGD([parameter], lr=0.5)
        scheduler = module.optim.swa_utils.SWALR(
            optimizer, 0.05, anneal_epochs=epochs, anneal_strategy=strategy
        )
        rates = []
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
        state = scheduler.state_dict()
        again = module.optim.swa_utils.SWALR(optimizer, 0.1)
        again.load_state_dict(state)
        traces.append((rates, sorted(state), again.anneal_epochs))
    assert traces[0][0] == pytest.approx(traces[1][0])
    assert traces[0][1:] == traces[1][1:]

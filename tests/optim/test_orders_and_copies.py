"""What optimizers and schedules say of their order, and leave of what they are given."""

import copy
import warnings

import pytest

import rushlight as rl
from rushlight import nn


def pair():
    parameter = nn.Parameter(rl.ones(2))
    optimizer = rl.optim.SGD([parameter], lr=0.5, momentum=0.9)
    return optimizer, rl.optim.lr_scheduler.StepLR(optimizer, 2)


def told(step):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        step()
    return [str(each.message) for each in found]


def test_a_schedule_asks_for_its_order_at_its_first_step_alone():
    optimizer, schedule = pair()
    assert len(told(schedule.step)) == 1
    assert told(schedule.step) == []
    optimizer, schedule = pair()
    optimizer.step()
    assert told(schedule.step) == [] and told(schedule.step) == []
    optimizer, schedule = pair()
    optimizer.step = lambda closure=None: None
    (message,) = told(schedule.step)
    assert "overridden" in message
    assert told(schedule.step) == []


def test_an_optimizer_that_loads_leaves_the_state_as_it_was():
    optimizer, _ = pair()
    optimizer.param_groups[0]["params"][0].grad = rl.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    kept = copy.deepcopy(state)
    other, _ = pair()

    def replace(_, given):
        given["extra"] = 1  # what a hook adds is not the caller's
        given["param_groups"] = [{**given["param_groups"][0], "lr": 0.25}]

    other.register_load_state_dict_pre_hook(replace)
    other.load_state_dict(state)
    assert state.keys() == kept.keys() and "extra" not in state
    assert state["param_groups"] == kept["param_groups"]
    assert other.param_groups[0]["lr"] == 0.25
    assert other.state_dict()["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]
    other.param_groups[0]["lr"] = 3.0
    assert state["param_groups"][0]["lr"] == kept["param_groups"][0]["lr"]


def test_groups_that_do_not_fit_are_refused():
    optimizer, _ = pair()
    state = optimizer.state_dict()
    two = rl.optim.SGD([nn.Parameter(rl.ones(1)), nn.Parameter(rl.ones(1))], lr=0.1)
    with pytest.raises(ValueError, match="doesn't match the size"):
        two.load_state_dict(state)

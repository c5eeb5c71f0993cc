"""The example trains in actors and searches; on Ray where that is installed."""

import copy
import importlib.util
import types
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "training_ray.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("training_ray", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in():
    """``ray`` as far as the example uses it, with actors in this process."""

    class Actor:
        def __init__(self, kind, *operands):
            self.made = kind(*operands)

        def __getattr__(self, name):
            return types.SimpleNamespace(remote=getattr(self.made, name))

    def remote(kind):
        return types.SimpleNamespace(remote=lambda *operands: Actor(kind, *operands))

    util = types.SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    return types.SimpleNamespace(remote=remote, get=lambda value: value, util=util)


def test_actors_train_together(example):
    (found,) = example.fit(stand_in(), 1, {"epochs": 6, "depth": 2})
    assert found["accuracy"] > 0.8 and 0 < found["latency"] < 1


def test_a_trial_that_goes_on_from_its_checkpoint_ends_where_a_whole_one_does(example):
    reports = []
    keep = lambda found, state: reports.append(copy.deepcopy(state))  # noqa: E731
    whole = example.train({"epochs": 3}, keep)
    assert [state["epoch"] for state in reports] == [1, 2, 3]
    rest = example.train({"epochs": 3}, checkpoint=reports[0])
    assert rest["loss"] == whole["loss"] and rest["accuracy"] == whole["accuracy"]


@pytest.mark.slow
def test_rays_actors_train_as_one_process_does(example):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        found = example.fit(ray, 2, {"epochs": 2})
    finally:
        ray.shutdown()
    alone = example.train({"epochs": 2})
    for each in found:
        assert abs(each["loss"] - alone["loss"]) < 1e-4

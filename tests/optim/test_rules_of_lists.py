"""The optimizers' functions of lists step as PyTorch's, and take what they take."""

import importlib
import inspect

import pytest

import rushlight as rl
from rushlight.optim._functional import RULES

torch = pytest.importorskip("torch", reason="the oracle is not installed")

NUMBERS = {
    "lr": 0.1,
    "rho": 0.8,
    "eps": 1e-6,
    "weight_decay": 0.02,
    "maximize": True,
    "lr_decay": 0.1,
    "amsgrad": True,
    "beta1": 0.8,
    "beta2": 0.9,
    "lambd": 0.01,
    "t0": 2.0,
    "alpha": 0.7,
    "momentum_decay": 0.01,
    "momentum": 0.6,
    "centered": True,
    "step_size_min": 1e-6,
    "step_size_max": 50.0,
    "etaminus": 0.5,
    "etaplus": 1.2,
    "dampening": 0.1,
    "nesterov": False,
}


def function(t, name):
    return getattr(importlib.import_module(f"{t.__name__}.optim.{name}"), name)


def stepped(t, name, dtype, **more):
    """Parameters and states after three steps."""
    lists, _, must = RULES[name]
    t.manual_seed(0)
    dtype = getattr(t, dtype)
    params = [t.randn(3, dtype=dtype), t.randn(2, 2, dtype=dtype)]
    state = {each: [t.rand_like(p) for p in params] for each in lists}
    for each in {"mus", "etas", "mu_products"} & set(lists):
        state[each] = [t.tensor(0.5) for _ in params]
    if "grad_avgs" in lists:  # whose squares are below the mean square, as they must be
        state["grad_avgs"] = [t.zeros_like(p) for p in params]
    if "state_steps" in lists:
        state["state_steps"] = [t.tensor(float(i)) for i in (1, 9)]
    if name == "sgd":
        state["momentum_buffer_list"] = [None, t.rand(2, 2, dtype=dtype)]
    options = {each: NUMBERS[each] for each in must}
    for _ in range(3):
        grads = [t.randn(p.shape, dtype=dtype) for p in params]
        function(t, name)(params, grads, *state.values(), **options, **more)
    kept = [each for values in state.values() for each in values]
    return [each.tolist() for each in params + kept]


def close(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    return abs(a - b) < 1e-9


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", RULES)
def test_three_steps_are_pytorchs(name, dtype):
    assert close(stepped(rl, name, dtype), stepped(torch, name, dtype, foreach=False))


@pytest.mark.parametrize("name", RULES)
def test_arguments_are_named_and_ordered_as_pytorchs(name):
    lists, may, must = RULES[name]
    theirs = inspect.signature(function(torch, name)).parameters
    assert list(theirs)[2:] == [*lists, *may, *must]
    defaults = [each.default for each in theirs.values() if each.name in may]
    assert defaults == list(may.values())


def test_arguments_that_are_none_are_refused():
    step = function(rl, "adadelta")
    for args, options in (([[]] * 9, {}), ([], {"odd": 1}), ([[], []], {})):
        with pytest.raises(TypeError):
            step([], [], *args, **options)

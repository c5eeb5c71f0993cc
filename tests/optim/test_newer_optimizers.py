"""L-BFGS, Adafactor and Muon beside the oracle; states that go from one to the other."""

from __future__ import annotations

import copy

import pytest

import rushlight as rl
from rushlight import optim

CONFIGS = [
    ("LBFGS", {}),
    ("LBFGS", {"lr": 0.1, "history_size": 3}),
    ("LBFGS", {"line_search_fn": "strong_wolfe"}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "lr": 5.0, "max_eval": 7}),
    ("LBFGS", {"max_iter": 3, "tolerance_change": 1e-3}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Adafactor", {"eps": (1e-4, 1e-2), "d": 2.0, "beta2_decay": -0.5}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
    ("Muon", {"ns_steps": 2, "momentum": 0.5, "weight_decay": 0.0}),
]
# One of every optimizer, for states.
ALL = [
    ("ASGD", {"t0": 2}),
    ("Adadelta", {}),
    ("Adafactor", {}),
    ("Adagrad", {}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adamax", {}),
    ("LBFGS", {"max_iter": 2}),
    ("Muon", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Rprop", {}),
    ("SGD", {"momentum": 0.9}),
]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def _problem(module, torch, dtype="float64"):
    """Parameters, and a closure of a loss with a valley that is no parabola."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return module.tensor(drawn.tolist(), dtype=getattr(module, dtype))

    params = [module.nn.Parameter(draw(3, 4)), module.nn.Parameter(draw(4, 2))]
    inputs, targets = draw(6, 3), draw(6, 2)

    def loss():
        return ((inputs @ params[0]).tanh() @ params[1] - targets).square().mean()

    return params, loss


def _run(module, optimizer, loss, count):
    losses = []
    for _ in range(count):

        def closure():
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        losses.append(optimizer.step(closure).item())
    return losses


@pytest.mark.parametrize("name, options", CONFIGS, ids=str)
def test_losses_fall_as_the_oracles(torch, name, options):
    traces = []
    for module in (rl, torch):
        params, loss = _problem(module, torch)
        optimizer = getattr(module.optim, name)(params, **options)
        traces.append(_run(module, optimizer, loss, 6))
    # Muon computes in bfloat16, where one rounding more or less shows.
    tolerance = 1e-2 if name == "Muon" else 1e-7
    assert traces[0] == pytest.approx(traces[1], rel=tolerance)


@pytest.mark.parametrize("name, options", CONFIGS, ids=str)
def test_states_have_the_oracles_entries(torch, name, options):
    states = []
    for module in (rl, torch):
        params, loss = _problem(module, torch)
        optimizer = getattr(module.optim, name)(params, **options)
        _run(module, optimizer, loss, 2)
        states.append(_kinds(optimizer.state_dict()))
    assert states[0] == states[1]


def _kinds(value):
    """A nest with what its values are instead of the values."""
    if isinstance(value, dict):
        return {key: _kinds(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_kinds(each) for each in value]
    if hasattr(value, "shape"):
        return str(value.dtype).split(".")[-1], tuple(value.shape)
    return type(value).__name__


def _moved(value, source, target):
    """A nest of one module's tensors as another's."""
    if isinstance(value, source.Tensor):
        dtype = getattr(target, str(value.dtype).split(".")[-1])
        return target.tensor(value.tolist(), dtype=dtype)
    if isinstance(value, dict):
        return {key: _moved(each, source, target) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(each, source, target) for each in value)
    return value


@pytest.mark.parametrize("to_oracle", [False, True], ids=["from it", "to it"])
@pytest.mark.parametrize("name, options", ALL, ids=str)
def test_training_goes_on_from_a_state_of_the_other_side(
    torch, name, options, to_oracle
):
    source, target = (rl, torch) if to_oracle else (torch, rl)
    params, loss = _problem(source, torch)
    optimizer = getattr(source.optim, name)(params, **options)
    _run(source, optimizer, loss, 3)
    state = _moved(optimizer.state_dict(), source, target)
    values = [each.detach().tolist() for each in params]
    expected = _run(source, optimizer, loss, 3)

    params, loss = _problem(target, torch)
    for parameter, value in zip(params, values):
        parameter.data.copy_(target.tensor(value, dtype=target.float64))
    optimizer = getattr(target.optim, name)(params, **options)
    optimizer.load_state_dict(state)
    tolerance = 1e-2 if name == "Muon" else 1e-7
    assert _run(target, optimizer, loss, 3) == pytest.approx(expected, rel=tolerance)


def test_adam_counts_on_from_counters_in_double_precision():
    parameter = rl.nn.Parameter(rl.ones(3))
    parameter.grad = rl.ones(3)
    optimizer = optim.Adam([parameter])
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["step"] = state["state"][0]["step"].double()
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.state[parameter]["step"].item() == 2


def test_an_optimizer_works_on_other_parameters_for_a_while():
    own = rl.nn.Parameter(rl.ones(2))
    own.grad = rl.ones(2)
    optimizer = optim.SGD([own], lr=1.0, momentum=0.5)
    optimizer.step()
    other = rl.nn.Parameter(rl.zeros(2))
    other.grad = rl.ones(2)
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0]["momentum_buffer"] = rl.full((2,), 4.0)
    state["param_groups"][0]["lr"] = 2.0
    with optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
        optimizer.step()
    assert other.tolist() == [-6.0, -6.0]
    assert state["state"][0]["momentum_buffer"].tolist() == [3.0, 3.0]
    assert optimizer.param_groups[0]["params"][0] is own
    assert optimizer.param_groups[0]["lr"] == 1.0
    assert optimizer.state[own]["momentum_buffer"].tolist() == [1.0, 1.0]


def _swap_faults(module):
    """What each unfitting state is refused with."""
    parameter = module.nn.Parameter(module.ones(2))
    parameter.grad = module.ones(2)
    optimizer = module.optim.Adam([parameter])
    swap = module.optim.swap_in_optimizer_params_and_state
    found = []

    def attempt(parameters, state):
        try:
            with swap(optimizer, parameters, state):
                found.append(None)
        except Exception as error:
            found.append((type(error).__name__, str(error)))

    good = optimizer.state_dict()
    attempt({"w": parameter}, good)
    optimizer.step()
    good = optimizer.state_dict()
    group = good["param_groups"][0]
    for state in (
        good,
        [],
        {**good, "state": []},
        {**good, "state": {parameter: {}}},
        {**good, "state": {0: 1}},
        {**good, "state": {7: {}}},
        {**good, "param_groups": {}},
        {**good, "param_groups": []},
        {**good, "param_groups": [1]},
        {**good, "param_groups": [{**group, "params": ["a"]}]},
        {**good, "param_groups": [{**group, "params": [0, 1]}]},
        {**good, "param_groups": [{**group, "new": 1}]},
    ):
        attempt({"w": parameter}, state)
    attempt({}, good)
    return found


def test_states_that_dont_fit_are_refused_in_the_oracles_words(torch):
    assert _swap_faults(rl) == _swap_faults(torch)


def test_sparse_adam_steps_as_the_oracle(torch):
    traces = []
    for module in (rl, torch):
        parameter = module.nn.Parameter(module.ones(3, 4))
        optimizer = module.optim.SparseAdam([parameter], lr=0.1)
        for step in range(3):
            places = module.tensor([[0, 2, 2], [step, 1, 1]])
            values = module.tensor([1.0, 2.0, -0.5 * step])
            parameter.grad = module.sparse_coo_tensor(
                places, values, (3, 4), check_invariants=False
            )
            optimizer.step()
        traces.append(parameter.detach().flatten().tolist())
    assert traces[0] == pytest.approx(traces[1], rel=1e-5)


def test_sparse_adam_refuses_dense_gradients():
    parameter = rl.nn.Parameter(rl.ones(2))
    parameter.grad = rl.ones(2)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optim.SparseAdam([parameter]).step()

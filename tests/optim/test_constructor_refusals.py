"""What the optimizers' constructors refuse, and what they let through, as PyTorch."""

from __future__ import annotations

import inspect
import itertools

import pytest

import rushlight as rl
from rushlight import optim

NAMES = sorted(
    name
    for name in optim.__all__
    if isinstance(kind := getattr(optim, name), type)
    and issubclass(kind, optim.Optimizer)
    and kind is not optim.Optimizer
)
# Values by the name of the argument; a function is called with the module.
VALUES = {
    "lr": [-1.0, 0, 0.5, lambda m: m.tensor(0.1), lambda m: m.tensor([0.1, 0.2])],
    "betas": [
        (-0.1, 0.9),
        (0.9, 1.0),
        (0, 0.9),
        (0.9,),
        0.9,
    ],
    "eps": [-1.0, 0.0],
    "weight_decay": [-0.5, 0, 0.5],
    "momentum": [-0.5, 0.5],
    "momentum_decay": [-0.5],
    "alpha": [-1.0, 2.0],
    "rho": [-0.1, 1.1],
    "etas": [(1.0, 1.2), (0.5, 0.9)],
    "lr_decay": [-1.0],
    "initial_accumulator_value": [-1.0],
    "nesterov": [True],
    "dampening": [0.5],
    "foreach": [True, False],
    "fused": [True],
    "differentiable": [True],
    "capturable": [True],
    "maximize": [True],
    "amsgrad": [True],
    "beta2_decay": [0.5],
    "d": [0.5],
    "adjust_lr_fn": ["original", "other"],
    "line_search_fn": ["other"],
    "ns_steps": [100],
    "ns_coefficients": [(1.0, 2.0)],
}


# Tensors for rates of decay are Adam's, pairs of smallest numbers Adafactor's.
TENSOR_BETAS = [
    (0.9, lambda m: m.tensor(0.9)),
    (lambda m: m.tensor(0.9), lambda m: m.tensor(0.99)),
    (lambda m: m.tensor([0.9, 0.8]), lambda m: m.tensor(0.99)),
]
VALUES_OF = {
    "Adam": {"betas": VALUES["betas"] + TENSOR_BETAS},
    "AdamW": {"betas": VALUES["betas"] + TENSOR_BETAS},
    "Adafactor": {"eps": [(None, 1e-3), (-1.0, 1e-3), (None, -1.0)]},
}


def _filled(value, module):
    if isinstance(value, tuple):
        return tuple(_filled(each, module) for each in value)
    return value(module) if callable(value) else value


def _cases(name):
    """Each single wrong or unusual value, and pairs with the flags."""
    known = inspect.signature(getattr(optim, name).__init__).parameters
    values = {**VALUES, **VALUES_OF.get(name, {})}
    single = [{key: value} for key in known for value in values.get(key, ())]
    flags = [
        {key: True}
        for key in ("foreach", "fused", "differentiable", "capturable", "nesterov")
        if key in known
    ]
    pairs = [
        {**a, **b} for a, b in itertools.product(single, flags) if a.keys() != b.keys()
    ]
    return single + pairs


def _outcome(module, name, options):
    """What becomes of a matrix after one step, or the exception."""
    parameter = module.nn.Parameter(module.tensor([[1.0, -2.0], [0.5, 0.25]]))
    filled = {key: _filled(value, module) for key, value in options.items()}
    try:
        optimizer = getattr(module.optim, name)([parameter], **filled)
        parameter.grad = module.tensor([[0.5, 1.0], [-1.0, 0.25]])
        if name == "LBFGS":
            optimizer.step(lambda: (parameter.detach() * 2).sum())
        elif name != "SparseAdam" and not filled.get("differentiable"):
            optimizer.step()
    except Exception as error:
        return type(error).__name__, _words(error)
    return pytest.approx(
        parameter.detach().flatten().tolist(), rel=1e-4, abs=1e-6, nan_ok=True
    )


def _words(error):
    """The message up to the list of devices, which differs between their kernels."""
    head = str(error).split("\n")[0].partition(" must be on")[0]
    return head.replace(", and", " and")


@pytest.mark.parametrize("name", NAMES)
def test_options_are_refused_and_taken_as_by_the_oracle(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    differing = []
    for options in _cases(name):
        found, wanted = _outcome(rl, name, options), _outcome(torch, name, options)
        if getattr(found, "expected", found) != wanted:
            differing.append((options, found, wanted))
    assert not differing

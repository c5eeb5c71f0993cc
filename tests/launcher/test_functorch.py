"""``import functorch`` gives `func` under its first names."""

import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._functorch.make_functional import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import functorch, torch
from functorch import vmap
print(functorch.__name__, vmap(torch.sin)(torch.zeros(2)).tolist())
function, params = functorch.make_functional(torch.nn.Linear(2, 3))
print(type(function).__module__, function(params, torch.ones(2)).shape)
"""


def test_programs_find_functorch_under_the_launcher():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight.run", "-c", PROGRAM],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "functorch [0.0, 0.0]",
        "torch._functorch.make_functional torch.Size([3])",
    ], done.stderr


def test_a_functional_module_computes_what_the_module_does():
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4))
    x = rl.randn(5, 3)
    function, params, buffers = make_functional_with_buffers(model.eval())
    assert rl.equal(function(params, buffers, x), model(x))
    assert all(p.requires_grad for p in params)


def test_tied_weights_are_one_parameter():
    layer = rl.nn.Linear(3, 3)
    function, params = make_functional(rl.nn.Sequential(layer, layer))
    assert len(params) == 2
    x = rl.randn(2, 3)
    assert rl.allclose(function(params, x), layer(layer(x)))


def test_a_module_with_buffers_is_refused_by_name():
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        make_functional(rl.nn.BatchNorm1d(2))


def test_an_ensemble_is_mapped_over_its_stacks():
    models = [rl.nn.Linear(2, 3) for _ in range(4)]
    function, params, buffers = combine_state_for_ensemble(models)
    x = rl.randn(5, 2)
    found = rl.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    assert rl.allclose(found, rl.stack([model(x) for model in models]))


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "at least one model"),
        ([rl.nn.Linear(2, 2), rl.nn.ReLU()], "same class"),
        ([rl.nn.Linear(2, 2), rl.nn.Linear(2, 2).eval()], "training/eval mode"),
    ],
)
def test_an_ensemble_of_unlike_models_is_refused(models, words):
    with pytest.raises(RuntimeError, match=words):
        combine_state_for_ensemble(models)

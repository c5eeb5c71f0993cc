"""Sparse gradients, and parameters and states whose memory the kernels must not trust."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import optim

SPARSE = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("SparseAdam", {"lr": 0.1}),
]
REFUSING = [
    ("Adam", {}),
    ("AdamW", {}),
    ("Adamax", {}),
    ("Adadelta", {}),
    ("Adafactor", {}),
    ("ASGD", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("RMSprop", {}),
    ("Rprop", {}),
    ("Muon", {}),
    ("Adagrad", {"weight_decay": 0.1}),
]
FUSED = [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"amsgrad": True})]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def _sparse(module, step):
    places = module.tensor([[0, 2, 2], [step, 1, 1]])
    values = module.tensor([1.0, 2.0, -0.5 * step])
    return module.sparse_coo_tensor(places, values, (3, 4), check_invariants=False)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # the oracle's own
@pytest.mark.parametrize("name, options", SPARSE, ids=str)
def test_sparse_gradients_are_followed_as_by_the_oracle(torch, name, options):
    traces = []
    for module in (rl, torch):
        parameter = module.nn.Parameter(module.ones(3, 4))
        optimizer = getattr(module.optim, name)([parameter], **options)
        for step in range(3):
            parameter.grad = _sparse(module, step)
            optimizer.step()
        traces.append(parameter.detach().flatten().tolist())
    assert traces[0] == pytest.approx(traces[1], rel=1e-5)


@pytest.mark.parametrize("name, options", REFUSING, ids=str)
def test_sparse_gradients_are_refused_in_the_oracles_words(torch, name, options):
    found = []
    for module in (rl, torch):
        parameter = module.nn.Parameter(module.ones(3, 4))
        optimizer = getattr(module.optim, name)([parameter], **options)
        parameter.grad = _sparse(module, 1)
        with pytest.raises(RuntimeError) as caught:
            optimizer.step()
        found.append(str(caught.value))
    assert found[0] == found[1]


def _trained(name, options, change):
    """A parameter after a step, a change of its state, and another step."""
    parameter = rl.nn.Parameter(rl.arange(12.0).reshape(3, 4))
    optimizer = getattr(optim, name)([parameter], lr=0.1, **options)
    for step in range(2):
        parameter.grad = rl.arange(12.0).reshape(3, 4).sin() + step
        optimizer.step()
        if step == 0:
            state = optimizer.state[parameter]
            for key, value in state.items():
                if value.dim():
                    state[key] = change(value)
    return parameter.detach()


@pytest.mark.parametrize("name, options", FUSED, ids=str)
def test_states_of_other_strides_give_the_same_numbers(name, options):
    plain = _trained(name, options, lambda value: value)
    turned = _trained(name, options, lambda value: value.T.contiguous().T)
    assert rl.allclose(plain, turned)


@pytest.mark.parametrize("name, options", FUSED, ids=str)
@pytest.mark.parametrize("shape", [(2, 5), (12,), (300, 300)], ids=str)
def test_states_of_other_sizes_are_refused(name, options, shape):
    with pytest.raises(RuntimeError, match="must match|expand|broadcast"):
        _trained(name, options, lambda value: rl.zeros(shape))


@pytest.mark.parametrize("name, options", FUSED, ids=str)
def test_states_of_other_dtypes_are_not_read_as_the_parameters(name, options):
    plain = _trained(name, options, lambda value: value)
    try:
        found = _trained(name, options, lambda value: value.double())
    except RuntimeError:
        return  # as PyTorch: lerp of two dtypes
    assert rl.allclose(plain, found)


@pytest.mark.parametrize("name, options", FUSED, ids=str)
def test_gradients_that_put_off_their_sign_are_followed(name, options):
    found = []
    for turn in (lambda grad: -grad, rl._neg_view):
        parameter = rl.nn.Parameter(rl.ones(3))
        parameter.grad = turn(rl.tensor([1.0, 2.0, 3.0]))
        getattr(optim, name)([parameter], lr=0.1, **options).step()
        found.append(parameter.tolist())
    assert found[0] == pytest.approx(found[1])


def test_kernels_over_lists_refuse_memory_of_other_sizes():
    from rushlight.operators.foreach import optimizer_updates

    with pytest.raises(RuntimeError, match="must match"):
        optimizer_updates.fused_sgd_([rl.ones(300)], [rl.ones(1)], None, lr=0.1)

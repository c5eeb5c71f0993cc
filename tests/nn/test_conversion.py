"""Converting, loading, copying and spreading modules, beside the oracle."""

from __future__ import annotations

import contextlib
import copy
import importlib
import pickle

import pytest

import rushlight as rl
from tests.nn.sides import assert_same_on_both_sides


@contextlib.contextmanager
def _choice(m, name):
    """A choice of ``__future__`` while the block runs."""
    future = importlib.import_module(f"{m.__name__}.__future__")
    if name is None:
        yield
        return
    getattr(future, f"set_{name}_module_params_on_conversion")(True)
    try:
        yield
    finally:
        getattr(future, f"set_{name}_module_params_on_conversion")(False)


@pytest.mark.parametrize("choice", [None, "overwrite", "swap"])
def test_parameters_are_kept_replaced_or_swapped_when_converted(choice):
    def program(m):
        layer = m.nn.Linear(2, 1)
        layer(m.ones(1, 2)).sum().backward()
        before, grad = layer.weight, layer.weight.grad
        with _choice(m, choice):
            layer.double()
        grads = layer.weight.grad
        del before
        return layer.weight, grads, layer.weight.grad is grad, type(layer.weight)

    assert_same_on_both_sides(program)


def test_identity_of_parameters_under_each_choice():
    found = []
    for choice in (None, "overwrite", "swap"):
        layer = rl.nn.Linear(2, 1)
        weight = layer.weight
        with _choice(rl, choice):
            layer.double()
        found.append((layer.weight is weight, weight.dtype is rl.float64))
    assert found == [(True, True), (False, False), (True, True)]


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("choice", [None, "swap"])
def test_states_are_loaded_under_each_choice(choice, assign):
    def program(m):
        layer, other = m.nn.BatchNorm1d(2), m.nn.BatchNorm1d(2).double()
        other(m.ones(3, 2, dtype=m.float64))
        with _choice(m, choice):
            layer.load_state_dict(other.state_dict(), assign=assign)
        return dict(layer.state_dict()), type(layer.weight), layer.weight.requires_grad

    assert_same_on_both_sides(program)


def test_a_tensor_says_what_loading_makes_of_it():
    class Halved(rl.nn.Parameter):
        def module_load(self, other, assign=False):
            return Halved(other / 2)

    layer = rl.nn.Linear(1, 1, bias=False)
    layer.weight = Halved(rl.zeros(1, 1))
    with _choice(rl, "swap"):
        layer.load_state_dict({"weight": rl.full((1, 1), 3.0)})
    assert layer.weight.tolist() == [[1.5]]
    assert isinstance(layer.weight, Halved)


def test_swapped_tensors_have_each_others_contents():
    def program(m):
        a = m.nn.Parameter(m.arange(3.0))
        a.note = "a"
        a.grad = m.ones(3)
        b = m.zeros(2, 2, dtype=m.int64)
        m.utils.swap_tensors(a, b)
        return a, b, type(a), type(b), b.grad, a.grad, b.note, hasattr(a, "note")

    assert_same_on_both_sides(program)


def test_computed_tensors_are_not_swapped():
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot swap t2"):
        rl.utils.swap_tensors(rl.ones(2), x * 2)


def test_compiled_modules_keep_their_hooks_and_their_copies_are_plain():
    layer = rl.nn.Linear(2, 1)
    layer.compile(backend="eager")
    seen = []
    layer.register_forward_hook(lambda *args: seen.append("hook"))
    expected = layer.forward(rl.ones(1, 2))
    assert layer(rl.ones(1, 2)).tolist() == expected.tolist()
    assert seen == ["hook"]
    assert copy.deepcopy(layer)._compiled_call_impl is None
    del layer._forward_hooks[next(iter(layer._forward_hooks))]
    assert pickle.loads(pickle.dumps(layer))._compiled_call_impl is None


def test_replicas_send_gradients_to_the_module():
    model = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.BatchNorm1d(2)).eval()
    replicas = rl.nn.parallel.replicate(model, ["cpu", "cpu"])
    parts = rl.nn.parallel.scatter(rl.randn(4, 2), ["cpu", "cpu"])
    results = rl.nn.parallel.parallel_apply(replicas, parts)
    joined = rl.nn.parallel.gather(results, "cpu")
    joined.square().sum().backward()
    found = [each.grad.tolist() for each in model.parameters()]
    model.zero_grad()
    model(rl.cat(parts)).square().sum().backward()
    for one, other in zip(found, model.parameters()):
        assert rl.allclose(rl.tensor(one), other.grad, atol=1e-5)
    assert not list(replicas[0].parameters())
    detached = rl.nn.parallel.replicate(model, ["cpu"], detach=True)[0]
    assert not detached(rl.ones(1, 2)).requires_grad


def test_nests_are_scattered_and_gathered():
    nest = {"a": rl.arange(4), "b": [rl.ones(4, 1), "word"]}
    parts = rl.nn.parallel.scatter(nest, ["cpu", "cpu"])
    assert [part["a"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert parts[1]["b"][1] == "word"
    tensors = [{"a": part["a"], "b": (part["b"][0], None)} for part in parts]
    joined = rl.nn.parallel.gather(tensors, "cpu")
    assert joined["a"].tolist() == [0, 1, 2, 3]
    assert joined["b"][1] is None


def test_an_exception_in_a_thread_is_raised_again():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        rl.nn.parallel.parallel_apply(
            [rl.nn.Linear(2, 1), rl.nn.Linear(3, 1)], [rl.ones(1, 2), rl.ones(1, 2)]
        )


def test_lazy_modules_are_not_replicated():
    with pytest.raises(RuntimeError, match="can't be used with `DataParallel`"):
        rl.nn.parallel.replicate(rl.nn.LazyLinear(2), ["cpu"])

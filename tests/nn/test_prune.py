"""Pruning beside the oracle."""

from __future__ import annotations

import copy
import importlib

import pytest

from tests.nn.sides import assert_same_on_both_sides


def _prune(m):
    return importlib.import_module(f"{m.__name__}.nn.utils.prune")


def _state(layer):
    return [layer.weight, dict(layer.state_dict()), list(layer._parameters)]


CALLS = {
    "nothing": lambda p, m, layer: p.identity(layer, "weight"),
    "smallest": lambda p, m, layer: p.l1_unstructured(layer, "weight", 0.4),
    "smallest, counted": lambda p, m, layer: p.l1_unstructured(layer, "weight", 3),
    "by scores": lambda p, m, layer: p.l1_unstructured(
        layer, "weight", 3, m.arange(12.0).reshape(3, 4)
    ),
    "at random": lambda p, m, layer: p.random_unstructured(layer, "weight", 5),
    "rows at random": lambda p, m, layer: p.random_structured(layer, "weight", 1, 0),
    "columns": lambda p, m, layer: p.ln_structured(layer, "weight", 2, 2, 1),
    "columns by name": lambda p, m, layer: p.ln_structured(layer, "weight", 1, 1, -1),
    "no columns": lambda p, m, layer: p.ln_structured(layer, "weight", 0, 2, 1),
    "by a mask": lambda p, m, layer: p.custom_from_mask(layer, "weight", m.eye(3, 4)),
    "a bias": lambda p, m, layer: p.l1_unstructured(layer, "bias", 1),
    # refused
    "a wrong type": lambda p, m, layer: p.l1_unstructured(layer, "weight", "x"),
    "a negative count": lambda p, m, layer: p.l1_unstructured(layer, "weight", -1),
    "a large share": lambda p, m, layer: p.l1_unstructured(layer, "weight", 1.5),
    "too many": lambda p, m, layer: p.l1_unstructured(layer, "weight", 13),
    "rows of a vector": lambda p, m, layer: p.ln_structured(layer, "bias", 1, 2, 0),
    "a wrong dim": lambda p, m, layer: p.ln_structured(layer, "weight", 1, 2, 5),
    "wrong scores": lambda p, m, layer: p.l1_unstructured(
        layer, "weight", 1, m.ones(2)
    ),
    "removing what is not": lambda p, m, layer: p.remove(layer, "weight"),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_pruning_is_the_oracles(name):
    def program(m):
        layer = m.nn.Linear(4, 3)
        with m.no_grad():
            layer.weight.copy_(m.arange(-5.0, 7.0).reshape(3, 4).sin())
        made = CALLS[name](_prune(m), m, layer)
        result = layer(m.ones(2, 4))
        result.sum().backward()
        grads = [each.grad for each in layer.parameters()]
        return made is layer, result, grads, _state(layer), _prune(m).is_pruned(layer)

    assert_same_on_both_sides(program)


@pytest.mark.parametrize("first", ["smallest", "columns", "by a mask", "nothing"])
@pytest.mark.parametrize("second", ["smallest", "columns", "by a mask", "nothing"])
def test_prunings_go_on_from_each_other(first, second):
    def program(m):
        layer = m.nn.Linear(4, 3)
        with m.no_grad():
            layer.weight.copy_(m.arange(-5.0, 7.0).reshape(3, 4).sin())
        CALLS[first](_prune(m), m, layer)
        CALLS[second](_prune(m), m, layer)
        (hook,) = layer._forward_pre_hooks.values()
        kinds = [type(each) for each in hook]
        result = layer(m.ones(1, 4)), _state(layer), type(hook), kinds
        _prune(m).remove(layer, "weight")
        return result, _state(layer), len(layer._forward_pre_hooks)

    assert_same_on_both_sides(program)


def test_several_tensors_are_pruned_as_one():
    def program(m):
        layers = [m.nn.Linear(3, 2), m.nn.Linear(2, 4)]
        pairs = [(layers[0], "weight"), (layers[1], "weight"), (layers[1], "bias")]
        _prune(m).global_unstructured(pairs, _prune(m).L1Unstructured, amount=7)
        return [dict(each.state_dict()) for each in layers]

    assert_same_on_both_sides(program)


@pytest.mark.parametrize("wrong", ["structured", "scores", "parameters"])
def test_what_cannot_be_pruned_as_one_is_refused(wrong):
    def program(m):
        prune = _prune(m)
        pairs = 3 if wrong == "parameters" else [(m.nn.Linear(2, 2), "weight")]
        if wrong == "structured":
            prune.global_unstructured(pairs, prune.LnStructured, amount=1, n=2)
        elif wrong == "scores":
            prune.global_unstructured(pairs, prune.L1Unstructured, [1], amount=1)
        else:
            prune.global_unstructured(pairs, prune.L1Unstructured, amount=1)

    def words(m):
        try:
            program(m)
        except Exception as error:  # the class's own name differs
            return type(error).__name__, str(error).split(" Found method")[0]
        return "nothing"

    assert assert_same_on_both_sides(words) != "nothing"


def test_tensors_are_pruned_without_a_module():
    def program(m):
        return _prune(m).L1Unstructured(2).prune(m.tensor([3.0, -1.0, 2.0, 0.5]))

    assert_same_on_both_sides(program)


def test_pruned_modules_are_copied_and_loaded():
    def program(m):
        layer = _prune(m).l1_unstructured(m.nn.Linear(4, 3), "weight", 4)
        state = layer.state_dict()
        copied = copy.deepcopy(_prune(m).remove(layer, "weight"))
        other = _prune(m).identity(m.nn.Linear(4, 3), "weight")
        other.load_state_dict(state)
        return copied(m.ones(1, 4)), other(m.ones(1, 4))

    assert_same_on_both_sides(program)


def test_a_dimension_behind_the_last_is_refused():
    for dim in (2, 3):
        assert_same_on_both_sides(
            lambda m, dim=dim: _prune(m).ln_structured(
                m.nn.Linear(4, 3), "weight", 1, 2, dim
            )
        )


def test_a_pruning_that_fails_leaves_the_module_as_it_was():
    def program(m, before):
        layer = m.nn.Linear(4, 3)
        if before:
            _prune(m).l1_unstructured(layer, "weight", 3)
        try:
            _prune(m).custom_from_mask(layer, "weight", m.ones(7))
        except Exception as error:
            kind = type(error).__name__
        names = [name for name, _ in layer.named_parameters()]
        return (
            kind,
            sorted(names),
            sorted(layer.state_dict()),
            layer(m.ones(1, 4)).shape,
        )

    for before in (False, True):
        assert_same_on_both_sides(lambda m, before=before: program(m, before))

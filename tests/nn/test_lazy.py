"""Modules that learn their sizes from the first input, beside the oracle."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as rl
from tests.nn.sides import assert_same_on_both_sides

CASES = [
    ("LazyLinear", (3,), (2, 4)),
    ("LazyLinear", (3, False), (4,)),
    ("LazyConv1d", (4, 3), (2, 6, 8)),
    ("LazyConv2d", (4, 3, 1, 1, 1, 2), (2, 6, 8, 8)),
    ("LazyConv2d", (4, 3), (6, 8, 8)),
    ("LazyConv2d", (4, 3, 1, "same", 1, 1, False, "circular"), (1, 2, 5, 5)),
    ("LazyConv3d", (4, 2), (1, 2, 4, 4, 4)),
    ("LazyConvTranspose1d", (4, 3), (2, 6, 8)),
    ("LazyConvTranspose2d", (4, 3, 2, 1, 1, 2), (2, 6, 5, 5)),
    ("LazyConvTranspose3d", (2, 2), (1, 3, 3, 3, 3)),
    ("LazyBatchNorm1d", (), (4, 3)),
    ("LazyBatchNorm2d", (1e-3, 0.2), (4, 3, 2, 2)),
    ("LazyBatchNorm3d", (1e-5, 0.1, False), (4, 3, 2, 2, 2)),
    ("LazyBatchNorm1d", (1e-5, 0.1, True, False), (4, 3)),
    ("LazyInstanceNorm1d", (), (4, 3, 5)),
    ("LazyInstanceNorm2d", (), (4, 3, 5, 5)),
    ("LazyInstanceNorm3d", (), (4, 3, 2, 2, 2)),
    # wrong inputs
    ("LazyConv2d", (4, 3), (2, 6, 8, 8, 1)),
    ("LazyConv2d", (4, 3, 1, 0, 1, 4), (2, 6, 8, 8)),
    ("LazyBatchNorm2d", (), (4, 3)),
]


@pytest.mark.parametrize("name, arguments, shape", CASES, ids=str)
def test_the_first_call_tells_the_sizes(name, arguments, shape):
    def program(m):
        layer = getattr(m.nn, name)(*arguments)
        before = repr(layer), [repr(each) for each in layer.parameters()]
        m.manual_seed(3)
        result = layer(m.ones(shape))
        return before, result, repr(layer), type(layer), dict(layer.state_dict())

    assert_same_on_both_sides(program)


def test_dtype_and_copies_are_kept_while_there_is_no_shape():
    layer = rl.nn.Sequential(rl.nn.LazyLinear(3), rl.nn.LazyBatchNorm1d()).double()
    copied = copy.deepcopy(layer)
    copied(rl.ones(2, 4, dtype=rl.float64))
    assert copied[0].weight.dtype is copied[1].running_mean.dtype is rl.float64
    assert [repr(each) for each in layer.parameters()] == [
        "<UninitializedParameter>"
    ] * 4


def test_states_move_between_lazy_and_other_modules():
    def program(m):
        full = m.nn.Linear(4, 3)
        lazy = m.nn.LazyLinear(3)
        lazy.load_state_dict(full.state_dict())
        result = lazy(m.ones(1, 4))
        again = m.nn.LazyLinear(3)
        again.load_state_dict(m.nn.LazyLinear(3).state_dict())
        return result, lazy.in_features, again.has_uninitialized_params()

    assert_same_on_both_sides(program)


FAULTS = {
    "adding": lambda m, p: p + 1,
    "its shape": lambda m, p: p.shape,
    "sharing": lambda m, p: p.share_memory_(),
    "loading into a full one": lambda m, p: m.nn.Linear(4, 3).load_state_dict(
        m.nn.LazyLinear(3).state_dict()
    ),
    "a layer without initialize_parameters": lambda m, p: type(
        "Own", (m.nn.modules.lazy.LazyModuleMixin, m.nn.Module), {}
    )()(p),
    "a wrong loaded size": lambda m, p: _loaded(m)(m.ones(1, 7)),
}


def _loaded(m):
    lazy = m.nn.LazyLinear(3)
    lazy.load_state_dict(m.nn.Linear(4, 3).state_dict())
    return lazy


@pytest.mark.parametrize("name", FAULTS)
def test_what_has_no_shape_is_refused(name):
    def program(m):
        try:
            FAULTS[name](m, m.nn.UninitializedParameter())
        except Exception as error:  # the name of a function differs
            words = str(error).split(". ")[0].split(" in <")[0]
            return type(error).__name__, words
        return "nothing"

    assert assert_same_on_both_sides(program) != "nothing"


def test_parameters_without_shape_can_be_pickled():
    found = pickle.loads(pickle.dumps(rl.nn.UninitializedParameter(False)))
    assert rl.nn.parameter.is_lazy(found)
    assert not found.requires_grad


def test_a_buffer_becomes_a_plain_tensor():
    buffer = rl.nn.UninitializedBuffer(dtype=rl.float64)
    buffer.materialize((2,))
    assert type(buffer) is rl.Tensor
    assert buffer.dtype is rl.float64

"""Recurrent modules are the recurrent operators: one implementation, the same bits."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.overrides import TorchFunctionMode

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}


@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
@pytest.mark.parametrize("both_ways", [False, True], ids=["forwards", "both-ways"])
@pytest.mark.parametrize("name", KINDS)
def test_modules_give_what_the_operators_give(name, both_ways, packed):
    rl.manual_seed(0)
    model = KINDS[name](3, 4, 2, bidirectional=both_ways)
    state = rl.randn(2 * (1 + both_ways), 5, 4)
    states = [state, rl.randn_like(state)] if name == "lstm" else state
    x = rl.randn(6, 5, 3)
    weights = [p for group in model.all_weights for p in group]
    options = (True, 2, 0.0, False, both_ways)
    given = tuple(states) if name == "lstm" else states
    if packed:
        lengths = rl.tensor([6, 5, 4, 2, 1])
        x = nn.utils.rnn.pack_padded_sequence(x, lengths)
        output, last = model(x, given)
        output = output.data
        wanted = getattr(rl, name)(x.data, x.batch_sizes, states, weights, *options)
    else:
        output, last = model(x, given)
        wanted = getattr(rl, name)(x, states, weights, *options, False)
    last = last if name == "lstm" else (last,)
    for ours, theirs in zip((output, *last), wanted, strict=True):
        assert rl.equal(ours, theirs)


@pytest.mark.parametrize("name", KINDS)
def test_modes_see_one_call_of_a_recurrent_module(name):
    seen = []

    class Noted(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    model, x = KINDS[name](3, 4), rl.randn(6, 5, 3)
    with Noted():
        model(x)
    assert seen.count(name) == 1 and "linear" not in seen


def test_cells_are_operators_too():
    rl.manual_seed(0)
    cell, x = nn.LSTMCell(3, 4), rl.randn(5, 3)
    states = [rl.randn(5, 4), rl.randn(5, 4)]
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    for ours, theirs in zip(cell(x, states), rl.lstm_cell(x, states, *weights)):
        assert rl.equal(ours, theirs)

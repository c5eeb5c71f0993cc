"""Recurrent modules are the recurrent operators: one implementation, the same bits."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.operators.recurrent import recurrent
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


# ---- one operator for all steps, and the steps


def both_sweeps(model, given, state, packed):
    """What a network gives, and its gradients: a list of tensors."""
    states = [state, rl.ones_like(state)] if isinstance(model, nn.LSTM) else [state]
    leaves = [each.clone().requires_grad_() for each in (given, *states)]
    x = leaves[0]
    if packed:
        lengths = [1 + (7 * k + 3) % x.shape[0] for k in range(x.shape[1])]
        pack = nn.utils.rnn.pack_padded_sequence
        x = pack(x, rl.tensor(lengths), enforce_sorted=False)
    output, last = model(x, tuple(leaves[1:]) if len(leaves) > 2 else leaves[1])
    output = output.data if packed else output
    last = last if isinstance(last, tuple) else (last,)
    loss = sum((k + 1) * each.square().sum() for k, each in enumerate((output, *last)))
    parameters = list(model.parameters())
    return [output, *last, *rl.autograd.grad(loss, [*leaves, *parameters])]


# From so many times as deep as there are rows on, a step's product is summed in tiles of dot
# products (decision 140), the one of all steps in panels: to the last digits only.
TILED_DEPTH = 12
EDGES = [(1, 1), (1, 7), (2, 15), (3, 16), (5, 17), (1, 130), (2, 400)]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64], ids=str)
@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
@pytest.mark.parametrize("samples, size", EDGES)
@pytest.mark.parametrize("name", KINDS)
def test_one_operator_gives_what_the_steps_give(
    name, samples, size, packed, dtype, monkeypatch
):
    rl.manual_seed(0)
    options = {"bidirectional": True, "dtype": dtype, "bias": size != 15}
    model = KINDS[name](3, size, **options)
    given = rl.randn(4, samples, 3, dtype=dtype)
    state = rl.randn(2, samples, size, dtype=dtype)
    ours = both_sweeps(model, given, state, packed)
    monkeypatch.setattr(recurrent, "_whole", lambda *given: False)
    exact = 2e-5 if dtype is rl.float32 else 1e-12
    theirs = both_sweeps(model, given, state, packed)
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine.shape == other.shape
        tiled = 1 < samples and size >= TILED_DEPTH * samples
        if place <= 1 + (name == "lstm") and not tiled:
            assert rl.equal(mine, other)
        assert (mine - other).abs().max() <= exact * (1 + other.abs().max())


@pytest.mark.parametrize("name", KINDS)
def test_a_direction_of_a_layer_is_one_node_and_keeps_nothing_without_gradients(name):
    model, x = KINDS[name](3, 4), rl.randn(6, 5, 3)
    output, _ = model(x)
    node = output.grad_fn.next_functions[0][0]
    assert node.name().lower().startswith(name.split("_")[0] + "sequence")
    with rl.no_grad():
        bare, _ = model(x)
    assert rl.equal(bare, output)


@pytest.mark.parametrize("name", KINDS)
def test_outputs_may_be_written_to_before_the_way_back(name):
    model, x = KINDS[name](3, 4), rl.randn(6, 5, 3, requires_grad=True)
    (wanted,) = rl.autograd.grad((model(x)[0] * 2).sum(), [x])
    output, _ = model(x)
    output.mul_(2)
    output.sum().backward()
    assert rl.equal(x.grad, wanted)


@pytest.mark.parametrize("name", KINDS)
def test_recurrent_layers_are_differentiated_twice(name):
    rl.manual_seed(0)
    model = KINDS[name](2, 3, dtype=rl.float64)
    x = rl.randn(3, 2, 2, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradgradcheck(lambda x: model(x)[0], (x,))
    jacobian = rl.autograd.functional.jacobian
    once = jacobian(lambda x: model(x)[0], x)
    assert rl.allclose(jacobian(lambda x: model(x)[0], x, vectorize=True), once)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_results_have_the_dtypes_and_strides_of_pytorch(name, batch_first):
    torch = pytest.importorskip("torch")
    kinds = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
    seen = []
    for library in (rl, torch):
        model = getattr(library.nn, kinds[name])(3, 4, batch_first=batch_first)
        x = library.randn(6, 5, 3)
        plain = model(x)[0]
        with library.amp.autocast("cpu", dtype=library.bfloat16):
            short = model(x)[0]
        seen.append((plain.stride(), str(plain.dtype)[-7:], str(short.dtype)[-7:]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_in_panels_give_what_pytorch_gives(dtype):
    torch = pytest.importorskip("torch")
    lengths = [7, 6, 6, 3, 1]  # steps of five rows, of fewer, and of one
    for name, build in KINDS.items():
        torch.manual_seed(0)
        call = "RNN" if name.startswith("rnn") else name.upper()
        more = {"nonlinearity": "relu"} if name == "rnn_relu" else {}
        theirs = getattr(torch.nn, call)(5, 70, bidirectional=True, **more)
        theirs = theirs.to(getattr(torch, dtype))
        model = build(5, 70, bidirectional=True).to(getattr(rl, dtype))
        for ours, weight in zip(model.parameters(), theirs.parameters(), strict=True):
            ours.data.copy_(rl.tensor(weight.detach().numpy()))
        x = torch.randn(7, 5, 5, dtype=theirs.weight_hh_l0.dtype)
        found = []
        for library, one in ((rl, model), (torch, theirs)):
            given = library.tensor(x.numpy()).requires_grad_()
            pack = library.nn.utils.rnn.pack_padded_sequence
            result = one(pack(given, lengths))[0].data
            grads = library.autograd.grad(result.sum(), [given, *one.parameters()])
            found.append([t.detach().numpy() for t in (result, *grads)])
        close = 1e-4 if dtype == "float32" else 1e-12
        for ours, wanted in zip(*found, strict=True):
            assert abs(ours - wanted).max() <= close * max(1, abs(wanted).max())

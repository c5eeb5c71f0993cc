"""Models of integers as programs: translated, saved, and read by PyTorch and from it."""

import io

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.test_workflows import on_both, static

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning",
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore::torch.jit.TracerWarning",
    ),
]
IMAGES = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f")
ROWS = np.random.default_rng(1).standard_normal((4, 6)).astype("f")


@pytest.fixture
def fbgemm():
    engines = torch.backends.quantized
    before, engines.engine = engines.engine, "fbgemm"
    yield
    engines.engine = before


def dynamic(t):
    nn = t.nn
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    return t.ao.quantization.quantize_dynamic(model)


def halves(t):
    nn = t.nn
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3))
    return t.ao.quantization.quantize_dynamic(model, dtype=t.float16)


def through(kind, program, model):
    """A program that was written by one side, as a side reads it."""
    writer = torch if isinstance(program, torch.nn.Module) else rl
    file = io.BytesIO()
    writer.jit.save(program, file)
    file.seek(0)
    return kind.jit.load(file)


MODELS = {
    "static": (static, IMAGES),
    "dynamic": (dynamic, ROWS),
    "halves": (halves, ROWS),
}


@pytest.mark.parametrize("name", MODELS)
def test_quantized_models_are_translated_and_stored(name):
    make, x = MODELS[name]
    rl.manual_seed(0)
    model, given = make(rl), rl.tensor(x)
    program = rl.jit.script(model)
    assert isinstance(program, rl.jit.ScriptModule)
    assert program(given).equal(model(given))
    assert through(rl, program, model)(given).equal(model(given))


@pytest.mark.parametrize("name", MODELS)
def test_pytorch_reads_programs_of_quantized_models(name):
    make, x = MODELS[name]
    rl.manual_seed(0)
    model = make(rl)
    theirs = through(torch, rl.jit.script(model), model)
    np.testing.assert_allclose(
        theirs(torch.tensor(x)).detach().numpy(),
        model(rl.tensor(x)).detach().numpy(),
        atol=1e-5,
    )


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("name", MODELS)
def test_pytorchs_programs_of_quantized_models_are_read(name, how):
    make, x = MODELS[name]
    torch.manual_seed(0)
    model, given = make(torch).eval(), torch.tensor(x)
    if how == "script":
        program = torch.jit.script(model)
    else:
        program = torch.jit.trace(model, given)
    ours = through(rl, program, model)
    np.testing.assert_allclose(
        ours(rl.tensor(x)).detach().numpy(), model(given).detach().numpy(), atol=1e-5
    )
    again = through(rl, ours, model) if how == "trace" else ours
    assert again(rl.tensor(x)).equal(ours(rl.tensor(x)))


class Chosen(rl.nn.Module):
    """What no program says: layers that are chosen by a generator."""

    def __init__(self):
        super().__init__()
        self.first, self.rest = (
            rl.nn.Linear(6, 6),
            rl.nn.ModuleList([rl.nn.Linear(6, 3)]),
        )

    def forward(self, x):
        x = self.first(x).relu()
        (found,) = (layer(x) for layer in self.rest)
        return found


@pytest.mark.parametrize("dtype", [rl.qint8, rl.float16])
def test_layers_with_dynamic_scales_are_recorded(dtype):
    model = rl.ao.quantization.quantize_dynamic(Chosen(), dtype=dtype)
    x, more = rl.tensor(ROWS), rl.randn(7, 6)
    program = rl.jit.trace(model, (x,))
    assert isinstance(program, rl.jit.ScriptModule)
    for given in (x, more):
        assert program(given).equal(model(given))
        assert through(rl, program, model)(given).equal(model(given))
    theirs = through(torch, program, model)(torch.tensor(ROWS))
    np.testing.assert_allclose(
        theirs.detach().numpy(), model(x).detach().numpy(), atol=1e-5
    )


def test_modules_of_integers_that_are_not_recorded_are_translated():
    rl.manual_seed(0)
    model, x = static(rl), rl.tensor(IMAGES)
    program = rl.jit.trace(model, (x,))
    assert isinstance(program, rl.jit.ScriptModule)
    assert program(x).equal(model(x))


def layers(t):
    """A module of integers of each kind, between marks."""
    nn, q = t.nn, t.ao.quantization
    kinds = (
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4),
        nn.ReLU6(), nn.Hardswish(), nn.LeakyReLU(0.1), nn.ELU(),
        nn.ConvTranspose2d(4, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 4),
        nn.Dropout(),
    )  # fmt: skip
    model = nn.Sequential(q.QuantStub(), *kinds, q.DeQuantStub()).eval()
    model.qconfig = q.QConfig(q.default_observer, q.default_weight_observer)
    seen = q.prepare(model)
    seen(t.tensor(IMAGES))
    return q.convert(seen)


def test_layers_of_integers_are_translated():
    (one, two) = on_both(layers)
    x = rl.tensor(IMAGES)
    program = rl.jit.script(one)
    assert isinstance(program, rl.jit.ScriptModule)
    assert program(x).equal(one(x))
    theirs = through(torch, program, one)
    step = float(one[10].scale)
    found = theirs(torch.tensor(IMAGES)).numpy()
    np.testing.assert_allclose(found, one(x).numpy(), atol=1.1 * step)
    np.testing.assert_allclose(two(torch.tensor(IMAGES)).numpy(), found, atol=2 * step)


def test_tables_and_functions_of_integers_are_translated():
    q, nn = rl.ao.quantization, rl.nn
    table = nn.Sequential(nn.Embedding(9, 4))
    table.qconfig = q.float_qparams_weight_only_qconfig
    made = q.convert(q.prepare(table))
    indices = rl.tensor([[1, 2], [3, 8]])
    program = rl.jit.script(made)
    assert program(indices).equal(made(indices))
    assert through(rl, program, made)(indices).equal(made(indices))
    theirs = through(torch, program, made)
    found = theirs(torch.tensor([[1, 2], [3, 8]]))
    np.testing.assert_allclose(found.numpy(), made(indices).numpy(), atol=1e-6)


def test_states_that_no_class_has_are_refused():
    from rushlight.operators.extensions import restored

    dir(rl.ops.quantized)
    name = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    for state in ((), (1, 2), None):
        with pytest.raises(RuntimeError, match="no such state"):
            restored(name, state)
    with pytest.raises(RuntimeError, match="Unknown class"):
        restored(name + "s", ())


def recurrent(t, kind):
    """A recurrent layer of dynamic scales within a module."""

    class Layer(t.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = {} if kind.endswith("Cell") else {"num_layers": 2}
            self.layer = getattr(t.nn, kind)(8, 6, **sizes)

        def forward(self, x):
            return self.layer(x)

    quantize = t.ao.quantization.quantize_dynamic
    return quantize(Layer(), {getattr(t.nn, kind)}, dtype=t.qint8)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_layers_of_dynamic_scales_go_both_ways(kind):
    shape = (5, 8) if kind.endswith("Cell") else (5, 3, 8)
    x = np.random.default_rng(2).standard_normal(shape).astype("f")

    def result(t, program):
        found = program(t.tensor(x))
        return (found[0] if isinstance(found, tuple) else found).detach().numpy()

    for t in (rl, torch):
        t.manual_seed(0)
        model = recurrent(t, kind)
        program = t.jit.script(model)
        expected = result(t, model)
        np.testing.assert_allclose(result(t, program), expected, atol=1e-6)
        for reader in (rl, torch):
            read = through(reader, program, model)
            np.testing.assert_allclose(result(reader, read), expected, atol=1e-6)

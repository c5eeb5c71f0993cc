"""Recordings: sizes stay open, other values warn, archives carry them."""

import io
import warnings

import pytest

import rushlight as rl
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 5)
        self.shift = rl.ones(5)

    def forward(self, x):
        y = self.features(x).mean((2, 3)).view(x.size(0), -1)
        return self.head(y) * x.shape[0] + self.shift, [y[:, 0], y]


def test_recorded_modules_take_other_sizes():
    net = Net().eval()
    traced = rl.jit.trace(net, rl.randn(2, 3, 8, 8))
    x = rl.randn(5, 3, 8, 8)
    (a, (b, c)), (d, (e, f)) = net(x), traced(x)
    assert all(map(rl.equal, (a, b, c), (d, e, f)))
    assert isinstance(traced, rl.jit.TopLevelTracedModule)
    assert traced.head.weight is net.head.weight and "aten::linear" in str(traced.graph)


def test_recorded_modules_are_read_again_and_by_pytorch():
    torch = pytest.importorskip("torch")
    net = Net().eval()
    file = io.BytesIO()
    rl.jit.trace(net, rl.randn(2, 3, 8, 8)).save(file)
    x = rl.randn(3, 3, 8, 8)
    expected = net(x)[0]
    file.seek(0)
    assert rl.allclose(rl.jit.load(file)(x)[0], expected)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        there = torch.jit.load(file)(torch.from_numpy(x.numpy()))[0]
    assert rl.allclose(rl.from_numpy(there.detach().numpy()), expected, atol=1e-5)


def test_pytorchs_recordings_run_here():
    torch = pytest.importorskip("torch")

    class There(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)
            self.lstm = torch.nn.LSTM(4, 5, batch_first=True)

        def forward(self, x):
            y = torch.relu(self.norm(self.conv(x)))
            y = torch.nn.functional.interpolate(y, scale_factor=2.0)
            z, _ = self.lstm(y.flatten(2).transpose(1, 2))
            return z[:, -1] + x.size(0), y.view(y.size(0), -1)[:, ::7]

    net = There().eval()
    x = torch.randn(2, 3, 6, 6)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        torch.jit.save(torch.jit.trace(net, x), file)
    file.seek(0)
    found = rl.jit.load(file)(rl.from_numpy(x.numpy()))
    for a, b in zip(found, net(x), strict=True):
        assert rl.allclose(a, rl.from_numpy(b.detach().numpy()), atol=1e-5)


def test_recordings_of_functions_are_functions():
    traced = rl.jit.trace(lambda x, y: (x @ y).relu(), (rl.ones(2, 3), rl.ones(3, 4)))
    assert isinstance(traced, rl.jit.ScriptFunction)
    assert traced(rl.ones(5, 3), rl.ones(3, 1)).shape == (5, 1)


def test_errors_of_the_program_itself_are_told_as_they_are():
    class Refuses(rl.nn.Module):
        def forward(self, x):
            raise KeyError("its own")

    def refuses(x):
        raise KeyError("its own")

    for program in (Refuses(), refuses):
        with pytest.raises(KeyError, match="its own"):
            rl.jit.trace(program, rl.ones(2))


def test_recordings_that_differ_are_told():
    with pytest.warns(
        rl.jit.TracerWarning, match="Output nr 1. of the traced function"
    ):
        rl.jit.trace(lambda x: x + next(NUMBERS), rl.ones(2))


NUMBERS = iter(range(100))


def test_results_that_are_dictionaries_have_to_be_allowed():
    with pytest.raises(RuntimeError, match="Encountering a dict at the output"):
        rl.jit.trace(lambda x: {"a": x}, rl.ones(2))
    traced = rl.jit.trace(lambda x: {"a": x + 1}, rl.ones(2), strict=False)
    assert rl.equal(traced(rl.ones(3))["a"], rl.full((3,), 2.0))


def test_programs_know_that_they_are_recorded():
    seen = []

    def ask(x):
        seen.append(rl.jit.is_tracing())
        return x * 2

    rl.jit.trace(ask, rl.ones(2), check_trace=False)
    assert seen and all(seen) and not rl.jit.is_tracing()


def test_frozen_modules_have_constants_for_parameters():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout())
    x = rl.randn(2, 3, 8, 8)
    with pytest.raises(RuntimeError, match="in eval mode"):
        rl.jit.freeze(rl.jit.script(net))
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        rl.jit.freeze(net)
    frozen = rl.jit.freeze(rl.jit.script(net.eval()))
    assert not list(frozen.parameters())
    # what is left is the norm's look at its input's dimensions
    assert str(frozen.graph).count("prim::If") == 1
    assert rl.equal(frozen(x), net(x))
    file = io.BytesIO()
    frozen.save(file)
    file.seek(0)
    assert rl.equal(rl.jit.load(file)(x), net(x))

"""A loaded archive becomes a library without Python: the bits of its program."""

import io
import shutil

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import aot_compile, export
from tests.export.test_library import results_of, same_bits

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("cc") is None,
    reason="there is no C compiler",
)


class Loops(nn.Module):
    """Control flow over numbers that the archive knows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.scale = 0.5

    def forward(self, x, steps: int = 4):
        total = 0
        for at in range(100):
            total += at % 7
        for layer in self.layers:
            x = layer(x).relu()
        for step in range(steps):
            if step % 2 == 0:
                x = x * self.scale + step
            else:
                x = x - total
        return x, x.sum(1)


def nets():
    """Modules with operands."""
    picture = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(36, 5), nn.Softmax(-1),
    )  # fmt: skip
    return {
        "picture": (picture.eval(), (rl.rand(2, 3, 8, 8),)),
        "loops": (Loops().eval(), (rl.rand(3, 6),)),
    }


def reloaded(program):
    """The program as it is in its archive."""
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return rl.jit.load(file)


@pytest.mark.parametrize("made", ["script", "trace"])
@pytest.mark.parametrize("name", ["picture", "loops"])
def test_loaded_archives_run_from_c_with_their_programs_bits(name, made, tmp_path):
    net, operands = nets()[name]
    own = rl.jit.script(net) if made == "script" else rl.jit.trace(net, operands)
    loaded = reloaded(own)
    library = aot_compile(export(loaded, operands), directory=tmp_path, name="it")
    other = [operand + 0.5 for operand in operands]
    expected = loaded(*other)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    same_bits(results_of(library, "it", other, expected), expected)


def test_a_branch_on_elements_is_refused_with_its_line(tmp_path):
    class Branch(nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return x * 2
            return x

    loaded = reloaded(rl.jit.script(Branch()))
    with pytest.raises(Exception) as caught:
        aot_compile(export(loaded, (rl.ones(3),)), directory=tmp_path, name="it")
    assert "x.sum() > 0" in str(caught.value) or "torch.gt(" in str(caught.value)

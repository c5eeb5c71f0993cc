"""Conjugates and negatives that were put off, in programs that are recorded."""

import pytest

import rushlight as rl
from rushlight.export import export
from rushlight.fx.experimental.proxy_tensor import make_fx


class Called(rl.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, z):
        return self.function(z)


def decomposed(function, z):
    return export(Called(function), (z,)).run_decompositions().module()


WAYS = {
    "real": lambda function, z: make_fx(function)(z),
    "fake": lambda function, z: make_fx(function, tracing_mode="fake")(z),
    "symbolic": lambda function, z: make_fx(function, tracing_mode="symbolic")(z),
    "exported": lambda function, z: export(Called(function), (z,)).module(),
    "decomposed": decomposed,
    "aot_eager": lambda function, z: rl.compile(function, backend="aot_eager"),
}


def written(z):
    made = z.clone()
    made[0] = z[1].conj()
    made.conj().mul_(z)
    return made


PROGRAMS = {
    "product": lambda z: z.conj() * z,
    "matrix product": lambda z: z.mH @ z,
    "real": lambda z: z.conj().real + 1,
    "imaginary": lambda z: z.conj().imag.exp(),
    "twice": lambda z: z.conj().conj() * 2,
    "list": lambda z: rl.cat([z.conj(), z]),
    "resolved": lambda z: rl.view_as_real(z.conj().resolve_conj()),
    "clone": lambda z: z.conj().clone(),
    "copy": lambda z: rl.empty_like(z).copy_(z.conj()),
    "written": written,
    "chosen": lambda z: rl.where(z.real > 0, z.conj(), z),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_recorded_programs_give_the_numbers_of_conjugates(program, way):
    x = rl.linspace(-2, 2, 12).reshape(3, 4)
    z, other = rl.complex(x, x.flip(0)), rl.complex(x * 2, x + 1)
    recorded = way(program, z)
    for one in (z, other, other):
        assert rl.equal(recorded(one.clone()), program(one.clone()))


def test_a_mode_sees_a_copy_of_a_conjugate_as_pytorchs_does():
    torch = pytest.importorskip("torch")
    seen = []
    for library in rl, torch:
        mode = library.utils._python_dispatch.TorchDispatchMode

        class Watching(mode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.names.append(str(func))
                return func(*args, **(kwargs or {}))

        watching = Watching()
        watching.names = []
        z = library.ones(2, dtype=library.complex64)
        with watching:
            z.conj() * z
        seen.append(watching.names)
    assert seen[0] == seen[1]

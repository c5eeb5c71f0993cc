"""Libraries branch and loop by what they are given, and look at nothing but constants."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import aot_compile, export, load_library
from rushlight.export._steps import NotExportable
from rushlight.operators.convolution import convolution
from tests.export.test_library import COMPILER, same_bits, tensors

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Program(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.kept = nn.Buffer(rl.tensor([2.0, -1.0, 0.5]))

    def forward(self, *args):
        return self.function(self, *args)


def chosen(self, x):
    y = x * 3
    found = rl.cond(y.sum() > 0, lambda y: y.exp() + self.kept, lambda y: y.abs(), (y,))
    return found + y


def chosen_within(self, x):
    def inner(y):
        return rl.cond(y[0] > 1, lambda y: y - 1, lambda y: y * y, (y,))

    return rl.cond(x.sum() > 0, inner, lambda y: y.clone(), (x + 1,)), x * 2


def halved(self, x):
    """Turns as the numbers have it; `scale` is made before, and read in each of them."""
    scale = (x * 0 + 1).exp() / rl.e * 0.5 + self.kept * 0
    count, value = rl._higher_order_ops.while_loop(
        lambda n, y: y.sum() > 1,
        lambda n, y: (n + 1, ((y * scale).sin().asin() + 1) - 1),
        (rl.zeros((), dtype=rl.int64), x),
    )
    return count, value, value * 2


def swapped(self, x):
    one, other, _ = rl._higher_order_ops.while_loop(
        lambda a, b, n: n > 0,
        lambda a, b, n: (b, a + 1, n - 1),
        (x, x * 10, x.sum().to(rl.int64)),
    )
    return one, other


def looped_in_a_loop(self, x):
    def turn(n, y):
        _, z = rl._higher_order_ops.while_loop(
            lambda k, z: k > 0, lambda k, z: (k - 1, z + y), (n.clone(), y * 0)
        )
        return n - 1, y + z

    loop = rl._higher_order_ops.while_loop
    return loop(lambda n, y: n > 0, turn, (x.sum().to(rl.int64), x))[1]


GIVEN = [(1.0, 2.0, 3.0), (-1.0, -2.0, -3.0), (0.0, 0.0, 0.0), (0.1, 4.0, -0.5)]
FLOW = [chosen, chosen_within, halved, swapped, looped_in_a_loop]


@pytest.mark.parametrize("function", FLOW)
def test_branches_and_turns_are_those_of_the_numbers(function, tmp_path):
    program = export(Program(function), (rl.tensor(GIVEN[0]),))
    made = aot_compile(program, directory=tmp_path, name="it")
    for threads in (1, 3):
        with load_library(made, threads=threads) as library:
            for numbers in GIVEN:
                x = rl.tensor(numbers)
                found = library(x)
                found = found if isinstance(found, tuple) else (found,)
                same_bits(found, tensors(program.module()(x)))


def test_a_branch_of_large_tensors_is_divided_among_threads(tmp_path):
    def function(self, x):
        big, small = lambda x: (x @ x.t()).softmax(1), lambda x: x @ x.t() - 1
        return rl.cond(x[0, 0] > 0, big, small, (x,))

    x = rl.randn(200, 300)
    program = export(Program(function), (x,))
    made = aot_compile(program, directory=tmp_path, name="it")
    with load_library(made, threads=3) as library:
        for one in (x, -x):
            same_bits([library(one)], [program.module()(one)])


LAYERS = {
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), (2, 3, 8, 8)),
    "transposed, a large weight": (lambda: nn.ConvTranspose2d(64, 32, 3), (1, 64, 2, 2)),
    "transposed, in groups": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, groups=2), (2, 4, 9)),
    "transposed, dilated": (
        lambda: nn.ConvTranspose3d(2, 2, 2, padding=1, dilation=2), (1, 2, 4, 5, 6),
    ),
    "norm of instances": (lambda: nn.InstanceNorm2d(3), (2, 3, 7, 5)),
    "norm of instances, statistics": (
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True).eval(),
        (2, 3, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_look_at_their_weights_are_taken_along(name, tmp_path):
    make, shape = LAYERS[name]
    layer = make()
    made = aot_compile(layer, (rl.randn(shape),), directory=tmp_path, name="it")
    with load_library(made) as library, rl.no_grad():
        for _ in range(2):
            x = rl.randn(shape)
            same_bits([library(x)], [layer(x)])


def test_an_infinite_weight_chooses_the_kernel_that_it_chooses_here(tmp_path):
    layer = nn.ConvTranspose2d(2, 2, 3, padding=1)
    with rl.no_grad():
        layer.weight[0, 0, 1, 1] = float("inf")
    made = aot_compile(layer, (rl.ones(1, 2, 4, 4),), directory=tmp_path, name="it")
    with load_library(made) as library, rl.no_grad():
        x = rl.randn(1, 2, 4, 4)
        assert rl.equal(library(x).isnan(), layer(x).isnan())
        assert rl.allclose(library(x), layer(x), equal_nan=True)


def launches(folder, name):
    layer, x = nn.ConvTranspose2d(2, 2, 3, padding=1), rl.ones(1, 2, 4, 4)
    made = aot_compile(layer, (x,), directory=folder, name=name)
    steps = made.source.read_text().partition("STEPS[] = {")[2].partition("};")[0]
    return sum(not row.strip().startswith("{3,") for row in steps.strip().split("\n"))


def test_what_was_computed_to_be_looked_at_is_left_out(tmp_path, monkeypatch):
    """A library does not sum its weights in each run."""
    count = launches(tmp_path, "looked")
    monkeypatch.setattr(convolution, "is_finite", lambda tensor: True)
    assert count == launches(tmp_path, "trusted")


def test_training_with_norms_of_batches_goes_on_without_python(tmp_path):
    rl.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    update = rl.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        update.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        update.step()
        return loss

    x = rl.randn(3, 1, 6, 6)
    step(x)
    made = aot_compile(step, (x,), directory=tmp_path, name="step")
    with load_library(made) as library:
        assert [library(x).item() for _ in range(3)] == [
            step(x).item() for _ in range(3)
        ]


def looks_at_what_it_changes(kept, x):
    if kept.sum() > 100:
        return x
    kept += 1
    return x + kept


REFUSED = {
    "coordinates": (lambda kept, x: x.nonzero(), "nonzero"),
    "counts": (lambda kept, x: x.to(rl.int64).abs().bincount(), "bincount"),
    "of both": (lambda kept, x: x if (x + kept).sum() > 0 else -x, "reads an element"),
    "changed": (looks_at_what_it_changes, "reads an element that a run changes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_hangs_on_elements_that_differ_is_refused(case, tmp_path):
    function, words = REFUSED[case]
    kept = rl.zeros(3)

    def program(x):
        return function(kept, x)

    with pytest.raises(NotExportable, match=words):
        aot_compile(program, (rl.tensor(GIVEN[0]),), directory=tmp_path, name="it")


def test_a_program_without_a_kernel_is_a_library(tmp_path):
    made = aot_compile(nn.ReLU(), (rl.ones(0, 3),), directory=tmp_path, name="it")
    with load_library(made) as library:
        assert library(rl.ones(0, 3)).shape == (0, 3)

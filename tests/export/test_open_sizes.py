"""Programs exported with an open size have the module's sizes for every other one."""

from __future__ import annotations

import random

import pytest

import rushlight as rl
from rushlight.export import Dim, export

F = rl.nn.functional
SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25)
EXAMPLES = (4, 5, 6, 7, 8, 9, 12, 13, 16, 24)
STEPS = (
    "stride", "pool", "half", "third", "view", "cat", "pad", "conv", "rest", "repeat",
    "flip", "ones", "slice", "chunk", "more", "add", "middle", "roll",
    "own",
)  # fmt: skip


class Steps(rl.nn.Module):
    """Some steps that change a vector's size, and what is made of sizes on the way."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        y, half, beside = x, x.shape[0], []
        for name, number, up in self.steps:
            n = y.shape[0]
            if name == "stride":
                y = y[:: number % 3 + 1]
            elif name == "pool":
                y = F.max_pool1d(y[None], number % 3 + 1, ceil_mode=up)[0]
            elif name == "half":
                half = n // 2
                y = y[:half]
            elif name == "third":
                half = (n + number) // 3
                y = y[half:]
            elif name == "view":
                y = y.view(n // 2, 2).sum(1)
            elif name == "cat":
                y = rl.cat([y, x])
            elif name == "pad":
                y = F.pad(y, (number, 0))
            elif name == "conv":
                line, step = y[None, None], number % 2 + 1
                y = F.conv1d(line, rl.ones(1, 1, 3), stride=step, padding=1)[0, 0]
            elif name == "rest":
                beside.append(rl.ones(3) * (n % (number % 3 + 2)))
            elif name == "repeat":
                y = y.repeat_interleave(number % 2 + 2)
            elif name == "flip":
                y = y.flip(0)
            elif name == "ones":
                beside += [rl.ones(half), rl.arange(n - half + 1)]
            elif name == "slice":
                y = y[number % 3 : n - number % 2]
            elif name == "chunk":
                y = y.chunk(2)[0]
            elif name == "own":
                beside.append(rl.zeros(n))
            elif name == "more":
                beside.append(y.new_ones(2 * half + 1))
            elif name == "add":
                y = y + F.pad(x, (0, 10))[:n]
            elif name == "middle":
                beside.append(y[n // 2 - 1 : n // 2 + 1])
            elif name == "roll":
                y = y.roll(n // 3)
        return (*beside, y * 1)


def exported(module, size):
    """The program that is recorded with a size; None where it is refused."""
    open_size = {0: Dim("n", min=3, max=99)}
    try:
        return export(module, (rl.randn(size),), dynamic_shapes=(open_size,)).module()
    except RuntimeError:  # sizes that have to be what they are, among them
        return None


def results(program, x):
    try:
        return program(x)
    except (RuntimeError, IndexError) as fault:
        return fault


def agrees(module, size):
    """Whether there is a program, which does what the module does."""
    program = exported(module, size)
    if program is None:
        return False
    for n in SIZES:
        x = rl.randn(n)
        wanted, found = results(module, x), results(program, x)
        if isinstance(wanted, Exception):
            assert isinstance(found, Exception), (module.steps, size, n)
            continue
        assert not isinstance(found, Exception), (module.steps, size, n, found)
        for one, other in zip(wanted, found, strict=True):
            assert one.shape == other.shape, (module.steps, size, n)
            assert rl.equal(one, other), (module.steps, size, n)
    return True


@pytest.mark.parametrize("group", range(6))
def test_random_programs_of_sizes_do_what_the_module_does(group):
    done = 0
    for seed in range(12 * group, 12 * group + 12):
        draw = random.Random(seed)
        steps = [
            (draw.choice(STEPS), draw.randint(0, 5), draw.random() < 0.5)
            for _ in range(draw.randint(1, 5))
        ]
        done += agrees(Steps(steps), draw.choice(EXAMPLES))
    assert done > 1


@pytest.mark.parametrize("size", EXAMPLES)
def test_every_second_element_is_as_many_as_there_are(size):
    assert agrees(Steps([("stride", 1, False), ("own", 0, False)]), size)


@pytest.mark.parametrize("size", EXAMPLES)
def test_results_of_strided_convolutions_have_their_sizes(size):
    steps = [("conv", 1, False), ("conv", 1, False), ("own", 0, False)]
    assert agrees(Steps(steps), size)


@pytest.mark.parametrize("size", [4, 8, 12])
def test_a_half_that_must_be_whole_is_recorded(size):
    assert agrees(Steps([("view", 0, False)]), size)


def test_a_small_number_is_no_constant():
    class Rest(rl.nn.Module):
        def forward(self, x):
            return rl.ones(x.shape[0] % 3 + 1), x[: x.shape[0] % 3]

    program = exported(Rest(), 5)
    for n in SIZES:
        x = rl.randn(n)
        assert [one.shape for one in program(x)] == [one.shape for one in Rest()(x)]


def test_sizes_of_arguments_that_stars_gather_stay_open():
    class Program(rl.nn.Module):
        def forward(self, first, *rest, key, **named):
            return first + rest[1].sum() + key.sum() + named["last"].sum()

    tensors = [rl.ones(size) for size in (3, 4, 5, 6, 7)]
    size = {0: rl.export.Dim.DYNAMIC}
    shapes = {"first": size, "rest": (None, size), "key": size, "named": {"last": size}}
    program = rl.export.export(
        Program(), tuple(tensors[:3]), {"key": tensors[3], "last": tensors[4]},
        dynamic_shapes=shapes,
    )  # fmt: skip
    assert len(program.range_constraints) == 4
    two = rl.ones(2)
    found = program.module()(rl.ones(9), rl.ones(4), two, key=two, last=two)
    assert found.tolist() == [7] * 9

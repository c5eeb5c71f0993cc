"""Fused kernels give what their operators give one by one; memory is handed on rightly."""

import random

import pytest

import rushlight as rl
from rushlight._inductor import config

SHAPES = ((4, 6), (6,), (4, 1), (1, 6), (), (3, 4, 6), (4, 6), (4, 6))
DTYPES = (rl.float32, rl.float32, rl.float32, rl.bfloat16, rl.float64, rl.int64)
UNARY = ("sin", "tanh", "relu", "abs", "neg", "sigmoid", "square", "clone", "exp2")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "atan2")
WRITING = ("add_", "mul_", "sub_", "copy_", "clamp_", "relu_", "zero_", "neg_")


def random_step(rng, values):
    """One operator on some of the values, which it adds to, or writes to."""
    x = rng.choice(values)
    kind = rng.random()
    if kind < 0.25:
        made = getattr(rl.Tensor, rng.choice(UNARY))
        values.append(made(x) if x.is_floating_point() else x + 1)
    elif kind < 0.55:
        name, y = rng.choice(BINARY), rng.choice(values)
        if name == "atan2" and not (x.is_floating_point() and y.is_floating_point()):
            name = "add"
        try:
            values.append(getattr(rl, name)(x, y))
        except RuntimeError as error:
            assert "broadcast" in str(error) or "size" in str(error)
    elif kind < 0.65:
        values.append(x * rng.choice((0.5, 2, -1.25)))
    elif kind < 0.72:
        values.append(x.to(rng.choice(DTYPES[:5])) if x.is_floating_point() else x)
    elif kind < 0.80:
        values.append(rng.choice((rl.Tensor.sum, rl.Tensor.clone))(x))
        if x.ndim > 1:
            values.append(x.sum(rng.randrange(x.ndim), keepdim=rng.random() < 0.5))
    elif kind < 0.88:
        values.append(x.t() if x.ndim == 2 else x.reshape(-1))
        if x.ndim:
            values.append(x[: max(1, x.shape[0] - 1)])
    elif kind < 0.92 and x.ndim == 2 and x.is_floating_point():
        values.append(x.float() @ x.float().t())
    else:
        write(rng, x, rng.choice(values))


def write(rng, x, y):
    name = rng.choice(WRITING)
    try:
        if name == "clamp_":
            x.clamp_(-1, 1)
        elif name in ("relu_", "zero_", "neg_"):
            getattr(x, name)()
        else:
            getattr(x, name)(y)
    except RuntimeError:
        pass  # shapes, types or memory that do not go together, with and without


def program(seed, count, kept):
    """A random function of a list of tensors."""

    def run(inputs):
        rng = random.Random(seed)
        values = list(inputs)
        for _ in range(count):
            random_step(rng, values)
        return [value for k, value in enumerate(values) if k % kept == 0], inputs

    return run


def arguments(seed):
    rl.manual_seed(seed)
    rng = random.Random(seed)
    made = []
    for _ in range(4):
        x = rl.randn(rng.choice(SHAPES)) * 2
        made.append(x.to(rng.choice(DTYPES)))
    return made


def same(a, b):
    assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
    loose = 2e-2 if a.dtype.itemsize == 2 else 2e-5
    assert rl.allclose(a, b, loose, loose, equal_nan=True)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_give_what_they_give_uncompiled(seed):
    run = program(seed, 6 + seed % 25, 1 + seed % 4)
    compiled = rl.compile(run)
    for turn in range(4):
        expected, before = run(arguments(100 * seed + turn % 2))
        found, after = compiled(arguments(100 * seed + turn % 2))
        for ours, theirs in zip((*found, *after), (*expected, *before), strict=True):
            same(ours, theirs)


def steps_of(function, *args):
    """The program of a function once it was called often enough."""
    compiled = rl.compile(function)
    for _ in range(3):
        compiled(*args)
    (made,) = compiled._runner.graphs
    return made


def test_a_chain_is_one_kernel_and_makes_one_tensor():
    made = steps_of(lambda x, y: ((x + y).sin() * 2).relu().exp(), *rl.randn(2, 5, 7))
    assert len(made.steps) == 1
    assert made.code.count(" = empty_strided(") == 1
    assert "def fused_add_sin_mul_relu_exp_0(" in made.code


def test_broadcast_operands_and_conversions_are_part_of_the_kernel():
    made = steps_of(
        lambda x, y: (x.double() + y[:, None]).float() * 2, rl.randn(5, 7), rl.randn(5)
    )
    assert len(made.steps) == 1


def test_writes_to_arguments_are_stored_and_inner_ones_are_not():
    def update(p, g):
        d = g * 0.9
        d.add_(p)
        p.sub_(d)

    made = steps_of(update, rl.randn(5), rl.randn(5))
    assert len(made.steps) == 1 and "empty_strided" not in made.code


def test_memory_that_nobody_reads_any_more_is_handed_on():
    def run(x):
        y = x @ x
        return (y + 1).exp()

    assert "  # the memory of buf" in steps_of(run, rl.randn(5, 5)).code


def test_what_nobody_uses_is_not_computed():
    def run(x):
        x.exp().sin()
        return x + 1

    made = steps_of(run, rl.randn(5))
    assert len(made.steps) == 1 and "exp" not in made.code


def test_without_fusion_each_operator_is_itself():
    with config.patch(fuse=False):
        made = steps_of(lambda x: (x + 1).exp().sin(), rl.randn(5))
    assert len(made.steps) == 3


def test_another_batch_compiles_nothing():
    from rushlight.runtime.cpu import code_cache

    compiled = rl.compile(lambda x: (x.sin() * 1.5 + x).tanh().sum(1))
    for _ in range(3):
        compiled(rl.randn(4, 9))
    before = dict(code_cache.counts)
    for _ in range(3):
        compiled(rl.randn(6, 9))
    assert code_cache.counts == before
    assert len(compiled._runner.graphs) == 2


def test_peak_memory_is_at_most_that_of_the_plain_call():
    def run(x):
        for _ in range(6):
            x = (x * 2).sin() + x
        return x.sum()

    x = rl.randn(1000, 100)
    compiled = rl.compile(run)
    for _ in range(3):
        compiled(x)

    def peak(function):
        rl.cpu.reset_peak_memory_stats()
        base = rl.cpu.memory_stats()["allocated_bytes.all.current"]
        function(x)
        return rl.cpu.memory_stats()["allocated_bytes.all.peak"] - base

    assert peak(compiled) <= peak(run)

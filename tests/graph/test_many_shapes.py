"""Hundreds of shapes at one place of a compiled function: found by hash, bounded, quiet."""

import time
import warnings

import rushlight as rl
from rushlight._dynamo import config
from rushlight.graph.compiled_function import counters


def program(x):
    return ((x * 2 + 1).relu() - 3).abs() * x


def seconds(function, inputs):
    begun = time.perf_counter()
    for x in inputs:
        function(x)
    return time.perf_counter() - begun


def test_200_shapes_at_one_place_give_eagers_numbers_without_a_warning():
    compiled = rl.compile(program)
    inputs = [rl.randn(n + 1) for n in range(200)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            assert all(rl.equal(compiled(x), program(x)) for x in inputs)
    assert len(compiled._runner.graphs) == 200


def test_a_place_with_200_shapes_is_as_fast_as_one_with_few():
    few, many = rl.compile(program), rl.compile(program)
    inputs = [rl.randn(n + 1) for n in range(200)]
    for _ in range(4):
        seconds(few, inputs[:4]), seconds(many, inputs)
    quick = min(seconds(few, inputs[:4] * 10) for _ in range(20))
    among = min(seconds(many, inputs[i : i + 40]) for i in range(0, 160, 8))
    assert among < 8 * quick  # one after the other through a list: 100 comparisons each


def test_shapes_beyond_the_limit_do_not_drive_each_other_out():
    compiled = rl.compile(program)
    inputs = [rl.randn(n + 1) for n in range(60)]
    with config.patch(recompile_limit=4, accumulated_recompile_limit=20):
        for _ in range(4):
            assert all(rl.equal(compiled(x), program(x)) for x in inputs)
        before = counters["stats"]["unique_graphs"]
        for _ in range(2):
            assert all(rl.equal(compiled(x), program(x)) for x in inputs)
        assert counters["stats"]["unique_graphs"] == before
        assert len(compiled._runner.graphs) == 20


def test_a_shape_that_stays_takes_the_place_of_one_that_is_gone():
    compiled = rl.compile(program)
    with config.patch(recompile_limit=2, accumulated_recompile_limit=4):
        for first in range(5):
            inputs = [rl.randn(10 * first + n + 1) for n in range(4)]
            for _ in range(40):
                assert all(rl.equal(compiled(x), program(x)) for x in inputs)
            made = {
                tuple(p.graph.steps[0].reads[0].sizes) for p in compiled._runner.graphs
            }
            assert made == {tuple(x.shape) for x in inputs}


def test_recompile_limit_says_how_many_shapes_are_noted_at_first_sight():
    compiled = rl.compile(program)
    with config.patch(recompile_limit=3):
        for n in range(6):
            compiled(rl.randn(n + 1))
        (root,) = compiled._runner.roots.values()
        assert len(root.children) == 3
        for n in range(6):
            compiled(rl.randn(n + 1))
        assert len(root.children) == 6


def test_the_log_of_recompiles_says_which_size_is_another_one(capsys):
    compiled = rl.compile(program)
    compiled(rl.randn(3, 4))
    rl._logging.set_logs(recompiles=True)
    try:
        compiled(rl.randn(3, 5))
        compiled(rl.randn(3, 5).double())
    finally:
        rl._logging.set_logs()
    told = capsys.readouterr().err
    assert "size of self at dimension 1 is 5, was 4" in told
    assert "type of self is rushlight.float64, was rushlight.float32" in told


def test_gradients_of_many_shapes_are_eagers():
    weight = rl.randn(7, requires_grad=True)

    def train(x):
        return (program(x) * weight).sum()

    compiled = rl.compile(train)
    inputs = [rl.randn(n + 1, 7) for n in range(40)]
    for _ in range(3):
        for x in inputs:
            (found,) = rl.autograd.grad(compiled(x), weight)
            (wanted,) = rl.autograd.grad(train(x), weight)
            assert rl.allclose(found, wanted, rtol=1e-5, atol=1e-5)

"""Reductions, softmaxes and norms are one kernel with what is around them."""

import pytest

import rushlight as rl
from rushlight import nn

F = nn.functional


def noise(*sizes, dtype=rl.float32):
    rl.manual_seed(sum(sizes))
    return rl.randn(*sizes).to(dtype)


def rms(x):
    return x * rl.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def scaled_softmax(x):
    return F.softmax(x * 0.5, -1) * 2


def softmax_of_columns(x):
    return (F.log_softmax(x + 1, 0)).exp()


def normed(x):
    return F.relu(F.layer_norm(x * 2, x.shape[-1:]) + x)


def centered(x):
    return (x - x.mean((0, 2), keepdim=True)).abs()


def centered_rows(x):
    return (x - x.mean(-1, keepdim=True)).abs()


def standard(x):
    spread, center = rl.var_mean(x, 1, correction=1, keepdim=True)
    return (x - center) / (spread + 1e-5).sqrt()


def extremes(x):
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low)


def several_results(x):
    y = rl.atan2(x, x.double())
    return x.double(), y, y.sum(-1), y.sum(-1).exp()


def without_the_dimension(x):
    return (x.exp().sum(-1) + 1).log().unsqueeze(-1) - x


def expanded(x):
    return x * x.sum(-1, keepdim=True).expand(x.shape)


def spread_out(x):
    return x.sum(-1, keepdim=True).expand(x.shape) / 2, x * 2


PROGRAMS = (rms, scaled_softmax, softmax_of_columns, normed, centered, standard)
PROGRAMS += (spread_out, extremes, several_results, without_the_dimension, expanded)


def flat(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("sizes", [(3, 4, 6), (2, 33, 5), (1, 7, 1), (5, 1, 40)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_around_a_reduction_is_in_its_kernel(program, sizes, dtype):
    compiled = rl.compile(program)
    x = noise(*sizes, dtype=dtype)
    for turn in range(3):
        x = x + turn
        for ours, theirs in zip(flat(compiled(x)), flat(program(x)), strict=True):
            assert ours.stride() == theirs.stride()
            assert rl.allclose(ours, theirs, 2e-5, 2e-6, equal_nan=True)
    (made,) = compiled._runner.graphs
    assert len(made.steps) == 1, made.code


def test_transposed_operands_are_read_where_they_lie():
    compiled = rl.compile(rms)
    x = noise(6, 5).t()
    for _ in range(3):
        assert rl.allclose(compiled(x), rms(x), 1e-5, 1e-6)


def test_a_row_is_not_written_before_it_is_read_again():
    def shifted(x):
        x -= x.mean(-1, keepdim=True)
        x *= rl.rsqrt(x.var(-1, keepdim=True) + 1e-5)
        return x

    compiled = rl.compile(shifted)
    for _ in range(3):
        x, y = noise(3, 9), noise(3, 9)
        assert rl.allclose(compiled(x), shifted(y), 1e-5, 1e-6) and rl.allclose(x, y)


def test_batch_norm_is_one_kernel_in_training_and_so_is_its_gradient():
    layer = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU())
    other = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU())

    def step(layer, x):
        y = layer(x)
        (y * y).sum().backward()
        return y

    compiled = rl.compile(lambda x: step(layer, x))
    for turn in range(4):
        x, y = noise(2, 3, 4, 5) + turn, noise(2, 3, 4, 5) + turn
        x.requires_grad_(), y.requires_grad_()
        assert rl.allclose(compiled(x), step(other, y), 1e-4, 1e-5)
        assert rl.allclose(x.grad, y.grad, 1e-3, 1e-4)
    for ours, theirs in zip(layer.buffers(), other.buffers(), strict=True):
        assert rl.allclose(ours, theirs, 1e-5, 1e-6)
    code = compiled._runner.graphs[-1].code
    assert "native_batch_norm(" not in code
    assert any(
        "_batch_norm_apply" in kernel and "aten.relu" in kernel
        for kernel in code.split("\n\n\n")
        if kernel.startswith("@")
    )


def test_reductions_behind_reductions_are_not_computed_again_and_again():
    def deep(x):
        for _ in range(8):
            x = F.softmax(x, -1)
        return x

    compiled = rl.compile(deep)
    x = noise(3, 5)
    for _ in range(3):
        assert rl.allclose(compiled(x), deep(x), 1e-5, 1e-6)
    assert len(compiled._runner.graphs[0].steps) == 8


def test_long_columns_and_one_long_row_keep_their_own_kernels():
    for sizes, dims in (((1000, 3), 0), ((300, 300), None)):
        compiled = rl.compile(lambda x, dims=dims: (x * 2).sum(dims))
        x = noise(*sizes)
        for _ in range(3):
            compiled(x)
        assert len(compiled._runner.graphs[0].steps) == 2


def test_infinite_and_missing_numbers_come_through():
    for bad in (rl.inf, -rl.inf, rl.nan):
        x = noise(3, 6)
        x[1, 2] = bad
        for program in (rms, scaled_softmax, standard, normed):
            compiled = rl.compile(program)
            for _ in range(3):
                assert rl.allclose(compiled(x), program(x), 1e-4, 1e-5, equal_nan=True)


def told_of(told):
    """What a step of a program does, as its logs say it."""
    if hasattr(told, "log"):
        return told.log()
    return told if isinstance(told, str) else told.op.name


def kernels(compiled):
    """The names of the kernels that a compiled function's programs launch."""
    steps = [step for one in compiled._runner.graphs for step in one.steps]
    return [step.kernel.name for step in steps if step.kernel is not None]


@pytest.mark.parametrize("program", [scaled_softmax, normed, standard, rms])
def test_short_rows_are_turned_as_an_operators_own_kernel_does(program):
    compiled = rl.compile(program)
    for _ in range(3):
        rl.testing.assert_close(
            compiled(noise(700, 7)), program(noise(700, 7)), rtol=1e-5, atol=1e-6
        )
    assert any("1short" in name for name in kernels(compiled))
    compiled = rl.compile(program)
    for _ in range(3):
        compiled(noise(7, 700))
    assert not any("1short" in name for name in kernels(compiled))


@pytest.mark.parametrize("lengths", [(12, 13, 14, 32, 33, 48), (60, 50, 40, 20, 9, 3)])
@pytest.mark.parametrize("program", [scaled_softmax, normed, centered_rows])
def test_programs_of_short_rows_serve_long_ones(program, lengths):
    compiled = rl.compile(program, dynamic=True)
    for length in lengths:
        x = noise(37, length)
        for _ in range(30):
            found = compiled(x)
        rl.testing.assert_close(found, program(x), rtol=1e-5, atol=1e-6)


def softmax_of_tanh(x):
    return x.tanh().softmax(-1)


def spread_of_sigmoid(x):
    return x.sigmoid().logsumexp(-1)


def gated_rms(x):
    return rms(F.silu(x))


def softmax_twice(x):
    return (x - x.amax(-1, keepdim=True)).exp().softmax(-1)


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        (softmax_of_tanh, ["tanh", "_softmax"]),
        (
            gated_rms,
            ["silu", "mul.Tensor, mean.dim, add.Tensor, rsqrt, mul.Tensor"],
        ),
        (softmax_twice, ["amax, sub.Tensor, exp", "_softmax"]),
        (scaled_softmax, ["mul.Tensor, _softmax, mul.Tensor"]),
        (normed, ["mul.Tensor, native_layer_norm, add.Tensor, relu"]),
    ],
)
def test_what_takes_long_is_computed_in_one_pass_over_a_row(program, parts):
    compiled = rl.compile(program)
    for _ in range(2):
        found = compiled(noise(40, 100))
    rl.testing.assert_close(found, program(noise(40, 100)), rtol=1e-5, atol=1e-6)
    (graph,) = compiled._runner.graphs
    names = [item.instr.details for item in graph.graph.items]
    assert [told_of(name) for name in names] == parts


@pytest.mark.parametrize("program", [spread_of_sigmoid, softmax_twice, gated_rms])
@pytest.mark.parametrize("sizes", [(3, 5), (2, 3, 40), (70, 1)])
def test_groups_that_are_cut_have_the_same_numbers_and_gradients(program, sizes):
    one, other = (noise(*sizes).requires_grad_() for _ in range(2))
    compiled = rl.compile(program)
    for _ in range(3):
        one.grad = other.grad = None
        compiled(one).square().sum().backward()
        program(other).square().sum().backward()
        rl.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


def between_extremes(x):
    low, high = x.amin(0), x.amax(0)
    return (x - low) / (high - low)


def deviation_of_columns(x):
    return (x - x.mean(0)) / (x - x.mean(0)).pow(2).mean(0).sqrt()


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (lambda x: x - x.mean(0), 2),
        (lambda x: (x * 2 - 1).mean(0), 1),
        (between_extremes, 1),
        (deviation_of_columns, 1),
        (lambda x: x - x.mean(1, keepdim=True), 1),
    ],
)
@pytest.mark.parametrize("sizes", [(20, 200), (7, 64), (130, 257), (33, 256), (9, 384)])
def test_columns_are_one_kernel_where_that_moves_less(program, kernels, sizes):
    compiled, x = rl.compile(program), noise(*sizes)
    for _ in range(4):
        assert rl.allclose(compiled(x), program(x), 2e-5, 2e-6)
    (made,) = compiled._runner.graphs
    assert len(made.steps) == kernels, made.code


@pytest.mark.parametrize(("side", "kernels"), [(50, 1), (200, 2)])
def test_a_long_lone_row_of_costly_values_is_left_to_threads(side, kernels):
    def program(x):
        return (x * 2).sigmoid().sum()

    compiled, x = rl.compile(program), noise(side, side)
    for _ in range(4):
        assert rl.allclose(compiled(x), program(x), 2e-5, 2e-6)
    (made,) = compiled._runner.graphs
    assert len(made.steps) == kernels, made.code


def masked_scores(x):
    return F.softmax((x / 8).masked_fill(x > 1, -1e9), -1)


def scores(x):
    return F.softmax(x / 8, -1)


@pytest.mark.parametrize("program", [masked_scores, scores])
def test_quotients_and_masks_are_not_computed_in_each_pass(program):
    compiled, x = rl.compile(program), noise(64, 256)
    for _ in range(3):
        rl.testing.assert_close(compiled(x), program(x))
    (program,) = compiled._runner.graphs
    assert len(program.graph.items) == 2  # what takes long, and the rows

"""What stands behind a convolution is part of its kernel only where nobody sees the sums."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.graph import compiled_function


def drawn(*sizes, seed=0, dtype=rl.float32):
    generator = np.random.default_rng([seed, *sizes])
    return rl.tensor(generator.standard_normal(sizes)).to(dtype)


def settled(function, *args):
    """What a compiled function gives, and the operators of its programs."""
    rl.compiler.reset()
    compiled = rl.compile(function)
    with rl.no_grad():
        results = [compiled(*args) for _ in range(4)]
    graphs = [g for r in compiled_function._runners for g in r.graphs]
    told = [
        str(getattr(step.details, "op", step.details))
        for g in graphs
        for step in g.steps
    ]
    return results, told


def behind(told):
    return len({one for one in told if "_conv_with_epilogue" in one})


# input, weight, and the settings: each has kernels and cuts of its own
GEOMETRIES = {
    "wide": ((2, 8, 20, 21), (30, 8, 3, 3), (1, 1)),
    "deep": ((1, 70, 9, 9), (20, 70, 3, 3), (1, 1)),
    "few channels": ((2, 3, 28, 30), (4, 3, 5, 5), (1, 2)),
    "few channels of small planes": ((5, 3, 9, 9), (4, 3, 3, 3), (1, 1)),
    "one pixel": ((2, 9, 18, 20), (40, 9, 1, 1), (1, 0)),
    "strided": ((2, 6, 17, 19), (12, 6, 3, 3), (2, 1)),
    "small planes of many images": ((9, 6, 5, 5), (12, 6, 3, 3), (1, 0)),
    "one channel each": ((2, 7, 19, 18), (7, 1, 3, 3), (1, 1)),
    "several channels of one": ((2, 4, 19, 40), (8, 1, 5, 3), (1, 2)),
    "groups": ((2, 8, 14, 14), (12, 4, 3, 3), (1, 1)),
    "a line": ((3, 6, 50), (10, 6, 4), (1, 1)),
    "a volume": ((2, 3, 7, 8, 9), (5, 3, 2, 2, 2), (1, 0)),
}


def relu(sums, other, channel):
    return F.relu(sums)


def residual(sums, other, channel):
    return F.relu(sums + other)


def scaled(sums, other, channel):
    return rl.tanh(sums * channel - other) + channel


def in_place(sums, other, channel):
    return F.relu(sums.add_(other), inplace=True)


def widened(sums, other, channel):
    return (sums + other).double()


@pytest.mark.parametrize("after", [relu, residual, scaled, in_place, widened])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_convolution_takes_what_is_behind_it(geometry, after):
    sizes, shape, (stride, padding) = GEOMETRIES[geometry]
    x, w, b = drawn(*sizes), drawn(*shape, seed=1), drawn(shape[0], seed=2)
    groups = sizes[1] // shape[1]
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(sizes)]
    size = convolve(x, w, b, stride, padding, 1, groups).shape
    other, channel = (
        drawn(*size, seed=3),
        drawn(shape[0], *[1] * (len(size) - 2), seed=4),
    )

    def function(x, w, b, other, channel):
        return after(convolve(x, w, b, stride, padding, 1, groups), other, channel)

    args = x, w, b, other, channel
    results, told = settled(function, *args)
    assert behind(told) == 1
    expected = function(*args)
    for result in results:
        assert result.dtype is expected.dtype
        rl.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


def test_float64_and_products_without_a_bias_are_taken_too():
    x, w = drawn(2, 3, 11, 12, dtype=rl.float64), drawn(6, 3, 3, 3, dtype=rl.float64)
    results, told = settled(lambda x, w: F.conv2d(x, w).relu(), x, w)
    assert behind(told) == 1
    for result in results:
        assert rl.equal(result, F.conv2d(x, w).relu())


def seen_sums(x, w):
    sums = F.conv2d(x, w)
    return sums, F.relu(sums)


def read_twice(x, w):
    sums = F.conv2d(x, w)
    return F.relu(sums) + rl.softmax(sums, 1)


def written_between(x, w):
    sums = F.conv2d(x, w)
    w.mul_(2)
    return F.relu(sums)


def turned(x, w):
    return F.conv2d(x, w).transpose(2, 3).relu()


def of_a_part(x, w):
    return F.conv2d(x, w)[:, 1:].relu()


def spread_otherwise(x, w):
    sums = F.conv2d(x, w)
    return sums * rl.arange(sums.shape[-1]).to(sums.dtype)


def two_results(x, w):
    sums = F.conv2d(x, w)
    return sums.relu(), sums.sigmoid()


def transposed(x, w):
    return F.conv_transpose2d(x, w.transpose(0, 1)).relu()


def in_half(x, w):
    return F.conv2d(x.bfloat16(), w.bfloat16()).relu()


OTHERWISE = [seen_sums, read_twice, written_between, turned, of_a_part]
OTHERWISE += [spread_otherwise, two_results, transposed, in_half]


@pytest.mark.parametrize("function", OTHERWISE, ids=lambda one: one.__name__)
def test_sums_that_someone_else_reads_or_lie_otherwise_stay(function):
    x, w = drawn(2, 3, 11, 12), drawn(6, 3, 3, 3)
    before = w.clone()
    results, told = settled(function, x, w)
    for number, result in enumerate(results):
        w.copy_(before * (2.0**number if function is written_between else 1))
        expected = function(x, w)
        for one, other in zip(
            *((v if isinstance(v, tuple) else (v,)) for v in (result, expected)),
            strict=True,
        ):
            rl.testing.assert_close(one, other)
    assert behind(told) == 0


def test_a_step_that_learns_takes_what_nothing_saves():
    x, w, v = drawn(2, 3, 11, 12), drawn(6, 3, 3, 3), drawn(5, 6, 3, 3)
    w.requires_grad_(), v.requires_grad_()

    def step(x):
        y = F.conv2d(F.conv2d(x, w).relu(), v)
        y.sum().backward()
        found = [w.grad, v.grad]
        w.grad = v.grad = None
        return found

    expected = step(x)
    rl.compiler.reset()
    compiled = rl.compile(step)
    for _ in range(4):
        for one, reference in zip(compiled(x), expected, strict=True):
            rl.testing.assert_close(one, reference)
    steps = [s for r in compiled_function._runners for g in r.graphs for s in g.steps]
    assert behind([str(getattr(s.details, "op", s.details)) for s in steps]) == 1


def test_two_convolutions_that_are_added_keep_one_of_them_alone():
    x, w, v = drawn(2, 3, 11, 12), drawn(6, 3, 3, 3), drawn(6, 3, 3, 3, seed=7)

    def function(x, w, v):
        return F.relu(F.conv2d(x, w) + F.conv2d(x, v))

    results, told = settled(function, x, w, v)
    assert behind(told) == 1
    for result in results:
        rl.testing.assert_close(result, function(x, w, v))


def test_a_setting_leaves_convolutions_alone():
    x, w = drawn(2, 3, 11, 12), drawn(6, 3, 3, 3)
    with rl._inductor.config.patch(epilogue_fusion=False):
        _, told = settled(lambda x, w: F.conv2d(x, w).relu(), x, w)
    assert behind(told) == 0

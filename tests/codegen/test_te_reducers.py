"""Reductions of several values at once, and computations of several tensors."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import te


def larger(left, right):
    above = (right[0] > left[0]) | (right[0] != right[0])
    pairs = zip(right, left, strict=True)
    return tuple(te.if_then_else(above, new, old) for new, old in pairs)


def moments_joined(left, right):
    """Means, squared distances from them, and counts: Chan et al., 1979."""
    count = left[2] + right[2]
    gap, share = right[0] - left[0], right[2] / count
    squares = left[1] + right[1] + gap * gap * left[2] * share
    return left[0] + gap * share, squares, count


LARGEST = te.comm_reducer(larger, (float("-inf"), 0), "largest")
MOMENTS = te.comm_reducer(moments_joined, (0.0, 0.0, 0.0), "moments")


def largest_of_rows(rows=5, size=37):
    x = te.placeholder((rows, size), name="x")
    k = te.reduce_axis((0, size), name="k")
    found = te.compute((rows,), lambda i: LARGEST((x[i, k], k), axis=k), name="best")
    return x, k, *found


def plain(s, best, k):
    pass


def lanes_inside(s, best, k):
    s[best].reorder(k, best.axis[0])
    s[best].vectorize(best.axis[0])


def tiled(s, best, k):
    outer, inner = s[best].split(best.axis[0], 4)
    step, rest = s[best].split(k, 8)
    s[best].reorder(outer, step, rest, inner)
    s[best].vectorize(inner)
    s[best].parallel(outer)


def of_threads(s, best, k):
    s[best].bind(best.axis[0], "threadIdx.x")


@pytest.mark.parametrize("schedule", [plain, lanes_inside, tiled, of_threads])
@pytest.mark.parametrize("target", ["llvm", "python"])
def test_the_largest_element_and_its_index_come_of_one_reduction(schedule, target):
    x, k, best, at = largest_of_rows()
    s = te.create_schedule([best, at])
    assert s[best] is s[at]
    schedule(s, best, k)
    values = rl.randn(5, 37)
    values[2, 7], values[3, 5:9] = float("nan"), 9.0
    out, places = rl.empty(5), rl.empty(5, dtype=rl.int64)
    te.build(s, [x, best, at], target)(values, out, places)
    wanted, indices = values.max(1)
    assert rl.allclose(out, wanted, equal_nan=True, rtol=0, atol=0)
    assert rl.equal(places, indices)
    if schedule is plain:
        assert str(te.lower(s, [x, best, at])).count("for k") == 1
    assert "entry" in te.build(s, [x, best, at], "ptx").text


def test_a_reduction_goes_on_after_it_is_done_and_is_read_by_others():
    x, k, best, at = largest_of_rows()
    twice = te.compute(
        (5,), lambda i: LARGEST((x[i, k], k), axis=k)[1] * 2 + 1, name="twice"
    )
    values, found = rl.randn(5, 37), rl.empty(5, dtype=rl.int64)
    te.build(te.create_schedule(twice), [x, twice])(values, found)
    assert rl.equal(found, values.argmax(1) * 2 + 1)
    alone = te.compute(
        (5, 37), lambda i, j: te.if_then_else(at[i] == j, best[i], 0.0), name="alone"
    )
    found = rl.empty(5, 37)
    te.build(te.create_schedule(alone), [x, alone])(values, found)
    where, wanted = values.argmax(1, keepdim=True), values.amax(1, keepdim=True)
    assert rl.equal(found, rl.zeros(5, 37).scatter(1, where, wanted))


def test_means_and_variances_come_of_one_pass():
    x, k = te.placeholder((6, 50), name="x"), te.reduce_axis((0, 50), name="k")

    def element(i):
        mean, squares, count = MOMENTS((x[i, k], 0.0, 1.0), axis=k)
        return mean, squares / (count - 1.0)

    mean, var = te.compute((6,), element, name="moments")
    values, out = rl.randn(6, 50) + 100, [rl.empty(6), rl.empty(6)]
    te.build(te.create_schedule(mean), [x, mean, var])(values, *out)
    assert rl.allclose(out[0], values.mean(1))
    assert rl.allclose(out[1], values.var(1), rtol=1e-4)


def test_operators_of_such_reductions_have_batches():
    def alone(x):
        k = te.reduce_axis((0, x.shape[1]), name="k")
        best, at = te.compute(
            x.shape[:1], lambda i: LARGEST((x[i, k], k), axis=k), name="best"
        )
        return te.compute(
            x.shape,
            lambda i, j: te.if_then_else(at[i] == j, best[i], 0.0),
            name="alone",
        )

    def schedule(s, output, given, kind):
        s[output].parallel(output.axis[0])

    x = rl.randn(3, 5, 9)
    where, wanted = x.argmax(2, keepdim=True), x.amax(2, keepdim=True)
    for number, own in enumerate((None, schedule)):
        op = te.operator(f"te_reducers::alone_{number}", alone, own)
        found = rl.vmap(op)(x)
        assert rl.equal(found, rl.zeros(3, 5, 9).scatter(2, where, wanted))
    x.requires_grad_()
    with pytest.raises(NotImplementedError, match="joins several values at once"):
        op(x[0]).sum().backward()


def test_what_several_values_do_not_have_is_refused_in_words():
    x, k, best, at = largest_of_rows()
    y = te.compute((5,), lambda i: best[i] * 2.0, name="y")
    s = te.create_schedule(y)
    together = "best, best_1 are computed together"
    for call in (
        lambda: s[at].compute_at(s[y], y.axis[0]),
        lambda: s[best].compute_inline(),
        lambda: s.cache_write(best),
    ):
        with pytest.raises(ValueError, match=together):
            call()
    with pytest.raises(ValueError, match="rfactor: k of best"):
        s.rfactor(best, k)
    s[best].bind(k, "threadIdx.x")
    with pytest.raises(ValueError, match="not what largest joins\n  remedy"):
        te.lower(s, [x, best, at, y], target="cuda")
    with pytest.raises(ValueError, match="largest joins 2 values, not 1"):
        LARGEST((x[0, k],), axis=k)
    with pytest.raises(ValueError, match="no identity"):
        te.comm_reducer(larger, ())
    mixed = te.comm_reducer(lambda a, b: (te.cast(a[0], "int64"),), (0,), "mixed")
    with pytest.raises(TypeError, match="mixed makes i64 of f32\n  remedy"):
        mixed((x[0, k],), axis=k)
    with pytest.raises(TypeError, match="is 'a', not an expression"):
        te.compute((5,), lambda i: (x[i, 0], "a"), name="words")

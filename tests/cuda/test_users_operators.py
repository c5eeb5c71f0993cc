"""Operators of users run on a device: elementwise functions and tensor expressions."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen import language as L
from rushlight.library import Library
from tests.codegen.test_te_operators import CASES, outcome, registered

NUMBERS = itertools.count()

pytestmark = pytest.mark.usefixtures("compiling")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_elementwise_functions_run_with_gradients_batches_and_in_programs():
    library = Library(f"of_users_{next(NUMBERS)}", "DEF")
    library.define("bell(Tensor x, Tensor y, Scalar s=1.0) -> Tensor")
    library.pointwise(
        "bell", lambda x, y, s: L.exp(-x * x * s) * y, dtype="promote_float"
    )

    def slopes(needs, grad, x, y, s):
        bell = rl.exp(-x * x * s)
        return grad * y * bell * (-2 * x * s), grad * bell

    library.derivative("bell", slopes, saved=("x", "y", "s"), inputs=("x", "y"))
    op = getattr(rl.ops, library.ns).bell

    def gradient(x, y):
        x = x.detach().requires_grad_()
        op(x, y, 0.5).sum().backward()
        return x.grad

    def batched(x, y):
        return rl.vmap(op, (None, 0))(x, y)

    x, y = rl.randn(5), rl.randn(3, 5)
    for call in (op, gradient, batched, rl.compile(lambda x, y: op(x, y) * 2 + 1)):
        found = call(x.to("cuda"), y.to("cuda"))
        assert found.is_cuda and rl.allclose(found.cpu(), call(x, y), atol=1e-6)
    whole = (rl.arange(5), y)
    assert rl.allclose(op(*(t.to("cuda") for t in whole)).cpu(), op(*whole))


@pytest.mark.parametrize("name", CASES)
def test_tensor_expressions_run_with_their_gradients(name):
    function, shapes, numbers, reference = CASES[name]
    op = registered(function)
    tensors = [rl.randn(shape) for shape in shapes]
    found = outcome(op, [t.to("cuda") for t in tensors], numbers)
    for one, other in zip(found, outcome(reference, tensors, numbers), strict=True):
        assert one.is_cuda and rl.allclose(one.cpu(), other, rtol=1e-4, atol=1e-5)


def test_an_index_that_is_data_is_looked_at_on_a_device_too():
    table, at = te.placeholder((6,), name="table"), te.placeholder((4,), "int64", "at")
    y = te.compute((4,), lambda i: table[at[i]] * 2.0, name="y")
    picked = te.build(te.create_schedule(y), [table, at, y], target="cuda")
    values, out = rl.randn(6).to("cuda"), rl.empty(4, device="cuda")
    places = rl.tensor([5, 0, 3, 3])
    picked(values, places.to("cuda"), out)
    assert rl.equal(out.cpu(), values.cpu()[places] * 2)
    for wrong in (6, -1):
        places[2] = wrong
        with pytest.raises(IndexError, match="index out of range"):
            picked(values, places.to("cuda"), out)
            out.cpu()
    places[2] = 3
    picked(values, places.to("cuda"), out)  # what was refused is forgotten
    with pytest.raises(RuntimeError, match="one device of type cuda"):
        picked(values, places, out)


def scheduled_product(parts):
    """A product as the guide schedules it: sums of a tile in registers, tiles divided."""
    a, b = te.placeholder((24, 16), name="a"), te.placeholder((16, 32), name="b")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((24, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c)
    rows, columns, row, column = s[c].tile(*c.axis, 4, 8)
    tiles = s[c].fuse(rows, columns)
    s[sums].compute_at(s[c], tiles)
    s[sums].reorder(k, *sums.axis)
    for stage, axis in ((s[sums], sums.axis[0]), (s[c], row)):
        stage.unroll(axis)
    if parts:
        s[c].parallel(tiles)
    return s, [a, b, c]


@pytest.mark.parametrize("parts", [True, False])
def test_a_schedule_runs_on_a_device_as_on_the_host(parts, compiling):
    s, operands = scheduled_product(parts)
    x, y = rl.randn(24, 16), rl.randn(16, 32)
    here, there = rl.empty(24, 32), rl.empty(24, 32, device="cuda")
    te.build(s, operands)(x, y, here)
    compiling.fake.calls.clear()
    te.build(s, operands, target="cuda")(x.to("cuda"), y.to("cuda"), there)
    assert len(compiling.launched()) == 1
    assert rl.allclose(there.cpu(), here, atol=1e-5) and rl.allclose(
        here, x @ y, atol=1e-5
    )

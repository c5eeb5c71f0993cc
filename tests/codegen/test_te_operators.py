"""Operators made of tensor expressions: shapes, dtypes and gradients follow from them."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen import language as L

NUMBERS = itertools.count()


def registered(function, schedule=None):
    """An operator of a name that no other test has."""
    name = f"te_tests::{function.__name__}_{next(NUMBERS)}"
    return te.operator(name, function, schedule)


def add(x, y):
    return te.compute(x.shape, lambda i: x[i] + y[i] * 2.0, name="add")


def product(a, b):
    (rows, depth), (_, columns) = a.shape, b.shape
    k = te.reduce_axis((0, depth), name="k")
    return te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="product"
    )


def convolution(x, w, pad: int, step: int = 1):
    """Images by filters over channels, with zeros around the images."""
    count, channels, height, width = x.shape
    filters, _, rows, columns = w.shape
    tall, wide = (
        (n + 2 * pad - k) // step + 1 for n, k in ((height, rows), (width, columns))
    )
    c = te.reduce_axis((0, channels), name="c")
    r, q = te.reduce_axis((0, rows), name="r"), te.reduce_axis((0, columns), name="q")

    def element(n, f, i, j):
        y, z = i * step + r - pad, j * step + q - pad
        inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
        value = te.if_then_else(inside, x[n, c, y, z], 0.0)
        return te.sum(value * w[f, c, r, q], (c, r, q))

    return te.compute((count, filters, tall, wide), element, name="convolution")


def softmax(x):
    rows, columns = x.shape
    k = te.reduce_axis((0, columns), name="k")
    top = te.compute((rows,), lambda i: te.max(x[i, k], k), name="top")
    e = te.compute(x.shape, lambda i, j: L.exp(x[i, j] - top[i]), name="e")
    return te.compute(
        x.shape, lambda i, j: e[i, j] / te.sum(e[i, k], k), name="softmax"
    )


def spread(x):
    """Neighbours apart, and turned around: strides and negative steps in indices."""
    (size,) = x.shape
    return te.compute(
        (size // 2,),
        lambda i: x[2 * i + 1] * x[size - 1 - i] + x[i // 3],
        name="spread",
    )


def extremes(x):
    rows, columns = x.shape
    k = te.reduce_axis((0, columns), name="k")
    return te.compute(
        (rows,), lambda i: te.max(x[i, k], k) * te.min(x[i, k], k), name="extremes"
    )


def multiplied(x):
    """A product over two axes, of a tensor that has zeros."""
    rows, columns, depth = x.shape
    k, q = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, depth), name="q")
    return te.compute(
        (rows,),
        lambda i: te.prod(te.maximum(x[i, k, q], 0.0) + 0.5 * x[i, q, k], (k, q)),
        name="multiplied",
    )


CASES = {
    "add": (add, [(5,), (5,)], (), lambda x, y: x + 2 * y),
    "product": (product, [(3, 4), (4, 5)], (), rl.mm),
    "convolution": (
        convolution,
        [(2, 3, 5, 6), (4, 3, 3, 2)],
        (1, 2),
        lambda x, w, pad, step: rl.nn.functional.conv2d(x, w, padding=pad, stride=step),
    ),
    "softmax": (softmax, [(3, 7)], (), lambda x: x.softmax(1)),
    "spread": (
        spread,
        [(12,)],
        (),
        lambda x: x[1::2] * x.flip(0)[:6] + x[rl.arange(6) // 3],
    ),
    "multiplied": (
        multiplied,
        [(2, 3, 3)],
        (),
        lambda x: (x.clamp(min=0) + 0.5 * x.mT).flatten(1).prod(1),
    ),
    "extremes": (extremes, [(4, 6)], (), lambda x: x.amax(1) * x.amin(1)),
}


def outcome(function, tensors, numbers):
    """The value and all gradients."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    value = function(*leaves, *numbers)
    seed = rl.cos(rl.arange(value.numel(), dtype=value.dtype)).view(value.shape)
    value.backward(seed.to(value.device))
    return [value.detach(), *[leaf.grad for leaf in leaves]]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_operators(name):
    function, shapes, numbers, reference = CASES[name]
    op = registered(function)
    for dtype in (rl.float64, rl.float32):
        tensors = [rl.randn(shape, dtype=dtype) for shape in shapes]
        found, wanted = (outcome(f, tensors, numbers) for f in (op, reference))
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == dtype and one.shape == other.shape
            assert rl.allclose(one, other, rtol=1e-4, atol=1e-5)
    assert op(*(t.to("meta") for t in tensors), *numbers).shape == wanted[0].shape


@pytest.mark.parametrize("name", ["product", "softmax", "spread"])
def test_gradients_have_gradients(name):
    function, shapes, numbers, _ = CASES[name]
    op = registered(function)
    tensors = [rl.randn(s, dtype=rl.float64, requires_grad=True) for s in shapes]
    assert rl.autograd.gradgradcheck(lambda *given: op(*given, *numbers), tensors)


def test_the_gradient_of_a_product_is_right_where_factors_are_zero():
    def products(x):
        k = te.reduce_axis((0, 4), name="k")
        return te.compute((3,), lambda i: te.prod(x[i, k], k), name="products")

    x = rl.tensor([[2.0, 3, 4, 5], [2, 0, 4, 5], [0, 3, 0, 5]], dtype=rl.float64)
    found = outcome(registered(products), [x], ())
    for one, other in zip(found, outcome(lambda x: x.prod(1), [x], ()), strict=True):
        assert rl.equal(one, other)
    x.requires_grad_()
    assert rl.autograd.gradgradcheck(registered(products), x)


def test_operators_are_compiled_batched_and_called_by_name():
    op = registered(product)
    a, b = rl.randn(3, 4), rl.randn(4, 5)
    assert rl.allclose(
        rl.compile(lambda a, b: op(a, b) + 1)(a, b), a @ b + 1, atol=1e-5
    )
    assert rl.allclose(op(a.t().contiguous().t(), b[:, ::2]), a @ b[:, ::2], atol=1e-5)
    many = rl.randn(2, 3, 4)
    found = rl.vmap(op, (0, None))(many, b)
    assert rl.allclose(found, many @ b, atol=1e-5)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("name", CASES)
def test_batches_are_computed_at_once_with_their_gradients(name):
    function, shapes, numbers, _ = CASES[name]
    op = registered(function)
    for which in itertools.product((False, True), repeat=len(shapes)):
        if not any(which):
            continue
        tensors = [
            rl.randn(*((3,) if many else ()), *shape, dtype=rl.float64)
            for many, shape in zip(which, shapes, strict=True)
        ]
        given = [t.movedim(0, -1) if many else t for many, t in zip(which, tensors)]
        dims = tuple(-1 if many else None for many in which)

        def slopes(*one):
            return rl.func.grad(lambda *x: op(*x, *numbers).sin().sum(), argnums=0)(
                *one
            )

        for call in (lambda *one: op(*one, *numbers), slopes):
            found = rl.vmap(call, dims)(*given)
            wanted = rl.stack(
                [
                    call(*(t[n] if many else t for many, t in zip(which, tensors)))
                    for n in range(3)
                ]
            )
            assert rl.allclose(found, wanted)


@pytest.mark.filterwarnings("error:There is a performance drop")
def test_batches_of_batches_and_of_indices():
    def picked(table, at):
        return te.compute(at.shape, lambda i: table[at[i]] * 2.0, name="picked")

    op = registered(picked)
    table, at = rl.randn(2, 5), rl.randint(0, 5, (4, 3))
    found = rl.vmap(rl.vmap(op, (None, 0)), (0, None))(table, at)
    assert rl.equal(found, table[:, at] * 2)
    assert rl.equal(rl.vmap(op)(table, at[:2]), table.gather(1, at[:2]) * 2)


def test_what_does_not_depend_on_a_batch_is_there_for_each_example():
    def first(x, y):
        return te.compute(x.shape, lambda i: x[i] * 2.0, name="first")

    op, x = registered(first), rl.randn(3)
    found = rl.vmap(op, (None, 0))(x, rl.zeros(4, 3))
    assert rl.equal(found, (x * 2).expand(4, 3))
    mul = registered(product)
    a, b = rl.randn(2, 3, dtype=rl.float64), rl.randn(3, 2, dtype=rl.float64)
    found = rl.func.hessian(lambda b: mul(a, b).pow(2).sum())(b)
    wanted = rl.func.hessian(lambda b: (a @ b).pow(2).sum())(b)
    assert rl.allclose(found, wanted)


def test_a_schedule_of_ones_own_changes_no_value():
    op = registered(product, tiled)
    for rows, columns in ((8, 32), (5, 19)):
        a, b = rl.randn(rows, 6), rl.randn(6, columns)
        assert rl.allclose(op(a, b), a @ b, atol=1e-5)


def tiled(s, output, given, kind):
    i, j = output.axis
    rows, columns, row, column = s[output].tile(i, j, 4, 16)
    s[output].reorder(rows, columns, *output.reduce_axis, row, column)
    s[output].vectorize(column)
    s[output].parallel(rows)


def packed(s, output, given, kind):
    sums = s.cache_write(output)
    rows, columns, row, column = s[output].tile(*output.axis, 3, 8)
    copy = s.cache_read(given[1], [sums])
    s[output].reorder(columns, rows, row, column)
    s[copy].compute_at(s[output], columns)
    s[sums].compute_at(s[output], rows)
    s[sums].reorder(*s[sums].reduce_axis, *sums.axis)
    s[sums].vectorize(sums.axis[1])
    s[output].parallel(columns)


def joined(s, output, given, kind):
    step, lane = s[output].split(output.reduce_axis[0], 4)
    parts = s.rfactor(output, lane)
    both = s[output].fuse(*output.axis)
    s[parts].compute_at(s[output], both)
    s[output].parallel(both)


def of_a_grid(s, output, given, kind):
    block, thread = s[output].split(output.axis[0], 4)
    s[output].bind(block, "blockIdx.x")
    s[output].bind(thread, "threadIdx.x")
    if kind == "cpu":
        s[s.cache_read(given[1], [output])].compute_at(s[output], block)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("schedule", [tiled, packed, joined, of_a_grid])
def test_batches_of_a_scheduled_operator_keep_its_schedule(schedule):
    calls = []

    def noted(s, output, given, kind):
        calls.append(tuple(output.shape))
        schedule(s, output, given, kind)

    op = registered(product, noted)
    a, b = rl.randn(3, 9, 6), rl.randn(2, 6, 21)
    assert rl.allclose(rl.vmap(op, (0, None))(a, b[0]), a @ b[0], atol=1e-5)
    assert rl.allclose(rl.vmap(op, (None, 0))(a[0], b), a[0] @ b, atol=1e-5)
    assert rl.allclose(rl.vmap(op)(a[:2], b), a[:2] @ b, atol=1e-5)
    twice = rl.vmap(rl.vmap(op, (0, None)), (None, 0))(a, b)
    assert rl.allclose(twice, a @ b[:, None], atol=1e-5)
    assert calls == [(9, 21)] * 4  # it is said of one example


def test_what_has_no_derivative_or_no_name_is_refused_in_words():
    def angle(x):
        return te.compute(x.shape, lambda i: L.atan2(x[i], x[i]), name="angle")

    x = rl.ones(3, requires_grad=True)
    y = registered(angle)(x)
    with pytest.raises(NotImplementedError, match="atan2 has no derivative here"):
        y.sum().backward()
    with pytest.raises(ValueError, match="no namespace"):
        te.operator("alone", add)

    def nothing(x):
        return x

    with pytest.raises(TypeError, match="which is no computed tensor"):
        registered(nothing)(rl.ones(3))
    with pytest.raises(TypeError, match="operands differ in type"):
        registered(add)(rl.ones(3), rl.ones(3, dtype=rl.float64))

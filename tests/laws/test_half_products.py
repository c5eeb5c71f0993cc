"""Half-precision products are sums in float32, rounded once, whatever they pass through."""

import pytest

import rushlight
from rushlight.ops import half_products, linalg

F = rushlight.nn.functional
SIZES = [(2, 3, 2), (7, 40, 33), (5, 385, 64), (16, 1000, 30), (64, 64, 64), (1, 9, 9)]


def number(x):
    return x.contiguous().view(rushlight.int16).tolist()


def operands(m, k, n, dtype, batch=()):
    rushlight.manual_seed(m + k + n)
    a, b = rushlight.randn(*batch, m, k), rushlight.randn(*batch, k, n)
    return a.to(dtype), b.to(dtype)


def layouts(x):
    """The same matrix in memory of several orders."""
    wide = rushlight.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., ::2] = x
    return x, x.mT.contiguous().mT, wide[..., ::2]


@pytest.fixture(params=["bfloat16", "float16"])
def dtype(request):
    return getattr(rushlight, request.param)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_product_is_the_rounded_sum_in_every_layout(sizes, dtype, monkeypatch):
    for batch in ((), (3,)):
        x, y = operands(*sizes, dtype, batch)
        for a in layouts(x):
            for b in layouts(y):
                got = number(a @ b)
                with monkeypatch.context() as m:
                    m.setattr(half_products, "serves", lambda *_: False)
                    sums = linalg.product(a, b, rushlight.float32)
                assert got == number(sums.to(dtype))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_bias_is_added_before_the_one_rounding(sizes, dtype):
    a, b = operands(*sizes, dtype)
    row = rushlight.randn(sizes[2]).to(dtype)
    spread = rushlight.zeros(2 * sizes[2], dtype=dtype)
    spread[::2] = row
    sums = linalg.product(a, b, rushlight.float32)
    for bias in (row, spread[::2], row[:1].expand(sizes[2])):
        expected = number((sums + bias).to(dtype))
        assert number(F.linear(a, b.t(), bias)) == expected
        assert number(F.linear(a, b.t().contiguous(), bias)) == expected


def test_empty_and_endless_products_are_as_ever(dtype):
    a = rushlight.full((3, 4), 60000.0, dtype=dtype)
    infinite = (a @ a.t()).float()
    if dtype is rushlight.float16:
        assert rushlight.isinf(infinite).all()
    assert rushlight.isnan((a * float("inf") - a * float("inf")) @ a.t()).all()
    empty = rushlight.ones(3, 0, dtype=dtype)
    assert (empty @ empty.t()).tolist() == [[0.0] * 3] * 3
    bias = rushlight.ones(3, dtype=dtype)
    assert F.linear(empty, empty, bias).tolist() == [[1.0] * 3] * 3
    assert (empty.t() @ rushlight.ones(3, 2, dtype=dtype)).shape == (0, 2)

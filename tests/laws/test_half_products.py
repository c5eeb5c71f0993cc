"""Half-precision products are sums in float32, rounded once, whatever they pass through."""

import pytest

import rushlight
from rushlight.operators.matmul import linalg, matmul_bf16

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
                    m.setattr(matmul_bf16, "serves", lambda *_: False)
                    sums = linalg.product(a, b, rushlight.float32)
                assert got == number(sums.to(dtype))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_bias_is_added_before_the_one_rounding(sizes, dtype):
    a, b = operands(*sizes, dtype)
    row = rushlight.randn(sizes[2]).to(dtype)
    spread = rushlight.zeros(2 * sizes[2], dtype=dtype)
    spread[::2] = row
    for weight in b.t(), b.t().contiguous():  # sums are in the order that it lies in
        sums = linalg.product(a, weight.t(), rushlight.float32)
        for bias in (row, spread[::2], row[:1].expand(sizes[2])):
            expected = number((sums + bias).to(dtype))
            assert number(F.linear(a, weight, bias)) == expected


@pytest.mark.parametrize("factors", [(1, 1), (2, 1), (1, 0.5), (-4, 2), (1, 0), (2, 0)])
@pytest.mark.parametrize("sizes", SIZES)
def test_an_addend_and_factors_come_before_the_one_rounding(sizes, factors, dtype):
    alpha, beta = factors
    a, b = operands(*sizes, dtype)
    rows, _, columns = sizes
    whole = rushlight.randn(rows, columns).to(dtype)
    addends = [*layouts(whole), whole[0], whole[:, :1], whole[:1], whole[0, 0]]
    sums = linalg.product(a, b, rushlight.float32) * alpha
    for addend in addends:
        expected = number((sums + addend.float() * beta).to(dtype))
        result = rushlight.addmm(addend, a, b, alpha=alpha, beta=beta)
        assert number(result) == expected
    batch = [x.expand(3, *x.shape) for x in (whole, a, b)]
    expected = number((sums + whole.float() * beta).to(dtype))
    assert number(rushlight.baddbmm(*batch, alpha=alpha, beta=beta)) == [expected] * 3


def test_an_addend_that_counts_nothing_is_not_looked_at(dtype):
    ones = rushlight.ones(4, 4, dtype=dtype)
    result = rushlight.addmm(ones * float("nan"), ones, ones, beta=0)
    assert result.tolist() == [[4.0] * 4] * 4
    with pytest.raises(RuntimeError, match="expanded size"):
        rushlight.addmm(rushlight.ones(3, dtype=dtype), ones, ones, beta=0)


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

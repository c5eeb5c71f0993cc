"""Products of bytes are exact, and wrap as their results do, in every layout."""

import numpy as np
import pytest

import rushlight
from rushlight.codegen.target import current

SIZES = [(2, 1, 2), (2, 3, 5), (7, 40, 33), (5, 385, 64), (17, 1601, 30), (1, 9, 1)]


def operands(m, k, n, dtype):
    """Random bytes, with the least and the largest numbers that there are."""
    random = np.random.default_rng(m + k + n)
    least, most = (-128, 127) if dtype == "int8" else (0, 255)
    a = random.integers(least, most + 1, (m, k)).astype(dtype)
    b = random.integers(-128, 128, (k, n)).astype("int8")
    a[0], a[-1], b[:, 0], b[:, -1] = least, most, -128, 127
    return a, b


def layouts(x):
    """The same matrix in memory of several orders."""
    return x, x.mT.contiguous().mT, rushlight.stack([x, x], -1)[..., 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_of_32_bits_are_exact_in_every_layout(sizes, dtype):
    x, y = operands(*sizes, dtype)
    expected = (x.astype("int32") @ y.astype("int32")).tolist()
    for a in layouts(rushlight.tensor(x)):
        for b in layouts(rushlight.tensor(y)):
            result = rushlight._int_mm(a, b)
            assert result.dtype is rushlight.int32
            assert result.tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_two_products_of_16_bits_are_exact(dtype, monkeypatch):
    from rushlight.operators.matmul import matmul_amx, matmul_int8

    monkeypatch.setattr(matmul_int8, "has_fours", lambda: False)
    monkeypatch.setattr(matmul_amx, "serves", lambda *_: False)
    matmul_int8._kernels.cache_clear()
    try:
        for sizes in SIZES[:5]:
            x, y = operands(*sizes, dtype)
            expected = x.astype("int32") @ y.astype("int32")
            for a in layouts(rushlight.tensor(x)):
                result = matmul_int8.product(a, rushlight.tensor(y), rushlight.int32)
                assert (result.numpy() == expected).all()
    finally:
        matmul_int8._kernels.cache_clear()


@pytest.mark.parametrize("sizes", SIZES)
def test_results_of_eight_bits_wrap(sizes):
    x, y = operands(*sizes, "int8")
    expected = (x.astype("int32") @ y.astype("int32")).astype("int8").tolist()
    a, b = rushlight.tensor(x), rushlight.tensor(y)
    assert (a @ b).tolist() == expected
    twice = rushlight.bmm(rushlight.stack([a, a]), rushlight.stack([b, b]))
    assert twice.tolist() == [expected] * 2


def test_where_the_processor_sums_several_products_it_does(monkeypatch):
    from rushlight.operators.matmul import matmul_int8

    asked = []
    usual = matmul_int8.product

    def product(a, b, dtype):
        asked.append(dtype)
        return usual(a, b, dtype)

    monkeypatch.setattr(matmul_int8, "product", product)
    a = rushlight.ones(4, 4, dtype=rushlight.int8)
    rushlight._int_mm(a, a), rushlight.mm(a, a)
    some = current().triple.startswith("x86_64")  # two of 16 bits, or four of eight
    wanted = [rushlight.int32, rushlight.int8] if some else []
    assert asked == wanted

"""Numbers that a type does not hold are refused, wrapped or rounded as in PyTorch."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

INF = float("inf")
NUMBERS = [1e40, -1e40, INF, 2**63 - 1, -(2**63), 70000, 300, -1, 1.5, float("nan")]
DTYPES = "float16 float32 float64 uint8 int32 int64 complex64".split()


def ones(m, d, *sizes):
    return m.ones(sizes, dtype=d)


# name -> the call with a number
CALLS = {
    "fill_": lambda m, d, v: ones(m, d, 2).fill_(v),
    "fill_ of none": lambda m, d, v: ones(m, d, 0).fill_(v),
    "full of none": lambda m, d, v: m.full((0,), v, dtype=d),
    "new_full of none": lambda m, d, v: ones(m, d, 2).new_full((0,), v),
    "full_like of none": lambda m, d, v: m.full_like(ones(m, d, 0), v),
    "setitem": lambda m, d, v: _set(ones(m, d, 2), v),
    "masked_fill": lambda m, d, v: ones(m, d, 2).masked_fill(
        m.tensor([True, False]), v
    ),
    "index_fill": lambda m, d, v: ones(m, d, 2).index_fill(0, m.tensor([0]), v),
    "scatter": lambda m, d, v: ones(m, d, 2).scatter(0, m.tensor([0]), v),
    "index_add": lambda m, d, v: m.index_add(
        ones(m, d, 2), 0, m.tensor([0]), ones(m, d, 1), alpha=v
    ),
    "addr, beta": lambda m, d, v: m.addr(
        ones(m, d, 2, 2), ones(m, d, 2), ones(m, d, 2), beta=v
    ),
    "addmm, beta": lambda m, d, v: m.addmm(
        ones(m, d, 2, 2), ones(m, d, 2, 2), ones(m, d, 2, 2), beta=v
    ),
    "addmm, alpha": lambda m, d, v: m.addmm(
        ones(m, d, 2, 2), ones(m, d, 2, 2), ones(m, d, 2, 2), alpha=v
    ),
    "addmv, alpha": lambda m, d, v: m.addmv(
        ones(m, d, 2), ones(m, d, 2, 2), ones(m, d, 2), alpha=v
    ),
    "linspace": lambda m, d, v: m.linspace(0, v, 3, dtype=d),
    "arange": lambda m, d, v: m.arange(v, v, 1, dtype=d),
    "arange, step": lambda m, d, v: m.arange(0, 3, v, dtype=d),
    "histc": lambda m, d, v: m.histc(ones(m, d, 2), 3, 0, v),
    "pow": lambda m, d, v: ones(m, d, 2) ** v,
    "renorm": lambda m, d, v: m.renorm(ones(m, d, 2, 2), 2, 0, v),
    "renorm, order": lambda m, d, v: m.renorm(ones(m, d, 2, 2), v, 0, 1),
}
# Both refuse, by two types; or a step's last sum overflows in PyTorch; or infinity has
# a NaN beside it.
APART = {
    *(("histc", name) for name in ("uint8", "int32", "int64", "complex64")),
    ("arange, step", "int64"),
    ("addmm, alpha", "complex64"),
}


def _set(x, value):
    x[0] = value
    return x


def outcome(module, call, name, number):
    try:
        made = call(module, getattr(module, name), number)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        return type(error).__name__
    return [repr(x) for x in made.flatten().tolist()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("call", CALLS)
def test_numbers_beyond_a_type_go_as_in_pytorch(call, name):
    if (call, name) in APART:
        pytest.skip("PyTorch's own choice or overflow")
    ours, theirs = (
        {n: outcome(module, CALLS[call], name, n) for n in NUMBERS}
        for module in (rl, torch)
    )
    assert ours == theirs


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")
    x = rl.tensor([0.25, 0.5])
    for number in (np.float32(0.125), np.float64(0.125)):
        assert rl.logit(x, number).tolist() == rl.logit(x, 0.125).tolist()


@pytest.mark.parametrize("factor", [2**60 + 1, -(2**60) - 1, 2**53 + 1, 3])
def test_factors_of_integer_products_lose_no_bit(factor):
    x, y = rl.tensor([[1, 2], [3, 4]]), rl.tensor([[1, 1], [0, 1]])
    wanted = rl.tensor([[1, 3], [3, 7]])  # the product of both
    assert rl.addmm(x, x, y, alpha=factor).equal(wanted * factor + x)
    assert rl.addmm(x, x, y, beta=factor).equal(wanted + x * factor)
    assert rl.baddbmm(x[None], x[None], y[None], beta=factor)[0].equal(
        wanted + x * factor
    )
    assert rl.addbmm(x, x[None], y[None], alpha=factor).equal(wanted * factor + x)

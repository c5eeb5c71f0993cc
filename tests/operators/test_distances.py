"""Distances between rows, and the places of triangles, beside PyTorch's."""

import itertools

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf"))


def both(*sizes, kind="float32"):
    values = np.random.default_rng(list(sizes)).normal(size=sizes).astype(kind)
    values[..., ::3, 0] = 0.5  # some differences are zero
    return rl.from_numpy(values), torch.from_numpy(values)


def same(ours, theirs, close=2e-6):
    assert ours.shape == theirs.shape
    assert ours.stride() == theirs.stride()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), close, close)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(2, 1), (9, 5), (131, 70), (3, 300)])
def test_pdist_is_pytorchs(sizes, kind, p):
    ours, theirs = both(*sizes, kind=kind)
    close = 1e-5 if kind == "float32" else 1e-12
    same(rl.pdist(ours, p), torch.pdist(theirs, p), close)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(
    "one, other",
    [((4, 3), (5, 3)), ((2, 7, 33), (1, 140, 33)), ((3, 1, 2, 8), (2, 3, 8))],
)
def test_cdist_is_pytorchs(one, other, p):
    (a, x), (b, y) = both(*one), both(*other)
    mode = "donot_use_mm_for_euclid_dist"
    same(rl.cdist(a, b, p, mode), torch.cdist(x, y, p, mode), 1e-5)


@pytest.mark.parametrize("p", ORDERS[1:])
def test_distances_keep_what_is_no_number(p):
    values = np.array([[0.0, np.nan], [1.0, 2.0], [3.0, np.inf], [1.0, np.inf]])
    same(rl.pdist(rl.from_numpy(values), p), torch.pdist(torch.from_numpy(values), p))


def test_cdist_of_a_gradient_is_that_without_one():
    (a, _), (b, _) = both(6, 4), both(7, 4)
    plain = rl.cdist(a, b, 3.0)
    np.testing.assert_allclose(
        rl.cdist(a.requires_grad_(), b, 3.0).detach().numpy(), plain.numpy(), 1e-6
    )


@pytest.mark.parametrize("half", ["tril", "triu"])
def test_places_of_triangles_are_pytorchs(half):
    for row, col, offset in itertools.product(range(5), range(5), range(-6, 7)):
        ours = getattr(rl, f"{half}_indices")(row, col, offset)
        theirs = getattr(torch, f"{half}_indices")(row, col, offset)
        assert ours.tolist() == theirs.tolist(), (row, col, offset)
        assert ours.dtype is rl.int64


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8"])
def test_divisors_wrap_as_pytorchs(name, kind):
    limits, random = np.iinfo(kind), np.random.default_rng(0)
    a, b = random.integers(limits.min, limits.max, (2, 300), kind, endpoint=True)
    a[:5] = limits.min, 0, limits.min, 0, limits.min
    b[:5] = 6, limits.min, 0, 0, limits.min
    a[100:200] %= 13
    b[100:250] %= 20
    ours = getattr(rl, name)(rl.from_numpy(a), rl.from_numpy(b))
    theirs = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("kind", ["bool", "float32", "complex64"])
def test_only_integers_have_divisors(name, kind):
    told = []
    for library in rl, torch:
        x = library.ones(2, dtype=getattr(library, kind))
        with pytest.raises(NotImplementedError) as caught:
            getattr(library, name)(x, x)
        told.append(str(caught.value).splitlines()[0])
    assert told[0] == told[1]


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("odd", [0.0, float("inf"), float("nan")])
def test_gradients_of_pairs_are_the_oracles_where_rows_meet_or_are_odd(p, odd):
    values = np.random.default_rng(3).standard_normal((150, 5))
    values[1], values[3, 0], values[140, 2] = values[0], values[2, 0], odd
    made = []
    for framework in (torch, rl):
        x = framework.tensor(values, requires_grad=True)
        distances = framework.nn.functional.pdist(x, p)
        weights = framework.arange(distances.numel(), dtype=framework.float64)
        (distances * weights).sum().backward()
        made.append(x.grad.tolist())
    np.testing.assert_allclose(made[1], made[0], rtol=1e-9, atol=1e-9)

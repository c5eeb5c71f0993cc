"""Reductions of every dtype: the oracle's values, or its refusals."""

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "bool"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
OVER_MANY = [
    "sum", "mean", "nansum", "nanmean", "amax", "amin", "any", "all", "var", "std",
    "logsumexp", "count_nonzero", "norm",
]  # fmt: skip
OVER_ONE = ["prod", "argmax", "argmin", "max", "min", "median", "nanmedian", "aminmax"]
CONTIGUOUS = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax"]
# The oracle's words for what has no order, and what it loses on the way.
LOOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9, "complex128": 1e-9}


@st.composite
def windows(draw):
    """Sizes, strides and an offset; sizes may be zero, and strides too."""
    rank = draw(st.integers(0, 6))
    sizes = draw(st.lists(st.integers(0, 3) | st.just(2), min_size=rank, max_size=rank))
    strides, step = [0] * rank, draw(st.sampled_from([1, 1, 2]))
    for dim in draw(st.permutations(range(rank))):
        if draw(st.integers(0, 7)):
            strides[dim] = step
            step = step * max(sizes[dim], 1) + draw(st.sampled_from([0, 0, 1]))
    return sizes, strides, draw(st.sampled_from([0, 0, 3]))


def both(window, dtype, special, seed):
    """The same window into the same numbers, here and in the oracle."""
    sizes, strides, offset = window
    room = offset + 1 + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    torch.manual_seed(seed)
    kind = getattr(torch, dtype)
    values = torch.randint(-4, 5, (room,)).to(torch.float64)
    if dtype not in INTEGERS:
        values = values + torch.rand(room, dtype=torch.float64).round(decimals=1)
        if special and dtype not in COMPLEX:
            values[torch.rand(room) < 0.2] = special
    whole = (values.abs() if dtype == "uint8" else values).to(kind)
    whole = whole * (1 - 0.5j) if dtype in COMPLEX else whole
    mine = rl.from_numpy(whole.view(torch.uint8).numpy().copy()).view(
        getattr(rl, dtype)
    )
    return [t.as_strided(sizes, strides, offset) for t in (mine, whole)]


def answer(call):
    """What a call gives: tensors, or the kind of its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call()
        except (RuntimeError, IndexError) as error:
            return type(error)
    return list(found) if isinstance(found, tuple) else [found]


def assert_same(mine, theirs, dtype, what):
    if isinstance(theirs, type):
        # a kernel that the oracle does not have for a type is not missed, and where
        # there is no order either, which fault is found first does not matter
        alike = mine is theirs or theirs is NotImplementedError
        unordered = isinstance(mine, type) and dtype in ("bool", *COMPLEX)
        assert alike or unordered, (what, mine, theirs)
        return
    assert not isinstance(mine, type), (what, mine)
    for x, y in zip(mine, theirs, strict=True):
        assert tuple(x.shape) == tuple(y.shape), what
        assert str(x.dtype).split(".")[1] == str(y.dtype).split(".")[1], what
        wide = "complex128" if y.is_complex() else "float64"
        given = torch.from_numpy(x.to(getattr(rl, wide)).numpy())
        error = LOOSE.get(dtype, 1e-5)
        torch.testing.assert_close(
            given, y.to(getattr(torch, wide)), rtol=error, atol=error, equal_nan=True,
            msg=lambda text: f"{what}: {text}",
        )  # fmt: skip


CASES = {
    "window": windows(),
    "dtype": st.sampled_from([*INTEGERS, *FLOATS, *COMPLEX]),
    "special": st.sampled_from([0, 0, math.nan]),
    "seed": st.integers(0, 99),
}


@pytest.mark.parametrize("name", OVER_MANY)
@given(**CASES, data=st.data())
@settings(max_examples=25, deadline=None)
def test_dimensions_are_reduced_as_the_oracle_does(
    name, window, dtype, special, seed, data
):
    rank = len(window[0])
    dims = data.draw(
        st.none() | st.lists(st.integers(0, rank - 1), unique=True, max_size=3)
        if rank
        else st.sampled_from([None, [], [0]])
    )
    if dims and data.draw(st.booleans()):
        dims = [dim - max(rank, 1) for dim in dims]
    if name == "logsumexp" and not dims:
        return  # its dim=() loses the dimensions between two steps of the oracle
    if name == "nanmean" and dims == []:
        return
    options = {} if name == "count_nonzero" else {"keepdim": data.draw(st.booleans())}
    mine, theirs = both(window, dtype, special, seed)
    assert_same(
        answer(lambda: getattr(mine, name)(dim=dims, **options)),
        answer(lambda: getattr(theirs, name)(dim=dims, **options)),
        dtype,
        f"{name} {dtype} {window} {dims} {options}",
    )


@pytest.mark.parametrize("name", [*OVER_ONE, *CONTIGUOUS])
@given(**CASES, data=st.data())
@settings(max_examples=25, deadline=None)
def test_one_dimension_is_reduced_as_the_oracle_does(
    name, window, dtype, special, seed, data
):
    if name in ("cummax", "cummin") and dtype in COMPLEX:
        dtype = "float32"  # one complex number is its own extreme to the oracle
    rank = max(len(window[0]), 1)
    dim = data.draw(st.integers(-rank, rank - 1))
    options = {} if name in CONTIGUOUS else {"keepdim": data.draw(st.booleans())}
    mine, theirs = both(window, dtype, special, seed)
    # 2.13's median of repeated elements reads elements that are not there
    theirs = theirs.contiguous()
    found = answer(lambda: getattr(mine, name)(dim=dim, **options))
    wanted = answer(lambda: getattr(theirs, name)(dim=dim, **options))
    if name in ("median", "nanmedian") and not isinstance(wanted, type):
        found, wanted = found[:1], wanted[:1]  # equal elements: any position
    what = f"{name} {dtype} {window} {dim} {options}"
    assert_same(found, wanted, dtype, what)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "var_mean", "cumsum"])
def test_gradients_at_ties_and_nan_are_the_oracles(name):
    for values in ([1.0, 3, 3, -2], [1.0, math.nan, 3, 3], [math.nan, math.nan, 0, 0]):
        grads = []
        for lib in (rl, torch):
            x = lib.tensor(values, requires_grad=True)
            args = (0,) if name in ("var_mean", "cumsum") else ()
            result = getattr(lib, name)(x, *args)
            result = result[1] if isinstance(result, tuple) else result
            result.sum().backward()
            grads.append(torch.tensor(x.grad.tolist()))
        torch.testing.assert_close(*grads, equal_nan=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.std(m.ones(3).int(), dim=1 << 62),
        lambda m: m.var(m.ones(3), correction=1j),
        lambda m: m.std(m.ones(3), correction=1 << 64),
        lambda m: m.norm(m.ones(3), 1j),
        lambda m: m.linalg.vector_norm(m.ones(3), dtype=m.float16),
        lambda m: m.linalg.vector_norm(m.ones(3), dtype=m.complex64),
        lambda m: m.dist(m.ones(3), m.ones(3) > 0),
        lambda m: m.linalg.vecdot(m.ones(3).int(), m.ones(3).int()),
        lambda m: m.linalg.vecdot(m.ones(3), m.ones(3).double()),
        lambda m: m.linalg.cross(m.ones(2, 3), m.ones(2, 3), dim=2),
        lambda m: m.linalg.vander(m.ones(3), N=1),
        lambda m: m.quantile(m.ones(3).half(), 0.5),
        lambda m: m.quantile(m.ones(3), m.tensor([1.5])),
        lambda m: m.quantile(m.ones(3), m.tensor([0.5]).double()),
        lambda m: m.cov(m.ones(2, 3) > 0),
        lambda m: m.cov(m.ones(2, 3), fweights=m.ones(3)),
        lambda m: m.cov(m.ones(2, 3), aweights=-m.ones(3)),
        lambda m: m.trapezoid(m.ones(3), dx=True),
        lambda m: m.trapezoid(m.ones(3) > 0),
        lambda m: m.cdist(m.ones(2, 3), m.ones(4, 3), 2.0, "direct"),
        lambda m: m.cdist(m.ones(2, 3), 3),
        lambda m: m.cdist(m.ones(2, 3), m.ones(4, 3).double()),
        lambda m: m.nn.functional.cosine_similarity(m.ones(3), m.ones(3), eps=-1),
        lambda m: m.nn.functional.bilinear(m.ones(3), m.ones(4), m.ones(5, 3, 4), 1.0),
        lambda m: m.addr(m.ones(2, 3, 3), m.ones(3), m.ones(3)),
        lambda m: m.addmv(m.ones(3), m.ones(3, 2), m.ones(2).double()),
        lambda m: m.addmm(m.ones(3, 3), m.ones(3, 3), m.ones(3, 3), beta=1j),
        lambda m: m.tensordot(m.ones(2, 3), m.ones(3, 2), dims=(1, 0)),
        lambda m: m.tensordot(m.ones(2, 3), m.ones(3, 2), dims=1.0),
        lambda m: m.einsum([m.ones(3)], (1,)),
        lambda m: m.einsum("i->ii", m.ones(3)),
        lambda m: m.argmax(m.ones(3) > 0),
        lambda m: m.max(m.ones(3) * 1j, 0),
    ],
)
def test_the_oracles_refusals(call):
    kinds = []
    for lib in (rl, torch):
        with pytest.raises(
            (RuntimeError, TypeError, ValueError, IndexError, OverflowError)
        ) as e:
            call(lib)
        kinds.append(type(e.value))
    assert kinds[0] is kinds[1]


def test_small_integers_are_summed_as_the_oracle_does_in_trapezoids_and_contractions():
    y, x = [200, 100, 7], [1, 5, 200]
    results = []
    for lib in (rl, torch):
        a, b = (lib.tensor(v, dtype=lib.uint8) for v in (y, x))
        c = lib.ones(2, 3, dtype=lib.int32)
        found = [
            lib.trapezoid(lib.ones(2, 3), lib.arange(12.0).reshape(2, 3, 2) ** 2),
            lib.trapezoid(a), lib.trapezoid(a, b), lib.cumulative_trapezoid(a, b),
            lib.tensordot(c, c[:1], dims=([0, 1], [0, 1])),
            lib.einsum("ij,j->ij", c > 0, c[0] > 0),
        ]  # fmt: skip
        results.append([(str(t.dtype).split(".")[1], t.tolist()) for t in found])
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["any", "all"])
def test_an_empty_list_of_dimensions_keeps_every_element(name):
    x = [[1.0, 0.0], [0.0, 2.0]]
    for dims in ((), None):
        assert (
            getattr(rl.tensor(x), name)(dim=dims).tolist()
            == getattr(torch.tensor(x), name)(dim=dims).tolist()
        )


def test_results_given_to_out_keep_their_graph_where_the_oracle_has_one():
    for lib in (rl, torch):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        out = lib.inner(x, x, out=lib.empty(()))
        out.backward()
        assert x.grad.tolist() == [2.0, 4.0]

"""Reductions over any dimensions of any layout have the oracle's values, and stay in
the memory of their result."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")

OVER_MANY = (
    "sum", "nansum", "mean", "nanmean", "amax", "amin", "var", "std", "var_mean",
    "std_mean", "logsumexp", "norm", "count_nonzero", "any", "all",
)  # fmt: skip
OVER_ONE = (
    "prod", "argmax", "argmin", "max", "min", "aminmax", "median", "nanmedian", "mode",
)  # fmt: skip
ALONG_ONE = (
    "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax", "sort", "flip",
)  # fmt: skip
NO_KEEPDIM = ("count_nonzero",)


@st.composite
def sources(draw, ranks=(0, 8)):
    """How to make one tensor: sizes, their order, gaps and repeated dimensions."""
    rank = draw(st.integers(*ranks))
    most = 4 if rank < 5 else 2
    sizes = draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank))
    order = draw(st.permutations(range(rank)))
    steps = draw(st.lists(st.sampled_from([1, 1, 2]), min_size=rank, max_size=rank))
    repeats = draw(
        st.lists(st.sampled_from([1, 1, 1, 2]), min_size=rank, max_size=rank)
    )
    return sizes, order, steps, repeats


def built(framework, source, dtype="float32"):
    """The tensor of a source: distinct small values, laid out as the source says."""
    sizes, order, steps, repeats = source
    whole = [size * step for size, step in zip(sizes, steps)]
    count = math.prod(whole)
    values = np.arange(count) * 7 % (2 * count + 1) % 23 - 5
    x = framework.from_numpy(values.astype(dtype)).reshape(whole)
    x = x[tuple(slice(None, None, step) for step in steps)]
    spread = [r if size == 1 else -1 for size, r in zip(sizes, repeats)]
    return x.expand(spread).permute(order) if sizes else x


def assert_same(mine, theirs, what):
    """Structure, shape, dtype and values agree."""
    if isinstance(theirs, tuple):
        for number, (left, right) in enumerate(zip(mine, theirs, strict=True)):
            assert_same(left, right, f"{what}[{number}]")
        return
    assert mine.shape == tuple(theirs.shape), what
    assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
    np.testing.assert_allclose(
        mine.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-5, err_msg=what
    )


def guarded(call, x):
    """A call whose result lies between blocks of its size that must stay as they are."""
    like = call(x)
    like = like[0] if isinstance(like, tuple) else like
    blocks = [
        rushlight.full((max(like.numel(), 1),), 77, dtype=like.dtype) for _ in range(9)
    ]
    del blocks[4], like  # what was freed last is given out first
    before = [block.tolist() for block in blocks]
    result = call(x)
    assert [block.tolist() for block in blocks] == before, "wrote outside the result"
    return result


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@given(sources(), st.data())
@settings(max_examples=150, deadline=None)
def test_reductions_over_many_dimensions_have_the_oracles_values(source, data):
    rank = len(source[0])
    dims = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True)
                     if rank else st.just([]))  # fmt: skip
    x, y = built(rushlight, source), built(torch, source)
    for name in OVER_MANY:
        for keepdim in (False,) if name in NO_KEEPDIM else (False, True):
            if not rank and name in ("var", "std", "var_mean", "std_mean"):
                continue
            options = {} if name in NO_KEEPDIM else {"keepdim": keepdim}
            if name == "norm":
                options["p"] = 2

            def call(t):
                return getattr(t, name)(dim=dims, **options)  # noqa: B023

            if name in ("var_mean", "std_mean"):
                mine = guarded(
                    lambda t: getattr(rushlight, name)(t, dims, **options),  # noqa: B023
                    x,
                )
                theirs = getattr(torch, name)(y, dims, **options)
            else:
                with np.errstate(all="ignore"):
                    mine, theirs = guarded(call, x), call(y)
            assert_same(mine, theirs, f"{name}({dims}, {options})")


@given(sources(), st.data())
@settings(max_examples=100, deadline=None)
def test_reductions_over_one_dimension_have_the_oracles_values(source, data):
    rank = len(source[0])
    dim = data.draw(st.integers(0, rank - 1)) if rank else 0
    x, y = built(rushlight, source), built(torch, source)
    for name in OVER_ONE:
        for keepdim in (False, True):

            def call(t):
                return getattr(t, name)(dim=dim, keepdim=keepdim)  # noqa: B023

            # 2.13's median of repeated elements reads elements that are not there.
            mine, theirs = guarded(call, x), call(y.contiguous())
            if name in ("median", "nanmedian", "mode", "max", "min"):
                assert_same(mine[0], theirs[0], name)  # equal elements: any position
                found = mine[1] if keepdim or not rank else mine[1].unsqueeze(dim)
                picked = x.gather(dim, found) if rank else x
                assert (picked.reshape(-1) == mine[0].reshape(-1)).all(), name
            else:
                assert_same(mine, theirs, f"{name}({dim}, {keepdim})")


@given(sources(), st.data())
@settings(max_examples=60, deadline=None)
def test_running_reductions_have_the_oracles_values(source, data):
    rank = len(source[0])
    dim = data.draw(st.integers(0, rank - 1)) if rank else 0
    x, y = built(rushlight, source), built(torch, source)
    for name in ALONG_ONE:
        if not rank and name == "flip":
            continue

        def call(t):
            return getattr(t, name)(dim)  # noqa: B023

        mine, theirs = guarded(call, x), call(y)
        if name == "sort":
            mine, theirs = mine[0], theirs[0]
        assert_same(mine, theirs, f"{name}({dim})")


@given(sources())
@settings(max_examples=60, deadline=None)
def test_reductions_of_everything_have_the_oracles_values(source):
    x, y = built(rushlight, source), built(torch, source)
    for name in ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        if name == "prod" and x.numel() > 20:
            continue  # overflows by one order of multiplying, not by another
        mine = guarded(lambda t: getattr(t, name)(), x)  # noqa: B023
        assert_same(mine, getattr(y, name)(), name)


@given(sources((1, 7)), st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_gradients_of_what_was_broadcast_are_summed_as_the_oracles_are(source, seed):
    draw = random.Random(seed)
    sizes, order, steps, _ = source
    shape = [sizes[d] for d in order]
    small = [1 if draw.random() < 0.5 else size for size in shape]
    small = small[draw.choice([0, 0, draw.randrange(len(small))]) :]
    gradients = []
    for framework in (rushlight, torch):
        x = built(framework, (sizes, order, steps, [1] * len(sizes)))
        y = framework.arange(math.prod(small)).reshape(small).float().requires_grad_()
        ((y * x) + y.expand(shape) * 2).sum().backward()
        gradients.append(y.grad)
    assert_same(*gradients, "gradient")


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("strides", [(1, 1, 9, 9, 3, 1), (5, 7, 1, 0, 2, 11)])
@pytest.mark.parametrize("name", ["sum", "mean", "std", "any", "all", "logsumexp"])
def test_nothing_is_reduced_whatever_the_strides_of_an_empty_tensor(name, strides):
    plain = rushlight.zeros(2, 3, 0, 2, 3, 3)
    strange = plain.as_strided(plain.shape, strides)
    for dim in ((2,), (2, 4), (0, 2, 5)):
        for keepdim in (False, True):
            expected = getattr(plain, name)(dim=dim, keepdim=keepdim)
            found = getattr(strange, name)(dim=dim, keepdim=keepdim)
            assert repr(found) == repr(expected)
            assert found.stride() == expected.stride()

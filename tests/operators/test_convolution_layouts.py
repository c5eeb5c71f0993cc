"""Results of convolutions lie in memory as PyTorch's do, sizes of one included."""

import random
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the oracle is not installed")

import rushlight  # noqa: E402

DRAWS = 150
DTYPES = ("float32", "float32", "float64", "complex64", "int64")


@pytest.fixture(autouse=True)
def on_one_thread():
    """PyTorch's choice among its kernels depends on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def order_of(rng, rank, channels):
    """Row-major, channels innermost, or any order of dimensions."""
    order = list(range(rank))
    choice = rng.random()
    if choice > 0.9:
        rng.shuffle(order)
    elif choice > 0.45:
        order.append(order.pop(channels))
    return order


def drawn(rng, dims, transposed):
    groups = rng.choice((1, 1, 2))
    inner, outer = groups * rng.choice((1, 2, 3)), groups * rng.choice((1, 2, 4))
    taps = [rng.choice((1, 1, 2, 3)) for _ in range(dims)]
    batch = [rng.choice((1, 2))] if rng.random() < 0.5 else []
    sizes = [*batch, inner, *[rng.choice((1, 3, 5)) for _ in range(dims)]]
    weight = [inner, outer // groups] if transposed else [outer, inner // groups]
    weight += taps
    orders = order_of(rng, len(sizes), len(batch)), order_of(rng, dims + 2, 1)
    settings = {
        "stride": rng.choice((1, 1, 2)),
        "padding": rng.choice((0, 1, 2)),
        "dilation": rng.choice((1, 1, 2)),
        "groups": groups,
    }
    return sizes, weight, orders, settings, rng.choice(DTYPES)


def strides(m, name, sizes, weight, orders, settings, dtype):
    x, w = (
        m.ones([shape[d] for d in order], dtype=getattr(m, dtype)).permute(
            [order.index(d) for d in range(len(order))]
        )
        for shape, order in zip((sizes, weight), orders, strict=True)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = getattr(m.nn.functional, name)(x, w, **settings)
    return tuple(result.shape), tuple(result.stride())


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "conv_transpose"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_strides_of_convolutions_are_pytorchs(dims, transposed):
    rng = random.Random(f"{dims}:{transposed}")
    name = f"conv{'_transpose' * transposed}{dims}d"
    seen = 0
    for _ in range(DRAWS):
        case = drawn(rng, dims, transposed)
        try:
            theirs = strides(torch, name, *case)
        except RuntimeError:  # a size that nothing is left of
            continue
        if 0 in theirs[0]:
            continue
        seen += 1
        assert strides(rushlight, name, *case) == theirs, case
    assert seen > DRAWS / 2

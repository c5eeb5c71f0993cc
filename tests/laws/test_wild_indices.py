"""Integers that are used as addresses are checked: a wild one is refused, never used."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.ops import call

torch = pytest.importorskip("torch", reason="the oracle is not installed")

LOWEST, HIGHEST = -(2**63), 2**63 - 1
WILD = (LOWEST, -(2**31) - 1, -6, -1, 5, 2**31, HIGHEST)
KINDS = ("int8", "uint8", "int16", "int32", "int64")


def outcome(call, module, functions, index, kind):
    """The class of the exception that a call with a wild index raises, or None."""
    indices = module.tensor([index, 1, 0]).to(getattr(module, kind))
    try:
        call(module, functions, indices)
    except Exception as error:
        return type(error).__name__
    return None


CALLS = {
    "embedding": lambda m, f, i: f.embedding(i, m.ones(5, 3)),
    "embedding_bag": lambda m, f, i: f.embedding_bag(i, m.ones(5, 3), m.tensor([0, 2])),
    "embedding_bag_max": lambda m, f, i: f.embedding_bag(
        i, m.ones(5, 3), m.tensor([0, 2]), mode="max"
    ),
    "nll_loss": lambda m, f, i: f.nll_loss(m.ones(3, 5), i),
    "nll_loss_each": lambda m, f, i: f.nll_loss(m.ones(3, 5), i, reduction="none"),
    "nll_loss_weighted": lambda m, f, i: f.nll_loss(m.ones(3, 5), i, m.ones(5)),
    "cross_entropy": lambda m, f, i: f.cross_entropy(m.ones(3, 5), i),
    "smoothed": lambda m, f, i: f.cross_entropy(m.ones(3, 5), i, label_smoothing=0.1),
    "multi_margin_loss": lambda m, f, i: f.multi_margin_loss(m.ones(3, 5), i),
    "one_hot": lambda m, f, i: f.one_hot(i, 5),
    "max_unpool1d": lambda m, f, i: f.max_unpool1d(m.ones(1, 3), i.reshape(1, 3), 1),
    "max_unpool2d": lambda m, f, i: f.max_unpool2d(
        m.ones(1, 1, 3), i.reshape(1, 1, 3), 1
    ),
    "max_unpool3d": lambda m, f, i: f.max_unpool3d(
        m.ones(1, 1, 1, 3), i.reshape(1, 1, 1, 3), 1
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_wild_indices_are_refused_as_the_oracle_refuses_them(name, kind):
    bits = rl.iinfo(getattr(rl, kind))
    for index in WILD:
        if not bits.min <= index <= bits.max:
            continue
        mine = outcome(CALLS[name], rl, F, index, kind)
        theirs = outcome(CALLS[name], torch, torch.nn.functional, index, kind)
        assert mine == theirs, f"{name} of {kind} {index}"


@pytest.mark.parametrize("index", WILD)
def test_backward_passes_refuse_indices_outside_of_their_tensors(index):
    x, grad = rl.ones(1, 1, 2, 2), rl.ones(1, 1, 1, 1)
    place = rl.full((1, 1, 1, 1), index)
    pools = (
        lambda: call.max_pool2d_with_indices_backward(
            grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, place
        ),
        lambda: call.adaptive_max_pool2d_backward(grad, x, place),
    )
    for backward in pools:
        with pytest.raises(RuntimeError, match="invalid max index"):
            backward()
    with pytest.raises(IndexError, match="out of bounds"):
        call.nll_loss_backward(
            rl.tensor(1.0), rl.ones(1, 5), rl.tensor([index]), None, 1, -100,
            rl.tensor(1.0),
        )  # fmt: skip
    for scaled in (False, True):
        with pytest.raises(IndexError, match="out of range"):
            call.embedding_dense_backward(
                rl.ones(1, 3), rl.tensor([index]), 5, 2, scaled
            )


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_places_of_another_dtype_are_refused_not_read(kind):
    x, grad = rl.ones(1, 1, 4, 4), rl.ones(1, 1, 2, 2)
    place = rl.zeros(1, 1, 2, 2, dtype=getattr(rl, kind))
    with pytest.raises(RuntimeError, match="dtype int64"):
        call.max_pool2d_with_indices_backward(
            grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, place
        )
    with pytest.raises(RuntimeError, match="dtype int64"):
        call.adaptive_max_pool2d_backward(grad, x, place)
    with pytest.raises(RuntimeError, match="should be type int64"):
        F.max_unpool2d(grad, place, 2)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "offsets", [[0, 2**40], [0, HIGHEST], [0, LOWEST], [0, -1], [2, 3], [0, 3, 1], [-1]]
)
def test_offsets_of_bags_that_lie_outside_are_refused_at_once(offsets, last):
    with pytest.raises(RuntimeError, match="offsets"):
        F.embedding_bag(
            rl.tensor([1, 2, 3, 4]), rl.ones(5, 3), rl.tensor(offsets),
            mode="sum", include_last_offset=last,
        )  # fmt: skip


def test_functions_that_trust_their_arguments_are_not_at_the_top_level():
    for name in (
        "embedding_dense_backward",
        "max_pool2d_with_indices_backward",
        "adaptive_max_pool2d_backward",
        "convolution_backward",
        "nll_loss_backward",
        "nll_loss_forward",
    ):
        assert not hasattr(rl, name), name


def test_gradients_of_a_convolution_must_have_its_shape_and_dtype():
    x, weight = rl.ones(2, 4, 6, 6), rl.ones(3, 4, 2, 2)
    settings = [3], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3
    for grad in (
        rl.ones(2, 3, 5, 4),
        rl.ones(2, 2, 5, 5),
        rl.ones(3, 5, 5),
        rl.ones(2, 3, 5, 5, dtype=rl.float64),
    ):
        with pytest.raises(RuntimeError):
            call.convolution_backward(grad, x, weight, *settings)

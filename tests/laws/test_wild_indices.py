"""Integers that are used as addresses are checked: a wild one is refused, never used."""

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.operators import call

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


def ones(*sizes, dtype=rl.float32):
    return rl.ones(*sizes, dtype=dtype)


def steps(states, gates, *flags):
    """Good arguments of one direction over six rows: three steps of two samples."""
    states = {f"state{at}": ones(2, 5) for at in range(states)}
    weights = {"w_ih": ones(5 * gates, 4), "w_hh": ones(5 * gates, 5)}
    biases = {"b_ih": ones(5 * gates), "b_hh": ones(5 * gates)}
    rest = {f"flag{at}": flag for at, flag in enumerate(flags)}
    given = {"input": ones(6, 4), **states, **weights, **biases}
    return {**given, "counts": [2, 2, 2], **rest}


def back(states, gates, kept, *between):
    """Good arguments of the way back through such a direction.

    Args:
        kept: what was kept for it, by name, and how many elements a state's has of each.
        between: what stands before the counts.
    """
    rows = {f"grad{at}": ones(6 if at == 0 else 2, 5) for at in range(1 + states)}
    given = steps(states, gates)
    counts = given.pop("counts")
    del given["b_ih"], given["b_hh"]
    more = {f"between{at}": each for at, each in enumerate(between)}
    there = {name: ones(6, 5 * wide) for name, wide in kept.items()}
    return {
        **rows,
        **given,
        **more,
        "counts": counts,
        "reverse": False,
        **there,
        "needs": 127,
    }


def resampled(first):
    return {
        **first, "sizes": [6, 7], "scales": [0.0, 0.0], "mode": "bilinear",
        "corners": False, "antialias": False,
    }  # fmt: skip


TRUSTING = {
    "_bag_sum": lambda: {
        "weight": ones(5, 4), "indices": rl.tensor([1, 4, 0]),
        "bounds": rl.tensor([0, 2, 3]),
    },
    "_lstm_sequence": lambda: steps(2, 4, False, True),
    "_gru_sequence": lambda: steps(1, 3, False, True),
    "_rnn_sequence": lambda: steps(1, 1, False, True, False),
    "_lstm_sequence_backward": lambda: back(2, 4, {"gates": 4, "cells": 1}),
    "_gru_sequence_backward": lambda: back(1, 3, {"states": 1, "gates": 4}),
    "_rnn_sequence_backward": lambda: back(1, 1, {"states": 1}, False),
    "_resample": lambda: resampled({"self": ones(1, 2, 4, 5)}),
    "_resample_backward": lambda: resampled(
        {"grad": ones(1, 2, 6, 7), "own": [1, 2, 4, 5]}
    ),
    "_pad_around": lambda: {
        "self": ones(1, 2, 4, 5), "pad": [1, 2, 1, 1], "mode": "reflect",
    },
    "_pad_around_backward": lambda: {
        "grad": ones(1, 2, 6, 8), "sizes": [1, 2, 4, 5], "pad": [1, 2, 1, 1],
        "mode": "reflect",
    },
    "native_layer_norm_backward": lambda: {
        "grad": ones(3, 4), "input": ones(3, 4), "shape": [4], "mean": ones(3, 1),
        "rstd": ones(3, 1), "weight": ones(4), "bias": ones(4), "mask": [True] * 3,
    },
    "native_group_norm_backward": lambda: {
        "grad": ones(2, 4, 3), "input": ones(2, 4, 3), "mean": ones(2, 2),
        "rstd": ones(2, 2), "weight": ones(4), "N": 2, "C": 4, "HxW": 3, "group": 2,
        "mask": [True] * 3,
    },
    "_ctc_loss_backward": lambda: {
        "grad": ones(2), "log_probs": -ones(5, 2, 4), "targets": rl.tensor([[1], [3]]),
        "inputs": [5, 5], "lengths": [1, 1], "loss": ones(2), "alpha": ones(2, 5, 3),
        "blank": 0,
    },
}  # fmt: skip
MISFITS = {
    "_bag_sum": [
        ("weight", ones(0, 4)), ("indices", ones(3)), ("indices", rl.tensor([[1]])),
        ("bounds", rl.tensor([0, 2, 3], dtype=rl.int32)),
        ("indices", rl.tensor([1, -5, 0])), ("indices", rl.tensor([1, 5, 0])),
    ],
    "_lstm_sequence": [("state1", ones(2, 4)), ("state1", ones(2, 5).double())],
    "_gru_sequence": [("w_hh", ones(20, 5)), ("w_ih", ones(0, 4))],
    "_rnn_sequence": [("w_hh", ones(5, 0)), ("b_ih", ones(10))],
    "_lstm_sequence_backward": [
        ("gates", ones(6, 5)), ("cells", ones(5, 5)), ("cells", ones(6, 5).double()),
        ("grad0", ones(2, 5)), ("grad1", ones(6, 5)), ("grad2", ones(2, 5).double()),
        ("state1", ones(2, 4)), ("input", ones(5, 4)), ("counts", [2, 2]),
    ],
    "_gru_sequence_backward": [
        ("gates", ones(6, 15)), ("states", ones(6, 4)), ("grad0", ones(6, 4)),
        ("w_hh", ones(20, 5)), ("counts", [3, 4, -1]),
    ],
    "_rnn_sequence_backward": [
        ("states", ones(2, 5)), ("grad1", ones(1, 5)), ("w_ih", ones(5, 9)),
        ("input", ones(6, 4).half()), ("counts", []),
    ],
    "_resample": [
        ("sizes", [6]), ("sizes", [6, -1]), ("sizes", [1, 1, 1, 1, 1]), ("scales", []),
        ("mode", "x"), ("self", ones(1, 2, 4, 5, dtype=rl.int64)),
    ],
    "_resample_backward": [
        ("grad", ones(1, 2, 6, 6)), ("own", [1, 2, 4]), ("own", [1, 2, 4, 0]),
        ("own", [1, 9, 4, 5]), ("scales", [0.0]), ("sizes", [6, 8]),
        ("grad", ones(1, 2, 6, 7, dtype=rl.int32)),
    ],
    "_pad_around": [
        ("pad", [1, 1, 1]), ("pad", []), ("pad", [1] * 10), ("pad", [5, 0]),
        ("pad", [-9, 0]), ("pad", [-100, 101]), ("pad", [2**62, 2**62]), ("mode", "x"),
    ],
    "_pad_around_backward": [
        ("grad", ones(1, 2, 6, 7)), ("sizes", [1, 2, 4, 6]), ("sizes", [4]),
        ("sizes", [1, 2, -4, 5]), ("pad", [1, 2, 2, 1, 1]), ("pad", [0, 3, 1, 9]),
    ],
    "native_layer_norm_backward": [
        ("grad", ones(3, 3)), ("mean", ones(0, 1)), ("rstd", ones(2, 1)),
        ("weight", ones(3)), ("shape", [5]),
    ],
    "native_group_norm_backward": [
        ("grad", ones(0, 4, 3)), ("mean", ones(2, 1)), ("rstd", ones(1, 2)),
        ("weight", ones(2)), ("N", 3), ("N", -2), ("group", 0), ("group", 3),
        ("group", 2**40),
    ],
    "_ctc_loss_backward": [
        ("grad", ones(1)), ("loss", ones(2).double()), ("alpha", ones(2, 5, 1)),
        ("alpha", ones(1, 5, 3)), ("blank", 4), ("blank", -1), ("lengths", [2, 1]),
        ("targets", rl.tensor([[1], [4]])), ("targets", rl.tensor([[-1], [0]])),
    ],
}  # fmt: skip
EVERY_DIRECTION = [
    ("input", ones(2, 3, 4)), ("input", ones(6, 3)), ("input", ones(6, 4).double()),
    ("input", ones(6, 4).half()), ("state0", ones(1, 5)), ("w_ih", ones(5, 9)),
    ("b_hh", ones(4)), ("counts", [2, 2]), ("counts", [3, 4, -1]), ("counts", []),
]  # fmt: skip


@pytest.mark.parametrize("name", TRUSTING)
def test_operators_called_by_their_own_names_refuse_what_does_not_fit(name):
    getattr(call, name)(*TRUSTING[name]().values())
    misfits = MISFITS[name] + EVERY_DIRECTION * name.endswith("_sequence")
    for operand, wrong in misfits:
        given = TRUSTING[name]()
        assert operand in given
        given[operand] = wrong
        with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
            getattr(call, name)(*given.values())


def test_scales_that_are_next_to_nothing_name_elements_that_are_there():
    for mode in ("nearest", "bilinear", "bicubic"):
        x = rl.arange(20.0).reshape(1, 1, 4, 5)
        made = call._resample(x, [6, 7], [1e-320, 1e-30], mode, False, False)
        assert made.shape == (1, 1, 6, 7)
    made = call._resample(x, [6, 7], [1e-30, 1e-30], "bilinear", False, True)
    assert made.shape == (1, 1, 6, 7)


@pytest.mark.parametrize("told", [{"lengths": [2, 4]}, {"offsets": [0, 2, 6]}])
def test_gradients_of_stretches_are_as_many_as_stretches(told):
    told = {name: rl.tensor(values) for name, values in told.items()}
    whole, x = ones(2, 3), ones(6, 3)
    call._segment_reduce_backward(whole, whole, x, "max", **told)
    for wrong in (ones(0, 3), ones(2, 2), ones(3, 3), whole.double()):
        for given in ((wrong, whole), (whole, wrong)):
            with pytest.raises(RuntimeError, match="_segment_reduce_backward"):
                call._segment_reduce_backward(*given, x, "max", **told)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0)])
def test_masked_indices_read_nothing_of_nothing(sizes):
    def outcome(m):
        x, mask = m.empty(sizes), m.tensor([[True, False]] * 3)
        indices = [m.tensor([[9], [-3], [0]]), m.tensor([[1, 7]])]
        taken = m.ops.aten._unsafe_masked_index(x, mask, indices, 2.0)
        added = m.ops.aten._unsafe_masked_index_put_accumulate(
            x, mask, indices, m.ones(3, 2)
        )
        return taken.tolist(), tuple(added.shape)

    assert outcome(rl) == outcome(torch)

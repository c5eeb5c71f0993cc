"""NumPy's integers, the small ones too, are counts and places where Python's are."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")

BOTH = (torch, rushlight)
CALLS = {
    "attention": lambda m, i: (
        (m.nn.MultiheadAttention(i(4), i(2))(*[m.ones(200, 2, 4)] * 3))[0].shape
    ),
    "encoder layer": lambda m, i: (
        m.nn.TransformerEncoderLayer(i(4), i(2), i(8))(m.ones(2, 2, 4)).shape
    ),
    "embedding": lambda m, i: m.nn.Embedding(i(3), i(2), padding_idx=i(1)).weight[1],
    "bag": lambda m, i: m.nn.EmbeddingBag(i(3), i(2), padding_idx=i(0)).weight[0],
    "convolution": lambda m, i: (
        m.nn.Conv2d(i(2), i(4), i(3), padding=i(1), groups=i(2))(
            m.ones(1, 2, 5, 5)
        ).shape
    ),
    "norm": lambda m, i: m.nn.GroupNorm(i(2), i(4))(m.ones(1, 4, 2)).shape,
    "pool": lambda m, i: m.nn.MaxPool2d(i(2), i(1))(m.ones(1, 4, 4)).shape,
    "shuffle": lambda m, i: m.nn.PixelShuffle(i(2))(m.ones(1, 4, 2, 2)).shape,
    "seed": lambda m, i: m.manual_seed(i(3)).initial_seed(),
    "padded": lambda m, i: m.nn.functional.pad(m.ones(2), (i(1), i(1))).shape,
}


@pytest.mark.parametrize("name", CALLS)
def test_counts_of_numpy_are_pythons(name):
    call = CALLS[name]
    for kind in (np.int64, np.int32, np.uint8):
        results = [str(call(m, kind)).replace("rushlight", "torch") for m in BOTH]
        assert results[0] == results[1] == str(call(torch, int))


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def test_a_generator_is_not_seeded_by_what_is_no_integer():
    for value in (2.5, "1", None, True, np.float32(2)):
        for call in (
            lambda m, v=value: m.Generator().manual_seed(v).initial_seed(),
            lambda m, v=value: m.set_num_threads(v),
            lambda m, v=value: m.manual_seed(v).initial_seed(),
        ):
            theirs, ours = (outcome(lambda m=m, c=call: c(m)) for m in BOTH)
            assert ours == theirs

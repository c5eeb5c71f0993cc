"""Functions without a module of their own, against the oracle."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from tests.nn.conftest import from_oracle


def both(torch, name, *args, **options):
    """What a function gives here and in the oracle."""
    theirs = getattr(torch.nn.functional, name)(*args, **options)
    here = [
        from_oracle(each) if isinstance(each, torch.Tensor) else each for each in args
    ]
    return getattr(F, name)(*here, **options), theirs


def assert_same(torch, ours, theirs):
    torch.testing.assert_close(
        torch.tensor(ours.tolist(), dtype=theirs.dtype), theirs, rtol=1e-5, atol=1e-5
    )


CALLS = [
    ("one_hot", lambda t: (t.tensor([[0, 3], [1, 2]]),), {}),
    ("one_hot", lambda t: (t.tensor([0, 1]),), {"num_classes": 5}),
    ("normalize", lambda t: (t.randn(3, 4),), {}),
    ("normalize", lambda t: (t.randn(3, 4),), {"p": 1, "dim": 0}),
    ("pad", lambda t: (t.randn(2, 3), (1, 2, 0, 1)), {"value": 2.5}),
    ("pad", lambda t: (t.randn(2, 3), (-1, 1)), {}),
    ("pad", lambda t: (t.randn(1, 2, 3, 3), (1, 1, 2, 0)), {"mode": "reflect"}),
    ("pad", lambda t: (t.randn(1, 2, 3), (2, 3)), {"mode": "circular"}),
    ("interpolate", lambda t: (t.randn(1, 2, 4),), {"size": 7, "mode": "linear"}),
    (
        "interpolate",
        lambda t: (t.randn(1, 2, 4, 4),),
        {"scale_factor": (0.5, 1.5), "mode": "bilinear"},
    ),
    (
        "interpolate",
        lambda t: (t.randn(1, 2, 4, 4),),
        {"size": (3, 9), "mode": "bicubic", "align_corners": True},
    ),
    ("interpolate", lambda t: (t.randn(1, 2, 5, 5),), {"size": 2, "mode": "area"}),
    (
        "interpolate",
        lambda t: (t.randn(1, 2, 5),),
        {"scale_factor": 1.7, "mode": "nearest-exact"},
    ),
    (
        "interpolate",
        lambda t: (t.randn(1, 1, 2, 3, 3),),
        {"scale_factor": 2, "mode": "trilinear"},
    ),
    (
        "scaled_dot_product_attention",
        lambda t: (t.randn(2, 4, 6), t.randn(2, 5, 6), t.randn(2, 5, 3)),
        {},
    ),
    (
        "scaled_dot_product_attention",
        lambda t: (t.randn(2, 5, 6), t.randn(2, 5, 6), t.randn(2, 5, 6)),
        {"is_causal": True, "scale": 0.5},
    ),
    ("softmin", lambda t: (t.randn(3, 4),), {"dim": 1}),
    ("rms_norm", lambda t: (t.randn(3, 4), (4,)), {}),
    ("cosine_similarity", lambda t: (t.randn(3, 4), t.randn(4)), {"dim": -1}),
]


@pytest.mark.parametrize("name, make, options", CALLS, ids=str)
def test_function_equals_the_oracle(torch, name, make, options):
    torch.manual_seed(6)
    ours, theirs = both(torch, name, *make(torch), **options)
    assert_same(torch, ours, theirs)


def test_random_choices_follow_the_oracles_stream(torch):
    logits = torch.randn(4, 5)
    rl.manual_seed(3)
    ours = F.gumbel_softmax(from_oracle(logits), tau=0.7)
    torch.manual_seed(3)
    theirs = torch.nn.functional.gumbel_softmax(logits, tau=0.7)
    assert_same(torch, ours, theirs)
    hard = F.gumbel_softmax(from_oracle(logits), hard=True)
    assert hard.sum(-1).tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "name, make, options",
    [
        ("dropout", lambda t: (t.ones(2),), {"p": 1.5}),
        ("dropout1d", lambda t: (t.ones(2),), {}),
        ("hardtanh", lambda t: (t.ones(2),), {"min_val": 2.0, "max_val": 1.0}),
        ("batch_norm", lambda t: (t.ones(1, 3), None, None), {"training": True}),
        (
            "batch_norm",
            lambda t: (t.ones(2, 3), None, None),
            {"training": True, "eps": 0.0},
        ),
        ("instance_norm", lambda t: (t.ones(2, 3, 1),), {}),
        ("group_norm", lambda t: (t.ones(2), 1), {}),
        ("embedding", lambda t: (t.tensor([1]), t.ones(2, 2)), {"padding_idx": 5}),
        ("embedding_bag", lambda t: (t.tensor([1]), t.ones(2, 2)), {}),
        (
            "embedding_bag",
            lambda t: (t.tensor([[1]]), t.ones(2, 2)),
            {"mode": "median"},
        ),
        ("interpolate", lambda t: (t.ones(1, 1, 4),), {}),
        ("interpolate", lambda t: (t.ones(1, 1, 4),), {"size": 3, "mode": "bilinear"}),
        ("one_hot", lambda t: (t.tensor([3]),), {"num_classes": 2}),
        ("one_hot", lambda t: (t.tensor([-1]),), {}),
        (
            "triplet_margin_loss",
            lambda t: (t.ones(2), t.ones(2), t.ones(2)),
            {"margin": -1.0},
        ),
        (
            "cross_entropy",
            lambda t: (t.ones(2, 3), t.tensor([0, 1])),
            {"reduction": "average"},
        ),
    ],
    ids=str,
)
def test_misuse_is_refused_in_the_oracles_words(torch, name, make, options):
    args = make(torch)
    with pytest.raises(Exception) as expected:
        getattr(torch.nn.functional, name)(*args, **options)
    here = [
        from_oracle(each) if isinstance(each, torch.Tensor) else each for each in args
    ]
    with pytest.raises(Exception) as found:
        getattr(F, name)(*here, **options)
    assert type(found.value) is type(expected.value)
    text = str(expected.value).replace("torch.Size", "rushlight.Size")
    assert str(found.value) == text


def test_an_implied_dimension_is_warned_of():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        F.softmax(rl.ones(2, 2))


def test_every_listed_name_is_there():
    assert sorted(F.__all__) == F.__all__
    assert all(callable(getattr(F, name)) for name in F.__all__)
    assert F.gelu(rl.zeros(1)).tolist() == [0.0]

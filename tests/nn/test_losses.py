"""Every loss against the oracle, and the words of its refusals."""

from __future__ import annotations

import pytest


def _logits(torch, *shape):
    return 2 * torch.randn(shape)


def _classes(torch, high, *shape):
    return torch.randint(0, high, shape)


LOSSES = [
    ("L1Loss", {}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3))),
    ("MSELoss", {}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3))),
    ("SmoothL1Loss", {"beta": 0.5}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3))),
    ("SmoothL1Loss", {"beta": 0.0}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3))),
    ("HuberLoss", {"delta": 0.7}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3))),
    ("CrossEntropyLoss", {}, lambda t: (_logits(t, 5, 4), _classes(t, 4, 5))),
    (
        "CrossEntropyLoss",
        {"label_smoothing": 0.1, "ignore_index": 2},
        lambda t: (_logits(t, 5, 4), _classes(t, 4, 5)),
    ),
    ("CrossEntropyLoss", {}, lambda t: (_logits(t, 2, 4, 3), _classes(t, 4, 2, 3))),
    (
        "CrossEntropyLoss",
        {"label_smoothing": 0.2},
        lambda t: (_logits(t, 5, 4), _logits(t, 5, 4).softmax(1)),
    ),
    (
        "NLLLoss",
        {"ignore_index": 1},
        lambda t: (_logits(t, 5, 4).log_softmax(1), _classes(t, 4, 5)),
    ),
    (
        "NLLLoss",
        {},
        lambda t: (_logits(t, 2, 4, 3).log_softmax(1), _classes(t, 4, 2, 3)),
    ),
    ("BCELoss", {}, lambda t: (t.rand(4, 3), t.rand(4, 3))),
    ("BCEWithLogitsLoss", {}, lambda t: (_logits(t, 4, 3), t.rand(4, 3))),
    ("KLDivLoss", {}, lambda t: (_logits(t, 4, 3).log_softmax(1), t.rand(4, 3))),
    (
        "KLDivLoss",
        {"log_target": True},
        lambda t: (_logits(t, 4, 3).log_softmax(1), t.rand(4, 3).log()),
    ),
    (
        "PoissonNLLLoss",
        {"full": True},
        lambda t: (_logits(t, 4, 3), 3 * t.rand(4, 3) + 0.1),
    ),
    ("PoissonNLLLoss", {"log_input": False}, lambda t: (t.rand(4, 3), t.rand(4, 3))),
    (
        "GaussianNLLLoss",
        {"full": True},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), t.rand(4, 3)),
    ),
    ("GaussianNLLLoss", {}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), t.rand(4))),
    ("SoftMarginLoss", {}, lambda t: (_logits(t, 4, 3), _logits(t, 4, 3).sign())),
    (
        "HingeEmbeddingLoss",
        {"margin": 0.8},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3).sign()),
    ),
    (
        "MarginRankingLoss",
        {"margin": 0.3},
        lambda t: (_logits(t, 4), _logits(t, 4), _logits(t, 4).sign()),
    ),
    (
        "CosineEmbeddingLoss",
        {"margin": 0.1},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), _logits(t, 4).sign()),
    ),
    (
        "MultiMarginLoss",
        {"p": 2, "margin": 0.5},
        lambda t: (_logits(t, 5, 4), _classes(t, 4, 5)),
    ),
    ("MultiMarginLoss", {}, lambda t: (_logits(t, 4), _classes(t, 4))),
    (
        "MultiLabelMarginLoss",
        {},
        lambda t: (_logits(t, 2, 4), t.tensor([[3, 0, -1, 1], [1, -1, 2, 0]])),
    ),
    (
        "MultiLabelSoftMarginLoss",
        {},
        lambda t: (_logits(t, 4, 3), (t.rand(4, 3) > 0.5).float()),
    ),
    (
        "TripletMarginLoss",
        {"swap": True},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), _logits(t, 4, 3)),
    ),
    (
        "TripletMarginLoss",
        {"p": 1},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), _logits(t, 4, 3)),
    ),
    (
        "TripletMarginWithDistanceLoss",
        {"margin": 0.5},
        lambda t: (_logits(t, 4, 3), _logits(t, 4, 3), _logits(t, 4, 3)),
    ),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name, options, make", LOSSES, ids=str)
def test_loss_equals_the_oracle(torch, pair, name, options, make, reduction):
    both = pair(name, **options, reduction=reduction)
    both.assert_same_text_and_state()
    torch.manual_seed(4)
    # The oracle has no gradient for this target.
    leaves = 1 if name == "SoftMarginLoss" else None
    both.assert_same_results(*make(torch), leaves=leaves)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"])
def test_class_weights_count(torch, pair, name, reduction):
    both = pair(name, weight=torch.tensor([0.2, 1.0, 3.0]), reduction=reduction)
    both.assert_same_text_and_state()
    both.assert_same_results(torch.randn(5, 3), torch.tensor([0, 1, 2, 2, 0]))


def test_element_weights_count(torch, pair):
    weight, scale = torch.rand(4, 3), torch.rand(3)
    pair("BCELoss", weight=weight).assert_same_results(
        torch.rand(4, 3), torch.rand(4, 3)
    )
    pair("BCEWithLogitsLoss", weight=weight, pos_weight=scale).assert_same_results(
        torch.randn(4, 3), torch.rand(4, 3)
    )


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_functional_losses_take_weights(torch, name):
    import rushlight.nn.functional as F
    from tests.nn.conftest import from_oracle

    values = [torch.randn(4, 3) for _ in range(2)] + [torch.rand(4, 3)]
    for reduction in ("mean", "sum", "none"):
        theirs = getattr(torch.nn.functional, name)(
            *values[:2], weight=values[2], reduction=reduction
        )
        ours = getattr(F, name)(
            *map(from_oracle, values[:2]),
            weight=from_oracle(values[2]),
            reduction=reduction,
        )
        torch.testing.assert_close(torch.tensor(ours.tolist()), theirs)


def test_batchmean_divides_by_the_batch_alone(torch, pair):
    both = pair("KLDivLoss", reduction="batchmean")
    both.assert_same_results(torch.randn(4, 3).log_softmax(1), torch.rand(4, 3))


def _refusal(module, *args):
    with pytest.raises(Exception) as caught:
        module(*args)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "name, options, shapes",
    [
        ("BCELoss", {}, [(3,), (4,)]),
        ("BCEWithLogitsLoss", {}, [(3,), (4,)]),
        ("MSELoss", {"reduction": "average"}, [(3,), (3,)]),
        ("MarginRankingLoss", {}, [(3,), (3,), (3, 1)]),
        ("CosineEmbeddingLoss", {}, [(3,), (3,), (3,)]),
        ("GaussianNLLLoss", {}, [(4, 3), (4, 3), (3, 3)]),
    ],
    ids=str,
)
def test_bad_shapes_are_refused_in_the_oracles_words(
    torch, pair, name, options, shapes
):
    both = pair(name, **options)
    values = [torch.rand(shape) for shape in shapes]
    kind, text = _refusal(both.theirs, *values)
    found, words = _refusal(both.ours, *map(both.here, values))
    assert found is kind
    assert words == text.replace("torch.Size", "rushlight.Size")


def test_different_sizes_are_warned_of(torch, pair):
    both = pair("MSELoss")
    with pytest.warns(UserWarning, match="Using a target size .* that is different"):
        both.ours(both.here(torch.rand(3, 1)), both.here(torch.rand(3)))


def test_the_older_reduction_flags_still_work_and_warn(pair):
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        both = pair("MSELoss", size_average=False)
    assert both.ours.reduction == both.theirs.reduction == "sum"

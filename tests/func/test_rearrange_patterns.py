"""Patterns of ``rearrange`` give PyTorch's elements, or are refused as there."""

import warnings

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl
from rushlight.func._axes import rearrange

PATTERNS = (
    ("a b -> b a", (2, 3), {}),
    ("a b c -> c (a b)", (2, 3, 4), {}),
    ("a b c -> (c b) a", (2, 3, 4), {}),
    ("a (b c) -> b a c", (2, 6), {"b": 2}),
    ("a (b c) -> b a c", (2, 6), {"c": 2}),
    ("a (b c) -> c (b a)", (2, 6), {"b": 2, "c": 3}),
    ("(a b) (c d) -> a c (b d)", (6, 4), {"a": 2, "d": 2}),
    ("a b -> a 1 b", (2, 3), {}),
    ("a 1 b -> b a", (2, 1, 3), {}),
    ("a b -> 1 (a b) 1", (2, 3), {}),
    ("a (b 1) -> b a", (2, 3), {}),
    ("... a -> a ...", (2, 3, 4), {}),
    ("a ... -> ... a", (2, 3, 4), {}),
    ("a ... b -> b ... a", (2, 3, 4, 5), {}),
    ("a ... b -> (a b) ...", (2, 3, 4), {}),
    ("a ... b -> a (... b)", (2, 3, 4, 5), {}),
    ("a ... b -> a (... b)", (2, 3), {}),
    ("(a b) ... -> a b ...", (6, 2), {"b": 3}),
    ("... -> ...", (2, 3), {}),
    ("... -> (...)", (2, 3), {}),
    ("a (b c) d -> (a d) c b", (2, 6, 2), {"b": 3}),
    ("a0 _b -> _b a0", (2, 3), {}),
    # wrong ones
    ("a b - > b a", (2, 3), {}),
    ("a b", (2, 3), {}),
    ("a -> a -> a", (2,), {}),
    ("a b -> b", (2, 3), {}),
    ("a b -> a b c", (2, 3), {}),
    ("a a -> a", (2, 2), {}),
    ("a b c -> c b a", (2, 3), {}),
    ("a -> a", (2, 3), {}),
    ("(a b -> a b", (6,), {"a": 2}),
    ("a b) -> a b", (6,), {"a": 2}),
    ("((a b)) -> a b", (6,), {"a": 2}),
    ("(a b) -> a b", (6,), {}),
    ("(a b) -> a b", (6,), {"a": 4}),
    ("(a b) -> a b", (6,), {"a": 2, "b": 2}),
    ("a b -> b a", (2, 3), {"a": 3}),
    ("a 2b -> a 2b", (2, 3), {}),
    ("a b -> a b", (2, 3), {"c": 2}),
    ("... a ... -> a", (2, 3), {}),
)


def outcome(function, tensor, pattern, sizes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(tensor, pattern, **sizes)
        except Exception:
            return "refused"
    return tuple(result.shape), result.reshape(-1).tolist()


def test_a_pattern_gives_the_elements_that_pytorch_gives():
    oracle = pytest.importorskip("functorch.einops.rearrange").rearrange
    for pattern, shape, sizes in PATTERNS:
        count = torch.Size(shape).numel()
        theirs = outcome(oracle, torch.arange(count).reshape(shape), pattern, sizes)
        ours = outcome(rearrange, rl.arange(count).reshape(shape), pattern, sizes)
        assert ours == theirs, pattern


def test_what_is_refused_says_what_is_wrong():
    x = rl.zeros(2, 6)
    for pattern, sizes, words in (
        ("a b", {}, "single '->'"),
        ("a b -> a c", {}, "only on one side"),
        ("a (b -> a b", {}, "brackets are not balanced"),
        ("a b) -> a b", {}, "brackets are not balanced"),
        ("a ((b)) -> a b", {}, "brackets are not balanced"),
        ("a b c -> a b c", {}, r"in pattern \(3\) and tensor \(2\)"),
        ("a a -> a", {}, "duplicate dimension 'a'"),
        ("a 2b -> a 2b", {}, "Invalid axis identifier: '2b'"),
        ("a (b c) -> a b c", {}, "two dimensions at once b and c"),
        ("a (b c) -> a b c", {"b": 4}, "a size of 6 is no multiple of 4"),
        ("1 a -> a", {}, "a dimension of size 2 is written as 1"),
    ):
        with pytest.raises(ValueError, match=words):
            rearrange(x, pattern, **sizes)


def test_several_tensors_are_stacked_first():
    parts = [rl.arange(3), rl.arange(3) + 3]
    assert rearrange(parts, "n a -> a n").tolist() == [[0, 3], [1, 4], [2, 5]]

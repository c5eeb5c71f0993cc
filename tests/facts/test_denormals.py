"""Numbers below the normal range are zero where a program asks for it, as in PyTorch."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def small(lib):
    """Results that are below the normal range, and one made of operands that are."""
    return [
        (lib.tensor([1e-310, 2.0], dtype=lib.float64) * 1).tolist(),
        (lib.tensor([1e-40, 2.0]) * 0.5).tolist(),
        (lib.tensor([1e-30, 1e-20]) * 1e-12).tolist(),
        lib.full((17,), 1e-40).sum().item(),
    ]


def test_flushed_numbers_are_zero_until_they_are_not():
    kept = small(rl)
    assert kept == small(torch) and kept[0][0] > 0
    supported = rl.set_flush_denormal(True)
    try:
        flushed, theirs = small(rl), small(torch)
    finally:
        assert rl.set_flush_denormal(False) is supported
    assert supported is torch.set_flush_denormal(False)
    if supported:
        assert flushed == theirs and flushed[0] == [0.0, 2.0]
    assert small(rl) == kept


def test_the_mode_is_a_truth_value():
    for wrong in (1, "a", None):
        with pytest.raises(RuntimeError, match="expects a bool"):
            rl.set_flush_denormal(wrong)

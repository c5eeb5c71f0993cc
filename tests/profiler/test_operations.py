"""Floating-point operations of a profile are PyTorch's, however an operator is made."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def programs(lib):
    """Products, convolutions and layers, and their gradients."""
    nn, F = lib.nn, lib.nn.functional
    x, b, image = lib.ones(4, 6), lib.ones(2, 3, 5), lib.ones(2, 3, 8, 8)
    w, bias, taps = lib.ones(5, 6), lib.ones(5), lib.ones(4, 3, 3, 3)
    sequence = lib.ones(2, 3, 8)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    wanting = lambda t: t.clone().requires_grad_()  # noqa: E731
    return {
        "linear": lambda: F.linear(x, w, bias),
        "linear without bias": lambda: F.linear(x, w),
        "linear of a batch": lambda: F.linear(b, lib.ones(4, 5), lib.ones(4)),
        "linear of a vector": lambda: F.linear(lib.ones(6), w, bias),
        "matrices": lambda: x @ lib.ones(6, 2),
        "batches": lambda: b @ lib.ones(2, 5, 4),
        "a batch and a matrix": lambda: b @ lib.ones(5, 4),
        "a matrix and a vector": lambda: x @ lib.ones(6),
        "einsum": lambda: lib.einsum("bij,bjk->bik", b, lib.ones(2, 5, 4)),
        "tensordot": lambda: lib.tensordot(b, lib.ones(5, 4), 1),
        "addmm": lambda: lib.addmm(lib.ones(4, 2), x, lib.ones(6, 2)),
        "baddbmm": lambda: lib.baddbmm(lib.ones(2, 3, 4), b, lib.ones(2, 5, 4)),
        "conv1d": lambda: F.conv1d(lib.ones(2, 3, 8), lib.ones(4, 3, 3)),
        "conv2d": lambda: F.conv2d(image, taps, padding=1, stride=2, dilation=2),
        "conv2d in groups": lambda: F.conv2d(image, lib.ones(3, 1, 3, 3), groups=3),
        "sums and products": lambda: [x + 1, 1 + x, x * x, x - x, lib.ones(6) + x],
        "in place": lambda: [x.clone().add_(x), x.clone().mul_(2)],
        "attention": lambda: attention(sequence, sequence, sequence),
        "gradients of linear": lambda: (
            F.linear(wanting(x), wanting(w)).sum().backward()
        ),
        "gradients of matrices": lambda: (wanting(b) @ wanting(b.mT)).sum().backward(),
        "gradients of products": lambda: (wanting(x) * x).sum().backward(),
    }


def counted(lib):
    found = {}
    for name, program in programs(lib).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with lib.profiler.profile(with_flops=True) as prof:
                program()
        found[name] = sum(event.flops or 0 for event in prof.events())
    return found


def test_operations_of_programs_are_pytorchs():
    ours, theirs = counted(rl), counted(torch)
    assert ours == theirs
    assert ours["linear"] == 2 * 4 * 6 * 5


def test_operations_of_recurrent_layers_are_those_of_their_products():
    for kind, gates in ((rl.nn.RNN, 1), (rl.nn.GRU, 3), (rl.nn.LSTM, 4)):
        layer, x = kind(5, 4), rl.ones(2, 3, 5)
        with rl.profiler.profile(with_flops=True) as prof:
            layer(x)
        found = sum(event.flops or 0 for event in prof.events())
        assert found == 2 * (2 * 3) * (5 + 4) * 4 * gates, kind

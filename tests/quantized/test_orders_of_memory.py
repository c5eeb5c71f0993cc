"""Quantized results lie in rows, or channels last as their operand; in no other order."""

from __future__ import annotations

import math

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")

ORDERS = {
    "turned volumes": lambda m: numbers(m, 2, 3, 4).permute(2, 0, 1),
    "turned matrices": lambda m: numbers(m, 2, 3).t(),
    "turned images": lambda m: numbers(m, 2, 3, 4, 5).permute(3, 0, 2, 1),
    "channels last": lambda m: numbers(m, 2, 3, 4, 5).contiguous(
        memory_format=m.channels_last
    ),
    "every second": lambda m: numbers(m, 4, 6)[:, ::2],
    "one row for all": lambda m: numbers(m, 1, 3).expand(4, 3),
}
CALLS = {
    "quantize_per_tensor": lambda m, x, q: m.quantize_per_tensor(x, 0.1, 3, m.qint32),
    "quantize_per_channel": lambda m, x, q: m.quantize_per_channel(
        x, m.ones(x.shape[1]), m.zeros(x.shape[1], dtype=m.long), 1, m.quint8
    ),
    "dequantize": lambda m, x, q: q.dequantize(),
    "int_repr": lambda m, x, q: q.int_repr(),
    "clone": lambda m, x, q: q.clone(),
    "empty_like": lambda m, x, q: m.empty_like(q),
    "relu": lambda m, x, q: m.relu(q),
    "clamp": lambda m, x, q: m.clamp(q, 0, 1),
    "sigmoid": lambda m, x, q: m.sigmoid(q),
    "hardtanh": lambda m, x, q: m.nn.functional.hardtanh(q),
    "add": lambda m, x, q: m.ops.quantized.add(q, q, 0.1, 2),
    "mul": lambda m, x, q: m.ops.quantized.mul(q, q, 0.1, 2),
}


def numbers(m, *sizes):
    return m.arange(float(math.prod(sizes))).reshape(sizes) / 10


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CALLS)
def test_quantized_results_lie_as_pytorchs(order, name):
    found = []
    for m in (rl, torch):
        x = ORDERS[order](m)
        y = CALLS[name](m, x, m.quantize_per_tensor(x, 0.1, 3, m.quint8))
        values = (y.dequantize() if y.is_quantized else y).tolist()
        found.append((y.stride(), None if name == "empty_like" else values))
    assert found[0] == found[1]

"""How many samples of sparse, nested and quantized tensors end as on PyTorch.

python -m tests.layout_samples             # all three
python -m tests.layout_samples quantized   # one

Sparse and nested samples are those of PyTorch's operator database, of which it has none of
quantized tensors: there the operators that quantized models are made of stand in, with the
types, scales and sizes below. What PyTorch refuses is no sample. The command fails below 95 %.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from functools import partial

import torch

import rushlight as rl
from tests.operators import oracle_layouts
from tests.quantized.sides import both, both_by_channel, difference

LEAST = 0.95
EACH = 24  # samples of an operator and a layout
SHAPES = (2, 6, 9, 7), (1, 3, 8, 8), (4, 5), (3, 4, 6), (2, 3, 4, 5, 6)
SCALES = (0.05, 120), (0.31, 0), (1.7, 7)
DTYPES = "quint8", "qint8"

F = {library: library.nn.functional for library in (rl, torch)}
UNARY = {
    "int_repr": lambda t, x: x.int_repr(),
    "dequantize": lambda t, x: x.dequantize(),
    "relu": lambda t, x: t.relu(x),
    "relu6": lambda t, x: F[t].relu6(x),
    "hardtanh": lambda t, x: F[t].hardtanh(x, -1.5, 1.5),
    "clamp": lambda t, x: t.clamp(x, -1.0, 2.0),
    "sigmoid": lambda t, x: t.sigmoid(x),
    "tanh": lambda t, x: t.tanh(x),
    "leaky_relu": lambda t, x: F[t].leaky_relu(x, 0.1),
    "elu": lambda t, x: t.ops.quantized.elu(x, 0.1, 3, 1.0),
    "hardswish": lambda t, x: t.ops.quantized.hardswish(x, 0.1, 3),
    "softmax": lambda t, x: t.ops.quantized.softmax(x, -1, 0.01, 0),
    "layer_norm": lambda t, x: t.ops.quantized.layer_norm(
        x, list(x.shape[1:]), None, None, 1e-5, 0.05, 100
    ),
    "batch_norm": lambda t, x: t.ops.quantized.batch_norm(
        x, *[t.linspace(0.5, 1.5, x.shape[1])] * 4, 1e-5, 0.05, 100
    ),
    "add": lambda t, x: t.ops.quantized.add(x, x, 0.2, 10),
    "add_relu": lambda t, x: t.ops.quantized.add_relu(x, x, 0.2, 10),
    "add_scalar": lambda t, x: t.ops.quantized.add_scalar(x, 0.7),
    "mul": lambda t, x: t.ops.quantized.mul(x, x, 0.2, 10),
    "mul_scalar": lambda t, x: t.ops.quantized.mul_scalar(x, 0.7),
    "cat": lambda t, x: t.ops.quantized.cat([x, x], 1, 0.2, 10),
    "cat as it is": lambda t, x: t.cat([x, x], 0),
    "max_pool1d": lambda t, x: F[t].max_pool1d(x, 2),
    "max_pool2d": lambda t, x: F[t].max_pool2d(x, 3, 2, 1),
    "avg_pool2d": lambda t, x: F[t].avg_pool2d(x, 2),
    "avg_pool3d": lambda t, x: F[t].avg_pool3d(x, 2),
    "adaptive_avg_pool2d": lambda t, x: F[t].adaptive_avg_pool2d(x, (2, 3)),
    "interpolate": lambda t, x: F[t].interpolate(x, scale_factor=2),
    "mean": lambda t, x: x.mean([1]),
    "max": lambda t, x: x.max(),
    "sort": lambda t, x: t.sort(x, -1)[0],
    "topk": lambda t, x: t.topk(x, 2, -1)[0],
    "index": lambda t, x: x[0],
    "slice": lambda t, x: x[:, 1:3],
    "view": lambda t, x: x.view(-1),
    "transpose": lambda t, x: x.transpose(0, 1).contiguous(),
    "clone": lambda t, x: x.clone(),
    "flip": lambda t, x: x.flip(0),
    "unsqueeze": lambda t, x: x.unsqueeze(1),
}


def quantized_conv(t, x, weight, dims, groups=1):
    """A convolution with packed weights."""
    pad, step = [1] * dims, [1] * dims
    name = f"conv{dims}d"
    prepack = getattr(t.ops.quantized, f"{name}_prepack")
    packed = prepack(
        weight, t.linspace(-1, 1, weight.shape[0]), step, pad, step, groups
    )
    return getattr(t.ops.quantized, name)(x, packed, 0.3, 20)


def linear(t, x, weight):
    """A linear layer with packed weights."""
    packed = t.ops.quantized.linear_prepack(weight, t.linspace(-1, 1, weight.shape[0]))
    return t.ops.quantized.linear(x, packed, 0.3, 20)


def linear_dynamic(t, x, weight):
    """The same of numbers, which are quantized on the way."""
    packed = t.ops.quantized.linear_prepack(weight, t.linspace(-1, 1, weight.shape[0]))
    return t.ops.quantized.linear_dynamic(x.dequantize(), packed)


def numbers(shape):
    """Numbers from -3 to 3, no two operands alike."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=generator) * 6 - 3


def quantized_samples():
    """Names and functions of a library, and their quantized operands on both sides."""
    for shape, (scale, point), dtype in itertools.product(SHAPES, SCALES, DTYPES):
        point = point if dtype == "quint8" else point - 60
        x = both(torch, numbers(shape), scale, point, dtype)
        for name, function in UNARY.items():
            yield f"{name} {shape} {dtype} {scale}", function, x, None
        if dtype == "qint8":
            continue
        yield from product_samples(shape, x)


def product_samples(shape, x):
    """Linear layers and convolutions of an operand, by tensor and by channel."""
    for by_channel in (False, True):
        dims = len(shape) - 2
        sizes = [(8, shape[-1])] + (
            [(4, shape[1], *[3] * dims)] if dims in (2, 3) else []
        )
        for size in sizes:
            weight = numbers(size)
            if by_channel:
                scales = torch.linspace(0.02, 0.05, size[0])
                zeros = torch.zeros(size[0], dtype=torch.int64)
                w = both_by_channel(torch, weight, scales, zeros)
            else:
                w = both(torch, weight, 0.03, 0, "qint8")
            how = f"{size} by channel: {by_channel}"
            if len(size) == 2:
                yield f"linear {how}", linear, x, w
                yield f"linear_dynamic {how}", linear_dynamic, x, w
            else:
                yield (
                    f"conv {how}",
                    lambda t, x, w, dims=dims: quantized_conv(t, x, w, dims),
                    x,
                    w,
                )


def quantized():
    """Faults of quantized samples, None of those that end alike."""
    for name, function, x, w in quantized_samples():
        mine, theirs = (
            (side,) if w is None else (side, w[k]) for k, side in enumerate(x)
        )
        try:
            expected = function(torch, *theirs)
        except (RuntimeError, ValueError, IndexError, NotImplementedError):
            continue
        yield name, fault_of(partial(function, rl, *mine), expected)


def fault_of(call, expected):
    """In words how a result differs, or None: rounding may move an element by one step."""
    try:
        found = call()
        if isinstance(expected, torch.Tensor) and expected.is_floating_point():
            gap = (torch.from_numpy(found.numpy()) - expected).abs().max().item()
            return None if gap < 1e-4 else f"differs by {gap}"
        wrong = difference(found, expected)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if wrong <= 0.01 * expected.numel() else f"{wrong} elements differ"


def sparse():
    """Faults of the database's sparse samples."""
    from tests.sparse import test_oracle_samples as samples

    for info, layout in samples.entries():
        for number, sample in enumerate(samples.samples_of(info, layout, EACH, 1)):
            yield from outcome(f"{info.name} {layout} {number}", info, sample)


def nested():
    """Faults of the database's nested samples."""
    from tests.nested import test_oracle_samples as samples

    for info in samples.entries():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = info.sample_inputs("cpu", torch.float32)
            for sample in itertools.islice(made, EACH):
                if not samples.holes_are_counted(sample):
                    name = f"{info.full_name}, {sample.name}"
                    yield from outcome(name, info, sample)


def outcome(name, info, sample):
    """The name and fault of a sample; nothing where PyTorch refuses it."""
    if oracle_layouts.is_refused(info, sample):
        return
    yield name, oracle_layouts.difference(info, sample)


KINDS = {"sparse": sparse, "nested": nested, "quantized": quantized}


def main(names):
    """Prints how many samples of each kind end alike, and which do not."""
    few = False
    for name in names or KINDS:
        found = list(KINDS[name]())
        wrong = [(sample, fault) for sample, fault in found if fault is not None]
        for sample, fault in wrong:
            print(f"  {sample}: {fault.splitlines()[0][:120]}")
        passed = len(found) - len(wrong)
        print(f"{name}: {passed:,} of {len(found):,} ({passed / len(found):.1%})")
        few |= passed < LEAST * len(found)
    return int(few)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))

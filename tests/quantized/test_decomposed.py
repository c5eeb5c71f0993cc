"""Operators on plain tensors of integers give what PyTorch's give."""

import pytest

import rushlight as rl
from rushlight.ao.quantization.fx import _decomposed  # noqa: F401 — defines the operators

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # defines PyTorch's


def made(package, value):
    if isinstance(value, rl.Tensor):
        dtype = str(value.dtype).split(".")[-1]
        return package.tensor(value.tolist(), dtype=getattr(package, dtype))
    if isinstance(value, rl.dtype):
        return getattr(package, str(value).split(".")[-1])
    return value


def results(package, name, args, options):
    packet, _, overload = name.partition(".")
    op = getattr(
        getattr(package.ops.quantized_decomposed, packet), overload or "default"
    )
    try:
        found = op(
            *[made(package, a) for a in args],
            **{k: made(package, v) for k, v in options.items()},
        )
    except (AssertionError, ValueError, RuntimeError) as error:
        return type(error).__name__
    found = found if isinstance(found, (tuple, list)) else (found,)
    return [
        (str(one.dtype).split(".")[-1], tuple(one.shape), one.tolist()) for one in found
    ]


rl.manual_seed(0)
X = rl.randn(4, 6) * 3
INTS = rl.tensor([[-128, -5, 0, 7, 60, 127], [1, 2, 3, 4, 5, 6]], dtype=rl.int8)
SCALE, ZERO = rl.tensor([0.05], dtype=rl.float64), rl.tensor([3])
SCALES, ZEROS = rl.tensor([0.1, 0.03]), rl.tensor([1, -2])
FOURS, POINTS = rl.tensor([0.1, 0.03, 0.2, 0.01]), rl.tensor([1, -2, 0, 5])
LOW, HIGH = rl.tensor(-128), rl.tensor(127)
GROUPS = rl.rand(4, 2) + 0.1
CALLS = [
    ("quantize_per_tensor", (X, 0.05, 3, -128, 127, rl.int8), {}),
    ("quantize_per_tensor", (X.bfloat16(), 0.05, 3, 0, 255, rl.uint8), {}),
    ("quantize_per_tensor", (X, 0.05, 3, -129, 127, rl.int8), {}),
    ("quantize_per_tensor.tensor", (X, SCALE, ZERO, -64, 63, rl.int8), {}),
    ("quantize_per_tensor.tensor2", (X, SCALE, ZERO, LOW, HIGH, rl.int8), {}),
    ("dequantize_per_tensor", (INTS, 0.05, 3, -128, 127, rl.int8), {}),
    ("dequantize_per_tensor", (INTS, 0.05, 3, -128, 127, rl.uint8), {}),
    (
        "dequantize_per_tensor",
        (INTS, 0.05, 3, -128, 127, rl.int8),
        {"out_dtype": rl.bfloat16},
    ),
    ("dequantize_per_tensor.tensor", (INTS, SCALE, ZERO, -128, 127, rl.int8), {}),
    ("dequantize_per_tensor.tensor2", (INTS, SCALE, ZERO, LOW, HIGH, rl.int8), {}),
    ("choose_qparams.tensor", (X, -128, 127, 1e-5, rl.int8), {}),
    ("choose_qparams.tensor", (X.half(), 0, 255, 1e-5, rl.uint8), {}),
    ("choose_qparams.tensor", (X * 0, 0, 255, 0.5, rl.uint8), {}),
    ("choose_qparams.tensor", (X, 5, 255, 1e-5, rl.uint8), {}),
    ("choose_qparams_symmetric.tensor", (X, -127, 127, 1e-5, rl.int8), {}),
    ("quantize_per_channel", (X, FOURS, POINTS, 0, -128, 127, rl.int8), {}),
    ("quantize_per_channel", (X.mT, FOURS, POINTS, 1, 0, 255, rl.uint8), {}),
    ("dequantize_per_channel", (INTS, SCALES, ZEROS, 0, -128, 127, rl.int8), {}),
    ("dequantize_per_channel", (INTS, SCALES, None, 0, -128, 127, rl.int8), {}),
    ("fake_quant_per_channel", (X, FOURS, POINTS.int(), 0, -128, 127), {}),
    ("choose_qparams_per_token", (X, rl.int8), {}),
    ("choose_qparams_per_token", (X.half(), rl.int8), {}),
    ("choose_qparams_per_token_asymmetric", (X, rl.int8), {}),
    (
        "quantize_per_token",
        (X, FOURS.unsqueeze(1), POINTS.unsqueeze(1), -128, 127, rl.int8),
        {},
    ),
    ("quantize_per_token", (X, SCALES, ZEROS, -128, 127, rl.int8), {}),
    (
        "dequantize_per_token",
        (
            INTS, SCALES.unsqueeze(1), ZEROS.unsqueeze(1), -128, 127, rl.int8,
            rl.float32,
        ),
        {},
    ),
    (
        "quantize_per_channel_group",
        (X, GROUPS, (GROUPS * 5).int(), -8, 7, rl.int8, 3),
        {},
    ),
    (
        "dequantize_per_channel_group",
        (
            INTS, GROUPS[:2], (GROUPS[:2] * 5).int(), -8, 7, rl.int8, 3, rl.float32,
        ),
        {},
    ),
    ("convert_element_type.no_fuse", (X, rl.bfloat16), {}),
]  # fmt: skip


def test_operators_give_what_pytorchs_give():
    for name, args, options in CALLS:
        found = results(rl, name, args, options)
        assert found == results(torch, name, args, options), (name, args[1:], found)


def test_gradients_pass_what_is_within_bounds():
    found = []
    for package in (rl, torch):
        x = made(package, X).requires_grad_()
        scales, points = made(package, FOURS), made(package, POINTS.int())
        op = package.ops.quantized_decomposed.fake_quant_per_channel
        op(x, scales, points, 0, -20, 20).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_sizes_and_types_are_known_without_elements():
    ops = rl.ops.quantized_decomposed
    x = rl.empty(3, 4, device="meta")
    made = ops.quantize_per_tensor(x, 0.1, 0, -128, 127, rl.int8)
    assert (made.dtype, made.shape, made.device.type) == (rl.int8, (3, 4), "meta")
    scale, point = ops.choose_qparams.tensor(x, -128, 127, 1e-5, rl.int8)
    assert (scale.dtype, point.dtype, scale.shape) == (rl.float64, rl.int64, (1,))

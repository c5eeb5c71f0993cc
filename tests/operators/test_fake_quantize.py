"""Rounding to quantized numbers beside PyTorch: values, gradients, observed ranges."""

import pytest

import rushlight as rl
from tests.operators.oracle import assert_agrees, torch

NUMBERS = [-1.0, 0.05, 0.15, 0.25, 3.0, float("nan"), float("inf")]
FINITE = [[-1.0, 0.05, 0.17], [0.25, 3.0, 0.11]]


def both(call):
    return call(rl), call(torch)


def agree(call):
    ours, theirs = both(call)
    ours = ours if isinstance(ours, (tuple, list)) else [ours]
    theirs = theirs if isinstance(theirs, (tuple, list)) else [theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert_agrees(mine, other)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("point", [0, 3])
def test_one_scale_rounds_all_elements(dtype, point):
    def call(m):
        x = m.tensor(NUMBERS, dtype=getattr(m, dtype))
        return m.fake_quantize_per_tensor_affine(x, 0.1, point, 0, 15)

    agree(call)


def test_scales_in_tensors_round_as_numbers_do():
    agree(
        lambda m: m.fake_quantize_per_tensor_affine(
            m.tensor(NUMBERS), m.tensor(0.1), m.tensor(3), 0, 15
        )
    )


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_channels_have_scales_of_their_own(dtype):
    def call(m):
        points = m.tensor([0.0, 1.5]).to(getattr(m, dtype))
        x = m.arange(6.0).reshape(2, 3) / 10
        return m.fake_quantize_per_channel_affine(
            x, m.tensor([0.1, 0.2]), points, 0, 0, 4
        )

    agree(call)


def test_gradients_pass_within_the_range():
    def call(m):
        x = m.tensor(NUMBERS[:5], requires_grad=True)
        m.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15).sum().backward()
        return x.grad

    agree(call)


@pytest.mark.parametrize("channels", [False, True])
def test_scales_and_zero_points_learn(channels):
    def call(m):
        size = 2 if channels else 1
        x = m.tensor(FINITE, requires_grad=True)
        scale = m.tensor([0.1, 0.2][:size], requires_grad=True)
        point = m.tensor([3.0, 1.2][:size], requires_grad=True)
        kind = "channel" if channels else "tensor"
        learnable = getattr(m, f"_fake_quantize_learnable_per_{kind}_affine")
        axis = (0,) if channels else ()
        result = learnable(x, scale, point, *axis, 0, 15, 2.0)
        return (result.detach(), *m.autograd.grad(result.sum(), (x, scale, point)))

    agree(call)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_observed_extremes_make_the_scale(rows, symmetric):
    def call(m):
        low = m.tensor([]) if rows else m.tensor(float("inf"))
        high = m.tensor([]) if rows else m.tensor(float("-inf"))
        scale, point = m.tensor([1.0]), m.tensor([0], dtype=m.int32)
        on, x, results = m.tensor([1]), m.tensor(FINITE), []
        for factor in (1.0, 2.0, -0.5):
            results += [
                m.fused_moving_avg_obs_fake_quant(
                    x * factor, on, on, low, high, scale, point, 0.01, -128, 127, 0,
                    rows, symmetric,
                ),
                *(each.clone() for each in (low, high, scale, point)),
            ]  # fmt: skip
        return results

    agree(call)


@pytest.mark.parametrize("bits", [2, 4])
def test_the_range_that_loses_least_is_pytorchs(bits):
    agree(
        lambda m: m.choose_qparams_optimized(
            (m.arange(50.0) * 0.37 % 1.0) ** 4, 50, 200, 0.16, bits
        )
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.fake_quantize_per_tensor_affine(m.ones(2), 0.1, 3, 15, 0),
        lambda m: m.fake_quantize_per_tensor_affine(m.ones(2), 0.1, 30, 0, 15),
        lambda m: m.fake_quantize_per_tensor_affine(m.ones(2).long(), 0.1, 3, 0, 15),
        lambda m: m.fake_quantize_per_channel_affine(
            m.ones(2, 3), m.ones(2), m.zeros(2).int(), 1, 0, 4
        ),
        lambda m: m.fake_quantize_per_channel_affine(
            m.ones(2, 3), m.ones(3), m.zeros(3).long(), 1, 0, 4
        ),
        lambda m: m.fake_quantize_per_channel_affine(
            m.ones(2, 3), m.ones(3), m.tensor([0, 1, 7]).int(), 1, 0, 4
        ),
    ],
)
def test_ranges_and_types_are_refused_as_pytorch_does(call):
    found = []
    for module in (rl, torch):
        with pytest.raises(Exception) as error:
            call(module)
        found.append((type(error.value), str(error.value).splitlines()[0]))
    assert found[0] == found[1]

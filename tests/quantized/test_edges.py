"""Arguments at the ends of their ranges and types that are refused, beside PyTorch."""

import pytest

import rushlight as rl
from tests.quantized.sides import both, both_by_channel, difference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)


def agree(run):
    """The same elements, or errors that begin alike."""
    seen = []
    for t in (rl, torch):
        try:
            seen.append(run(t).tolist())
        except RuntimeError as error:
            seen.append(str(error).replace("`", "'")[:24])
    if isinstance(seen[1], str):
        assert seen[0] == seen[1]
    else:
        assert seen[0] == pytest.approx(seen[1], rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(("low", "high"), [(5, 5), (9, 3), (0, 255), (-128, 127)])
@pytest.mark.parametrize("point", [0, 130, -129])
def test_ranges_and_zero_points_of_fake_quantization(low, high, point):
    agree(
        lambda t: t.fake_quantize_per_tensor_affine(
            t.tensor([-1.0, 0.3, 2.0]), 0.1, point, low, high
        )
    )
    agree(
        lambda t: t.fake_quantize_per_tensor_affine(
            t.tensor([-1.0, 0.3, 2.0]),
            t.tensor(0.1),
            t.tensor(point, dtype=t.int32),
            low,
            high,
        )
    )


def test_fake_quantization_of_integers_is_refused():
    x = rl.ones(2, dtype=rl.int64)
    for given in ((0.1, 0), (rl.tensor(0.1), rl.tensor(0, dtype=rl.int32))):
        with pytest.raises(
            (NotImplementedError, RuntimeError), match="not implemented"
        ):
            rl.fake_quantize_per_tensor_affine(x, *given, 0, 255)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1e-7, 2e-7), (0.0, 1e-7), (-1e-7, 0.0), (-1e-12, 3e-3), (0.0, 0.0)],
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_ranges_too_small_for_a_scale(low, high, symmetric):
    def watched(t):
        one = [t.tensor([v]) for v in (float("inf"), -float("inf"), 1.0)]
        least, most, scale = one
        point = t.zeros(1, dtype=t.int32)
        on = t.ones(1, dtype=t.int64)
        x = t.tensor([low, high, (low + high) / 3])
        t.fused_moving_avg_obs_fake_quant(
            x, on, on, least, most, scale, point, 0.01, 0, 255, -1, False, symmetric
        )
        return t.cat([scale, point.float()])

    agree(watched)


def test_the_least_and_the_greatest_are_quantized():
    for x in both(torch, torch.tensor([3.0, -1.0, 2.0]), 0.5, 10):
        assert (x.min().dequantize().item(), x.max().dequantize().item()) == (-1, 3)
        assert (x.min().q_scale(), x.max().q_zero_point()) == (0.5, 10)


def test_wide_integers_have_no_dynamic_range():
    for t in (rl, torch):
        with pytest.raises(RuntimeError, match="dtype QInt32"):
            t.quantize_per_tensor_dynamic(t.ones(2), t.qint32, False)


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_channels_with_zero_points(axis):
    x = torch.randn(3, 3)
    scales, points = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([5, -3, 100])
    one, two = both_by_channel(torch, x, scales, points, axis)
    assert difference(one.int_repr(), two.int_repr()) == 0
    assert one.dequantize().tolist() == two.dequantize().tolist()


def test_numbers_of_tensors_with_gaps_keep_their_order():
    for x in both(torch, torch.arange(24.0).reshape(2, 3, 4), 0.5, 10):
        part = x[:, :, 1:3].transpose(0, 2)
        assert (
            part.dequantize().tolist()
            == x.dequantize()[:, :, 1:3].transpose(0, 2).tolist()
        )


def test_a_fused_layer_of_one_channel_has_a_bias():
    kind = rl.ao.nn.intrinsic.qat.ConvBn2d
    qconfig = rl.ao.quantization.get_default_qat_qconfig("fbgemm")
    layer = kind(2, 1, 3, bias=True, qconfig=qconfig)
    assert layer.bias.shape == (1,) and layer.bias.abs().item() <= (2 * 9) ** -0.5


def test_groups_of_two_have_their_scales():
    x = rl.tensor([[1.0, -2.0, 30.0, 40.0]])
    from rushlight.ao.quantization.fx import _decomposed

    scales, points = rl.tensor([[0.5, 10.0]]), rl.zeros(1, 2)
    steps = _decomposed.quantize_per_channel_group(x, scales, points, -8, 7, rl.int8, 2)
    assert steps.tolist() == [[2, -4, 3, 4]]


def test_counts_at_the_upper_end_of_a_histogram_stay_in_the_last_bin():
    watchers = []
    for t in (rl, torch):
        watcher = t.ao.quantization.HistogramObserver(bins=16)
        for upper in (1.0, 1.5, 4.0, 4.0001):
            watcher(t.linspace(-1, upper, 50))
        watchers.append(watcher)
    ours, theirs = watchers
    assert ours.histogram.shape == (16,)
    assert ours.histogram.tolist() == pytest.approx(theirs.histogram.tolist(), abs=1e-3)

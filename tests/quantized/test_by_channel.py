"""Tensors with a scale for each channel: what is viewed, and what is refused."""

import io

import pytest

import rushlight as rl
from tests.quantized.sides import both, both_by_channel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SCALES, POINTS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 3, -1])


def pair(axis):
    x = torch.arange(36.0).reshape([3 if dim == axis else 2 for dim in (0, 1, 2)] + [3])
    return both_by_channel(torch, x, SCALES, POINTS, axis)


def agree(one, two):
    if isinstance(two, tuple | list):
        for each in zip(one, two, strict=True):
            agree(*each)
        return
    assert str(one.qscheme()).partition(".")[2] == str(two.qscheme()).partition(".")[2]
    assert one.int_repr().tolist() == two.int_repr().tolist()
    if two.qscheme() is torch.per_tensor_affine:
        assert (one.q_scale(), one.q_zero_point()) == (
            two.q_scale(),
            two.q_zero_point(),
        )
        return
    assert one.q_per_channel_scales().tolist() == two.q_per_channel_scales().tolist()
    assert one.q_per_channel_zero_points().tolist() == (
        two.q_per_channel_zero_points().tolist()
    )
    assert one.q_per_channel_axis() == two.q_per_channel_axis()


VIEWS = {
    "one channel": lambda x: x.select(1, 2),
    "rows before channels": lambda x: x[0],
    "some channels": lambda x: x[:, 1:],
    "every other channel": lambda x: x[:, ::2],
    "a range of one channel": lambda x: x[:, 1:2],
    "other dimensions": lambda x: x[:, :, 1:, :2],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "pieces of channels": lambda x: x.chunk(2, 1),
    "pieces of sizes": lambda x: x.split([2, 1], 1),
    "all channels": lambda x: x.unbind(1),
    "a dimension more": lambda x: x.unsqueeze(0),
    "a dimension more behind": lambda x: x.unsqueeze(3),
    "other dimensions joined": lambda x: x.flatten(2),
    "other dimensions taken apart": lambda x: x.view(2, 3, 2, 3, 1),
    "no dimension of size one": lambda x: x.squeeze(0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_keep_the_scales_of_the_channels_they_show(name):
    one, two = pair(1)
    agree(VIEWS[name](one), VIEWS[name](two))


def test_dimensions_behind_channels_leave_the_axis_where_it_is():
    # PyTorch counts the axis down whichever dimension goes.
    one, _ = pair(0)
    part = one[:, 1]
    assert part.q_per_channel_axis() == 0
    assert part.dequantize().tolist() == one.dequantize()[:, 1].tolist()


def test_views_share_the_memory_of_the_integers():
    one, _ = pair(1)
    one[:, 1].copy_(rl.zeros(2, 2, 3))
    assert one.int_repr()[:, 1].unique().tolist() == [3]
    assert one.int_repr()[:, 2].unique().numel() > 1


REFUSED = {
    "transpose": lambda t, x: x.transpose(0, 1),
    "permute": lambda t, x: x.permute(1, 0, 2, 3),
    "expand": lambda t, x: x.expand(2, 3, 2, 3),
    "flip": lambda t, x: x.flip(0),
    "repeat": lambda t, x: x.repeat(2, 1, 1, 1),
    "view across channels": lambda t, x: x.view(2, 6, 3).dequantize(),
    "cat": lambda t, x: t.cat([x, x]),
    "cat of one": lambda t, x: t.cat([x]),
    "stack": lambda t, x: t.stack([x, x]),
    "max": lambda t, x: x.max(),
    "min": lambda t, x: x.min(),
    "mean": lambda t, x: x.mean(),
    "mean of dimensions": lambda t, x: x.mean((2, 3)),
    "clamp": lambda t, x: x.clamp(0, 1),
    "relu": lambda t, x: x.relu(),
    "sigmoid": lambda t, x: x.sigmoid(),
    "tanh": lambda t, x: x.tanh(),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x),
    "masked_fill": lambda t, x: x.masked_fill(x > 3, 1.0),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 1)),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x, 2),
    "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x, 2),
    "interpolate": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
    "sort": lambda t, x: x.sort(),
    "add": lambda t, x: t.ops.quantized.add(x, x, 0.1, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_one_scale_is_refused_in_pytorchs_words(name):
    one, two = pair(1)
    with pytest.raises(RuntimeError) as theirs:
        REFUSED[name](torch, two)
    with pytest.raises(RuntimeError) as ours:
        REFUSED[name](rl, one)
    words = str(theirs.value).partition("  (Could")[0]
    assert str(ours.value).startswith(words.partition("\n")[0])


def test_joined_tensors_are_all_quantized_and_of_one_type():
    x = rl.tensor([1.0, 2.0])
    one = rl.quantize_per_tensor(x, 0.1, 0, rl.qint8)
    two = rl.quantize_per_tensor(x, 0.1, 0, rl.quint8)
    with pytest.raises(RuntimeError, match=r"All dtypes must be the same\."):
        rl.cat([one, two])
    for mixed in ([one, x], [x, one]):
        with pytest.raises(NotImplementedError, match="aten::qscheme"):
            rl.cat(mixed)


def test_scales_with_zero_points_that_are_floats_are_stored():
    x = torch.rand(3, 4)
    given = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.25, 0.0])
    scheme = rl.per_channel_affine_float_qparams
    one = rl.quantize_per_channel(
        rl.tensor(x.numpy()), *(rl.tensor(g.numpy()) for g in given), 0, rl.quint8
    )
    two = torch.quantize_per_channel(x, *given, 0, torch.quint8)
    for source, t in ((one, rl), (one, torch), (two, torch), (two, rl)):
        file = io.BytesIO()
        (rl if source is one else torch).save(source, file)
        file.seek(0)
        found = t.load(file)
        assert found.qscheme() == (scheme if t is rl else two.qscheme())
        assert found.q_per_channel_zero_points().tolist() == given[1].tolist()
        assert found.dequantize().tolist() == one.dequantize().tolist()


def test_images_quantized_in_one_scale_are_padded_with_their_own_elements():
    x = torch.randn(1, 2, 4, 4)
    one, two = both(torch, x, 0.05, 10)
    # PyTorch has no function of integers but the reflection.
    found = rl.nn.functional.pad(one, (1, 2, 1, 1), mode="reflect")
    expected = torch.nn.functional.pad(two, (1, 2, 1, 1), mode="reflect")
    assert found.int_repr().tolist() == expected.int_repr().tolist()

"""Sums, joins, activations and norms of quantized tensors have PyTorch's integers."""

import pytest

import rushlight as rl
from tests.quantized.sides import both, difference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def differing(name, ours, theirs):
    one = getattr(rl.ops.quantized, name)(*ours)
    return difference(one, getattr(torch.ops.quantized, name)(*theirs))


def split(pairs):
    """Arguments of both sides; a pair of tensors gives each side its own."""
    pick = [p if isinstance(p, tuple) and len(p) == 2 else (p, p) for p in pairs]
    return [p[0] for p in pick], [p[1] for p in pick]


@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_sums_and_products_have_the_same_integers(dtype):
    x, y = (
        torch.randn(2, 128) * 2,
        torch.randn(2, 128),
    )  # whole vectors: in what is left
    # of them PyTorch rounds ties otherwise.
    for a_scale, b_scale, scale in (
        (0.03, 0.02, 0.05),
        (0.5, 0.25, 0.5),
        (0.1, 0.1, 0.1),
    ):
        a = both(torch, x, a_scale, 21, dtype)
        b = both(torch, y, b_scale, 7, dtype)
        for name in ("add", "add_relu", "mul", "mul_relu"):
            assert differing(name, *split([a, b, scale, 3])) == 0, (name, scale)
            out = tuple(side.clone() for side in a)
            assert differing(f"{name}_out", *split([a, b, out])) == 0
        row = both(torch, y[:1], b_scale, 7, dtype)
        assert differing("add", *split([a, row, scale, 3])) == 0
        assert differing("mul", *split([row, a, scale, 3])) == 0


def test_sums_keep_the_order_of_images_in_memory():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    a = both(torch, x, 0.03, 10)
    a = (a[0].contiguous(memory_format=rl.channels_last), a[1])
    one = rl.ops.quantized.add(a[0], a[0], 0.1, 3)
    two = torch.ops.quantized.add(a[1], a[1], 0.1, 3)
    assert difference(one, two) == 0
    assert one.stride() == two.stride()


def test_sums_and_products_with_numbers_have_the_same_integers_and_scales():
    a = both(torch, torch.randn(5, 7), 0.03, 121)
    for value in (1.3, -1.3, 100.0, -100.0, 0.0, 2):
        for name in ("add_scalar", "add_scalar_relu", "mul_scalar", "mul_scalar_relu"):
            assert differing(name, *split([a, value])) == 0, (name, value)
        for name in ("add", "mul_relu"):
            one = getattr(rl.ops.quantized, name)(a[0], value)
            two = getattr(torch.ops.quantized, name)(a[1], value)
            assert difference(one, two) == 0


def test_joins_have_the_same_integers():
    parts = [both(torch, torch.randn(3, 40), s, p) for s, p in ((0.03, 9), (0.1, 120))]
    ours, theirs = [p[0] for p in parts], [p[1] for p in parts]
    for name in ("cat", "cat_relu"):
        for scale, point in ((0.05, 3), (None, None)):
            for dim in (0, 1):
                mine = ours, dim, scale, point
                assert differing(name, mine, (theirs, dim, scale, point)) == 0


ACTIVATIONS = [
    ("hardswish", (0.05, 30)), ("sigmoid", (1 / 256, 0)), ("celu", (0.05, 60, 1.3)),
    ("elu", (0.05, 60)), ("elu", (0.05, 60, 1.5, 1.2, 0.7)),
    ("leaky_relu", (0.1, False, 0.05, 60)), ("relu6", ()), ("relu6", (True,)),
    ("threshold", (0.4, 0.1)), ("clamp", (-0.5, 1.2)), ("softmax", (1, 1 / 256, 0)),
]  # fmt: skip


def test_activations_have_the_same_integers():
    for shape in ((3, 50), (2, 3, 4)):
        for name, settings in ACTIVATIONS:
            a = both(torch, torch.randn(shape) * 3, 0.04, 100)
            assert differing(name, *split([a, *settings])) == 0, name
    for dtype in ("qint8",):
        a = both(torch, torch.randn(3, 50) * 3, 0.04, 10, dtype)
        for name, settings in (("hardswish", (0.05, 3)), ("elu", (0.05, 6))):
            assert differing(name, *split([a, *settings])) == 0, name


def test_prelu_has_the_same_integers():
    a = both(torch, torch.randn(2, 3, 5), 0.04, 100)
    for count in (1, 3):
        w = both(torch, torch.rand(count), 0.01 if count > 1 else 0.002, 0)
        assert differing("prelu", *split([a, w, 0.03, 40])) == 0


def test_norms_have_the_same_integers():
    a = both(torch, torch.randn(2, 6, 5, 5) * 2, 0.05, 100)
    pair = [(rl.tensor(t.numpy()), t) for t in (torch.rand(6) + 0.5, torch.randn(6))]
    stats = [(rl.tensor(t.numpy()), t) for t in (torch.randn(6), torch.rand(6) + 0.5)]
    for name in ("batch_norm", "batch_norm2d", "batch_norm2d_relu", "batch_norm_relu"):
        settings = [a, *pair, *stats, 1e-5, 0.04, 50]
        assert differing(name, *split(settings)) == 0, name
    rest = [1e-5, 0.04, 50]
    assert differing("group_norm", *split([a, 3, *pair, *rest])) <= 1
    assert differing("instance_norm", *split([a, *pair, *rest])) <= 1
    w = [(rl.tensor(t.numpy()), t) for t in (torch.rand(5) + 0.5, torch.randn(5))]
    one, two = split([a, *w, *rest])
    one.insert(1, [5]), two.insert(1, [5])
    assert differing("layer_norm", one, two) <= 1


def test_pooling_has_the_same_integers():
    a = both(torch, torch.randn(2, 6, 9, 9) * 2, 0.05, 100)
    settings = [a, [3, 2], [2, 1], [1, 0], [1, 1], True]
    assert differing("max_pool2d", *split(settings)) == 0
    b = both(torch, torch.randn(2, 6, 9) * 2, 0.05, 100)
    assert differing("max_pool1d", *split([b, [3], [2], [1], [1], False])) == 0


def test_functions_of_quantized_tensors_have_the_same_integers():
    def each(t):
        F = t.nn.functional
        yield F.avg_pool2d, (3, 2, 1)
        yield F.adaptive_avg_pool2d, ((3, 2),)
        yield F.max_pool2d, (2,)
        yield (lambda x: F.interpolate(x, scale_factor=2)), ()
        yield F.relu, ()
        yield F.relu6, ()
        yield F.hardtanh, (-0.5, 1.0)
        yield F.leaky_relu, (0.1,)
        yield F.hardsigmoid, ()
        yield t.sigmoid, ()
        yield t.tanh, ()
        yield (lambda x: t.mean(x, (2, 3))), ()
        yield (lambda x: t.flatten(x, 1)), ()
        yield (lambda x: x.permute(0, 2, 3, 1)), ()
        yield (lambda x: x[:, 1:3, 0]), ()
        yield (lambda x: t.stack([x, x])), ()
        yield (lambda x: t.chunk(x, 2, 1)), ()
        yield (lambda x: x.reshape(2, -1)), ()
        yield (lambda x: t.transpose(x, 1, 2)), ()
        yield (lambda x: F.pad(x, (1, 1), value=0.3)), ()

    a = both(torch, torch.randn(2, 6, 8, 9) * 2, 0.05, 100)
    last = tuple(
        side.contiguous(memory_format=t.channels_last)
        for side, t in zip(a, (rl, torch))
    )
    assert not compared(each, a)
    assert not compared(lambda t: list(each(t))[:4], last)


IN_PLACE = {
    "relu_": lambda t, x: x.relu_(),
    "hardtanh_": lambda t, x: t.nn.functional.hardtanh_(x, -0.5, 1.0),
    "leaky_relu_": lambda t, x: t.nn.functional.leaky_relu_(x, 0.1),
    "masked_fill_": lambda t, x: x.masked_fill_(t.tensor([True, False, True]), 0.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_integers_are_written_over_as_in_pytorch(name):
    ours, theirs = both(torch, torch.randn(2, 3), 0.1, 10)
    assert IN_PLACE[name](rl, ours) is ours
    IN_PLACE[name](torch, theirs)
    assert not difference(ours, theirs)


def test_channels_lie_along_a_dimension_that_is_there():
    words = r"Channel axis out of range in per channel affine quantization. Got: "
    for t in (rl, torch):
        numbers = t.ones(2), t.zeros(2, dtype=t.int64)
        for axis in (-1, 2):
            with pytest.raises(RuntimeError, match=f"{words}{axis}"):
                t.quantize_per_channel(t.ones(2, 2), *numbers, axis, t.qint8)


def compared(each, a):
    """Which functions end otherwise, and how."""
    wrong = []
    for n, ((f, args), (g, _)) in enumerate(zip(each(rl), each(torch))):
        try:
            two = g(a[1], *args)
        except Exception as error:
            two = type(error).__name__
        try:
            one = f(a[0], *args)
        except Exception as error:
            one = type(error).__name__
        if isinstance(one, str) or isinstance(two, str):
            if one != two:
                wrong.append((n, one, two))
        else:
            try:
                count = difference(one, two)
            except AssertionError as error:
                count = str(error)
            if count:
                wrong.append((n, count))
    return wrong

"""Products and convolutions of quantized tensors have PyTorch's integers, one by one."""

import os
import subprocess
import sys

import pytest

import rushlight as rl
from tests.quantized.sides import both, both_by_channel, difference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def _engine():
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    torch.manual_seed(0)
    yield
    torch.backends.quantized.engine = before


def weights(shape, by_channel, axis=0):
    weight = torch.randn(shape) * 0.3
    if not by_channel:
        return both(torch, weight, 0.007, 3, "qint8")
    count = shape[axis]
    scales = torch.rand(count) * 0.01 + 0.003
    points = torch.randint(-3, 4, (count,)) if by_channel == "moved" else 0
    points = points + torch.zeros(count, dtype=torch.long)
    return both_by_channel(torch, weight, scales, points, axis)


SIZES = [(1, 5, 3), (2, 64, 64), (7, 33, 1), (1, 1, 1), (40, 300, 70), (3, 1100, 20)]


@pytest.mark.parametrize("by_channel", [False, True, "moved"])
def test_linear_layers_have_the_same_integers(by_channel):
    for rows, depth, columns in SIZES:
        x = both(torch, torch.randn(rows, depth), 0.037, 121)
        w = weights((columns, depth), by_channel)
        for bias in (torch.randn(columns), None):
            ours = rl.ops.quantized.linear_prepack(
                w[0], None if bias is None else rl.tensor(bias.numpy())
            )
            theirs = torch.ops.quantized.linear_prepack(w[1], bias)
            for name in ("linear", "linear_relu"):
                for scale, point in ((0.21, 30), (0.05, 0)):
                    one = getattr(rl.ops.quantized, name)(x[0], ours, scale, point)
                    two = getattr(torch.ops.quantized, name)(x[1], theirs, scale, point)
                    assert difference(one, two) == 0, (name, rows, depth, columns)


@pytest.mark.parametrize("by_channel", [False, True])
def test_linear_layers_of_numbers_have_the_same_numbers(by_channel):
    for rows, depth, columns in SIZES:
        x = torch.randn(rows, depth)
        w = weights((columns, depth), by_channel)
        bias = torch.randn(columns)
        ours = rl.ops.quantized.linear_prepack(w[0], rl.tensor(bias.numpy()))
        theirs = torch.ops.quantized.linear_prepack(w[1], bias)
        for name in ("linear_dynamic", "linear_relu_dynamic"):
            for reduce_range in (False, True):
                one = getattr(rl.ops.quantized, name)(
                    rl.tensor(x.numpy()), ours, reduce_range
                )
                two = getattr(torch.ops.quantized, name)(x, theirs, reduce_range)
                assert difference(one, two) == 0, (name, rows, depth, columns)


def test_convolutions_have_the_same_integers():
    cases = [  # count, channels, outputs, groups, kernel, stride, padding, dilation
        (1, 4, 6, 1, [3], [1], [1], [1]),
        (1, 6, 6, 2, [2], [2], [0], [2]),
        (2, 3, 8, 1, [3, 3], [1, 1], [1, 1], [1, 1]),
        (2, 16, 33, 1, [1, 1], [1, 1], [0, 0], [1, 1]),
        (2, 8, 12, 4, [3, 2], [2, 1], [1, 2], [1, 2]),
        (2, 20, 20, 20, [3, 3], [2, 2], [1, 1], [1, 1]),
        (2, 5, 7, 1, [1, 1], [2, 2], [0, 0], [1, 1]),
        (3, 4, 5, 1, [3, 3, 3], [1, 2, 1], [1, 1, 0], [1, 1, 1]),
    ]
    for count, channels, outputs, groups, *settings in cases:
        kernel, stride, padding, dilation = settings
        x = both(torch, torch.randn(2, channels, *[9, 10, 8][:count]), 0.037, 121)
        for by_channel in (False, True):
            w = weights((outputs, channels // groups, *kernel), by_channel)
            bias = torch.randn(outputs)
            pack = f"conv{count}d_prepack"
            rest = stride, padding, dilation, groups
            ours = getattr(rl.ops.quantized, pack)(w[0], rl.tensor(bias.numpy()), *rest)
            theirs = getattr(torch.ops.quantized, pack)(w[1], bias, *rest)
            for name in (f"conv{count}d", f"conv{count}d_relu"):
                one = getattr(rl.ops.quantized, name)(x[0], ours, 0.11, 17)
                two = getattr(torch.ops.quantized, name)(x[1], theirs, 0.11, 17)
                assert difference(one, two) == 0, (name, channels, outputs, settings)
            assert one.stride() == two.stride() or count == 1


def test_convolutions_of_numbers_have_the_same_numbers():
    for count in (1, 2, 3):
        x = torch.randn(2, 4, *[7, 6, 5][:count])
        w = weights((6, 4, *[3, 2, 2][:count]), True)
        rest = [1] * count, [1] * count, [1] * count, 1
        pack, name = f"conv{count}d_prepack", f"conv{count}d_dynamic"
        ours = getattr(rl.ops.quantized, pack)(w[0], None, *rest)
        theirs = getattr(torch.ops.quantized, pack)(w[1], None, *rest)
        for reduce_range in (False, True):
            one = getattr(rl.ops.quantized, name)(
                rl.tensor(x.numpy()), ours, reduce_range
            )
            two = getattr(torch.ops.quantized, name)(x, theirs, reduce_range)
            assert difference(one, two) == 0


def test_transposed_convolutions_have_the_same_integers():
    for count in (1, 2, 3):
        for groups, stride, padding, more, dilation in (
            (1, 1, 0, 0, 1), (2, 2, 1, 1, 1), (1, 3, 2, 0, 2),
        ):  # fmt: skip
            x = both(torch, torch.randn(2, 4, *[7, 6, 5][:count]), 0.037, 121)
            w = weights((4, 6 // groups, *[3, 2, 3][:count]), False)
            bias = torch.randn(6)
            rest = [[v] * count for v in (stride, padding, more, dilation)]
            pack, name = f"conv_transpose{count}d_prepack", f"conv_transpose{count}d"
            ours = getattr(rl.ops.quantized, pack)(
                w[0], rl.tensor(bias.numpy()), *rest, groups
            )
            theirs = getattr(torch.ops.quantized, pack)(w[1], bias, *rest, groups)
            one = getattr(rl.ops.quantized, name)(x[0], ours, 0.11, 17)
            two = getattr(torch.ops.quantized, name)(x[1], theirs, 0.11, 17)
            assert difference(one, two) == 0, (count, stride)


def test_packed_weights_give_back_what_was_packed():
    w = weights((6, 4), True)
    packed = rl.ops.quantized.linear_prepack(w[0], rl.ones(6))
    weight, bias = rl.ops.quantized.linear_unpack(packed)
    assert weight.equal(w[0]) and bias.equal(rl.ones(6))
    w = weights((6, 4, 3), True)
    packed = rl.ops.quantized.conv1d_prepack(w[0], None, [2], [1], [1], 1)
    weight, bias = rl.ops.quantized.conv1d_unpack(packed)
    assert weight.equal(w[0]) and bias is None
    w = weights((6, 4, 3, 3), True)
    packed = rl.ops.quantized.conv2d_prepack(w[0], None, [2, 1], [1, 0], [1, 1], 1)
    assert list(rl.ops.quantized.conv2d_stride(packed)) == [2, 1]
    assert list(rl.ops.quantized.conv2d_padding(packed)) == [1, 0]
    assert rl.ops.quantized.conv2d_groups(packed) == 1
    assert rl.ops.quantized.conv2d_transpose(packed) == 0


def test_recurrent_cells_have_the_same_numbers():
    x, h, c = torch.randn(3, 5), torch.randn(3, 4), torch.randn(3, 4)
    ours_in, ours_state = (rl.tensor(x.numpy()), [rl.tensor(t.numpy()) for t in (h, c)])
    for kind, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        ours, theirs, biases = [], [], []
        for depth in (5, 4):
            w, bias = weights((4 * gates, depth), False), torch.randn(4 * gates)
            ours.append(rl.ops.quantized.linear_prepack(w[0], rl.tensor(bias.numpy())))
            theirs.append(torch.ops.quantized.linear_prepack(w[1], bias))
            biases.append(bias)
        name = f"quantized_{kind}_cell_dynamic"
        state = [h, c] if kind == "lstm" else h
        mine = ours_state if kind == "lstm" else ours_state[0]
        two = getattr(torch.ops.quantized, name)(x, state, *theirs, *biases)
        given = [rl.tensor(b.numpy()) for b in biases]
        one = getattr(rl.ops.quantized, name)(ours_in, mine, *ours, *given)
        pairs = zip(one, two) if kind == "lstm" else [(one, two)]
        for a, b in pairs:
            assert abs(a.numpy() - b.numpy()).max() < 1e-6, kind


ERRORS = [
    ("linear", lambda t, q: (t.ones(2, 3), q["packed"], 1.0, 0)),
    ("linear", lambda t, q: (q["wrong"], q["packed"], 1.0, 0)),
    ("linear", lambda t, q: (q["signed"], q["packed"], 1.0, 0)),
    ("linear", lambda t, q: (q["x"][0], q["packed"], 1.0, 0)),
    ("linear_prepack", lambda t, q: (t.ones(2, 3), None)),
    ("linear_prepack", lambda t, q: (q["x"], None)),
    ("linear_prepack", lambda t, q: (q["weight"], t.ones(5))),
    ("linear_prepack", lambda t, q: (q["weight"][0], None)),
    ("linear_dynamic", lambda t, q: (t.ones(3), q["packed"])),
    ("linear_dynamic", lambda t, q: (t.ones(2, 3, dtype=t.float64), q["packed"])),
    ("conv2d", lambda t, q: (q["x"], q["conv"], 1.0, 0)),
    ("conv2d", lambda t, q: (q["many"], q["conv"], 1.0, 0)),
    ("add", lambda t, q: (q["x"], q["signed"], 1.0, 0)),
    ("mul", lambda t, q: (q["x"], q["signed"], 1.0, 0)),
    ("add", lambda t, q: (q["x"], q["x"][0, :2], 1.0, 0)),
    ("add", lambda t, q: (t.ones(2, 3), t.ones(2, 3), 1.0, 0)),
]


def given(t):
    weight = t.quantize_per_tensor(t.ones(2, 3), 0.1, 0, t.qint8)
    kernel = t.quantize_per_tensor(t.ones(2, 3, 3, 3), 0.1, 0, t.qint8)
    return {
        "weight": weight,
        "packed": t.ops.quantized.linear_prepack(weight, None),
        "conv": t.ops.quantized.conv2d_prepack(kernel, None, [1, 1], [0, 0], [1, 1], 1),
        "x": t.quantize_per_tensor(t.ones(2, 3), 0.1, 0, t.quint8),
        "wrong": t.quantize_per_tensor(t.ones(2, 4), 0.1, 0, t.quint8),
        "many": t.quantize_per_tensor(t.ones(2, 4, 5, 5), 0.1, 0, t.quint8),
        "signed": t.quantize_per_tensor(t.ones(2, 3), 0.1, 0, t.qint8),
    }


def test_bad_operands_are_refused_with_the_same_type_and_nearly_the_same_words():
    for name, make in ERRORS:
        found = []
        for t in (rl, torch):
            with pytest.raises(Exception) as caught:
                getattr(t.ops.quantized, name)(*make(t, given(t)))
            found.append((caught.type.__name__, str(caught.value)))
        (one, mine), (two, theirs) = found
        assert one == two, (name, found)
        words = theirs.partition("\n")[0].split(".")[0].split()[:6]
        if name != "conv2d" or "channels" not in mine:
            assert words == mine.split()[: len(words)], (mine, theirs)


def test_scales_that_stay_in_memory_are_those_that_are_read():
    from rushlight.ao._operators import dynamic
    from rushlight.operators.quantized import affine_kernels, quantized

    rl.manual_seed(0)
    mixed = rl.randn(700)
    cases = [mixed * 10.0**n for n in (-45, -39, -7, -3, 0, 5, 30)]
    cases += [
        mixed.abs(),
        -mixed.abs() * 1e-6,
        mixed.abs() * 1e-6,
        rl.zeros(5),
        mixed[:0],
    ]
    cases += [mixed[:1], rl.tensor([-1.0, 2.0, 0.5]), rl.tensor([255.0, 0.5, 1.5, 2.5])]
    for x in cases:
        for less, top in ((False, 255), (True, 127)):
            levels, scale, point = dynamic.quantize(x, less)
            wanted, where = quantized.dynamic_parameters(x, 0, top)
            inverse = quantized.inverse_of(wanted)
            steps = affine_kernels.quantize(x, rl.uint8, inverse, where)
            assert scale.item() == quantized.single(wanted), x
            assert point.item() == where and levels.equal(steps), x


WAYS = {
    "tiles": lambda products: products.matmul_amx.has("int8"),
    "fours": lambda products: products.has_fours(),
    "sevens": lambda products: products.has_sevens(),
    "shorts": lambda products: True,
}
FORMED = [  # sizes and settings whose windows end at every kind of edge
    ((1, 5, 9, 7), (6, 5, 3, 3), ([1, 1], [1, 1], [1, 1], 1)),
    ((2, 64, 12, 9), (40, 64, 3, 3), ([1, 1], [1, 1], [1, 1], 1)),
    ((1, 64, 8, 8), (33, 64, 1, 1), ([1, 1], [0, 0], [1, 1], 1)),
    ((1, 8, 20, 20), (64, 4, 3, 3), ([2, 2], [1, 1], [2, 2], 2)),
    ((1, 3, 19, 23), (16, 3, 7, 7), ([2, 1], [3, 3], [1, 1], 1)),
    ((2, 40, 9, 9), (40, 1, 3, 3), ([1, 2], [1, 1], [1, 1], 40)),
]


def narrow(numbers):
    """Bytes of seven bits, as recipes for x86 have them: what every instruction takes."""
    return rl.quantize_per_tensor(numbers.clamp(-1.9, 1.9), 0.03, 64, rl.quint8)


def test_sums_are_the_same_whatever_instruction_forms_them(monkeypatch):
    from rushlight.ao._operators import products, windows
    from rushlight.kernels.conv.int8_positions import way_of

    found = {}
    for way in (name for name, there in WAYS.items() if there(products)):
        windows.windows_of.cache_clear()

        def chosen(rows, depth, columns, alone, run, narrow=False, way=way):
            return way_of("channels" if alone else way)

        monkeypatch.setattr(windows, "way_for", chosen)
        rl.manual_seed(0)
        results = []
        for rows, depth, columns in (
            (20, 300, 70),
            (3, 33, 5),
            (4, 3, 5),
            (2, 1100, 64),
            (37, 64, 32),
        ):
            x = narrow(rl.randn(rows, depth))
            w = rl.quantize_per_tensor(rl.randn(columns, depth), 0.03, 2, rl.qint8)
            packed = rl.ops.quantized.linear_prepack(w, rl.randn(columns))
            out = rl.ops.quantized.linear(x, packed, 0.4, 100)
            results += [out.int_repr().tolist()]
            results += [
                rl.ops.quantized.linear_dynamic(x.dequantize(), packed, True).tolist()
            ]
        for image, weight, settings in FORMED:
            for point in (0, 2):
                x = narrow(rl.randn(image))
                w = rl.quantize_per_tensor(rl.randn(weight), 0.03, point, rl.qint8)
                bias = rl.randn(weight[0])
                packed = rl.ops.quantized.conv2d_prepack(w, bias, *settings)
                out = rl.ops.quantized.conv2d(x, packed, 0.1, 90)
                results += [out.int_repr().tolist()]
                exact = rl.conv2d(x.dequantize(), w.dequantize(), bias, *settings)
                steps = (exact / 0.1).round().add(90).clamp(0, 255)
                assert (out.int_repr() - steps).abs().max() <= 1, (way, image, weight)
        found[way] = results
    windows.windows_of.cache_clear()
    assert all(each == found["shorts"] for each in found.values())


def test_bytes_of_seven_bits_are_found_wherever_the_first_wider_one_lies():
    from rushlight.ao._operators import windows

    for count in (0, 1, 63, 64, 65, 4096, 4160, 9000):
        x = rl.full((count,), 128, dtype=rl.uint8)
        assert windows.is_narrow(x), count
        for at in {0, count // 2, count - 1} if count else ():
            x[at] = 129
            assert not windows.is_narrow(x), (count, at)
            x[at] = 128


def test_sums_are_exact_at_the_bounds_of_bytes_without_vnni():
    target = "x86-64-v3"
    if os.uname().machine != "x86_64" or not runs_here(target):
        pytest.skip(f"this processor has not the instructions of {target}")
    environment = dict(os.environ, RUSHLIGHT_TARGET=target)
    run = [sys.executable, "-c", BOUNDS]
    found = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert found.returncode == 0 and found.stdout == "[0, 0, 0, 0]\n", found.stderr


def test_words_of_a_three_fit_in_sixteen_bits_with_any_narrow_bytes():
    from rushlight.ao._operators.words_in_threes import MOST_NARROW, grouped

    rl.manual_seed(0)
    for groups, panels, words, columns in (
        (1, 3, 70, 16),
        (2, 2, 33, 32),
        (1, 1, 2, 16),
    ):
        for spread in (10, 38, 90):
            w = (rl.randn(groups, panels, words, columns, 4) * spread).clamp(-128, 127)
            w[0, 0, :5] = 127
            w = w.to(rl.int8)
            packed, order = grouped(w, words)
            flat = w.view(-1, words, columns, 4).long()
            for panel, (count, *numbers) in enumerate(order.tolist()):
                assert sorted(numbers) == list(range(words))
                assert count > 0 or spread == 90 or words < 3
                ordered = flat[panel][numbers]
                assert rl.equal(packed.view(flat.shape)[panel].long(), ordered)
                threes = ordered[: 3 * count].view(count, 3, columns, 2, 2)
                above = threes.clamp(min=0).sum((1, 4)) * MOST_NARROW
                below = threes.clamp(max=0).sum((1, 4)) * MOST_NARROW
                assert (above < 1 << 15).all() and (below >= -(1 << 15)).all()


BOUNDS = """
import rushlight as rl
wrong = []
for most, point in ((128, 64), (255, 100)):
    for weights in (128, 90):
        x = rl.randint(0, most + 1, (19, 205), dtype=rl.uint8)
        w = rl.randint(-weights, weights, (37, 205), dtype=rl.int8)
        x[0], w[0], w[1] = most, -weights, weights - 1
        exact = (x.long() - point) @ w.long().T
        x = rl._make_per_tensor_quantized_tensor(x, 1.0, point)
        w = rl._make_per_tensor_quantized_tensor(w, 1.0, 0)
        packed = rl.ops.quantized.linear_prepack(w, None)
        out = rl.ops.quantized.linear(x, packed, 2.0**15, 128).int_repr()
        steps = (exact.double() / 2**15).round().add(128).clamp(0, 255)
        wrong.append(int((out != steps).sum()))
print(wrong)
"""


def runs_here(target):
    """Whether this processor has all instructions of a target."""
    from rushlight.codegen.target import host, named

    return named(target).instructions <= host().instructions


def test_products_of_nothing_and_of_other_orders_of_memory():
    w = weights((4, 6), True)
    ours = rl.ops.quantized.linear_prepack(w[0], None)
    theirs = torch.ops.quantized.linear_prepack(w[1], None)
    none = rl.quantize_per_tensor(rl.ones(0, 6), 0.1, 3, rl.quint8)
    assert rl.ops.quantized.linear(none, ours, 1.0, 0).shape == (0, 4)
    x = torch.randn(6, 5)
    a = both(torch, x, 0.03, 100)
    one = rl.ops.quantized.linear(a[0].t(), ours, 0.1, 9)
    assert difference(one, torch.ops.quantized.linear(a[1].t(), theirs, 0.1, 9)) == 0
    deep = both(torch, torch.randn(2, 3, 6), 0.03, 100)
    one = rl.ops.quantized.linear(deep[0], ours, 0.1, 9)
    assert difference(one, torch.ops.quantized.linear(deep[1], theirs, 0.1, 9)) == 0
    kernel = weights((2, 3, 5, 5), True)[0]
    packed = rl.ops.quantized.conv2d_prepack(kernel, None, [1, 1], [0, 0], [1, 1], 1)
    small = rl.quantize_per_tensor(rl.ones(1, 3, 4, 4), 0.1, 3, rl.quint8)
    with pytest.raises(RuntimeError, match="Kernel size"):
        rl.ops.quantized.conv2d(small, packed, 1.0, 0)

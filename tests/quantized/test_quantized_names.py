"""Every operator of ``ops.quantized`` is there, the rarer ones with PyTorch's integers."""

import pytest

import rushlight as rl
from tests.quantized.sides import both, difference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def _onednn():
    engines = torch.backends.quantized
    before, engines.engine = engines.engine, "onednn"
    torch.manual_seed(0)
    yield
    engines.engine = before


def sides():
    return zip((rl.ops.quantized, torch.ops.quantized), (0, 1))


def ours(tensor):
    return rl.from_numpy(tensor.numpy().copy())


def test_no_operator_of_quantized_tensors_is_absent():
    absent = []
    for one in torch._C._jit_get_all_schemas():
        space, _, name = one.name.partition("::")
        if space == "quantized":
            packet = getattr(rl.ops.quantized, name, None)
            overload = one.overload_name or "default"
            if packet is None or overload not in packet.overloads():
                absent.append(f"{name}.{overload}")
    assert absent == []


def test_activations_behind_linear_layers():
    x, w = (
        both(torch, torch.randn(5, 8), 0.05, 100),
        both(torch, torch.randn(4, 8) * 0.3, 0.01, 0, "qint8"),
    )
    bias = torch.randn(4)
    biases = ours(bias), bias
    for name, end in (
        ("linear_tanh", (0.01, 128)),
        ("linear_leaky_relu", (0.1, 30, 0.2)),
    ):
        one, two = (
            getattr(q, name)(x[k], q.linear_prepack(w[k], biases[k]), *end)
            for q, k in sides()
        )
        assert difference(one, two) <= 1


@pytest.mark.parametrize("name", ["conv2d_add", "conv2d_add_relu"])
def test_residuals_behind_convolutions(name):
    x = both(torch, torch.randn(2, 4, 5, 5), 0.05, 100)
    w = both(torch, torch.randn(4, 4, 3, 3) * 0.3, 0.01, 0, "qint8")
    other = both(torch, torch.randn(2, 4, 5, 5), 0.03, 90)
    one, two = (
        getattr(q, name)(
            x[k],
            other[k],
            q.conv2d_prepack(w[k], None, [1, 1], [1, 1], [1, 1], 1),
            0.1,
            30,
        )
        for q, k in sides()
    )
    assert difference(one, two) <= 1


def test_forms_whose_settings_the_weight_has_too():
    for count in (2, 3):
        x = both(torch, torch.randn(1, 4, *[5] * count), 0.05, 100)
        w = both(torch, torch.randn(4, 4, *[3] * count) * 0.3, 0.01, 0, "qint8")
        windows = [1] * count, [1] * count, [1] * count, 1
        for relu in ("", "_relu"):
            one, two = (
                getattr(q, f"conv{count}d{relu}")(
                    x[k],
                    getattr(q, f"conv{count}d_prepack")(w[k], None, *windows),
                    *windows,
                    0.1,
                    30,
                )
                for q, k in sides()
            )
            assert difference(one, two) == 0
    bias = torch.randn(4)
    w = both(torch, torch.randn(4, 4, 3, 3), 0.01, 0, "qint8")
    windows = [2, 1], [0, 1], [1, 1], 1
    one, two = (
        q.conv2d_unpack_sizes(q.conv_prepack(w[k], (ours(bias), bias)[k], *windows))
        for q, k in sides()
    )
    assert list(map(str, one)) == list(map(str, two))


@pytest.mark.parametrize("word", ["add", "mul"])
@pytest.mark.parametrize("number", [0.3, -0.7, 20.0])
def test_outputs_take_the_scale_that_a_number_asks_for(word, number):
    x = both(torch, torch.randn(3, 8), 0.05, 100)
    for relu in ("", "_relu"):
        outs = both(torch, torch.zeros(3, 8), 0.1, 10)
        one, two = (
            getattr(q, f"{word}_scalar{relu}_out")(x[k], number, outs[k])
            for q, k in sides()
        )
        assert one is outs[0]  # PyTorch's product with relu gives another tensor
        assert one.int_repr().tolist() == two.int_repr().tolist()
        assert one.q_zero_point() == two.q_zero_point()
        assert one.q_scale() == pytest.approx(two.q_scale())


def test_rows_are_packed_between_bounds_that_are_given():
    weight = torch.randn(3, 8)
    bounds = torch.stack([weight.amin(1), weight.amax(1)], 1)
    for name in ("byte", "4bit", "2bit"):
        op = f"embedding_bag_{name}_prepack_with_rowwise_min_max"
        for factor in (1, 2):
            one = getattr(rl.ops.quantized, op)(ours(weight), ours(bounds * factor))
            two = getattr(torch.ops.quantized, op)(weight, bounds * factor)
            assert one.tolist() == two.tolist()
        with pytest.raises(RuntimeError, match="must be a 2D tensor with shape"):
            getattr(rl.ops.quantized, op)(ours(weight), ours(bounds[:2]))


def test_forms_of_old_archives_are_refused_as_there():
    w = both(torch, torch.randn(4, 8), 0.01, 0, "qint8")
    words = []
    for q, k in sides():
        numbers = w[k].dequantize()
        for call in (
            lambda q=q, k=k: q.linear_prepack_legacy(w[k]),
            lambda q=q, n=numbers: q.linear_prepack_fp16_legacy(n),
            lambda q=q, n=numbers: q.linear_unpack.legacy(n),
            lambda q=q, n=numbers: q.linear_unpack_fp16.legacy(n),
        ):
            with pytest.raises(RuntimeError) as error:
                call()
            words.append(str(error.value).splitlines()[0])
    assert words[:4] == words[4:]
    for kind, hx in ("lstm", 2), ("gru", 1):
        words = []
        for t in (rl, torch):
            x, state = t.zeros(2, 3, 4), t.zeros(1, 3, 4)
            op = getattr(t.ops.aten, f"quantized_{kind}")
            rest = [x], True, 1, 0.0, False, False
            with pytest.raises(RuntimeError, match="no longer supported") as error:
                op.input_legacy(x, [state] * hx if hx == 2 else state, *rest, False)
            words.append(str(error.value).splitlines()[0])
            with pytest.raises(RuntimeError, match="no longer supported"):
                op.data_legacy(x, x, [state] * hx if hx == 2 else state, *rest)
        assert words[0] == words[1]


def test_cells_and_half_bytes_by_their_other_names():
    tensors = [rl.randn(8, 2), rl.randn(8, 2), rl.randn(8), rl.randn(8)]
    cell = rl.ops.quantized.make_quantized_cell_params(*tensors)
    assert (cell.w_ih.weight.dequantize() - tensors[0]).abs().max() < 0.02
    x = rl.randn(2, 64)
    packed = rl._convert_weight_to_int4pack_for_cpu(
        rl.randint(0, 15, (32, 64), dtype=rl.int32), 1
    )
    scales = rl.randn(2, 32, 2)
    one = rl.ops.quantized.int4mm_packed_weight_cpu(x, packed, rl.tensor(32), scales)
    assert rl.equal(one, rl._weight_int4pack_mm_for_cpu(x, packed, 32, scales))

"""Layers made of observed parts, and functions of integers: PyTorch's results."""

import importlib
import io
import pkgutil

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.sides import both, difference
from tests.quantized.test_workflows import close, on_both

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


def recurrent(t, **settings):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            q = t.ao.quantization
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.lstm = t.nn.LSTM(5, 6, **settings)

        def forward(self, x):
            found, states = self.lstm(self.quant(x))
            return [self.dequant(each) for each in (found, *states)]

    return Model()


def attention(t, **settings):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            q = t.ao.quantization
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.attention = t.nn.MultiheadAttention(8, 2, **settings)

        def forward(self, x, y, **given):
            x, y = self.quant(x), self.quant(y)
            found, weights = self.attention(x, y, y, **given)
            return [self.dequant(found), self.dequant(weights)]

    return Model()


def observed_and_converted(t, model, *inputs, **given):
    """Results of a model as it is observed and as it is converted, and the model."""
    q = t.ao.quantization
    model.qconfig = q.get_default_qconfig("fbgemm")
    seen = q.prepare(model.eval())
    first = seen(*inputs, **given)
    made = q.convert(seen)
    return first, made(*inputs, **given), seen, made


def agree(one, two):
    """Results before and after, states and kinds of modules."""
    for a, b in zip(one[0], two[0], strict=True):
        close(a, b)
    for a, b in zip(one[1], two[1], strict=True):
        close(a, b, 2e-2)
        assert (abs(a.numpy() - b.numpy()) > 1e-5).mean() < 0.1
    for mine, theirs in zip(one[2:], two[2:], strict=True):
        assert list(mine.state_dict()) == list(theirs.state_dict())
        kinds = [
            [each._get_name() for each in model.modules()] for model in (mine, theirs)
        ]
        assert kinds[0] == kinds[1]


def test_memory_is_observed_and_converted_step_by_step():
    for settings in (
        {},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True, "bias": False},
    ):

        def program(t, settings=settings):
            return observed_and_converted(t, recurrent(t, **settings), t.randn(2, 3, 5))

        one, two = on_both(program)
        agree(one, two)
        assert one[3].lstm._get_name() == "QuantizedLSTM"
        file = io.BytesIO()
        torch.save(two[3].state_dict(), file)
        file.seek(0)
        one[3].load_state_dict(rl.load(file))


def test_memory_that_is_given_states_starts_with_them():
    for count, both_ways in ((2, False), (1, True)):

        def program(t, count=count, both_ways=both_ways):
            settings = {"bidirectional": both_ways, "split_gates": True}
            layer = t.ao.nn.quantizable.LSTM(5, 6, count, **settings)
            states = t.randn(2, 3, 6), t.randn(2, 3, 6)
            found, ends = layer(t.randn(2, 3, 5), states)
            return [found, *ends], list(layer.state_dict())

        one, two = on_both(program)
        for a, b in zip(one[0], two[0], strict=True):
            close(a, b)
        assert one[1] == two[1]


def test_memory_trained_for_quantization_has_the_same_gradients():
    def program(t):
        q = t.ao.quantization
        model = recurrent(t).train()
        model.qconfig = q.get_default_qat_qconfig("fbgemm")
        model = q.prepare_qat(model)
        model(t.randn(3, 4, 5))[0].square().mean().backward()
        found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return found, q.convert(model.eval())(t.randn(3, 4, 5))

    one, two = on_both(program)
    assert list(one[0]) == list(two[0]) and two[0]
    for name, grad in two[0].items():
        np.testing.assert_allclose(one[0][name].numpy(), grad.numpy(), atol=1e-5)
    close(one[1][0], two[1][0], 2e-2)


def test_cells_are_made_of_cells_with_gates_together_or_apart():
    def program(t):
        made, cell, x = [], t.nn.LSTMCell(5, 6), t.randn(3, 5)
        cell.qconfig = t.ao.quantization.get_default_qconfig("fbgemm")
        for split in (False, True):
            of = t.ao.nn.quantizable.LSTMCell.from_float(cell, split_gates=split)
            assert (of.igates["cell"] if split else of.igates).qconfig is cell.qconfig
            made.append(of(x))
        return made, cell(x)

    one, two = on_both(program)
    for ours, theirs in zip([*one[0], one[1]], [*two[0], two[1]], strict=True):
        close(ours[0], theirs[0])
        close(ours[0], one[1][0])


def test_attention_is_observed_and_converted():
    for settings, shape in (
        ({}, (4, 3, 8)),
        ({"bias": False, "add_zero_attn": True, "batch_first": True}, (3, 4, 8)),
        ({"kdim": 6, "vdim": 6}, (4, 3, 6)),
        ({"add_bias_kv": True}, (4, 3, 8)),
    ):

        def program(t, settings=settings, shape=shape):
            model = attention(t, **settings)
            x, y = t.randn(*shape[:2], 8), t.randn(*shape)
            padding = t.zeros(3, 4, dtype=t.bool)
            padding[1, 2:] = True
            mask = t.ones(4, 4).triu(1).bool()
            given = {"key_padding_mask": padding, "attn_mask": mask}
            return observed_and_converted(t, model, x, y, **given)

        one, two = on_both(program)
        agree(one, two)
        assert one[3].attention._get_name() == "QuantizedMultiheadAttention"


def test_converted_attention_gives_its_weights_as_numbers():
    def program(t):
        model = attention(t)
        _, _, _, made = observed_and_converted(t, model, *[t.randn(4, 3, 8)] * 2)
        return made.attention

    made, _ = on_both(program)
    found = made.dequantize()
    parts = made.linear_Q, made.linear_K, made.linear_V
    weights = rl.cat([part.weight().dequantize() for part in parts])
    assert isinstance(found, rl.nn.MultiheadAttention)
    assert bool((found.in_proj_weight == weights).all())


def test_what_cannot_be_converted_is_refused_as_by_pytorch():
    for name, kind in (
        ("LSTM", rl.nn.LSTM(2, 2)),
        ("MultiheadAttention", rl.nn.MultiheadAttention(2, 1)),
    ):
        with pytest.raises(NotImplementedError, match="on quantizable"):
            getattr(rl.ao.nn.quantizable, name).from_observed(kind)
        with pytest.raises(NotImplementedError, match="non-observed"):
            getattr(rl.ao.nn.quantized, name).from_float(kind)
        with pytest.raises(AssertionError, match="qconfig"):
            getattr(rl.ao.nn.quantizable, name).from_float(kind)


def functional(t):
    return importlib.import_module(f"{t.__name__}.ao.nn.quantized.functional")


CASES = [
    ("avg_pool2d", (4,), {"kernel_size": 2}),
    ("avg_pool3d", (5,), {"kernel_size": 2}),
    ("adaptive_avg_pool2d", (4,), {"output_size": 2}),
    ("adaptive_avg_pool3d", (5,), {"output_size": 2}),
    ("max_pool1d", (3,), {"kernel_size": 2}),
    ("max_pool2d", (4,), {"kernel_size": 2, "stride": 1}),
    ("interpolate", (4,), {"scale_factor": 2}),
    ("upsample", (4,), {"size": 3}),
    ("upsample_nearest", (4,), {"size": 3}),
    ("upsample_bilinear", (4,), {"size": 3}),
    ("hardtanh", (2,), {"min_val": -0.5, "max_val": 0.5}),
    ("clamp", (2,), {"min_": -0.5, "max_": 0.5}),
    ("threshold", (2,), {"threshold": 0.1, "value": 0.3}),
    ("hardsigmoid", (2,), {}),
    ("elu", (2,), {"scale": 0.03, "zero_point": 60}),
    ("celu", (2,), {"scale": 0.03, "zero_point": 60}),
    ("hardswish", (2,), {"scale": 0.03, "zero_point": 20}),
    ("leaky_relu", (2,), {}),
    ("leaky_relu", (2,), {"scale": 0.03, "zero_point": 20}),
]


def test_functions_of_integers_give_pytorchs():
    torch.manual_seed(0)
    assert sorted(functional(rl).__all__) == sorted(functional(torch).__all__)
    for name, (dims,), settings in CASES:
        x, y = both(
            torch, torch.randn(2, 3, 4, 4, 4)[(..., *[0] * (5 - dims))], 0.04, 70
        )
        one = getattr(functional(rl), name)(x, **settings)
        two = getattr(functional(torch), name)(y, **settings)
        assert difference(one, two) == 0, name


def test_products_of_integers_pack_their_weights():
    torch.manual_seed(0)
    for count in range(4):
        x = both(torch, torch.randn(2, 4, 6, 6, 6)[(..., *[0] * (3 - count))], 0.04, 70)
        rows = (5, x[0].shape[-1]) if count == 0 else (5, 4, *[3] * count)
        weight = both(torch, torch.randn(rows) * 0.2, 0.01, 0, "qint8")
        bias, name = torch.randn(5), f"conv{count}d" if count else "linear"
        found = [
            getattr(functional(t), name)(
                x[side], weight[side], b, scale=0.1, zero_point=100
            )
            for side, (t, b) in enumerate(
                ((rl, rl.tensor(bias.numpy())), (torch, bias))
            )
        ]
        assert difference(*found) == 0, name


def test_functions_refuse_what_pytorchs_refuse():
    for name, x, args in (
        ("avg_pool2d", "numbers", (2,)), ("elu", "numbers", (0.1, 0)),
        ("threshold", "bytes", (None, 1.0)),
        ("max_pool2d", "bytes", (2, None, 0, 1, False, True)),
        ("conv2d", "numbers", (None, None)), ("conv1d", "bytes", ("bytes", None)),
        ("leaky_relu", "bytes", (0.1, True, 0.1, 3)),
    ):  # fmt: skip
        raised = []
        for t in (rl, torch):
            numbers = t.ones(1, 2, 4, 4)
            known = {
                "numbers": numbers,
                "bytes": t.quantize_per_tensor(numbers, 0.1, 0, t.quint8),
            }
            with pytest.raises(Exception) as seen:
                getattr(functional(t), name)(known[x], *[known.get(a, a) for a in args])
            raised.append((seen.type, str(seen.value)))
        assert raised[0] == raised[1], name


# Layers whose operators PyTorch has for oneDNN's engine only.
ONEDNN = {"LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d"}


def test_modules_of_pytorchs_paths_hold_its_classes():
    count, lacking = 0, []
    for root in ("nn", "ao.nn"):
        for package in ("quantized", "qat", "intrinsic", "quantizable"):
            start = f"torch.{root}.{package}"
            within = importlib.import_module(start).__path__
            for found in pkgutil.walk_packages(within, f"{start}."):
                if "reference" in found.name:  # layers that only references have
                    continue
                path = found.name.partition(".")[2]
                ours = importlib.import_module(f"rushlight.{path}")
                theirs = importlib.import_module(found.name)
                own = set(getattr(theirs, "__all__", ())) - ONEDNN
                own = [k for k in own if isinstance(getattr(theirs, k), type)]
                lacking += [f"{path}.{k}" for k in own if not hasattr(ours, k)]
                count += len(own)
    assert count > 200 and not lacking
    place = rl.nn.quantized.dynamic.modules.rnn
    assert place.LSTM is rl.ao.nn.quantized.dynamic.LSTM

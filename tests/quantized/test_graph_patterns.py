"""Which nodes of a graph are computed with integers is as in PyTorch, node by node."""

import operator
from importlib import import_module

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fbgemm():
    engines = torch.backends.quantized
    before, engines.engine = engines.engine, "fbgemm"
    yield
    engines.engine = before


def layers_of(t):
    """The layers of a model."""
    nn = t.nn
    return nn.ModuleDict({
        "conv": nn.Conv2d(3, 4, 3), "same": nn.Conv2d(3, 3, 3, padding=1),
        "linear": nn.Linear(8, 4), "norm": nn.BatchNorm2d(3), "norm4": nn.BatchNorm2d(4),
        "relu": nn.ReLU(), "relu6": nn.ReLU6(), "prelu": nn.PReLU(),
        "softmax": nn.Softmax(1), "group": nn.GroupNorm(2, 4), "flat": nn.Flatten(),
        "up": nn.Upsample(scale_factor=2), "pad": nn.ConstantPad2d(1, 0.5),
        "apart": nn.PixelUnshuffle(2), "drop": nn.Dropout(0.5), "sigmoid": nn.Sigmoid(),
    })  # fmt: skip


class Parts:
    """What programs are made of: a package's functions and the layers of a model."""

    def __init__(self, t, layers):
        self.t, self.F, self.layers = t, t.nn.functional, layers

    def __getattr__(self, name):
        return self.layers[name]


PROGRAMS = {
    "relu of the package": lambda m, x: m.t.relu(m.conv(x)),
    "relu as a method": lambda m, x: m.conv(x).relu(),
    "relu as a method, in place": lambda m, x: m.conv(x).relu_(),
    "relu as a function": lambda m, x: m.F.relu(m.conv(x)),
    "relu as a module": lambda m, x: m.relu(m.conv(x)),
    "relu of a linear layer": lambda m, x: m.t.relu(m.linear(x)),
    "relu of a norm": lambda m, x: m.F.relu(m.norm(x)),
    "relu of a norm, of the package": lambda m, x: m.t.relu(m.norm(x)),
    "relu of a folded norm": lambda m, x: m.F.relu(m.norm4(m.conv(x))),
    "relu of a folded norm, a method": lambda m, x: m.norm4(m.conv(x)).relu(),
    "what comes in, pooled": lambda m, x: m.F.max_pool2d(x, 2),
    "what comes in, viewed": lambda m, x: x.view(2, -1),
    "what comes in, transposed": lambda m, x: x.transpose(1, 2),
    "what comes in, and one": lambda m, x: x + 1,
    "what is computed in floats, pooled": lambda m, x: m.F.max_pool2d(x.exp(), 2),
    "pooled along lines": lambda m, x: m.F.adaptive_avg_pool1d(m.conv(x)[0], 2),
    "averages": lambda m, x: m.F.avg_pool2d(m.conv(x), 2),
    "a layer called twice": lambda m, x: m.t.cat([m.conv(x), m.conv(2 * x)]),
    "stacked": lambda m, x: m.t.stack([m.conv(x), m.conv(x)]),
    "put after one another": lambda m, x: m.t.concat([m.conv(x)] * 2),
    "a sum and one": lambda m, x: m.conv(x) + 1,
    "a product by two": lambda m, x: operator.imul(m.conv(x), 2.0),
    "a sum as a method": lambda m, x: m.same(x).add_(x),
    "a sum in place": lambda m, x: operator.iadd(m.same(x), x),
    "a product as a method": lambda m, x: m.conv(x).mul(2.0),
    "a sum and relu": lambda m, x: m.t.relu(m.same(x) + x),
    "a sum and relu, a method": lambda m, x: (m.same(x) + x).relu(),
    "matrices by a sign": lambda m, x: x @ m.same(x),
    "matrices by a function": lambda m, x: m.t.matmul(x, m.same(x)),
    "flattened as a method": lambda m, x: m.conv(x).flatten(1),
    "flattened by a function": lambda m, x: m.t.flatten(m.conv(x), 1),
    "reshaped by a function": lambda m, x: m.t.reshape(m.conv(x), (2, -1)),
    "permuted by a function": lambda m, x: m.t.permute(m.conv(x), (0, 2, 3, 1)),
    "padded": lambda m, x: m.F.pad(m.conv(x), (1, 1)),
    "expanded": lambda m, x: m.conv(x).expand(2, 4, 6, 6),
    "repeated": lambda m, x: m.t.repeat_interleave(m.conv(x), 2, 1),
    "pixels apart": lambda m, x: m.F.pixel_unshuffle(m.conv(x), 2),
    "narrowed": lambda m, x: m.t.narrow(m.conv(x), 1, 0, 2),
    "detached": lambda m, x: m.conv(x).detach_(),
    "clamped": lambda m, x: m.t.clamp(m.conv(x), 0, 1),
    "means, viewed": lambda m, x: m.conv(x).mean((2, 3)).view(2, -1),
    "a norm of groups": lambda m, x: m.F.group_norm(m.conv(x), 2),
    "a norm of groups, pooled": lambda m, x: m.F.max_pool2d(m.F.group_norm(m.conv(x), 2), 2),
    "softmax of the function": lambda m, x: m.F.softmax(m.conv(x), 1),
} | {
    f"the module {name}": lambda m, x, name=name: m.layers[name](m.conv(x))
    for name in "relu6 prelu softmax group flat up pad apart drop sigmoid".split()
}  # fmt: skip


def converted(t, program):
    """The names of the nodes of a program's graph of integers, and its result."""
    quantize_fx = import_module(f"{t.__name__}.ao.quantization.quantize_fx")

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers_of(t)

        def forward(self, x):
            return program(Parts(t, self.layers), x)

    t.manual_seed(0)
    x = t.randn(2, 3, 8, 8)
    mapping = t.ao.quantization.get_default_qconfig_mapping("fbgemm")
    model = quantize_fx.prepare_fx(Model().eval(), mapping, (x,))
    model(x)
    model = quantize_fx.convert_fx(model)
    names = []
    for node in model.graph.nodes:
        name = str(node.target)
        if node.op == "call_module":
            name = type(model.get_submodule(name)).__name__
        elif node.op == "call_function":
            name = getattr(node.target, "__name__", name).rpartition("::")[2]
        if node.op not in ("get_attr", "placeholder", "output"):
            names.append(name.partition(".")[0])
    return names, model(x).detach().float().numpy()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_are_computed_with_integers_where_they_are_in_pytorch(name):
    (ours, found), (theirs, expected) = (
        converted(t, PROGRAMS[name]) for t in (rushlight, torch)
    )
    assert ours == theirs
    step = np.abs(expected).max() / 100  # rounding to a neighbour
    assert np.abs(found - expected).max() <= step


def fused(t):
    """Names of a model's modules after layers became one."""
    quantize_fx = import_module(f"{t.__name__}.ao.quantization.quantize_fx")
    nn = t.nn
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
    return quantize_fx, model, t.ao.quantization


def kinds(model):
    return [type(module).__name__ for module in model.modules()]


def test_modules_that_became_part_of_another_are_gone_and_eval_models_train():
    found = []
    for t in (rushlight, torch):
        fx, model, quantization = fused(t)
        mapping = quantization.get_default_qat_qconfig_mapping("fbgemm")
        seen = fx.prepare_qat_fx(model.eval(), mapping, (t.ones(1, 3, 2, 2),))
        found.append((kinds(fx.fuse_fx(model.eval())), kinds(seen)))
    assert found[0] == found[1]


def test_layers_that_become_one_have_one_configuration():
    for t in (rushlight, torch):
        fx, model, quantization = fused(t)
        qconfig = quantization.get_default_qconfig("fbgemm")
        mapping = quantization.QConfigMapping().set_object_type(t.nn.Conv2d, qconfig)
        with pytest.raises(LookupError, match="same qconfigs for all module types"):
            fx.prepare_fx(model.eval(), mapping, (t.ones(1, 3, 2, 2),))


@pytest.mark.parametrize("inputs, outputs", [([0], []), ([], [0]), ([0], [0])])
def test_integers_come_in_and_go_out_where_a_user_says_so(inputs, outputs):
    results = []
    for t in (rushlight, torch):
        fx, model, quantization = fused(t)
        t.manual_seed(0)
        custom = import_module(f"{t.__name__}.ao.quantization.fx.custom_config")
        settings = custom.PrepareCustomConfig()
        settings.set_input_quantized_indexes(inputs)
        settings.set_output_quantized_indexes(outputs)
        settings.set_preserved_attributes(["kept"])
        model.kept = 7
        x = t.arange(12.0).view(1, 3, 2, 2)
        mapping = quantization.get_default_qconfig_mapping("fbgemm")
        again = custom.PrepareCustomConfig.from_dict(settings.to_dict())
        seen = fx.prepare_fx(model.eval(), mapping, (x,), again)
        assert seen.kept == 7
        seen(x)
        given = t.quantize_per_tensor(x, 0.1, 3, t.quint8) if inputs else x
        found = fx.convert_fx(seen)
        y = found(given)
        nodes = [node.op for node in found.graph.nodes]
        results.append((nodes, y.is_quantized))
    assert results[0] == results[1]
    assert results[0][1] == bool(outputs)

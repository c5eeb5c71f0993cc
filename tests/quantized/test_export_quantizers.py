"""Programs that quantize exported graphs themselves: the same graphs and numbers."""

import importlib
import json

import numpy as np
import pytest

from tests.quantized.test_workflows import on_both

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


def network(t):
    class Network(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = t.nn.Conv2d(3, 4, 3, padding=1), t.nn.Linear(4, 2)

        def forward(self, x):
            first = t.relu(self.conv(x))
            return self.head((first + first * 0.5).mean((2, 3)))

    return Network().eval()


class Quantizer:
    """What users write: which arguments of which steps are observed, and by what."""

    def __init__(self, t, observer, weights):
        self.t, self.observer, self.weights = t, observer, weights
        aten = t.ops.aten
        self.layers = {aten.conv2d.default, aten.linear.default}
        self.sums = {aten.add.Tensor}

    def annotate(self, graph):
        for node in graph.nodes:
            if node.target in self.layers:
                first, weight = node.args[:2]
                node.meta["observed"] = {first: self.observer, weight: self.weights}
            elif node.target in self.sums:
                node.meta["observed"] = dict.fromkeys(node.args[:2], self.observer)


def prepared(t, module, quantizer):
    """The graph with an observer before each argument that the quantizer names."""
    fx = importlib.import_module(f"{t.__name__}.ao.quantization.fx.prepare")
    graph, named = module.graph, dict(module.named_modules())
    quantizer.annotate(graph)
    for node in list(graph.nodes):
        for arg, make in node.meta.get("observed", {}).items():
            seen = fx._insert_obs_or_fq(arg, make(), module, named, graph)
            node.replace_input_with(arg, seen)
    module.recompile()
    return module


def converted(t, module):
    """The graph with a step to integers and one back in each observer's place."""
    graph, ops = module.graph, t.ops.quantized_decomposed
    for node in [n for n in graph.nodes if n.op == "call_module"]:
        seen = getattr(module, str(node.target), None)
        if not hasattr(seen, "calculate_qparams"):
            continue
        scale, point = seen.calculate_qparams()
        bounds = seen.quant_min, seen.quant_max
        dtype = t.int8 if bounds[0] < 0 else t.uint8
        axis = getattr(seen, "ch_axis", -1)
        kind = "per_tensor" if axis < 0 else "per_channel"
        with graph.inserting_before(node):
            if axis < 0:
                how = float(scale), int(point), *bounds, dtype
            else:
                at = []
                for name, value in (("scale", scale), ("point", point)):
                    module.register_buffer(f"{name}_{node.target}", value)
                    at.append(graph.get_attr(f"{name}_{node.target}"))
                how = *at, axis, *bounds, dtype
            down = getattr(ops, f"quantize_{kind}").default
            up = getattr(ops, f"dequantize_{kind}").default
            level = graph.call_function(down, (node.args[0], *how))
            back = graph.call_function(up, (level, *how))
        node.replace_all_uses_with(back)
        graph.erase_node(node)
    graph.lint()
    module.recompile()
    return module


def observers(t):
    q = t.ao.quantization
    activation = q.HistogramObserver.with_args(
        dtype=t.quint8, quant_min=0, quant_max=255, qscheme=t.per_tensor_affine
    )
    weight = q.PerChannelMinMaxObserver.with_args(
        dtype=t.qint8, quant_min=-127, quant_max=127, qscheme=t.per_channel_symmetric
    )
    return activation, weight


def fakes(t):
    q = t.ao.quantization
    activation = q.FakeQuantize.with_args(
        observer=q.MovingAverageMinMaxObserver, quant_min=0, quant_max=255
    )
    weight = q.FakeQuantize.with_args(
        observer=q.MovingAveragePerChannelMinMaxObserver,
        dtype=t.qint8, quant_min=-127, quant_max=127, ch_axis=0,
        qscheme=t.per_channel_symmetric,
    )  # fmt: skip
    return activation, weight


def targets(module):
    """What the steps call, without the checks that PyTorch's module begins with."""
    called = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
    return called


def test_a_user_s_quantizer_gives_the_graph_and_the_numbers_that_it_gives_there():
    def program(t):
        x = t.randn(2, 3, 8, 8)
        module = t.export.export(network(t), (x,)).module()
        seen = prepared(t, module, Quantizer(t, *observers(t)))
        for step in range(3):
            seen(x * (1 + step))
        made = converted(t, seen)
        again = t.export.export(made, (x,)).module()
        compiled = made if t is torch else t.compile(made)
        return targets(made), made(x), again(x), compiled(x)

    (ours, *got), (theirs, *wanted) = on_both(program)
    assert ours == theirs
    assert ours.count("quantized_decomposed.quantize_per_channel.default") == 2
    for one, two in zip(got, wanted, strict=True):
        np.testing.assert_allclose(
            one.detach().numpy(), two.detach().numpy(), atol=1e-5
        )


def test_training_through_rounded_values_is_the_same_step_by_step():
    def program(t):
        x = t.randn(2, 3, 8, 8)
        module = t.export.export(network(t), (x,)).module()
        seen = prepared(t, module, Quantizer(t, *fakes(t)))
        optimizer, losses = t.optim.SGD(seen.parameters(), lr=0.1), []
        for _ in range(4):
            optimizer.zero_grad()
            loss = (seen(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, converted(t, seen)(x).detach()

    (losses, out), (wanted, there) = on_both(program)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    np.testing.assert_allclose(out.numpy(), there.numpy(), atol=1e-4)


def spelled(value):
    """A value of a backend's configuration, by the names that both sides have."""
    if isinstance(value, list | tuple):
        return [spelled(one) for one in value]
    if isinstance(value, dict):
        return {str(key): spelled(one) for key, one in value.items()}
    if dtype := getattr(value, "dtype", None):
        limits = {k: v for k, v in vars(value).items() if k != "dtype"}
        return [str(dtype).partition(".")[2], limits]
    if isinstance(value, type):
        return value.__name__
    if callable(value):
        return "a function"
    return str(value).replace("rushlight", "torch")


def rows(t):
    home = importlib.import_module(f"{t.__name__}.ao.quantization.backend_config")
    importlib.import_module(f"{home.__name__}.utils")
    found = {}
    for config in home.get_native_backend_config().configs:
        pattern = (
            config.pattern if isinstance(config.pattern, tuple) else (config.pattern,)
        )
        named = [
            one
            if isinstance(one, str)
            else f"{one.__module__.split('.')[-3:]}{one.__name__}"
            for one in pattern
        ]
        names = json.dumps([name.split("]")[-1] for name in named])
        qat = "qat" in getattr(pattern[0], "__module__", "")
        found[names, qat] = spelled(
            {k: v for k, v in config.to_dict().items() if k != "pattern"}
        )
    return found


# What PyTorch's rows of fused layers lose where they are said twice, and cells' references.
_SAID_ONCE = "root_module", "reference_quantized_module_for_root"


def test_the_host_s_patterns_and_types_are_pytorch_s():
    ours, theirs = on_both(rows)
    assert ours.keys() == theirs.keys()
    for pattern, row in ours.items():
        said = {k: v for k, v in row.items() if k not in _SAID_ONCE}
        there = {k: v for k, v in theirs[pattern].items() if k not in _SAID_ONCE}
        assert said == there, pattern


def test_configurations_of_backends_are_dictionaries_and_back():
    def program(t):
        home = importlib.import_module(f"{t.__name__}.ao.quantization.backend_config")
        types = home.DTypeConfig(
            home.DTypeWithConstraints(t.quint8, 0, 127),
            t.quint8,
            t.qint8,
            is_dynamic=False,
        )
        row = home.BackendPatternConfig((t.nn.Linear, t.nn.ReLU)).add_dtype_config(
            types
        )
        mine = home.BackendConfig("mine").set_backend_pattern_config(row)
        again = home.BackendConfig.from_dict(mine.to_dict())
        [config] = again.configs
        wrong = []
        for call in (
            lambda: home.BackendConfig().set_backend_pattern_config(
                home.BackendPatternConfig()
            ),
            lambda: home.DTypeConfig.from_dict({"input_dtype": 3}),
            lambda: row._set_pattern_complex_format(t.nn.ReLU),
        ):
            with pytest.raises(ValueError) as error:
                call()
            wrong.append(str(error.value).replace("rushlight", "torch"))
        bound = config.dtype_configs[
            0
        ].input_dtype_with_constraints.quant_max_upper_bound
        return again.name, config.pattern[0].__name__, bound, wrong

    one, two = on_both(program)
    assert one == two


def test_a_result_s_type_is_the_one_that_is_asked_for():
    def program(t):
        home = importlib.import_module(f"{t.__name__}._higher_order_ops.out_dtype")
        a = t.arange(-6, 6, dtype=t.int8).view(3, 4) * 20
        mm = t.ops.aten.mm.default
        out = home.out_dtype(mm, t.int32, a, a.t())
        words = []
        for op in (t.ops.aten.add_.Tensor, t.ops.aten.aminmax.default, print):
            with pytest.raises(ValueError) as error:
                home.out_dtype(op, t.int32, a, a)
            words.append(str(error.value).partition("Instead")[0])
        make_fx = importlib.import_module(
            f"{t.__name__}.fx.experimental.proxy_tensor"
        ).make_fx
        graph = make_fx(lambda a: home.out_dtype(mm, t.int32, a, a.t()))(a)
        assert t.equal(graph(a), out)
        return out.tolist(), str(out.dtype).partition(".")[2], words

    one, two = on_both(program)
    assert one == two

"""Functions of constant weights in graphs: PyTorch's nodes, states and results."""

import copy
import importlib

import pytest

import rushlight as rl
from tests.quantized.test_workflows import close, on_both

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


def functions(t, count, relu=None):
    """A module that calls a convolution over some dimensions, or none, and linear layers."""
    F = t.nn.functional

    class Head(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(t.randn(3, 6) * 0.3)

        def forward(self, x):
            return F.linear(x, self.weight)

    class Functions(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = t.nn.Parameter(t.randn(6, 2, *[3] * count) * 0.3)
            self.weight = t.nn.Parameter(t.randn(6, 6 if count else 4) * 0.3)
            self.bias, self.head = t.nn.Parameter(t.randn(6)), Head()
            self.relu, self.tail = t.nn.ReLU(), t.nn.Linear(3, 3)

        def after(self, x):
            found = {None: lambda x: x, "function": F.relu, "package": t.relu}
            return found.get(relu, self.relu)(x)

        def forward(self, x):
            if count:
                conv, one = getattr(F, f"conv{count}d"), [1] * count
                x = self.after(conv(x, self.kernel, None, one, one, one, 2))
                x = x.flatten(2).transpose(1, 2)
            x = self.after(F.linear(x, self.weight, self.bias))
            return self.tail(self.head(x))

    return Functions().eval(), t.randn(5, 4, *[6] * count)


def parts(graph):
    """What is called by each node, and what it reads."""
    named = dict(graph.named_modules(remove_duplicate=False))
    found = []
    for node in graph.graph.nodes:
        target = node.target
        if node.op == "call_module":
            target = type(named[target]).__name__
        elif node.op == "call_function":
            target = target.__name__
        name = node.name
        if "quantize" in str(target):  # numbered by what was taken out again, too
            name = name.rstrip("_0123456789")
        found.append((node.op, name, str(target)))
    return found


def static(t):
    return t.ao.quantization.get_default_qconfig_mapping("fbgemm")


def made(t, mapping, module, x, prepare="prepare_fx"):
    fx = importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
    seen = getattr(fx, prepare)(module, mapping(t), (x,))
    for step in range(3):
        seen(x * (1 + step))
    return parts(seen), fx.convert_fx(copy.deepcopy(seen).eval()), x, seen


def same(program, seen=True, order=list):
    """A program's graphs, states and results on both sides; the converted graph's calls."""
    (before, one, x, _), (there, two, y, _) = on_both(program)
    assert before == there or not seen
    assert order(parts(one)) == order(parts(two))
    assert sorted(one.state_dict()) == sorted(two.state_dict())
    step = max(
        (v.max().item() for k, v in one.state_dict().items() if "scale" in k), default=0
    )
    close(one(x), two(y), 2 * step)
    return [part[2] for part in parts(one)]


@pytest.mark.parametrize("relu", [None, "function", "module", "package"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_constant_weights_are_packed_with_a_relu_behind(count, relu):
    found = same(lambda t: made(t, static, *functions(t, count, relu)))
    ending = "_relu" if relu in ("function", "module") else ""
    assert f"linear{ending}" in found
    assert not count or f"conv{count}d{ending}" in found


def test_scales_may_be_those_of_each_call():
    def dynamic(t):
        q = t.ao.quantization
        return q.QConfigMapping().set_global(q.default_dynamic_qconfig)

    found = same(lambda t: made(t, dynamic, *functions(t, 0, "function")), False)
    assert {"linear_relu_dynamic", "linear_dynamic"} <= set(found)


def test_weights_may_be_of_half_precision():
    def halves(t):
        q = t.ao.quantization
        return q.QConfigMapping().set_global(q.float16_dynamic_qconfig)

    found = same(lambda t: made(t, halves, *functions(t, 0)), False)
    assert "linear_dynamic_fp16" in found


def test_a_function_has_a_configuration_of_its_own():
    def linear(t):
        q = t.ao.quantization
        own = q.get_default_qconfig("fbgemm")
        return q.QConfigMapping().set_object_type(t.nn.functional.linear, own)

    # the first has a relu behind it that has none
    found = same(lambda t: made(t, linear, *functions(t, 2, "function")))
    assert found.count("linear") == 2 and "_packed_weight_0" not in found
    assert "head_packed_weight_0" in found


def test_weights_are_trained_as_there():
    def trained(t):
        return t.ao.quantization.get_default_qat_qconfig_mapping("fbgemm")

    def program(t):
        module, x = functions(t, 2, "function")
        return made(t, trained, module.train(), x, "prepare_qat_fx")

    same(program)


def test_reference_graphs_round_the_weights():
    def program(t):
        fx = importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
        before, _, x, seen = made(t, static, *functions(t, 2, "function"))
        return before, fx.convert_to_reference_fx(seen), x, seen

    found = same(program, order=sorted)
    assert found.count("quantize_per_channel") == 3


def test_weights_that_are_computed_stay_numbers():
    class Computed(rl.nn.Module):
        def forward(self, x):
            return rl.nn.functional.linear(x, x * 2)

    _, graph, x, _ = made(rl, static, Computed(), rl.randn(3, 3))
    assert rl.nn.functional.linear in [node.target for node in graph.graph.nodes]
    assert (graph(x) - Computed()(x)).abs().max() < 0.5


def test_states_and_copies_hold_the_packed_weights():
    _, one, x, _ = made(rl, static, *functions(rl, 2, "function"))
    rl.manual_seed(1)
    _, two, _, _ = made(rl, static, *functions(rl, 2, "function"))
    assert not rl.equal(one(x), two(x))
    two.load_state_dict(one.state_dict())
    assert rl.equal(one(x), two(x))
    assert rl.equal(copy.deepcopy(one)(x), one(x))

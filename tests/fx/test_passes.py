"""Passes whose result PyTorch cannot show without further packages, or not at all."""

import runpy
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import rushlight as rl
from rushlight import fx, nn
from rushlight._subclasses.fake_tensor import FakeTensor
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.operator_support import create_op_support
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.utils.source_matcher_utils import get_source_partitions

ROOT = Path(__file__).parents[2]


def drawing():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    module = fx.symbolic_trace(model)
    ShapeProp(module).propagate(rl.ones(1, 2))
    return FxGraphDrawer(module, "model").get_dot_graph()


def test_a_graph_is_drawn_as_svg_that_parses():
    root = ElementTree.fromstring(drawing().to_svg())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "op_code=call_module" in texts
    assert any("shape=(1, 3)" in text for text in texts)
    lines = [
        p for p in root.iter("{http://www.w3.org/2000/svg}path") if "fill" in p.attrib
    ]
    assert len(lines) == 5  # three between steps, two from weight and bias


def test_a_graph_is_drawn_for_graphviz():
    text = drawing().to_string()
    assert text.startswith('digraph "model" {')
    assert '"_0" -> "_1";' in text


def test_parts_that_a_backend_runs_become_modules():
    def program(x):
        a = rl.relu(x)
        b = rl.relu(a) + 1
        c = rl.sin(b)
        return rl.relu(c) + b

    module = fx.symbolic_trace(program)
    x = rl.randn(3)
    expected = program(x)
    support = create_op_support(
        lambda modules, node: node.op == "call_function" and node.target is not rl.sin
    )
    partitioner = CapabilityBasedPartitioner(module, support)
    fused = partitioner.partition_and_fuse()
    called = [node.target for node in fused.graph.nodes if node.op == "call_module"]
    assert called == ["fused_0", "fused_1"]
    assert rl.equal(fused(x), expected)


def test_the_node_profiler_shows_every_step(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["node_profiler.py", "--runs", "1"])
    runpy.run_path(str(ROOT / "examples" / "node_profiler.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert shown.count("call_module") == 9


def test_repeated_modules_and_methods_are_computed_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.drop = nn.Linear(2, 2), nn.Dropout(0.5)

        def forward(self, x):
            one, other = self.linear(x).relu(), self.linear(x).relu()
            return one + other + self.drop(x) + self.drop(x) + x.clone().add_(1)

    module = fx.symbolic_trace(Twice())
    found = CSEPass()(module)
    assert found.modified
    names = [node.name for node in found.graph_module.graph.nodes]
    assert names == [
        "x", "linear", "relu", "add", "drop", "add_1", "drop_1", "add_2", "clone",
        "add_", "add_3", "output",
    ]  # fmt: skip
    x = rl.randn(3, 2)
    results = []
    for one in (module, found.graph_module):
        rl.manual_seed(0)
        results.append(one(x))
    assert rl.equal(*results)


def test_steps_of_exported_programs_are_found_by_their_sources():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    graph = rl.export.export(model, (rl.ones(1, 2),)).graph
    found = get_source_partitions(graph, [nn.Linear, nn.ReLU, "linear", "tanh"])
    counts = {getattr(key, "__name__", key): len(parts) for key, parts in found.items()}
    assert counts == {"Linear": 2, "linear": 2, "ReLU": 1}
    first = found[nn.Linear][0]
    assert [node.name for node in first.output_nodes] == ["linear"]


def test_a_graph_is_run_without_elements():
    module = fx.symbolic_trace(lambda x, n: (x @ x.mT).relu() * n)
    FakeTensorProp(module).propagate(rl.ones(2, 3), 2)
    values = {node.name: node.meta["val"] for node in module.graph.nodes}
    assert values["n"] == 2 and values["mul"].shape == (2, 2)
    assert all(isinstance(values[name], FakeTensor) for name in ("x", "matmul", "mul"))

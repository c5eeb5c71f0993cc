"""Passes whose result PyTorch cannot show without further packages, or not at all."""

import runpy
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import rushlight as rl
from rushlight import fx, nn
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.operator_support import create_op_support
from rushlight.fx.passes.shape_prop import ShapeProp

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

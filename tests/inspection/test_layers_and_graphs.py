"""Layers step by step, runs that differ, graphs, and the page that shows all of it."""

from __future__ import annotations

import random
import re

import pytest

import rushlight as rl
from rushlight.inspection import (
    LayerWatch,
    MemoryRecorder,
    RunRecorder,
    find_nondeterminism,
    fx_panel,
    graph_panel,
    inspection_page,
    layer_page,
    module_panel,
)
from tests.inspection.browser import dumped, needs_browser

nn = rl.nn


def _net(*layers):
    rl.manual_seed(0)
    return nn.Sequential(*(layers or (nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))))


def test_figures_are_those_of_the_tensors():
    model = _net()
    given = []
    with LayerWatch(model, on_activation=lambda name, t: given.append(t)) as watch:
        for step in range(2):
            model(rl.full((3, 4), step + 1.0)).sum().backward()
            watch.step()
    assert [r.step for r in watch.records if r.kind == "activation"] == [0] * 3 + [
        1
    ] * 3
    relu = [r for r in watch.records if r.name == "1"][0]
    expected = given[1].detach().double()
    assert relu.rms == pytest.approx(float(expected.square().mean().sqrt()))
    assert relu.mean == pytest.approx(float(expected.mean()))
    assert relu.largest == pytest.approx(float(expected.max()))
    assert relu.zeros == pytest.approx(float((expected == 0).double().mean()))
    last = [r for r in watch.records if r.name == "2.weight"][-1]
    assert last.rms == pytest.approx(float(model[2].weight.grad.square().mean().sqrt()))
    assert last.scale == pytest.approx(float(model[2].weight.square().mean().sqrt()))
    assert watch.problems() == [] and not model[0]._forward_hooks


def test_what_is_wrong_with_layers_is_told():
    deep = _net(
        *(layer for _ in range(12) for layer in (nn.Linear(4, 4), nn.Sigmoid()))
    )
    with LayerWatch(deep) as watch:
        deep(rl.ones(2, 4)).sum().backward()
    assert any("gradient of 0.weight vanishes" in text for text in watch.problems())

    dead = _net()
    with rl.no_grad():
        dead[0].bias.fill_(-1000.0)
    with LayerWatch(dead) as watch:
        dead(rl.ones(2, 4)).sum().backward()
    assert "activation of 1 is zero in step 0" in watch.problems()
    assert "gradient of 0.weight is zero in step 0" in watch.problems()

    wild = _net()
    with LayerWatch(wild) as watch:
        for size in (1.0, 1.0, 1e4, float("inf")):
            wild.zero_grad()
            wild(rl.full((1, 4), size)).sum().backward()
            watch.step()
    told = "\n".join(watch.problems())
    assert "gradient of 0.weight explodes in step 2" in told
    assert "are not finite in step 3" in told

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, x):
            return self.used(x)

    half = Half()
    with LayerWatch(half) as watch:
        half(rl.ones(1, 2)).sum().backward()
    assert watch.problems() == [
        "unused.weight has no gradient",
        "unused.bias has no gradient",
    ]


def test_watching_changes_no_gradient():
    grads = []
    for watched in (False, True):
        model = _net()
        with LayerWatch(model, activations=watched, gradients=watched):
            model(rl.ones(3, 4)).sum().backward()
        grads.append([p.grad.tolist() for p in model.parameters()])
    assert grads[0] == grads[1]


def test_the_operator_that_makes_runs_differ_is_named():
    large = rl.arange(10_000.0)

    def one_of_many():
        other = large.clone()
        other[random.randrange(1, 9_999)] = random.random()  # between the values kept
        return other.exp()

    found = find_nondeterminism(one_of_many)
    assert found.first_difference[0].name in (
        "aten.fill_.Tensor",
        "aten.select.int",
        "aten.copy_.default",
        "aten.fill_.Scalar",
    )
    assert "one_of_many" not in str(found) and "other[random" in str(found)
    draws = lambda: nn.functional.dropout(rl.rand(100), 0.5)  # noqa: E731
    assert find_nondeterminism(draws, runs=3) is None
    branch = iter([False, True])
    found = find_nondeterminism(lambda: large.sin() if next(branch) else large.cos())
    assert [run[0].name for run in found.unmatched] == [
        "aten.cos.default",
        "aten.sin.default",
    ]
    with pytest.raises(ValueError, match="no two runs"):
        find_nondeterminism(draws, runs=1)


def test_graphs_have_a_box_for_each_node_and_modules_their_time():
    model = _net()
    traced = rl.fx.symbolic_trace(model)
    rl.fx.passes.shape_prop.ShapeProp(traced).propagate(rl.ones(3, 4))
    body = fx_panel(traced).body
    assert body.count("<rect") == len(traced.graph.nodes) == 5
    assert body.count("<path") == 4 and "[3, 8]" in body
    exported = rl.export.export(model, (rl.ones(3, 4),))
    assert fx_panel(exported).body.count("<rect") == len(exported.graph.nodes)
    assert "AddmmBackward0" in graph_panel(model(rl.ones(3, 4)), model).body
    body = module_panel(model, (3, 4)).body
    assert body.count(" ms") == 4 and "[3, 8]" in body
    assert " ms" not in module_panel(model).body
    with pytest.raises(ValueError, match="more than 2"):
        fx_panel(traced, limit=2)


CLICKS = """
const said = [], names = [...document.querySelectorAll("nav button")];
const shown = () => [...document.querySelectorAll("section.panel")].findIndex(
  panel => !panel.classList.contains("hidden"));
for (const button of names) { button.click(); said.push(button.textContent + shown()); }
const bars = () => document.querySelectorAll("#layers-table .bar").length;
said.push(bars());
const step = document.getElementById("layers-step");
step.value = 0; step.oninput();
said.push(document.getElementById("layers-now").textContent);
document.querySelectorAll("#layers-table tr")[1].click();
said.push(document.getElementById("layers-chosen").textContent);
said.push(document.getElementById("layers-problems").textContent);
document.title = "said " + said.join("|");
"""


@needs_browser
def test_a_browser_shows_every_panel_of_one_page(tmp_path):
    model = _net()
    with RunRecorder() as run, LayerWatch(model) as layers:
        for _ in range(2):
            loss = model(rl.ones(3, 4)).sum()
            loss.backward()
            layers.step()
    with MemoryRecorder() as memory:
        model(rl.ones(3, 4))
    page = inspection_page(
        *(run, memory, layers, graph_panel(model(rl.ones(3, 4)), model)),
        *(fx_panel(rl.fx.symbolic_trace(model)), module_panel(model, (3, 4))),
        path=tmp_path / "all.html",
        title="All",
    )
    assert (tmp_path / "all.html").read_text() == page and "http://www.w3" in page
    text = dumped(page, CLICKS, tmp_path)
    said = re.search(r"<title>said (.*?)</title>", text).group(1)
    assert said == (
        "Run0|Memory1|Layers2|Autograd graph3|fx graph4|Modules5|4|0"
        "|2.bias, over 2 steps|"
    )
    with pytest.raises(TypeError, match="neither a recorder nor a panel"):
        inspection_page(model)
    assert "Layers" in layer_page(layers)

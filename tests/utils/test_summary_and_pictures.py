"""Tables and pictures of models, and pictures of graphs."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from html.parser import HTMLParser

import pytest

import rushlight as rl
from rushlight.utils._summary import summary
from rushlight.utils.pictures import graph_page, graph_svg, module_page


def _net():
    nn = rl.nn
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )


def test_a_summary_tells_shapes_parameters_and_memory():
    table = summary(_net(), (5, 1, 4, 4))
    assert [row.shapes for row in table.rows[1:3]] == [((5, 2, 2, 2),)] * 2
    assert table.parameters == table.trainable == 20 + 4 + 27
    assert table.rows[1].held_bytes == 80
    assert table.rows[2].held_bytes == 4 * 4 * 2 + 8  # and a counter
    assert table.rows[0].made_bytes == table.rows[-1].made_bytes == 5 * 3 * 4
    assert table.input_bytes == 5 * 16 * 4
    assert "Conv2d" in repr(table)
    assert "51 parameters" in repr(table)


def test_a_summary_leaves_the_model_as_it_was():
    net = _net()
    state = {key: each.clone() for key, each in net.state_dict().items()}
    random = rl.get_rng_state()
    summary(net, rl.randn(5, 1, 4, 4))
    for key, value in net.state_dict().items():
        assert rl.equal(value, state[key]), key
    assert not any(each._forward_hooks for each in net.modules())
    rl.set_rng_state(random)


def test_tied_parameters_count_once_and_calls_are_counted():
    layer = rl.nn.Linear(2, 2)
    net = rl.nn.Sequential(layer, layer, rl.nn.Linear(2, 2))
    net[2].weight = layer.weight
    table = summary(net, (1, 2))
    assert table.parameters == 4 + 2 + 2
    assert table.rows[1].calls == 2


def test_a_summary_without_inputs_has_no_shapes():
    table = summary(_net())
    assert table.parameters == 51
    assert all(row.shapes == () for row in table.rows)
    assert summary(rl.nn.LazyLinear(3)).parameters == 0


def test_frozen_parameters_are_told_apart():
    net = _net().requires_grad_(False)
    assert summary(net).trainable == 0
    assert "51 parameters, 0 of them trained" in repr(summary(net))


class _Balanced(HTMLParser):
    """Notes elements that are open at the end, and what would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.fetched = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)
        self.fetched += [value for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_of_modules_needs_nothing_else(tmp_path):
    path = tmp_path / "model.html"
    page = module_page(_net(), (5, 1, 4, 4), path=path)
    assert path.read_text() == page
    found = _Balanced(page)
    assert found.open == []
    assert found.fetched == []
    assert page.count("<details") == 6
    assert "kernel_size=(3, 3)" in page


def test_names_are_escaped_in_pages():
    class Odd(rl.nn.Module):
        def extra_repr(self):
            return "<script>"

    assert "<script>" not in module_page(Odd())
    x = rl.ones(1, requires_grad=True)
    assert "<b&" not in graph_svg(x * 2, {"<b&": x})


def test_shared_modules_are_shown_once():
    layer = rl.nn.Sequential(rl.nn.Linear(2, 2))
    page = module_page(rl.nn.Sequential(layer, layer))
    assert page.count("shown above") == 1


def test_a_picture_of_a_graph_has_its_nodes_and_edges():
    net = _net()
    picture = graph_svg(net(rl.randn(5, 1, 4, 4)).sum(), net)
    tree = xml.fromstring(picture)
    words = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"SumBackward0", "0.weight", "4.bias", "[2, 1, 3, 3]"} <= set(words)
    assert not any(word == "leaf" for word in words)
    boxes = {
        (float(each.get("x")), float(each.get("y")))
        for each in tree.iter("{http://www.w3.org/2000/svg}rect")
    }
    assert len(boxes) == len(list(tree.iter("{http://www.w3.org/2000/svg}rect")))


def test_a_node_that_two_ways_lead_to_is_drawn_once():
    x = rl.ones(1, requires_grad=True)
    y = x * 2
    picture = graph_svg(y * y + y)
    assert picture.count("<rect") == 4
    assert picture.count("<path") == 5


def test_a_page_of_a_graph_is_written(tmp_path):
    x = rl.ones(1, requires_grad=True)
    path = tmp_path / "graph.html"
    page = graph_page((x * 2).sum(), {"x": x}, path)
    assert path.read_text() == page
    assert _Balanced(page).open == []


def test_what_has_no_graph_or_too_large_a_one_is_refused():
    with pytest.raises(ValueError, match="no graph"):
        graph_svg(rl.ones(1))
    x = rl.ones(1, requires_grad=True)
    for _ in range(5):
        x = x + 1
    with pytest.raises(ValueError, match="more than 3 nodes"):
        graph_svg(x, limit=3)


def test_deep_graphs_are_drawn():
    x = rl.ones(1, requires_grad=True)
    for _ in range(1500):
        x = x + 1
    assert graph_svg(x).count("<rect") == 1501

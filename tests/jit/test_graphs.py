"""Graphs print as PyTorch's: names, numbers, order of constants."""

import re

import pytest

import rushlight as rl
from tests.jit.both import loaded, made

torch = pytest.importorskip("torch")
# PyTorch rewrites loops, and branches that return, in passes that count values too.
OTHERWISE = {"loop", "while_loop", "early"}


def texts(library, folder):
    """The text of each program's graph, without the places in its source."""
    found = {}
    name = library.__name__
    for label, thing, _ in loaded("graphs", name, folder).PROGRAMS:
        text = str(library.jit.script(made(thing)).graph)
        text = re.sub(r"\.___torch_mangle_\d+", "", text)  # classes of other tests
        found[label] = re.sub(r" # .*", "", text).replace(f"_{name}.", ".").strip()
    return found


def test_graphs_are_pytorchs_letter_by_letter(tmp_path):
    ours, theirs = texts(rl, str(tmp_path)), texts(torch, str(tmp_path))
    assert {name for name in ours if ours[name] != theirs[name]} == OTHERWISE
    assert len(ours) >= 22


def test_names_in_a_graph_are_of_one_value_each(tmp_path):
    for library in (rl, torch):
        for text in texts(library, str(tmp_path)).values():
            defined = re.findall(r"(%[\w.]+) :", text)
            assert len(defined) == len(set(defined))


def test_numbers_that_are_not_finite_are_printed():
    def far(x: float) -> float:
        return x + float("inf")

    assert "aten::Float" in str(rl.jit.script(far).graph)
    assert rl.jit.ir.constant_text(float("-inf")) == "-inf"


def test_places_that_are_added_to_are_found_once():
    calls: list = []

    class Box:
        def __init__(self):
            self.n = 1

    @rl.jit.ignore
    def noted(box: Box) -> Box:
        calls.append(1)
        return box

    def grows() -> int:
        box = Box()
        noted(box).n += 2
        return box.n

    assert rl.jit.script(grows)() == 3
    assert calls == [1]

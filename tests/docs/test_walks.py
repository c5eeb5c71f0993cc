"""The page of walks names files and functions that there are, in the order of a run."""

import json
import os
import re
import subprocess
import sys

import pytest

from tools import walk

HOST = [call for call in walk.WALKS if ".cuda()" not in call]


def recorded():
    """Call -> pairs of file and function, as the page has them."""
    text = walk.PAGE.read_text()
    found = {}
    for call, lines in re.findall(r"^## `([^`]+)`\n\n```\n(.*?)```", text, re.M | re.S):
        found[call] = [
            (file, function)
            for file, *functions in (line.split(None, 1) for line in lines.splitlines())
            for function in functions[0].removesuffix("...").split(", ")
        ]
    return found


def test_every_walk_is_on_the_page():
    assert list(recorded()) == list(walk.WALKS)


@pytest.mark.parametrize("call", walk.WALKS)
def test_a_walk_s_functions_are_where_the_page_says(call):
    missing = [
        (file, function)
        for file, function in recorded()[call]
        if not any(name.startswith(function) for name in walk.functions_of(file))
    ]
    assert not missing, "remedy: python -m tools.walk --write"


def test_python_s_part_of_a_walk_is_what_the_page_says():
    script = (
        "import json; from tools import walk\n"
        f"for call, (code, names) in walk.scopes({HOST!r}).items():\n"
        "    walk.followed(code, names, lambda *step: print(json.dumps([call, *step])))\n"
    )
    usual = {k: v for k, v in os.environ.items() if not k.startswith("RUSHLIGHT_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, cwd=walk.ROOT, env=usual,
    )  # fmt: skip
    pages = recorded()
    for line in done.stdout.splitlines():
        call, *step = json.loads(line)
        assert walk.inside(*step) in pages[call], (
            f"{call} goes another way\n  remedy: python -m tools.walk --write"
        )
    assert "derivatives/binary.py" in done.stdout


@pytest.mark.parametrize("call", HOST[:3])
def test_an_operator_comes_down_once(call):
    steps = [(file, name) for file, name in recorded()[call] if file[:5] != "core/"]
    rooms = walk.rooms_of(steps)
    assert rooms in (["dispatch", "runtime"], ["dispatch", "runtime", "dispatch"])


def test_functions_of_both_languages_come_in_one_order():
    told = [("", "f(x)"), (f"{walk.PACKAGE}/a/b.py", "c"), ("", "g(x)")]
    stopped = [".", "__pyx_f_9rushlight_4core_6tensor_new_empty", ".", "."]
    assert walk.merged(told, stopped) == {
        "f(x)": [("core/tensor.py", "new_empty"), ("a/b.py", "c")],
        "g(x)": [],
    }

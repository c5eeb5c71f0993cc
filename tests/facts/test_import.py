"""What ``import rushlight`` loads and leaves behind, told by fresh processes."""

import subprocess
import sys

import pytest


def told(program):
    """What a program prints in a process of its own, as Python's value."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return eval(done.stdout)  # printed by the program above


LEFT_TO_PROGRAMS = (
    "dataclasses",
    "inspect",
    "llvmlite",
    "numpy",
    "random",
    "re",
    "string",
    "typing",
    "rushlight.autograd.functional",
    "rushlight.codegen",
    "rushlight.distributions",
    "rushlight.nn",
    "rushlight.optim",
    "rushlight.serialization",
    "rushlight.utils",
)


def test_what_not_every_program_uses_is_not_imported():
    loaded = told(
        "import sys\nbefore = set(sys.modules)\nimport rushlight\n"
        "print(set(sys.modules) - before)"
    )
    assert not loaded & set(LEFT_TO_PROGRAMS)
    assert len(loaded) < 190


@pytest.mark.parametrize(
    "imports",
    [
        "from rushlight import nn, optim",
        "import rushlight.nn as nn, rushlight.optim as optim",
        "import rushlight; nn, optim = rushlight.nn, rushlight.optim",
    ],
)
def test_modules_on_demand_are_found_however_they_are_asked_for(imports):
    program = f"{imports}\nprint([nn.Linear.__name__, optim.SGD.__name__])"
    assert told(program) == ["Linear", "SGD"]


def test_collection_of_garbage_is_as_the_program_had_it():
    for switch in ("enable", "disable"):
        program = (
            f"import gc\ngc.{switch}()\nbefore = gc.isenabled(), gc.get_threshold()\n"
            "import rushlight\nprint(before == (gc.isenabled(), gc.get_threshold()))"
        )
        assert told(program)


def test_cycles_that_a_program_had_before_are_still_collected():
    assert told(
        "import weakref, gc\n"
        "class Own: pass\n"
        "one = Own(); one.me = one; seen = weakref.ref(one)\n"
        "import rushlight\ndel one\ngc.collect()\nprint(seen() is None)"
    )


def test_the_collector_does_not_look_through_what_the_build_declared():
    assert told(
        "import gc, rushlight\n"
        "from rushlight.dispatch.dispatcher import every_operator\n"
        "seen = [gc.is_tracked(op) or gc.is_tracked(op.entry) for op in every_operator()]\n"
        "packets = [rushlight.add, rushlight.Tensor.add, rushlight.ops.aten.add]\n"
        "print(not any(seen) and not any(map(gc.is_tracked, packets)))"
    )


def test_what_a_program_leaves_open_is_written_at_its_end(tmp_path):
    path = tmp_path / "log.txt"
    told(
        "import rushlight\n"
        f"kept = open({str(path)!r}, 'w')\n"
        "_ = kept.write('the last line')\n"
        "def function(): pass  # a cycle through the program's names\n"
        "print(None)"
    )
    assert path.read_text(encoding="utf-8") == "the last line"


def test_every_part_of_sparse_imports_without_docstrings():
    program = (
        "import rushlight.sparse as s, rushlight as r\nprint(r.eye(2).to_sparse())"
    )
    subprocess.run([sys.executable, "-OO", "-c", program], check=True)


def test_the_directory_lists_what_comes_on_demand():
    found = told("import rushlight\nprint(dir(rushlight))")
    assert {"nn", "optim", "save", "vmap", "Tag", "add"} <= set(found)


def test_a_star_brings_functions_and_no_modules():
    torch = pytest.importorskip("torch")
    found = set(told("from rushlight import *\nprint([*dir()])"))
    assert {"Tensor", "add", "save", "float32", "no_grad"} <= found
    assert not found & {"nn", "optim", "core", "annotations", "utils"}
    assert not set(torch.__all__) & {"nn", "optim"}

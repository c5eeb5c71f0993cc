"""Wrong programs are refused in PyTorch's words, the same part of the source underlined."""

import functools
import importlib.util
from pathlib import Path

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
PROGRAMS = Path(__file__).parent / "programs" / "wrong.txt"
HEAD = "from typing import *\nimport {0} as torch\nfrom {0} import nn, Tensor\n"
# Refused by both, in other words or with another part underlined; those that PyTorch
# alone refuses say so here.
TAKEN = ("[i for i in range(3) if i]",)


@functools.cache
def programs():
    """Programs that are told alike, and others."""
    alike, _, others = PROGRAMS.read_text().partition("=== others\n")
    return alike.split("---\n"), others.split("---\n")


def function(text, name, library, folder):
    """The function of a program, of a file so that its source is found."""
    path = folder / f"{name}_{library.__name__}.py"
    path.write_text(HEAD.format(library.__name__) + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def refusal(text, name, library, folder):
    """The first line of the error, and what is underlined; None where there is none."""
    try:
        library.jit.script(function(text, name, library, folder))
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
    else:
        return None
    marked = ""
    for line, under in zip(lines, lines[1:]):
        if "<--- HERE" in under and "~" in under:
            marked = line[under.index("~") :][:10]
            break
    return lines[0].strip().replace(" (inferred)", ""), marked


def test_wrong_programs_are_told_as_pytorch_tells_them(tmp_path):
    alike, _ = programs()
    wrong = []
    for number, text in enumerate(alike):
        ours = refusal(text, f"p{number}", rl, tmp_path)
        theirs = refusal(text, f"p{number}", torch, tmp_path)
        if ours != theirs:
            wrong.append((text, ours, theirs))
    assert not wrong and len(alike) >= 65


def test_the_other_wrong_programs_are_refused_with_their_line(tmp_path):
    _, others = programs()
    for number, text in enumerate(others):
        found = refusal(text, f"o{number}", rl, tmp_path)
        if any(part in text for part in TAKEN):
            assert found is None, text
        else:
            assert found is not None and found[1], text


def test_kinds_of_refusals_are_pytorchs(tmp_path):
    for text, name in (
        ("def f(x):\n    del x.y\n    return x\n", "RuntimeError"),
        ("def f(x):\n    global z\n    return x\n", "UnsupportedNodeError"),
        ("def f(x):\n    return lambda: x\n", "UnsupportedNodeError"),
        ("def f(*x):\n    return x\n", "NotSupportedError"),
    ):
        for library in (rl, torch):
            with pytest.raises(Exception, match="HERE") as caught:
                library.jit.script(function(text, "kind", library, tmp_path))
            assert isinstance(caught.value, RuntimeError) == (name == "RuntimeError")
            if name != "RuntimeError":
                assert type(caught.value).__name__ == name, text

"""Programs are warned here where PyTorch warns them, in its category and nearly its words.

A program of ``warnings.txt`` finds the framework as ``t``, its ``nn`` and ``F``, NumPy as
``np``, and ``im`` for modules of the framework. All run in one process of each side, first
twice each as a program finds them, to see what is said once, then under
``set_warn_always``.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from tests.laws import warned_programs

HERE = pathlib.Path(__file__).parent
SIDES = ("torch", "rushlight")
# PyTorch says of its own implementation what is not so here: it is in beta, it is not fused,
# an example is taken after the other. And it looks at arrays in a list twice.
PYTORCHS_OWN = {
    "sparse csr",
    "sparse coo",
    "sparse csr by hand",
    "sparse bsr",
    "vmap of geqrf",
    "sparse addmm with csr",
    "encoder with padding",
    "rms_norm of mixed kinds",
    "flex attention",
    "tensor of a list of arrays",
    "as_tensor of a list of arrays",
    "FloatTensor of a list of arrays",
}
# That an operator runs example by example is said of each call there, here once: here it
# is said inside of nested transformations too.
PYTORCHS_OWN |= {"vmap of bincount-like", "vmap of _pdist", "vmap of ormqr"}  # fmt: skip


@functools.cache
def outcomes():
    """What each side says of the programs, in the order of ``SIDES``."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.laws.warned_programs", side],
            cwd=HERE.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for side in SIDES
    ]  # fmt: skip
    found = []
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err[-2000:]
        found.append(json.loads(out.splitlines()[-1]))
    return found


def alike(found, expected):
    """The same category, and words that a search finds."""
    (kind, words), (wanted, text) = found, expected
    words = words.replace("rushlight", "torch")
    near = difflib.SequenceMatcher(None, words, text, False).ratio() > 0.6
    return kind == wanted and (words[:25] == text[:25] or near)


def differs(found, expected):
    """Whether one run of a program is warned otherwise, or refused on one side only."""
    said, text = found["warnings"], expected["warnings"]
    return (
        found["refused"] != expected["refused"]
        or len(said) != len(text)
        or not all(map(alike, said, text))
    )


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="the oracle is not installed"
)
@pytest.mark.parametrize("mode", ["first", "again", "always"])
def test_programs_are_warned_as_on_pytorch(mode):
    expected, found = outcomes()
    told = {
        title: (found[title][mode], row[mode])
        for title, row in expected.items()
        if title not in PYTORCHS_OWN and differs(found[title][mode], row[mode])
    }
    assert not told


def test_every_program_has_its_own_title():
    titles = [title for title, _ in warned_programs.programs()]
    assert len(titles) == len(set(titles)) > 300
    assert set(titles) >= PYTORCHS_OWN

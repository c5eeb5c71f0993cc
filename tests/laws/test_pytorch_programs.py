"""Short programs do the same here and there: values, gradients, refusals.

A program of ``programs/`` finds the framework as ``t`` and NumPy as ``np``, and puts
what is to be compared into the list ``R``. Where PyTorch refuses, the kind of the
exception has to be the same, and what was in the list by then.
"""

import math
import pathlib
import re
import warnings

import numpy as np
import pytest

import rushlight

FOLDER = pathlib.Path(__file__).parent / "programs"


def read_programs():
    """Every program with its title."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        parts = re.split(r"^### ?(.*)$", path.read_text(), flags=re.M)
        found += [
            pytest.param(code, id=f"{path.stem}: {title}")
            for title, code in zip(parts[1::2], parts[2::2], strict=True)
        ]
    return found


def plain(value, framework):
    """Tensors as their type, elements and flag; the rest as it is."""
    if isinstance(value, framework.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        return ["tensor", name, value.detach().tolist(), bool(value.requires_grad)]
    if isinstance(value, (list, tuple)):
        return [plain(each, framework) for each in value]
    if isinstance(value, (int, float, complex, str, type(None))):
        return value
    return type(value).__name__


def run(code, framework):
    """What a program found, and the kind of its exception or None."""
    names = {"t": framework, "np": np, "R": []}
    refused = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
        except Exception as error:
            refused = type(error).__name__
    return plain(names["R"], framework), refused


def alike(found, expected):
    """Equal, with room for the last bits of a float."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-6) or (
            math.isnan(found) and math.isnan(expected)
        )
    return found == expected and type(found) is type(expected)


@pytest.mark.parametrize("code", read_programs())
def test_a_program_does_the_same_on_both_sides(code):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found, expected = run(code, rushlight), run(code, torch)
    assert alike(list(found), list(expected)), (found, expected)

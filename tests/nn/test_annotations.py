"""Functions of `nn.functional` say what they are given, as PyTorch's do."""

import inspect
import re
import typing

import pytest

from rushlight.nn import functional

torch = pytest.importorskip("torch")

# Their enumerations live elsewhere.
APART = ("scaled_mm", "scaled_grouped_mm")


def hints(function):
    """The types as text, without the modules that they live in."""
    return {
        name: re.sub(r"\b[a-z_]+\.", "", str(kind)).replace("DType", "dtype")
        for name, kind in typing.get_type_hints(function).items()
    }


def test_annotations_are_pytorch_s_where_it_has_any():
    compared = 0
    for name, theirs in vars(torch.nn.functional).items():
        ours = getattr(functional, name, None)
        if not inspect.isfunction(theirs) or ours is None:
            continue
        if name in APART or name.startswith("_"):
            continue
        try:
            wanted = hints(theirs)
        except NameError:  # a name that PyTorch itself does not find
            continue
        if not theirs.__module__.endswith("nn.functional"):
            continue
        found = hints(ours)
        for parameter, kind in wanted.items():
            if "NoneType" not in kind:  # sizes, of which PyTorch tells nothing
                assert found[parameter] == kind, (name, parameter)
                compared += 1
    assert compared > 300
    assert functional.grad.conv1d_input is not None

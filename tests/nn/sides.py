"""One program run here and by the oracle, and what it returns compared."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl


def plain(value):
    """A nest of tensors as one of numbers, shapes and names."""
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "detach"):
        flat = value.detach().flatten().tolist()
        if flat and isinstance(flat[0], complex):
            flat = [part for each in flat for part in (each.real, each.imag)]
        return {
            "shape": tuple(value.shape),
            "dtype": str(value.dtype).split(".")[-1],
            "numbers": flat,
        }
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def outcome(program, module):
    """What the program returns with one of the two modules, or how it fails."""
    module.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(program(module))
        except Exception as error:
            words = str(error).replace("torch.", "").replace("rushlight.", "")
            return [type(error).__name__, words]


def assert_alike(found, wanted, path="result", tolerance=1e-5):
    """Nests whose numbers are close and whose other parts are equal."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), f"{path}: {found!r}"
        assert list(found) == list(wanted), path
        for key, each in wanted.items():
            assert_alike(found[key], each, f"{path}[{key!r}]", tolerance)
    elif isinstance(wanted, list):
        assert isinstance(found, list), f"{path}: {found!r}"
        assert len(found) == len(wanted), f"{path}: {found!r}, not {wanted!r}"
        for index, each in enumerate(wanted):
            assert_alike(found[index], each, f"{path}[{index}]", tolerance)
    elif isinstance(wanted, float):
        close = pytest.approx(wanted, rel=tolerance, abs=tolerance, nan_ok=True)
        assert found == close, path
    else:
        assert found == wanted, f"{path}: {found!r}, not {wanted!r}"


def assert_same_on_both_sides(program, tolerance=1e-5):
    """The program gives here what it gives with PyTorch, exceptions included."""
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found, wanted = outcome(program, rl), outcome(program, torch)
    assert_alike(found, wanted, tolerance=tolerance)
    return wanted

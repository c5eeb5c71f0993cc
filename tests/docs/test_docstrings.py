"""Examples in docstrings run, and every public name says what it is."""

import importlib
import types

import pytest

from tools.doctests import modules, run_docstrings

NAMESPACES = (
    "rushlight",
    "rushlight.autograd",
    "rushlight.cpu",
    "rushlight.datasets",
    "rushlight.library",
    "rushlight.linalg",
    "rushlight.nn",
    "rushlight.nn.functional",
    "rushlight.nn.init",
    "rushlight.nn.utils",
    "rushlight.optim",
    "rushlight.optim.lr_scheduler",
    "rushlight.overrides",
    "rushlight.random",
    "rushlight.serialization",
    "rushlight.special",
    "rushlight.te",
    "rushlight.transforms",
    "rushlight.utils.data",
)


def public(namespace):
    """Names and values that a user finds in a module: functions, classes, operators."""
    names = getattr(namespace, "__all__", None) or vars(namespace)
    for name in sorted(names):
        value = getattr(namespace, name)
        own = str(getattr(value, "__module__", None) or "rushlight").startswith("rushl")
        if own and callable(value) and not name.startswith("_"):
            yield name, value


def described(value):
    """The sentence that says what a value is; '' where there is none of its own."""
    if hasattr(value, "overloads"):
        return value.doc
    if isinstance(value, type):
        return value.__dict__.get("__doc__") or ""
    if isinstance(value, types.FunctionType) or hasattr(value, "__code__"):
        return value.__doc__ or ""
    return getattr(value, "__doc__", None) or ""


@pytest.mark.parametrize("module", list(modules()))
@pytest.mark.filterwarnings("error")
def test_examples_in_the_docstrings_run(module):
    count, report = run_docstrings(module)
    assert not report, report


@pytest.mark.parametrize("name", NAMESPACES)
def test_every_public_name_has_a_docstring(name):
    namespace = importlib.import_module(name)
    silent = [each for each, value in public(namespace) if not described(value).strip()]
    assert not silent


@pytest.mark.parametrize("name", NAMESPACES)
def test_first_lines_of_docstrings_are_sentences(name):
    namespace = importlib.import_module(name)
    ragged = []
    for each, value in public(namespace):
        first = described(value).strip().split("\n\n")[0].strip()
        if first and not first.endswith((".", ":", "`")):
            ragged.append(each)
    assert not ragged

"""Public functions and classes have signatures, arguments and examples."""

import doctest
import importlib
import inspect
import types

import pytest

import rushlight
from rushlight.dispatch.packet import OperatorPacket
from tools.doctests import OPTIONS, familiar

NAMESPACES = """
rushlight rushlight.amp rushlight.autograd rushlight.autograd.forward_ad
rushlight.autograd.functional rushlight.autograd.graph rushlight.compiler rushlight.cuda
rushlight.distributions rushlight.export rushlight.func rushlight.fx rushlight.hub
rushlight.library rushlight.linalg rushlight.masked rushlight.nn rushlight.nn.attention
rushlight.nn.functional rushlight.nn.init rushlight.nn.parallel rushlight.nn.utils
rushlight.nn.utils.parametrize rushlight.nn.utils.rnn rushlight.optim
rushlight.optim.lr_scheduler rushlight.optim.swa_utils rushlight.overrides
rushlight.random rushlight.serialization rushlight.signal.windows rushlight.sparse
rushlight.testing rushlight.utils.checkpoint rushlight.utils.data rushlight.utils.dlpack
""".split()
MANY = 3  # parameters from which on a class's docstring has to list them


def public(name):
    """Names and values of a namespace that are Rushlight's and no operators."""
    namespace = importlib.import_module(name)
    names = getattr(namespace, "__all__", None)
    for each in names or [n for n in dir(namespace) if not n.startswith("_")]:
        value = getattr(namespace, each)
        home = str(getattr(value, "__module__", None) or "")
        if isinstance(value, (OperatorPacket, types.ModuleType)) or not callable(value):
            continue
        if home.startswith("rushlight"):
            yield each, value


def docstring(value):
    """The value's own docstring."""
    if isinstance(value, type):
        return value.__dict__.get("__doc__") or ""
    return getattr(value, "__doc__", None) or ""


def parameters(value):
    """How many parameters a call has; None where nothing says so."""
    try:
        found = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return None
    return sum(name not in ("self", "args", "kwargs") for name in found)


def lists_arguments(text):
    """Whether a docstring lists arguments, or names whose list goes for it, too."""
    return "Args:" in text or "arguments as in" in text


def those(wrong):
    """The public names of values for which ``wrong`` holds."""
    return [
        f"{name}.{each}"
        for name in NAMESPACES
        for each, value in public(name)
        if wrong(value)
    ]


def test_every_public_function_has_a_docstring_and_a_signature():
    silent = [
        f"{name}.{each}"
        for name in NAMESPACES
        for each, value in public(name)
        if not isinstance(value, type)
        and (not docstring(value).strip() or parameters(value) is None)
    ]
    assert silent == []


def test_every_public_name_lists_its_arguments():
    def wrong(value):
        least = MANY if isinstance(value, type) else 1
        listed = lists_arguments(docstring(value))
        return (parameters(value) or 0) >= least and not listed

    assert those(wrong) == []


def test_every_public_function_that_takes_arguments_has_an_example():
    def wrong(value):
        called = not isinstance(value, type) and parameters(value)
        return called and ">>>" not in docstring(value)

    assert those(wrong) == []


def test_methods_of_tensors_have_docstrings():
    silent = [
        name
        for name in dir(rushlight.Tensor)
        if not name.startswith("_")
        and callable(getattr(rushlight.Tensor, name))
        and not (
            getattr(getattr(rushlight.Tensor, name), "__doc__", None) or ""
        ).strip()
    ]
    assert silent == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dims", (1, 2, 3))
def test_examples_of_functions_made_for_so_many_dimensions_run(dims):
    made = [f"max_pool{dims}d", f"max_pool{dims}d_with_indices"]
    if dims > 1:
        fractional = f"fractional_max_pool{dims}d"
        made += [f"avg_pool{dims}d", fractional, f"{fractional}_with_indices"]
    for name in made:
        text = getattr(rushlight.nn.functional, name).__doc__
        test = doctest.DocTestParser().get_doctest(text, familiar(), name, None, 0)
        assert test.examples
        assert doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0

"""A program takes another example, and is told which keywords it wants, as on PyTorch."""

import importlib

import pytest

torch = pytest.importorskip("torch")

LIBS = ["rushlight", "torch"]


def exported(name):
    lib = importlib.import_module(name)

    class Program(lib.nn.Module):
        def forward(self, x, *, k):
            return x + k

    given = (lib.ones(2),), {"k": lib.ones(2)}
    return lib, importlib.import_module(f"{name}.export").export(Program(), *given)


@pytest.mark.parametrize("name", LIBS)
def test_another_example_is_taken_if_it_is_nested_alike(name):
    lib, program = exported(name)
    x = lib.zeros(2)
    program.example_inputs = ((x,), {"k": x})
    assert program.example_inputs[0][0] is x
    for wrong in (3, (x,), ([x], {"k": x}), ((x,), [x]), ((x,), {}, {})):
        with pytest.raises(ValueError, match="Example inputs should be a tuple"):
            program.example_inputs = wrong
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        program.example_inputs = ((x, x), {"k": x})
    program.example_inputs = None
    assert program.example_inputs is None


@pytest.mark.parametrize("name", LIBS)
@pytest.mark.parametrize("keywords", ["", "q", "kz"])
def test_other_keywords_are_told_beside_those_that_are_wanted(name, keywords):
    lib, program = exported(name)
    told = (
        rf"Got the following keywords \[{', '.join(map(repr, keywords))}\] but expected"
    )
    with pytest.raises(ValueError, match=told + r" \['k'\]"):
        program.module()(lib.ones(2), **dict.fromkeys(keywords, lib.ones(2)))

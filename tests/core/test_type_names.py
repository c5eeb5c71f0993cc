"""Python's own errors call types as they call PyTorch's."""

import pickle

import pytest

import rushlight as rl
from rushlight.core.type_names import rename_type

torch = pytest.importorskip("torch")

MISTAKES = {
    "tensor + object": lambda t: t.ones(2) + object(),
    "object + tensor": lambda t: object() + t.ones(2),
    "list + tensor": lambda t: [1] + t.ones(2),
    "tensor called": lambda t: t.ones(2)(),
    "tensor joined": lambda t: "".join([t.ones(2)]),
    "no attribute": lambda t: t.ones(2).nothing,
    "no attribute of the class": lambda t: t.Tensor.nothing,
    "slot of another": lambda t: int.__add__(t.ones(2)),
    "made by object": lambda t: object.__new__(t.Tensor),
    "length of a type": lambda t: len(t.float32),
    "types compared": lambda t: t.float32 < t.float64,
    "device + number": lambda t: t.device("cpu") + 1,
    "number of a device": lambda t: int(t.device("cpu")),
    "layout called": lambda t: t.strided(),
    "format iterated": lambda t: iter(t.channels_last),
    "nothing in a size": lambda t: t.Size([1]).nothing,
    "nothing in a generator": lambda t: t.Generator().nothing,
    "nothing in limits": lambda t: t.finfo(t.float32).nothing,
    "nothing in other limits": lambda t: t.iinfo(t.int8).nothing,
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_errors_of_python_name_the_types_as_they_name_those_of_pytorch(mistake):
    with pytest.raises((TypeError, AttributeError)) as ours:
        mistake(rl)
    with pytest.raises((TypeError, AttributeError)) as theirs:
        mistake(torch)
    words = str(theirs.value).replace("torch._C.", "rushlight.")
    assert str(ours.value) == words.replace("torch.", "rushlight.")


def test_types_are_printed_with_the_package_and_pickled_by_it():
    kinds = [rl.Tensor, rl.Size, rl.dtype, rl.device, rl.Generator, rl.layout, rl.finfo]
    for kind in kinds:
        assert repr(kind) == f"<class 'rushlight.{kind.__name__}'>"
        assert (kind.__module__, kind.__qualname__) == ("rushlight", kind.__name__)
    assert pickle.loads(pickle.dumps(kinds)) == kinds


def test_a_subclass_of_tensors_has_the_module_that_it_was_written_in():
    class Length(rl.Tensor):
        pass

    assert Length.__module__ == __name__
    assert repr(Length) == f"<class '{__name__}.{Length.__qualname__}'>"
    Length.__module__ = "elsewhere"
    assert Length.__module__ == "elsewhere" and type(Length) is type(rl.Tensor)
    assert rl.Tensor.__module__ == "rushlight"


def test_a_class_of_pythons_is_renamed_with_its_module():
    class Local:
        pass

    rename_type(Local, "somewhere", "Other")
    assert repr(Local) == "<class 'somewhere.Other'>"
    with pytest.raises(AttributeError, match=r"'somewhere\.Other' object"):
        Local().nothing()

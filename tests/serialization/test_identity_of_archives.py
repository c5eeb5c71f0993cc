"""Archives say which one they are, in a record where PyTorch's have it."""

import io
import zipfile

import pytest

import rushlight as rl


def records(lib, value):
    file = io.BytesIO()
    lib.save(value, file)
    archive = zipfile.ZipFile(file)
    return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def test_records_are_those_of_pytorch_in_its_order():
    torch = pytest.importorskip("torch")
    for make in (lambda lib: [1], lambda lib: {"a": lib.ones(2), "b": lib.ones(1)}):
        ours, theirs = records(rl, make(rl)), records(torch, make(torch))
        assert list(ours) == list(theirs)
        assert len(ours[".data/serialization_id"]) == 40


def test_equal_values_have_one_identity_and_others_another():
    def identity(value):
        return records(rl, value)[".data/serialization_id"]

    assert identity(rl.ones(2)) == identity(rl.ones(2))
    assert identity(rl.ones(2)) != identity(rl.zeros(2))
    assert identity(rl.ones(2)).isdigit()


def test_schemes_of_quantization_go_both_ways():
    torch = pytest.importorskip("torch")
    names = [
        name for name in dir(torch) if isinstance(getattr(torch, name), torch.qscheme)
    ]
    assert len(names) == 5
    for name in names:
        for one, other in ((rl, torch), (torch, rl)):
            file = io.BytesIO()
            one.save({"scheme": getattr(one, name)}, file)
            file.seek(0)
            assert other.load(file) == {"scheme": getattr(other, name)}

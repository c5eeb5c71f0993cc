"""Files in the safetensors format, both ways with the package of that name."""

import json
import os
import random
import struct

import pytest

import rushlight as rl
from rushlight.serialization import safetensors

NAMES = sorted(safetensors.CODES)


@pytest.fixture
def package():
    pytest.importorskip("torch", reason="the oracle is not installed")
    return pytest.importorskip("safetensors.torch", reason="an extra")


def tensor(library, name):
    made = library.arange(6).view(2, 3)
    return made.to(getattr(library, name))


def raw(tensor):
    return tensor.contiguous().untyped_storage().tolist()


@pytest.mark.parametrize("name", [n for n in NAMES if n != "float8_e8m0fnu"])
def test_every_type_goes_both_ways(package, name, tmp_path):
    import torch

    path = tmp_path / "x.safetensors"
    try:
        package.save_file({"x": tensor(torch, name)}, path)
    except KeyError:
        pytest.skip("the package does not write it")
    found = rl.load(path)["x"]
    assert found.dtype is getattr(rl, name)
    assert raw(found) == raw(tensor(torch, name))
    safetensors.save_file({"x": tensor(rl, name)}, path)
    assert raw(package.load_file(path)["x"]) == raw(tensor(torch, name))


def test_names_metadata_and_odd_sizes_go_both_ways(package, tmp_path):
    import torch

    path = tmp_path / "x.safetensors"
    ours = {"b": rl.ones(3, dtype=rl.uint8), "ä": rl.zeros(2, 0), "a": rl.tensor(2.5)}
    safetensors.save_file(ours, path, {"format": "pt", "é": "ü"})
    assert safetensors.read_metadata(path) == {"format": "pt", "é": "ü"}
    theirs = package.load_file(path)
    assert {k: v.tolist() for k, v in theirs.items()} == {
        k: v.tolist() for k, v in ours.items()
    }
    assert theirs["ä"].shape == (2, 0)
    package.save_file({"t": torch.arange(6.0).view(2, 3).t().contiguous()}, path)
    assert rl.load(path)["t"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_mapped_file_is_not_changed(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": rl.ones(3)}, path)
    safetensors.load_file(path)["x"].fill_(9)
    assert safetensors.load_file(path, mapped=False)["x"].tolist() == [1, 1, 1]
    assert rl.load(path, map_location="meta")["x"].is_meta
    with pytest.raises(RuntimeError, match="dict map_location is not supported"):
        rl.load(path, map_location={})


def test_what_cannot_be_written_is_refused():
    base = rl.ones(4)
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"a": base, "b": base[1:]})
    with pytest.raises(ValueError, match="expected Tensor but received"):
        safetensors.save({"a": 1})
    with pytest.raises(ValueError, match="Expected a dict"):
        safetensors.save([base])
    with pytest.raises(ValueError, match="cannot be written"):
        safetensors.save({"a": rl.ones(2, dtype=rl.complex128)})
    with pytest.raises(TypeError, match="from text to text"):
        safetensors.save({"a": base}, {"a": 1})


def test_a_save_that_fails_leaves_the_last_file(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": rl.ones(3)}, path)
    with pytest.raises(ValueError):
        safetensors.save_file({"x": None}, path)
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert safetensors.load_file(path)["x"].tolist() == [1, 1, 1]


def file_of(header, room):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(room)


def entry(dtype="F32", shape=(2,), ends=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(ends)}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 7, struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 9) + b"{}",
        file_of(b"[]", 0), file_of(b"{", 0), file_of(b"\xff{}", 0),
        file_of(b"{" * 90_000, 0), file_of(b'{"a":' * 90_000, 0),
        file_of({"a": entry()}, 7), file_of({"a": entry()}, 9),
        file_of({"a": entry(ends=(8, 0))}, 8), file_of({"a": entry(shape=(2**61, 2))}, 8),
        file_of({"a": entry(shape=(-2, -1))}, 8), file_of({"a": entry(shape=(2.0,))}, 8),
        file_of({"a": entry(dtype="F31")}, 8), file_of({"a": entry(dtype=[])}, 8),
        file_of({"a": entry(), "b": entry()}, 8), file_of({"a": None}, 8),
        file_of({"a": entry(), "b": entry(ends=(9, 17))}, 17),
        file_of({"a": {**entry(), "more": 1}}, 8), file_of({"__metadata__": {"a": 1}}, 0),
        file_of(b'{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},'
                b'"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', 4),
        file_of({"a": entry(shape=(True,), ends=(False, 4))}, 4),
    ],
    ids=range(24),
)  # fmt: skip
def test_damaged_headers_are_refused(data):
    with pytest.raises(RuntimeError, match="Error while deserializing header"):
        safetensors.load(data)


def test_damage_anywhere_ends_in_an_error_or_in_tensors(tmp_path):
    whole = safetensors.save({"a": rl.ones(5), "b": rl.ones(3, 2, dtype=rl.int64)})
    chance = random.Random(1)
    path = tmp_path / "x.safetensors"
    for turn in range(1500):
        data = bytearray(whole)
        if turn % 3:
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        else:
            del data[chance.randrange(len(data)) :]
        for read in safetensors.load, lambda data: safetensors.load_file(path):
            path.write_bytes(data)
            try:
                found = read(bytes(data))
            except RuntimeError:
                continue
            for value in found.values():
                value.float().sum()

"""Checkpoints from before PyTorch 1.6 are read, by a reader that runs no program."""

import io
import pickle
import random

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8",
    "uint8", "bool", "complex64", "complex128", "uint16", "uint32", "uint64",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip
ALLOWED = (RuntimeError, EOFError, pickle.UnpicklingError)


def old_bytes(value):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def load(data, **options):
    return rl.load(io.BytesIO(data), **options)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_every_type_comes_back_from_an_old_file(name, trusted):
    value = torch.tensor([0, 1, 3]).to(getattr(torch, name))
    found = load(old_bytes({"x": value}), weights_only=not trusted)["x"]
    assert found.dtype is getattr(rl, name)
    assert found.tolist() == value.tolist()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_every_type_is_written_to_an_old_file_as_pytorch_writes_it(name, trusted):
    file = io.BytesIO()
    value = rl.tensor([0, 1, 3]).to(getattr(rl, name))
    rl.save({"x": value}, file, _use_new_zipfile_serialization=False)
    found = load(file.getvalue(), weights_only=not trusted)["x"]
    assert found.dtype is value.dtype
    assert found.tolist() == value.tolist()
    theirs = old_bytes({"x": torch.tensor([0, 1, 3]).to(getattr(torch, name))})
    end = -8 - value.numel() * value.element_size()  # the count of elements, and they
    assert file.getvalue()[end:] == theirs[end:]


def test_views_and_parameters_come_back_from_an_old_file():
    base = torch.arange(12.0).view(3, 4)
    state = {
        "base": base,
        "view": base.t()[1:],
        "weight": torch.nn.Parameter(torch.ones(2)),
        "none": torch.empty(0, 3),
        "plain": [1, "two", (3.0, None)],
    }
    found = load(old_bytes(state))
    assert found["view"].stride() == (1, 4)
    found["base"][0, 1] = 50
    assert found["view"][0, 0] == 50
    assert isinstance(found["weight"], rl.nn.Parameter)
    assert found["none"].shape == (0, 3)
    assert found["plain"] == [1, "two", (3.0, None)]


def test_a_module_takes_the_state_of_an_old_file():
    module = torch.nn.Linear(3, 2)
    ours = rl.nn.Linear(3, 2)
    ours.load_state_dict(load(old_bytes(module.state_dict())))
    assert ours.weight.tolist() == module.weight.tolist()


def test_an_old_file_goes_to_the_device_that_is_asked_for():
    found = load(old_bytes(torch.ones(3)), map_location="meta")
    assert found.is_meta and found.shape == (3,)


def test_a_program_in_an_old_file_is_refused():
    class Bomb:
        def __reduce__(self):
            return print, ("boom",)

    with pytest.raises(pickle.UnpicklingError, match="print"):
        load(old_bytes([Bomb()]))


def test_a_pickle_that_is_no_checkpoint_is_refused():
    with pytest.raises(RuntimeError, match="magic number"):
        load(pickle.dumps({"a": 1}, protocol=2))


def test_an_old_file_cut_anywhere_is_refused():
    data = old_bytes({"a": torch.ones(3), "b": [torch.zeros(2, 2)]})
    for end in range(1, len(data)):
        with pytest.raises(ALLOWED):
            load(data[:end])


def test_damage_anywhere_in_an_old_file_ends_in_an_error_or_a_value():
    data = old_bytes({"a": torch.ones(3), "b": [torch.zeros(2, 2)], "c": 1 << 70})
    chance = random.Random(5)
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        try:
            load(bytes(damaged))
        except ALLOWED:
            continue


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_come_back_from_an_old_file(layout):
    torch = pytest.importorskip("torch", reason="the oracle writes the file")
    file = io.BytesIO()
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    value = {"s": getattr(dense, f"to_sparse_{layout}")(), "x": dense}
    torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    read = rl.load(file)
    assert read["s"].to_dense().tolist() == dense.tolist() == read["x"].tolist()
    assert str(read["s"].layout).endswith(layout)

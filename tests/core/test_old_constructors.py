"""Tensors and storages by their old constructors, beside PyTorch."""

import copy
import pickle
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CALLS = """
m.Tensor(data=[1, 2]) | m.Tensor(size=(2, 3)).shape | m.Tensor(2, dtype=m.float32)
m.Tensor(device="meta") | m.Tensor(2, device="cpu").shape | m.Tensor(2, size=(3,))
m.FloatStorage(3).dtype | m.FloatStorage(1, 2) | m.FloatStorage(device="cpu")
m.FloatStorage(wrap_storage=m.FloatStorage(3)) | m.FloatStorage(3, dtype=m.float32)
m.FloatStorage(wrap_storage=m.UntypedStorage(8)).size() | m.FloatStorage(3).is_pinned()
repr(type(m.FloatStorage(1))).rpartition(".")[2] | repr(m.FloatStorage)
m.device("cpu").__reduce__()[1] | m.device("cuda:1").__reduce__()[1]
m.tril_indices(3, 4, 2 ** 40) | m.tril_indices(3, 4, -(2 ** 40)) | m.triu_indices(3, 4, 4)
m.triu_indices(3, 4, -(2 ** 40)) | m.triu_indices(4, 3, 2 ** 40) | m.tril_indices(4, 3, 3)
"""


def outcome(m, call):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = eval(call, {"m": m})
    except Exception as error:
        return type(error), str(error)[:50]
    value = value.tolist() if isinstance(value, m.Tensor) else value
    return str(value).replace(rl.__name__, torch.__name__)


def test_old_constructors_take_and_refuse_what_pytorchs_do():
    for call in CALLS.replace("\n", "|").split("|"):
        if call.strip():
            assert outcome(rl, call.strip()) == outcome(torch, call.strip()), call


def test_old_constructors_pass_over_the_device_of_a_block():
    for m in (rl, torch):
        with m.device("meta"):
            assert m.Tensor(2).device.type == "cpu" and m.ones(2).device.type == "meta"


def test_a_device_is_copied_with_its_number_or_without():
    for device in (rl.device("cpu"), rl.device("cuda:1")):
        assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device


def test_offsets_beyond_all_diagonals_have_all_elements_or_none():
    for far in (2**63 - 1, 2**62):
        assert rl.tril_indices(3, 4, far).shape == (2, 12)
        assert rl.triu_indices(3, 4, -far).shape == (2, 12)
        assert rl.tril_indices(3, 4, -far).shape == rl.triu_indices(3, 4, far).shape

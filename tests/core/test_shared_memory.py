"""Storages mapped from files and shared with other processes; their old methods."""

import gc
import os
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight import multiprocessing
from rushlight.core.storage import UntypedStorage

torch = pytest.importorskip("torch", reason="the oracle is not installed")
CONVERSIONS = ["double", "float", "half", "bfloat16", "long", "int", "short", "char",
               "byte", "bool", "complex_double", "complex_float", "float8_e5m2",
               "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def storages(values=(2, 1, 200, 3)):
    return UntypedStorage(values), torch.UntypedStorage(values)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_bytes_become_elements_as_pytorchs_do(name):
    ours, theirs = (getattr(storage, name)() for storage in storages())
    assert type(ours) is rl.TypedStorage
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert ours.untyped().tolist() == theirs.untyped().tolist()


@pytest.mark.parametrize("name", ["int16", "float32", "complex64", "complex32"])
def test_bytes_are_turned_round_as_pytorchs_are(name):
    ours, theirs = storages(range(8))
    ours.byteswap(getattr(rl, name))
    theirs.byteswap(getattr(torch, name))
    assert ours.tolist() == theirs.tolist()


def test_bytes_that_are_no_whole_elements_are_not_turned_round():
    for storage, library in zip(storages(range(6)), (rl, torch)):
        with pytest.raises(RuntimeError, match="not a multiple of 4"):
            storage.byteswap(library.int32)


def test_what_a_storage_says_of_itself_is_what_pytorchs_says():
    ours, theirs = storages()
    for name in "is_pinned", "is_shared", "type":
        wanted = getattr(theirs, name)()
        assert getattr(ours, name)() == (
            wanted.replace("torch", "rushlight") if name == "type" else wanted
        )
    for name in "filename", "is_sparse", "is_sparse_csr", "is_cuda":
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.untyped() is ours and ours.to(device="cpu") is ours
    assert ours.new().size() == theirs.new().size() == 0
    assert ours.to(device="meta").device.type == "meta"
    for call in (lambda s: s.pin_memory(), lambda s: s.cuda()):
        with pytest.raises(RuntimeError):
            call(ours)


@pytest.mark.parametrize("shared", [True, False])
def test_a_tensor_of_a_file_holds_its_numbers(tmp_path, shared):
    path = tmp_path / "numbers"
    path.write_bytes(torch.arange(4.0).numpy().tobytes())
    ours = rl.from_file(str(path), shared=shared, size=4)
    assert ours.tolist() == [0, 1, 2, 3]
    ours.fill_(5)
    again = rl.from_file(str(path), size=4).tolist()
    assert again == ([5] * 4 if shared else [0, 1, 2, 3])
    assert ours.untyped_storage().filename == (str(path) if shared else None)
    assert ours.is_shared()


def test_files_are_made_and_refused_as_pytorch_does(tmp_path):
    made, short = str(tmp_path / "made"), str(tmp_path / "short")
    with open(short, "wb") as file:
        file.write(bytes(4))
    assert rl.FloatStorage.from_file(made, True, 3).tolist() == [0, 0, 0]
    assert os.path.getsize(made) == 12
    for kind in UntypedStorage, torch.UntypedStorage:
        with pytest.raises(RuntimeError, match="unable to open file"):
            kind.from_file(str(tmp_path / "none"), False, 4)
        with pytest.raises(RuntimeError, match="smaller than the required mapping"):
            kind.from_file(short, False, 8)
        with pytest.raises(RuntimeError, match="unable to mmap -1 bytes"):
            kind.from_file(short, False, -1)
        assert kind.from_file(short).nbytes() == 0


def test_sharing_keeps_values_and_views_and_fixes_the_size():
    base = rl.arange(6.0)
    view = base.view(2, 3).t()
    assert not base.is_shared()
    assert view.share_memory_() is view
    assert base.is_shared() and base.untyped_storage().is_shared()
    base[1] = 50
    assert view[1, 0] == 50
    with pytest.raises(RuntimeError, match="not resizable"):
        base.resize_(100)
    module = rl.nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() for p in module.parameters())


def add(tensor, queue=None):
    tensor.add_(1)
    if queue is not None:
        queue.put(tensor)
        queue.get()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_changes_the_memory_of_its_argument(method):
    if method == "spawn" and sys.platform == "darwin":
        pytest.skip("descriptors do not travel")
    context = multiprocessing.get_context(method)
    tensor = rl.zeros(3).share_memory_()
    process = context.Process(target=add, args=(tensor,))
    process.start()
    process.join()
    assert tensor.tolist() == [1, 1, 1]


def test_tensors_in_a_queue_share_memory_with_what_was_put():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    tensor = rl.arange(4.0).view(2, 2)
    weight = rl.nn.Parameter(rl.ones(2))
    queue.put({"a": tensor, "b": tensor.t(), "w": weight, "none": rl.empty(0, 3)})
    found = queue.get(timeout=30)
    found["a"][0, 1] = 9
    assert tensor[0, 1] == 9 and found["b"][1, 0] == 9
    assert type(found["w"]) is rl.nn.Parameter and found["none"].shape == (0, 3)
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        multiprocessing.reductions.reduce_tensor(weight * 2)


def test_descriptors_are_closed_with_the_storages():
    def count():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("nothing that counts descriptors")
    before = count()
    tensors = [rl.ones(2).share_memory_() for _ in range(20)]
    assert count() >= before + 20
    del tensors
    assert count() <= before


def test_storages_are_tensors_as_pytorch_makes_them():
    ours, theirs = storages(range(16))
    for make in "asarray", "tensor", "as_tensor":
        for dtype in None, "uint8", "float32", "float64", "int16":
            found, wanted = (
                getattr(library, make)(storage, dtype=dtype and getattr(library, dtype))
                for library, storage in ((rl, ours), (torch, theirs))
            )
            assert str(found.dtype).split(".")[1] == str(wanted.dtype).split(".")[1]
            assert found.tolist() == wanted.tolist()


def test_slices_of_a_storage_share_its_memory():
    ours, theirs = storages(range(8))
    for storage in ours, theirs:
        part = storage[2:5]
        part[0] = 77
        assert storage[2] == 77 and part.data_ptr() - storage.data_ptr() == 2
        assert storage[-3:].tolist() == [5, 6, 7] and storage[5:2].nbytes() == 0
        with pytest.raises(RuntimeError, match="Trying to slice with a step of 2"):
            storage[::2]
        with pytest.raises(RuntimeError, match="not resizable"):
            part.resize_(9)
    part = ours[2:5]
    with pytest.raises(RuntimeError, match="not resizable"):
        ours.resize_(0)  # its bytes are looked at
    del part
    ours.resize_(0)


def test_bytes_of_a_storage_are_no_python_numbers_on_their_way():
    storage = UntypedStorage(1 << 30)  # minutes, and 8 GB, as a sequence
    for tensor in (
        rl.asarray(storage, dtype=rl.uint8),
        rl.asarray(storage[4096:], dtype=rl.uint8).view(rl.float32),
        rl.frombuffer(storage, dtype=rl.uint8),
    ):
        assert tensor.nbytes + 4096 >= storage.nbytes()
    assert memoryview(storage).nbytes == storage.nbytes()


def test_memory_of_arrays_is_copied_to_be_shared():
    array = np.arange(4.0)
    ours = rl.from_numpy(array).share_memory_()
    theirs = torch.from_numpy(array).share_memory_()
    assert ours.is_shared() and theirs.is_shared()
    array[0] = 9
    assert ours.tolist() == theirs.tolist() == [0, 1, 2, 3]
    lent = rl.arange(4.0)
    seen = lent.numpy()
    lent.share_memory_()[0] = 5
    assert lent.is_shared()
    del lent
    assert seen.tolist() == [0, 1, 2, 3]  # the memory it looks at is there still

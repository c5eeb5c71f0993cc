import gc
import sys
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight.io import dlpack, interop


def test_numpy_array_and_tensor_are_one_memory_both_ways():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = rl.from_numpy(array)
    array[0, 0] = 7
    assert tensor[0, 0].item() == 7
    again = tensor.numpy()
    again[1, 2] = 9
    assert array[1, 2] == 9


@pytest.mark.parametrize("name", sorted(interop.NUMPY_KINDS))
def test_every_shared_type_goes_both_ways(name):
    array = np.array([0, 1, 1], dtype=interop.NUMPY_KINDS[name])
    tensor = rl.from_numpy(array)
    assert tensor.dtype is getattr(rl, name)
    assert tensor.numpy().dtype == array.dtype
    assert (tensor.numpy() == array).all()


def test_strides_are_kept():
    array = np.arange(24, dtype=np.int64).reshape(4, 6)[1::2, ::3]
    tensor = rl.from_numpy(array)
    assert tensor.stride() == (12, 3)
    assert tensor.tolist() == array.tolist()
    assert tensor.numpy().strides == array.strides


def test_array_outlives_its_tensor_and_tensor_its_array():
    array = rl.ones(1000).numpy()
    gc.collect()
    assert (array == 1).all()
    tensor = rl.from_numpy(np.full(1000, 2.0))
    gc.collect()
    assert tensor.tolist() == [2.0] * 1000


def test_nothing_is_held_once_both_are_gone():
    tensor = rl.ones(3)
    seen = weakref.ref(tensor.untyped_storage())
    array = tensor.numpy()
    del tensor
    assert seen() is not None
    del array
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    "array, error, words",
    [
        (np.zeros(4)[::-1], ValueError, "negative"),
        (np.zeros(4, dtype=">f4"), ValueError, "byte order"),
        (np.array(["a"]), TypeError, "can't convert np.ndarray"),
        ([1, 2], TypeError, "expected np.ndarray"),
        (
            np.zeros(4, dtype=[("a", "i1"), ("b", "<f4")])["b"],
            ValueError,
            "not a multiple",
        ),
    ],
    ids=["negative stride", "byte order", "text", "list", "unaligned"],
)
def test_arrays_that_no_tensor_can_view_are_refused(array, error, words):
    with pytest.raises(error, match=words):
        rl.from_numpy(array)


def test_arrays_that_are_not_writable_give_a_warning(nothing_said_yet):
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        rl.from_numpy(array)


def test_tensors_that_record_are_not_given_to_numpy():
    with pytest.raises(RuntimeError, match="Use tensor.detach"):
        rl.ones(2, requires_grad=True).numpy()


def test_types_that_numpy_lacks_are_named():
    with pytest.raises(TypeError, match="BFloat16"):
        rl.ones(2).bfloat16().numpy()


def test_meta_tensors_have_nothing_to_give():
    with pytest.raises(TypeError, match="can't convert meta"):
        rl.empty(2, device="meta").numpy()


def test_numpy_takes_tensors_where_it_takes_arrays():
    assert np.add(rl.ones(2), np.ones(2)).tolist() == [2.0, 2.0]
    assert np.asarray(rl.ones(2), dtype="i4").dtype == np.int32


def test_dlpack_shares_memory_with_numpy():
    tensor = rl.arange(6).view(2, 3)
    array = np.from_dlpack(tensor)
    array[0, 0] = 5
    assert tensor[0, 0].item() == 5
    back = rl.from_dlpack(array)
    assert back.tolist() == tensor.tolist()


def test_dlpack_lets_go_of_the_tensor():
    tensor = rl.ones(3)
    storage = tensor.untyped_storage()
    before = sys.getrefcount(storage)
    array = np.from_dlpack(tensor)
    unused = dlpack.to_dlpack(tensor)
    assert sys.getrefcount(storage) == before + 2
    del array, unused
    gc.collect()
    assert sys.getrefcount(storage) == before


def test_a_dlpack_capsule_can_be_used_once():
    capsule = dlpack.to_dlpack(rl.ones(2))
    assert rl.from_dlpack(capsule).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="not been used yet"):
        rl.from_dlpack(capsule)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.ones(2, requires_grad=True),
        lambda m: m.ones(2, requires_grad=True) * 2,
        lambda m: m.ones(2, dtype=m.complex64).conj(),
        lambda m: m.ones(2).to_sparse(),
    ],
)
def test_what_dlpack_cannot_say_is_refused_but_by_the_function_that_exports(make):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")

    def outcome(m, export):
        try:
            return type(export(make(m))).__name__
        except (BufferError, RuntimeError) as error:
            return type(error).__name__, str(error)

    assert outcome(rl, rl.Tensor.__dlpack__) == outcome(torch, torch.Tensor.__dlpack__)
    ours = outcome(rl, rl.utils.dlpack.to_dlpack)
    assert ours == outcome(torch, torch.utils.dlpack.to_dlpack)
    assert ours == outcome(rl, rl.to_dlpack)


def test_dlpack_shares_memory_with_pytorch():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for dtype in torch.float32, torch.bfloat16, torch.bool, torch.complex64:
        theirs = torch.ones(2, 3).to(dtype).t()
        ours = rl.from_dlpack(theirs)
        assert ours.stride() == theirs.stride()
        assert ours.tolist() == theirs.tolist()
        assert torch.from_dlpack(ours).data_ptr() == theirs.data_ptr()


def test_frombuffer_views_the_buffer():
    buffer = bytearray([1, 0, 2, 0, 3, 0])
    tensor = rl.frombuffer(buffer, dtype=rl.int16, offset=2)
    buffer[2] = 9
    assert tensor.tolist() == [9, 3]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"count": 9}, "must not be greater"),
        ({"offset": 7}, "must be non-negative"),
        ({"offset": 1}, "must be a multiple"),
        ({"count": 0}, "must not be 0"),
    ],
    ids=str,
)
def test_frombuffer_says_what_does_not_fit(options, words):
    with pytest.raises(ValueError, match=words):
        rl.frombuffer(bytearray(6), dtype=rl.int16, **options)


def test_a_buffer_is_not_resized_under_a_tensor():
    buffer = bytearray(8)
    tensor = rl.frombuffer(buffer, dtype=rl.uint8)
    with pytest.raises(BufferError):
        buffer.extend(b"x")
    del tensor
    buffer.extend(b"x")


def test_a_tensors_bytes_can_be_read_and_written():
    tensor = rl.zeros(2, dtype=rl.int32)
    view = interop.buffer_of(tensor)
    view[4] = 1
    assert tensor.tolist() == [0, 1]
    with pytest.raises(ValueError, match="contiguous"):
        interop.buffer_of(rl.ones(2, 3).t())


def test_an_array_over_a_tensor_is_a_tensor():
    found = np.arange(3.0) / rl.tensor([1.0, 2.0, 4.0])
    assert isinstance(found, rl.Tensor) and found.dtype is rl.float64
    assert found.tolist() == [0.0, 0.5, 0.5]
    with pytest.raises(TypeError, match="unsupported operand"):
        "a" / rl.ones(2)

"""Memory that another library sees, that has been given back, or that never was."""

import copy
import gc
import io

import numpy as np
import pytest

import rushlight as rl
from rushlight.io.interop import storage_buffer


def exports():
    """Tensors beside an array that shows their memory."""
    exported = rl.ones(4)
    yield exported, exported.numpy()
    lent = rl.ones(4)
    yield lent, np.from_dlpack(lent)
    array = np.ones(4, dtype=np.float32)
    yield rl.from_numpy(array), array


RESIZES = [
    lambda x: x.resize_(1000),
    lambda x: x.untyped_storage().resize_(10000),
    lambda x: x.untyped_storage().resize_(0),
    lambda x: rl.add(rl.ones(100), 1, out=x),
]


@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_memory_that_another_library_sees_stays_where_it_is(resize):
    for tensor, array in exports():
        assert not tensor.untyped_storage().resizable()
        with pytest.raises(RuntimeError, match="not resizable"):
            resize(tensor)
        rl.full((5000,), -1.0)
        assert array.tolist() == [1.0] * 4


def test_memory_outlives_the_tensor_that_lent_it():
    for tensor, array in exports():
        tensor.data = rl.zeros(3)
        del tensor
        gc.collect()
        rl.full((4,), -1.0)
        assert array.tolist() == [1.0] * 4


def test_what_has_been_given_back_may_be_resized_again():
    tensor = rl.ones(4)
    array = np.from_dlpack(tensor)
    view = storage_buffer(tensor.untyped_storage())
    assert not tensor.untyped_storage().resizable()
    del array
    assert not tensor.untyped_storage().resizable()
    view.release()
    del view
    gc.collect()
    assert tensor.untyped_storage().resizable()
    assert tensor.resize_(100).untyped_storage().nbytes() == 400


def emptied():
    x = rl.ones(2, 2)
    x.untyped_storage().resize_(0)
    return x


USES = {
    "add": lambda x: x + 1,
    "matmul": lambda x: x @ x,
    "sum": lambda x: x.sum(),
    "sort": lambda x: x.sort(),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(0),
    "fill_": lambda x: x.fill_(1),
    "copy_": lambda x: x.copy_(rl.ones(2, 2)),
    "copied": lambda x: rl.ones(2, 2).copy_(x),
    "uniform_": lambda x: x.uniform_(),
    "cat": lambda x: rl.cat([x, x]),
    "index": lambda x: x[rl.tensor([0])],
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "dlpack": lambda x: x.__dlpack__(),
    "repr": repr,
    "equal": lambda x: rl.equal(x, x),
    "deepcopy": copy.deepcopy,
    "linear": lambda x: rl.nn.functional.linear(x, x),
    "layer_norm": lambda x: rl.nn.functional.layer_norm(x, (2,)),
    "out": lambda x: rl.add(rl.ones(2, 2), 1, out=x),
}


@pytest.mark.parametrize("use", USES)
def test_a_tensor_whose_memory_was_given_back_is_refused(use):
    with pytest.raises(RuntimeError, match=r"not allocated|out of bounds"):
        USES[use](emptied())


def test_a_storage_that_was_made_smaller_is_not_read_beyond_its_end():
    x = rl.arange(4.0)
    tail = x[2:]
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match="out of bounds"):
        tail + 1
    assert (x[:2] + 1).tolist() == [1.0, 2.0]


def test_given_back_memory_can_be_asked_for_again():
    x = emptied()
    assert x.shape == (2, 2)
    assert x.view(4).shape == (4,)
    x.untyped_storage().resize_(16)
    assert x.fill_(2).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_tensor_that_was_never_filled_in_is_an_empty_vector():
    x = rl.Tensor.__new__(rl.Tensor)
    assert x.tolist() == [] and (x + 1).tolist() == []
    assert repr(x) == "tensor([])"
    assert x.sum().item() == 0
    assert (x @ rl.ones(0)).item() == 0
    for name in dir(rl.Tensor):
        if name.startswith("__") and name not in ("__add__", "__len__", "__abs__"):
            continue
        try:
            attribute = getattr(rl.Tensor.__new__(rl.Tensor), name)
            if callable(attribute):
                attribute()
        except Exception as error:
            assert not isinstance(error, (SystemError, MemoryError)), name
    buffer = io.BytesIO()
    rl.save(rl.Tensor.__new__(rl.Tensor), buffer)


def test_a_view_out_of_a_factory_is_all_that_is_written():
    for make in (
        lambda out: rl.linspace(0, 1, 3, out=out),
        lambda out: rl.arange(3.0, out=out),
        lambda out: rl.full((3,), 7.0, out=out),
        lambda out: rl.zeros(3, out=out),
        lambda out: rl.ones(3, out=out),
        lambda out: rl.logspace(0, 1, 3, out=out),
        lambda out: rl.rand(3, out=out),
        lambda out: rl.randn(3, out=out),
        lambda out: rl.randperm(3, out=out),
        lambda out: rl.randint(5, (3,), out=out),
        lambda out: rl.eye(3, 1, out=out.unsqueeze(1)).squeeze(1),
        lambda out: rl.empty(3, out=out),
    ):
        base = rl.full((12,), -5.0)
        out = base[1:10:3]
        result = make(out)
        assert result.data_ptr() == out.data_ptr()
        untouched = [base[i].item() for i in range(12) if i not in (1, 4, 7)]
        assert untouched == [-5.0] * 9

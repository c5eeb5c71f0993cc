"""Classes of users fill their tensors in ``__new__``, as PyTorch's examples do."""

import pytest

import rushlight as rl


class Named(rl.Tensor):
    """PyTorch's example of a tensor that carries something else along."""

    @staticmethod
    def __new__(cls, data, name, *args, **kwargs):
        return super().__new__(cls, data, *args, **kwargs)

    def __init__(self, data, name):
        super().__init__()
        self.name = name


class Silent(rl.Tensor):
    """One whose ``__init__`` calls no other."""

    def __new__(cls, data):
        return rl.Tensor.__new__(cls, data)

    def __init__(self, data):
        self.length = len(data)


@pytest.mark.parametrize("data", [rl.arange(6.0).view(2, 3), [[1, 2], [3, 4]]])
def test_new_takes_the_data(data):
    found = Named(data, "it")
    assert type(found) is Named and found.name == "it"
    assert found.tolist() == rl.Tensor(data).tolist()
    assert type(found * 2) is Named
    assert Silent(data).tolist() == rl.Tensor(data).tolist()


def test_new_takes_sizes_and_nothing():
    assert rl.Tensor.__new__(Silent, 2, 3).shape == (2, 3)
    empty = rl.Tensor.__new__(Silent)
    assert type(empty) is Silent and empty.shape == (0,)
    assert empty.resize_(2).fill_(1).tolist() == [1, 1]
    assert rl.Tensor().resize_(3).shape == (3,)


def test_a_tensor_of_a_tensor_shares_memory_type_and_history():
    weight = rl.ones(3, dtype=rl.float64, requires_grad=True)
    for kind in (rl.Tensor, Silent):
        shown = kind(weight * 2)
        assert shown.dtype is rl.float64 and type(shown) is kind
        weight.grad = None
        shown.sum().backward()
        assert weight.grad.tolist() == [2.0] * 3
        assert kind(weight).data_ptr() == weight.data_ptr()


def test_new_refuses_what_the_constructor_refuses():
    with pytest.raises(TypeError, match="invalid combination"):
        rl.Tensor(rl.ones(2), 3)
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        Silent("a")
    with pytest.raises(TypeError, match="not a subtype"):
        rl.Tensor.__new__(int)


def test_init_alone_gets_no_arguments_past_new():
    class Later(rl.Tensor):
        def __init__(self, data, name):
            self.name = name

    with pytest.raises(TypeError, match="invalid combination"):
        Later(rl.ones(2), "it")

"""Types take calls, hand them back, and can be told to keep out."""

import pytest

import rushlight as rl


class Noted(rl.Tensor):
    """A tensor that notes which calls it sees."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def noted():
    Noted.seen.clear()
    return rl.Tensor._make_subclass(Noted, rl.ones(2))


def test_a_call_can_be_handed_on_to_plain_tensors(noted):
    assert (noted + 1).tolist() == [2.0, 2.0]
    assert Noted.seen == ["add", "tolist"]


@pytest.mark.parametrize(
    "name", ["DisableTorchFunction", "DisableTorchFunctionSubclass"]
)
def test_types_keep_out_of_a_block(noted, name):
    with getattr(rl, name)():
        assert (noted * 2).tolist() == [2.0, 2.0]
        assert not rl._C._is_torch_function_enabled()
    assert Noted.seen == [] and rl._C._is_torch_function_enabled()


def test_modes_keep_out_of_a_block_only_if_it_says_so():
    class Mode(rl.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "seen"

    with Mode():
        with rl.DisableTorchFunctionSubclass():
            assert rl.Tensor.add(_ONE, 1) == "seen"
        with rl.DisableTorchFunction():
            assert rl.Tensor.add(_ONE, 1).tolist() == [2.0]


_ONE = rl.ones(1)


def test_functions_in_python_can_be_taken_too(noted):
    @rl.overrides.wrap_torch_function(lambda value: (value,))
    def double(value):
        return value * 2

    assert double(rl.ones(1)).tolist() == [2.0] and Noted.seen == []
    assert double(noted).tolist() == [2.0, 2.0]
    assert Noted.seen == ["double", "tolist"]


def test_what_no_type_takes_is_refused():
    class Silent:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation found for"):
        rl.overrides.handle_torch_function(rl.functional.einsum, (Silent(),), Silent())


def test_parameters_and_plain_tensors_take_no_calls():
    values = (rl.nn.Parameter(rl.ones(1)), rl.ones(1), 3)
    assert not rl.overrides.has_torch_function(values)
    assert rl.overrides.is_tensor_like(values[0])

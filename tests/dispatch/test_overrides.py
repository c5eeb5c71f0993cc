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


def test_attributes_are_replaced_as_a_whole(noted):
    noted.old = 1
    given = {"new": 2}
    noted.__dict__ = given
    assert noted.__dict__ is given and noted.new == 2 and not hasattr(noted, "old")
    noted.later = 3
    assert given["later"] == 3 and vars(noted) is given
    with pytest.raises(TypeError, match="__dict__ must be set to a dictionary"):
        noted.__dict__ = [1]


@pytest.mark.parametrize("kind", [list, tuple])
def test_einsum_shows_types_the_tensors_of_a_list_one_by_one(kind):
    torch = pytest.importorskip("torch")

    def told(lib):
        seen = []

        class Shown(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is lib.einsum:
                    seen.append([isinstance(arg, cls) for arg in args])
                return super().__torch_function__(func, types, args, kwargs)

        x = lib.ones(2).as_subclass(Shown)
        assert lib.einsum("i,i->i", kind([x, x])).tolist() == [1.0, 1.0]
        return seen

    assert told(rl) == told(torch) == [[False, True, True]]


def test_einsum_of_a_list_is_traced_with_its_operands_one_by_one():
    from rushlight import fx

    class Product(rl.nn.Module):
        def forward(self, x):
            return rl.einsum("ij,jk->ik", (x, x))

    (node,) = (
        n for n in fx.symbolic_trace(Product()).graph.nodes if n.op == "call_function"
    )
    assert node.target is rl.einsum and len(node.args) == 3

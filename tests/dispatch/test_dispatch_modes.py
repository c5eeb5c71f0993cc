"""Types and modes take operators below autograd; wrappers have no memory."""

import threading

import pytest

import rushlight as rl
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.library import _scoped_library
from rushlight.dispatch.rules_from_outside import register_torch_dispatch
from rushlight.utils._mode_utils import no_dispatch
from rushlight.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from rushlight.utils._pytree import tree_map


class Wrapper(rl.Tensor):
    """A tensor around another one; it notes the operators that reach it."""

    seen: list = []

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        return rl.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad,
        )

    def __init__(self, inner, requires_grad=False):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))

        def opened(value):
            return value.inner if isinstance(value, cls) else value

        def wrapped(value):
            return cls(value) if isinstance(value, rl.Tensor) else value

        result = func(*tree_map(opened, args), **tree_map(opened, kwargs or {}))
        return return_and_correct_aliasing(
            func, args, kwargs or {}, tree_map(wrapped, result)
        )

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, context, outer_size, outer_stride):
        return Wrapper(inner_tensors["inner"])


class Logging(TorchDispatchMode):
    """Notes operators and lets them go on."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def forget():
    Wrapper.seen.clear()


def test_a_wrapper_logs_a_training_step():
    weight = Wrapper(rl.full((3, 2), 0.5), requires_grad=True)
    x, y = Wrapper(rl.ones(4, 3)), Wrapper(rl.zeros(4, 2))
    loss = (x @ weight - y).square().mean()
    loss.backward()
    assert type(weight.grad) is Wrapper
    with rl.no_grad():
        weight.add_(weight.grad, alpha=-0.1)
    assert weight.inner.tolist() == pytest.approx([0.35] * 6) or (
        rl.allclose(weight.inner, rl.full((3, 2), 0.35))
    )
    assert Wrapper.seen[0] in ("aten.mm.default", "aten.matmul.default")
    assert Wrapper.seen[-1] == "aten.add_.Tensor"
    assert loss.item() == pytest.approx(2.25)


def test_a_wrapper_says_what_it_was_told_of_itself():
    class LaunchState(Wrapper):
        @staticmethod
        def __new__(cls, inner):
            return rl.Tensor._make_wrapper_subclass(
                cls, (4, 5), dtype=rl.float16, device="meta", layout=rl.sparse_coo
            )

    t = LaunchState(None)
    assert t.shape == (4, 5) and t.stride() == (5, 1)
    assert t.dtype is rl.float16 and t.layout is rl.sparse_coo
    assert t.device.type == "meta" and t.data_ptr() == 0
    assert t.untyped_storage().nbytes() == 40


@pytest.mark.parametrize(
    "program",
    [
        lambda w: w + 1,
        lambda w: w.sum(),
        lambda w: w.clone(),
        lambda w: rl.cat([w, rl.ones(2)]),
        lambda w: rl.ones(2).add_(w),
        lambda w: rl.ones(2).copy_(w),
        lambda w: w.softmax(0),
        lambda w: w.sort(),
        lambda w: rl.where(w > 0, w, w),
        lambda w: rl.mm(w.view(1, 2), w.view(2, 1)),
        lambda w: w.to(rl.float64),
        lambda w: rl.nn.functional.gelu(w),
        lambda w: rl.nn.functional.dropout(w),
        lambda w: w.uniform_(),
        lambda w: rl.add(w, w, alpha=Wrapper(rl.ones(()))),
        lambda w: rl.masked_fill(rl.ones(2), rl.ones(2) > 0, Wrapper(rl.ones(()))),
        lambda w: w[w > 0],
        lambda w: w.cumsum(0),
        lambda w: rl.linalg.norm(w),
        lambda w: rl.nn.functional.layer_norm(w, (2,)),
    ],
)
def test_no_kernel_reads_a_wrapper(program):
    w = Wrapper(rl.ones(2))
    with no_dispatch(), pytest.raises(NotImplementedError):
        program(w)


@pytest.mark.parametrize("name", ["tolist", "numpy"])
def test_a_wrapper_s_memory_is_not_handed_out(name):
    def words(module, wrapper):
        with pytest.raises(RuntimeError) as caught:
            getattr(wrapper, name)()
        return str(caught.value)

    torch = pytest.importorskip("torch")

    class Theirs(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2,))

        __torch_dispatch__ = classmethod(lambda *rest: NotImplemented)

    Theirs.__name__ = "Wrapper"
    assert words(rl, Wrapper(rl.ones(2))) == words(torch, Theirs())


def test_a_wrapper_needs_an_answer_for_operators():
    class Plain(rl.Tensor):
        pass

    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        rl.Tensor._make_wrapper_subclass(Plain, (2,))


def test_a_handler_s_result_is_what_the_operator_returns():
    class Odd(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return 3

    with pytest.raises(RuntimeError, match="Unable to cast 3 to Tensor"):
        Odd(rl.ones(2)).exp()


def test_what_nobody_takes_is_refused():
    class Silent(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned"):
        Silent(rl.ones(2)).exp()


def test_types_with_memory_of_their_own_take_operators_too():
    class Doubling(rl.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with no_dispatch():
                return func(*args, **(kwargs or {})) * 2

        __torch_function__ = rl._C._disabled_torch_function_impl

    assert rl.ones(2).as_subclass(Doubling).add(1).tolist() == [4.0, 4.0]


# -- modes -------------------------------------------------------------------------------


LOGGED = [
    lambda t, x: t.ones(2) + 1,
    lambda t, x: (x * 2 + 1).sum().backward(),
    lambda t, x: x.detach().view(4),
    lambda t, x: x[0] + x[1],
    lambda t, x: t.cat([x, x]).mean(),
    lambda t, x: t.zeros_like(x).add_(1),
    lambda t, x: t.where(x > 0, x, x),
    lambda t, x: x.unsqueeze(0).expand(3, 2, 2),
    lambda t, x: t.randn(2).exp(),
    lambda t, x: x.sum(0).max(),
]


@pytest.mark.parametrize("program", LOGGED, ids=range(len(LOGGED)))
def test_a_mode_sees_the_operators_that_it_sees_in_pytorch(program):
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode as Theirs

    def seen(module, base):
        names = []

        class Mode(base):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(str(func).removesuffix(".default").rpartition("aten.")[2])
                return func(*args, **(kwargs or {}))

        x = module.ones(2, 2, requires_grad=True)
        with Mode():
            program(module, x)
        return [name.partition(".")[0] for name in names if name != "detach"]

    assert seen(rl, TorchDispatchMode) == seen(torch, Theirs)


def test_modes_nest_and_sit_above_types():
    w = Wrapper(rl.ones(2))
    with Logging() as outer, Logging() as inner:
        w.exp()
    assert outer.seen == inner.seen == ["aten.exp.default"] == Wrapper.seen


def test_a_mode_may_answer_itself():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return rl.zeros(1)

    with Zeros():
        assert rl.ones(3).add(1).tolist() == [0.0]
    assert rl.ones(1).item() == 1.0


def test_function_modes_come_first():
    order = []

    class Function(rl.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append("function")
            return func(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append("dispatch")
            return func(*args, **(kwargs or {}))

    with Dispatch(), Function():
        rl.ones(1)
    assert order == ["function", "dispatch"]


def test_modes_can_be_left_out_for_a_block():
    with Logging() as mode:
        assert _get_current_dispatch_mode() is mode
        with _disable_current_modes() as left:
            rl.ones(2)
            assert left == [mode] and _get_current_dispatch_mode() is None
        rl.zeros(2)
    assert mode.seen == ["aten.zeros.default"]


def test_modes_belong_to_their_thread():
    seen = []
    with Logging() as mode:
        other = threading.Thread(target=lambda: seen.append(rl.ones(2).sum().item()))
        other.start()
        other.join()
    assert mode.seen == [] and seen == [2.0]


def test_a_mode_is_gone_after_an_error():
    with pytest.raises(ValueError), Logging():
        raise ValueError
    assert _get_current_dispatch_mode() is None


def test_numbers_that_become_tensors_are_seen():
    with Logging() as mode:
        rl.tensor([1.0])
    assert mode.seen == ["aten.lift_fresh.default"]


def test_reading_an_element_is_an_operator():
    with Logging() as mode:
        assert rl.ones(1).item() == 1.0
    assert mode.seen[-1] == "aten._local_scalar_dense.default"


def test_composites_come_in_parts():
    with _scoped_library("modes_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        with Logging() as mode:
            rl.ops.modes_test.twice(rl.ones(1))
        assert mode.seen[-1] == "aten.add.Tensor"


def test_operators_from_outside_have_rules_for_modes():
    with _scoped_library("rules_test", "DEF") as library:
        library.define("one(Tensor x) -> Tensor")
        library.impl("one", lambda x: x.clone(), "CPU")

        @register_torch_dispatch("rules_test::one", Logging, lib=library)
        def _(mode, func, types, args, kwargs):
            return args[0] + 1

        x = rl.ones(1)
        with Logging():
            assert rl.ops.rules_test.one(x).tolist() == [2.0]
        assert rl.ops.rules_test.one(x).tolist() == [1.0]


# -- tools -------------------------------------------------------------------------------


def test_wrappers_are_taken_apart_and_made_again():
    w = Wrapper(rl.ones(2))
    assert is_traceable_wrapper_subclass(w)
    assert not is_traceable_wrapper_subclass(rl.ones(2))
    made = transform_subclass(w, lambda name, inner: inner * 3)
    assert made.inner.tolist() == [3.0, 3.0]


def test_views_of_wrappers_share_what_stands_for_their_memory():
    w = Wrapper(rl.ones(2, 2))
    assert w.view(4).untyped_storage() is w.untyped_storage()
    assert w.add_(1) is w
    assert w.clone().untyped_storage() is not w.untyped_storage()


def test_schemas_can_be_read():
    torch = pytest.importorskip("torch")
    for name, overload in [("mm", "default"), ("add_", "Tensor"), ("exp", "default")]:
        ours = getattr(getattr(rl.ops.aten, name), overload)
        theirs = getattr(getattr(torch.ops.aten, name), overload)
        assert str(ours) == str(theirs) and ours.name() == theirs.name()
        assert repr(ours) == repr(theirs)
        assert ours._schema.is_mutable == theirs._schema.is_mutable
        assert [a.name for a in ours._schema.arguments] == [
            a.name for a in theirs._schema.arguments
        ]
        assert [a.is_write for a in ours._schema.arguments] == [
            a.is_write for a in theirs._schema.arguments
        ]


def test_a_toy_layout_lives_outside():
    """Coordinates and values: most operators read it densely, products its own way."""

    class Coordinates(rl.Tensor):
        @staticmethod
        def __new__(cls, places, values, size):
            return rl.Tensor._make_wrapper_subclass(
                cls, size, dtype=values.dtype, layout=rl.sparse_coo
            )

        __torch_function__ = rl._C._disabled_torch_function_impl

        def __init__(self, places, values, size):
            self.places, self.values = places, values

        def dense(self):
            return rl.zeros(self.shape).index_put(tuple(self.places), self.values)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is rl.ops.aten.mul.Tensor and isinstance(args[1], float):
                return cls(args[0].places, args[0].values * args[1], args[0].shape)
            opened = tree_map(lambda a: a.dense() if isinstance(a, cls) else a, args)
            return func(*opened, **(kwargs or {}))

    x = Coordinates(rl.tensor([[0, 1], [2, 0]]), rl.tensor([3.0, 4.0]), (2, 3))
    assert x.layout is rl.sparse_coo and x.shape == (2, 3)
    doubled = x * 2.0
    assert type(doubled) is Coordinates and doubled.values.tolist() == [6.0, 8.0]
    assert (doubled + 0.0).tolist() == [[0.0, 0.0, 6.0], [8.0, 0.0, 0.0]]


def test_keys_that_modes_use_are_named():
    assert DispatchKey.Python < DispatchKey.Autograd

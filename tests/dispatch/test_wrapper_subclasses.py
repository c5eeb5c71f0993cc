"""Wrapper subclasses: handlers of products, copies, and classes that change."""

import copy
import functools

import pytest

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from tests.sequences.listen import wrapper_of

aten = rl.ops.aten


class Quantized(rl.Tensor):
    """A weight of bytes: handles transposes and products, and nothing else."""

    @staticmethod
    def __new__(cls, whole, scale, turned=False):
        sizes = whole.shape[::-1] if turned else whole.shape
        return rl.Tensor._make_wrapper_subclass(cls, sizes, dtype=rl.float32)

    def __init__(self, whole, scale, turned=False):
        self.whole, self.scale, self.turned = whole, scale, turned

    __torch_function__ = rl._C._disabled_torch_function_impl

    def dense(self):
        numbers = self.whole.float() * self.scale
        return numbers.t() if self.turned else numbers

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is aten.t.default:
            return cls(args[0].whole, args[0].scale, not args[0].turned)
        if func in (aten.mm.default, aten.addmm.default):
            dense = [one.dense() if isinstance(one, cls) else one for one in args]
            return func(*dense)
        raise NotImplementedError(f"{func} on a quantized weight")


def test_a_weight_that_handles_products_and_transposes_works_in_linear():
    numbers = rl.tensor([[1, -2, 3], [4, 5, -6]], dtype=rl.int8)
    weight = Quantized(numbers, 0.5)
    x, bias = rl.arange(12.0).reshape(4, 3), rl.ones(2)
    product = (x @ weight.dense().t()).tolist()
    expected = (x @ weight.dense().t() + bias).tolist()
    assert rl.nn.functional.linear(x, weight, bias).tolist() == expected
    assert rl.nn.functional.linear(x, weight).tolist() == product
    assert (x @ weight.t()).tolist() == product


def test_a_checkpoint_that_keeps_products_computes_them_once():
    layer = rl.nn.Linear(4, 4)
    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def run(x):
        return layer(x).relu() @ layer.weight

    kept = [aten.mm.default, aten.addmm.default]
    contexts = functools.partial(create_selective_checkpoint_contexts, kept)
    results = []
    for options in ({}, {"context_fn": contexts}):
        x = rl.arange(8.0).reshape(2, 4).requires_grad_()
        y = checkpoint(run, x, use_reentrant=False, **options)
        seen.clear()
        with Names():
            y.sum().backward()
        count = sum(func in kept for func in seen)
        results.append((count, x.grad, layer.weight.grad))
        layer.zero_grad()
    # the second run ends with the last value that is needed, before its last product
    assert results[0][0] - results[1][0] == 1
    for one, other in zip(results[0][1:], results[1][1:]):
        assert rl.equal(one, other)


def test_a_wrapper_is_copied_with_all_that_it_holds():
    kind = wrapper_of(rl, [])
    wrapper = kind(rl.ones(2, 3), requires_grad=True)
    wrapper.note = ["x"]
    wrapper.grad = kind(rl.full((2, 3), 2.0))
    for copied, deep in ((copy.deepcopy(wrapper), True), (copy.copy(wrapper), False)):
        assert type(copied) is kind and copied.requires_grad and copied.is_leaf
        assert rl.equal(copied.inner, wrapper.inner)
        assert (copied.inner is not wrapper.inner) == deep
        assert copied.note == ["x"] and (copied.note is not wrapper.note) == deep
    assert rl.equal(copy.deepcopy(wrapper).grad.inner, rl.full((2, 3), 2.0))
    layer = rl.nn.Linear(3, 2)
    layer.weight = rl.nn.Parameter(kind(layer.weight.data))
    copied = copy.deepcopy(layer).weight
    assert type(copied) is kind and isinstance(copied, rl.nn.Parameter)


def test_a_copy_that_changes_the_type_is_refused():
    class Plain(rl.Tensor):
        @staticmethod
        def __new__(cls):
            return rl.Tensor._make_wrapper_subclass(cls, (2,))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return rl.ones(2)

    with pytest.raises(RuntimeError, match="properly implement clone"):
        copy.deepcopy(Plain())


def test_a_class_may_get_and_lose_its_hook_after_its_first_use():
    class Taker:
        pass

    taker = Taker()
    with pytest.raises(TypeError):
        rl.add(taker, 1)
    Taker.__torch_function__ = classmethod(lambda cls, f, t, a=(), k=None: f.__name__)
    assert rl.add(taker, 1) == "add"
    assert rl.add(rl.ones(1), taker) == "add"
    del Taker.__torch_function__
    with pytest.raises(TypeError):
        rl.add(taker, 1)


def test_a_subclass_may_get_a_handler_of_operators_after_its_first_use():
    class Late(rl.Tensor):
        pass

    seen = []

    def handle(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return rl.zeros(2)

    assert type(rl.ones(2).as_subclass(Late) + 1) is Late
    Late.__torch_dispatch__ = classmethod(handle)
    after = rl.ones(2).as_subclass(Late)
    seen.clear()
    result = after + 1
    assert seen == ["aten.add.Tensor"] and result.shape == (2,)


def test_the_type_of_a_result_is_told_of_tensors_without_memory():
    kind = wrapper_of(rl, [])
    assert rl.result_type(kind(rl.ones(2)), 1.5) is rl.float32
    assert rl.result_type(kind(rl.ones(2, dtype=rl.int64)), 1.5) is rl.float32


def test_an_overload_has_pytorchs_name_and_runs():
    op = aten.gt.Scalar
    assert str(op) == "aten.gt.Scalar" and op is aten.gt.Scalar
    assert (
        op is not aten.gt.Tensor and op.overloadpacket is aten.gt.Tensor.overloadpacket
    )
    assert "Scalar other" in str(op._schema)
    assert op(rl.ones(2), 0.5).tolist() == [True, True]
    assert copy.deepcopy(op) is op
    with pytest.raises(TypeError):
        op(rl.ones(2), rl.ones(2))


class Held(rl.Tensor):
    """Holds a tensor, and gives other wrappers, plain tensors or nothing."""

    gives = "wrapped"

    @staticmethod
    def __new__(cls, inner):
        made = rl.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.held = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        tree_map = rl.utils._pytree.tree_map
        plain = tree_map(lambda one: getattr(one, "held", one), (args, kwargs or {}))
        result = func(*plain[0], **plain[1])
        if cls.gives == "nothing":
            return None
        wrap = cls if cls.gives == "wrapped" else lambda one: one
        return tree_map(
            lambda one: wrap(one) if type(one) is rl.Tensor else one, result
        )


@pytest.mark.parametrize("gives", ["wrapped", "plain", "nothing"])
def test_what_is_written_to_is_the_result_whatever_a_handler_gives(gives, monkeypatch):
    monkeypatch.setattr(Held, "gives", gives)
    held, plain = Held(rl.ones(2)), rl.zeros(2)
    same = held
    same += 1
    assert same is held
    assert held.mul_(2) is held
    assert rl.relu_(held) is held
    assert aten.add_.Tensor(held, 1) is held
    assert held.copy_(plain + 4) is held
    assert held.held.tolist() == [4.0, 4.0]
    assert rl.add(held, held, out=plain) is plain
    assert aten.add.out(held, 1, out=plain) is plain
    assert plain.tolist() == [5.0, 5.0]
    listed = [held, held]
    assert all(one is held for one in rl._foreach_add_(listed, 1))


def test_a_wrapper_is_of_no_type_but_its_own_and_those_that_it_derives_from():
    held = Held(rl.ones(2))
    assert type(held.as_subclass(rl.Tensor)) is Held
    with pytest.raises(
        RuntimeError, match="Tensor subclass Other .* of type Held which"
    ):
        held.as_subclass(type("Other", (rl.Tensor,), {}))


def test_a_parameter_of_what_changes_its_type_when_it_is_cut_off_is_refused(
    monkeypatch,
):
    monkeypatch.setattr(Held, "gives", "plain")
    with pytest.raises(
        RuntimeError, match="instance of type Held requires that detach"
    ):
        rl.nn.Parameter(Held(rl.ones(2)))


def test_handlers_stay_with_the_tensor_whose_data_is_set():
    seen = []

    class Listening(rl.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return rl.zeros(3)

    kept = rl.Tensor._make_subclass(Listening, rl.ones(2))
    plain = rl.ones(2)
    kept.data = rl.zeros(3)
    plain.data = rl.Tensor._make_subclass(Listening, rl.zeros(3))
    seen.clear()
    assert (kept + 1).shape == (plain + 1).shape == (3,)
    assert seen == ["aten.add.Tensor"]


def test_data_made_in_inference_mode_learns_and_data_from_outside_ends_it():
    with rl.inference_mode():
        inference, inside = rl.ones(3), rl.ones(3)
    weight = rl.zeros(3, requires_grad=True)
    weight.data, inside.data = inference, rl.full((3,), 2.0)
    for one in (weight, inside.requires_grad_()):
        (one * one).sum().backward()
        assert one.grad.tolist() == (2 * one).tolist()


def test_a_handler_answers_whether_memory_is_page_locked():
    class Locked(rl.Tensor):
        asked = False

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.asked = func is aten.is_pinned.default
            return True

    x = Locked._make_wrapper_subclass(Locked, (2,))
    assert x.is_pinned() and Locked.asked
    assert not rl.ones(2).is_pinned()


def test_a_tensor_shows_another_one_s_memory_where_their_kinds_are_alike():
    whole = Quantized(rl.ones(2, 3, dtype=rl.int8), 0.5)
    alike = rl._has_compatible_shallow_copy_type
    assert alike(rl.ones(2), rl.zeros(3, dtype=rl.int64))
    assert not alike(rl.ones(2), rl.ones(2).to_sparse())
    assert not alike(rl.ones(2), whole)

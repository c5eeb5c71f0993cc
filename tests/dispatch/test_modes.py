"""Function modes and ``__torch_function__`` see calls as their caller wrote them."""

import pytest

import rushlight as rl
from rushlight.overrides import TorchFunctionMode


class Passing(TorchFunctionMode):
    """Notes every call and lets it go on."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func.__name__, len(args), dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


def test_a_mode_gets_arguments_that_it_can_pass_on():
    with Passing() as mode:
        y = rl.ones(2, dtype=rl.float64).add(1, alpha=3).mul(2)
    assert y.tolist() == [8.0, 8.0] and y.dtype == rl.float64
    assert mode.calls == [
        ("ones", 1, {"dtype": rl.float64}),
        ("add", 2, {"alpha": 3}),
        ("mul", 2, {}),
    ]


def test_the_arguments_are_those_that_the_caller_wrote():
    with Passing() as mode:
        rl.ones(2, 3).sum(1).softmax(0)
    assert [(name, count) for name, count, _ in mode.calls[:2]] == [
        ("ones", 2),
        ("sum", 2),
    ]
    assert mode.calls[1][2] == {}


def test_out_is_passed_by_keyword():
    out = rl.empty(2)
    with Passing() as mode:
        rl.exp(rl.zeros(2), out=out)
    assert out.tolist() == [1.0, 1.0]
    assert mode.calls[-1][2].keys() == {"out"}


def test_modes_nest_from_the_inside_outwards():
    with Passing() as outer, Passing() as inner:
        rl.ones(1).exp()
    assert [name for name, *_ in inner.calls] == ["ones", "exp"]
    assert [name for name, *_ in outer.calls] == ["ones", "exp"]


def test_a_mode_may_answer_itself_and_is_gone_after_its_block():
    class Answering(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "answered"

    with Answering():
        assert rl.ones(1) == "answered"
    assert rl.ones(1).item() == 1.0


def test_a_subclass_is_asked_with_what_was_given():
    seen = []

    class Logged(rl.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, types, kwargs))
            return "taken"

    x = Logged(rl.ones(2))
    assert rl.add(x, 1, alpha=2) == "taken"
    assert seen == [("add", (Logged,), {"alpha": 2})]


def test_a_mode_without_the_method_says_so():
    with pytest.raises(NotImplementedError, match="must define __torch_function__"):
        with TorchFunctionMode():
            rl.ones(1)

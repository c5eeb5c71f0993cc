"""Handlers that return None: what a program gets is what it gets from PyTorch."""

import contextlib
import copy
from importlib import import_module

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

STEPS = {
    "sum of two": lambda x, t: x + x,
    "written": lambda x, t: x.__iadd__(1),
    "several results": lambda x, t: x.max(0),
    "size": lambda x, t: x.shape,
    "length": lambda x, t: len(x),
    "truth": lambda x, t: bool(x),
    "parts": lambda x, t: list(x),
    "number": lambda x, t: float(x),
    "integer": lambda x, t: int(x),
    "place": lambda x, t: [1, 2][x],
    "found in": lambda x, t: 1 in x,
    "text": lambda x, t: repr(x),
    "formatted": lambda x, t: f"{x}",
    "element": lambda x, t: x[0],
    "element written": lambda x, t: x.__setitem__(0, 1),
    "equal": lambda x, t: x == x,
    "gradient": lambda x, t: x.grad,
    "gradient set": lambda x, t: setattr(x, "grad", None),
    "negated": lambda x, t: -x,
    "inverted": lambda x, t: ~x,
    "number less": lambda x, t: 1 - x,
    "power": lambda x, t: 2**x,
    "rounded": lambda x, t: round(x),
    "divided": lambda x, t: divmod(x, 2),
    "data": lambda x, t: x.data,
    "copied": lambda x, t: copy.deepcopy(x),
    "joined": lambda x, t: t.stack([x]),
    "made": lambda x, t: t.ones(2),
    "backward": lambda x, t: x.backward(),
    "storage": lambda x, t: x.untyped_storage(),
}


def of_types(t, x):
    class Silent(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return None

    return lambda step: step(x.as_subclass(Silent), t)


def of_modes(t, x):
    class Silent(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return None

    def run(step):
        with Silent():
            return step(x, t)

    return run


@pytest.mark.parametrize("how", [of_types, of_modes])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_type_or_a_mode_that_says_nothing_of_a_function(step, how):
    seen = []
    for t in (rl, torch):
        try:
            result = how(t, t.ones(2))(step)
        except Exception as error:
            result = type(error), str(error)
        if isinstance(result, t.Tensor):
            result = "tensor"
        seen.append(result)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["equal", "allclose"])
def test_nothing_said_of_a_question_is_no(name):
    for t in (rl, torch):
        dispatch = import_module(f"{t.__name__}.utils._python_dispatch")

        class Silent(dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return None

        x = t.ones(2)
        with Silent():
            assert getattr(t, name)(x, x) is False


CALLS = """
x + x
x.sin()
2**x
x.view(2, 1)
x[0]
x[x > 0]
x.t()
x.sum()
m.ones(2)
m.zeros_like(x)
x.clone()
x.detach()
x.double()
m.cat([x, x])
m.stack([x])
bool(x[0])
m.add(x, x, out=y)
x.add_(1)
x.max(0)
g * 2
g.sum()
g.view(2, 1)
g[0]
g.relu()
x.data
x.split(1)
float(x[0])
"""


def silent(t):
    """A mode and a wrapper's type whose handlers say nothing."""
    dispatch = import_module(f"{t.__name__}.utils._python_dispatch")

    class Silent(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return None

    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, like, wanted=False):
            return t.Tensor._make_wrapper_subclass(
                cls, like.shape, dtype=like.dtype, requires_grad=wanted
            )

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return None

    return Silent(), Wrapper


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
@pytest.mark.parametrize("of_type", [False, True])
def test_nothing_said_of_an_operator_is_what_the_program_gets(call, of_type):
    seen = []
    for t in (rl, torch):
        mode, wrapper = silent(t)
        x, y, g = t.ones(2), t.ones(2), t.ones(2, requires_grad=True)
        if of_type:
            x, y, g = wrapper(x), wrapper(y), wrapper(g, True)
        with contextlib.nullcontext() if of_type else mode:
            try:
                result = eval(call, {"m": t, "x": x, "y": y, "g": g})
            except Exception as error:
                result = type(error).__name__
        seen.append("tensor" if isinstance(result, t.Tensor) else result)
    assert seen[0] == seen[1]

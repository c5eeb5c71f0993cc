"""Handlers that return None: what a program gets is what it gets from PyTorch."""

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

"""What ``compile`` gives back is a function for all that ask, without a frame of its own."""

import asyncio
import copy
import functools
import inspect
import pickle
import subprocess
import sys
import threading
import typing
import weakref
from types import FunctionType

import pytest

import rushlight as rl
from rushlight import nn


@rl.compile
def scaled(x, factor=2.0, *, shift=0.0) -> rl.Tensor:
    """A product and a sum."""
    return x * factor + shift


class Counter:
    bias = 3

    @rl.compile
    def add(self, x):
        return x + self.bias

    @staticmethod
    @rl.compile
    def double(x):
        return x + x

    @classmethod
    @rl.compile
    def add_class(cls, x):
        return x + cls.bias


def test_a_compiled_function_looks_like_the_function():
    assert inspect.isfunction(scaled) and isinstance(scaled, FunctionType)
    assert scaled.__name__ == scaled.__qualname__ == "scaled"
    assert scaled.__doc__ == "A product and a sum."
    assert scaled.__module__ == __name__ and scaled.__defaults__ == (2.0,)
    assert str(inspect.signature(scaled)).startswith("(x, factor=2.0, *, shift=0.0)")
    assert typing.get_type_hints(scaled) == {"return": rl.Tensor}
    assert repr(scaled).startswith("<function scaled at 0x")
    assert scaled._torchdynamo_orig_callable is inspect.unwrap(scaled)
    assert weakref.ref(scaled)() is scaled and {scaled: 1}[scaled] == 1
    scaled.mark = 5
    assert vars(scaled).pop("mark") == 5


def test_it_is_pickled_and_copied_as_functions_are():
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert copy.deepcopy(scaled) is scaled and copy.copy(scaled) is scaled
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(rl.compile(lambda x: x))


def test_it_is_bound_as_a_method():
    x, counter = rl.ones(2), Counter()
    for found in (counter.add(x), Counter.add(counter, x), counter.add_class(x)):
        assert found.tolist() == [4, 4]
    method = counter.add
    assert method(x=x).tolist() == [4, 4] and method.__self__ is counter
    assert counter.double(x).tolist() == Counter.double(x).tolist() == [2, 2]


@pytest.mark.parametrize("passing", [0, 1000])
def test_arguments_are_given_on_as_they_came(passing):
    def seen(*args, **kwargs):
        return args, kwargs

    compiled = rl.compile(seen)
    compiled._runner.passing = passing
    args, kwargs = (1, None, (2,)), {"b": [3], "a": "c"}
    assert compiled(*args, **kwargs) == (args, kwargs)
    assert compiled() == ((), {}) and compiled(a=1) == ((), {"a": 1})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        scaled(factor=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        scaled(rl.ones(1), other=1)


ONE_FRAME = """
import sys
import rushlight as rl

compiled = rl.compile(lambda: sys._getframe(1).f_code.co_name)
compiled._runner.passing = 1
assert compiled() == "<module>", compiled()
assert not compiled._runner.passing
"""


def test_what_runs_as_it_comes_has_no_frame_around_it():  # where no stance was ever set
    subprocess.run([sys.executable, "-c", ONE_FRAME], check=True)


def test_callables_partials_and_coroutines_are_taken():
    class Plus:
        def __call__(self, x):
            return x + 1

    x = rl.ones(2)
    assert rl.compile(Plus())(x).tolist() == [2, 2]
    assert rl.compile(functools.partial(rl.add, 1))(x).tolist() == [2, 2]

    async def later(x):
        return x + 1

    compiled = rl.compile(later)
    assert inspect.iscoroutinefunction(compiled)
    assert asyncio.run(compiled(x)).tolist() == [2, 2]
    assert [*rl.compile(lambda n: (x * k for k in range(n)))(3)][2].tolist() == [2, 2]


def test_a_stance_is_asked_for_though_calls_pass():
    compiled = rl.compile(scaled._torchdynamo_orig_callable)
    compiled._runner.passing, compiled._runner.most = 5, 100
    with rl.compiler.set_stance("force_eager"):
        assert compiled(rl.ones(2)).tolist() == [2, 2]
    assert compiled._runner.passing == 5


def test_hooks_of_both_modules_run_though_calls_pass():
    seen = []
    inner = nn.ReLU()
    compiled = rl.compile(inner)
    compiled._runner.passing, compiled._runner.most = 100, 100
    x = rl.tensor([-1.0, 1.0])
    assert compiled(x).tolist() == [0, 1] and compiled(input=x).tolist() == [0, 1]
    for module, name in ((inner, "inner"), (compiled, "outer")):
        module.register_forward_hook(lambda *_, name=name: seen.append(name))
    assert compiled(x).tolist() == [0, 1] and seen == ["inner", "outer"]
    inner.forward = lambda x: x
    assert compiled(x).tolist() == [-1, 1]


def test_a_module_of_another_call_is_called_by_it():
    class Twice(nn.Module):
        def __call__(self, x):
            return super().__call__(super().__call__(x))

        def forward(self, x):
            return x * 3

    compiled = rl.compile(Twice())
    compiled._runner.passing, compiled._runner.most = 100, 100
    assert compiled(rl.ones(1)).tolist() == [9]


def test_threads_and_recursion_share_a_compiled_function():
    @rl.compile
    def deep(x, n):
        return deep(x + 1, n - 1) if n else x

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(deep(rl.zeros(2), 50).tolist()))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [[50, 50]] * 4


def test_global_hooks_see_both_modules_though_calls_pass():
    seen = []
    compiled = rl.compile(nn.ReLU())
    compiled._runner.passing, compiled._runner.most = 100, 100
    remove = nn.modules.module.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__)
    )
    try:
        assert compiled(rl.tensor([-1.0, 1.0])).tolist() == [0, 1]
    finally:
        remove.remove()
    assert seen == ["ReLU", "OptimizedModule"]

"""A number among an operator's arguments may change from call to call of a compiled function.

Each operator of PyTorch's database that takes numbers is called as a compiled function of
them: twice with the sample's own, then with others, then with its own again. Results,
arguments and gradients are those of the uncompiled call each time.
"""

import pytest

pytest.importorskip("torch")

import rushlight as rl
from rushlight.graph import compiled_function
from tests.fuzz import draw
from tests.graph import sweep

DRAWS = ("dropout", "rand", "bernoulli", "multinomial", "normal", "exponential")
CHUNKS = 24


def has_number(value):
    if isinstance(value, (list, tuple)):
        return any(map(has_number, value))
    return type(value) in (bool, int, float)


def changed(value, how):
    """Arguments with other numbers."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(changed(item, how) for item in value)
    if isinstance(value, dict):
        return {key: changed(item, how) for key, item in value.items()}
    if type(value) is float and how == "floats":
        return value * 0.75 + 0.125
    if type(value) is int and how == "ints":
        return value - 1 if value > 1 else value + 1
    if type(value) is bool and how == "truths":
        return not value
    return value


def variants(case):
    """The case and the same with other numbers of each kind."""
    yield case
    for how in "floats", "ints", "truths":
        args, kwargs = changed(case.args, how), changed(case.kwargs, how)
        if (args, kwargs) != (case.args, case.kwargs):
            yield draw.Case(case.path, args, kwargs, case.notes)


def difference(case):
    """What is otherwise than uncompiled in calls with changing numbers, or None."""
    found = [(one, sweep.answer(one)) for one in variants(case)]
    found = [(one, expected) for one, expected in found if expected.error is None]
    if len(found) < 2:
        return None
    runner = compiled_function.make_runner(case.path[1])
    slopes = [sweep.gradients(expected) for _, expected in found]
    order = [0, 0, *range(1, len(found)), 0]
    for turn in order:
        one, expected = found[turn]
        got = sweep.answer(one, runner)
        if got.error is not None:
            return f"{one}: {got.error!r}"
        if not sweep.same(got.result, expected.result):
            return f"{one}: {got.result!r}, not {expected.result!r}"
        back = sweep.gradients(got)
        if not sweep.same(back, slopes[turn]):
            return f"{one}: gradients {back!r}, not {slopes[turn]!r}"
    return None


@pytest.mark.parametrize("part", range(CHUNKS))
def test_numbers_change_between_calls_as_uncompiled(part):
    for at, name in sweep.names()[part::CHUNKS]:
        if any(word in name for word in DRAWS):
            continue
        for case in sweep.cases(at, dtypes=("float32",), most=6):
            if has_number(case.args) or has_number(list(case.kwargs.values())):
                found = difference(case)
                assert found is None, f"{name}: {found}"
                break


LISTS = (
    "_foreach_add", "_foreach_sub", "_foreach_mul", "_foreach_div", "_foreach_pow",
    "_foreach_clamp_min", "_foreach_clamp_max", "_foreach_maximum", "_foreach_minimum",
    "_foreach_norm",
)  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("inplace", [False, True])
def test_numbers_of_lists_operators_change_between_calls(name, inplace):
    if inplace and name == "_foreach_norm":
        return
    function = getattr(rl, name + "_" * inplace)

    def program(tensors, number):
        given = [t.clone() for t in tensors]
        made = function(given, number)
        return given if inplace else list(made)

    compiled = rl.compile(program)
    tensors = [rl.rand(3) + 0.5, rl.rand(2, 2) + 0.5]
    for number in (0.5, 0.5, 2.0, 1.5, 3, 0.25, 0.75, 0.5):
        for one, other in zip(compiled(tensors, number), program(tensors, number)):
            assert rl.allclose(one, other), number


@pytest.mark.parametrize("name", ["lerp", "addcmul", "addcdiv"])
def test_gradients_follow_a_number_that_changes(name):
    def program(x, y, number):
        if name == "lerp":
            return rl.lerp(x, y * 3, number).sum()
        return getattr(rl, name)(x, x * y, y, value=number).sum()

    compiled = rl.compile(program)
    x = (rl.rand(5) + 0.5).requires_grad_()
    y = (rl.rand(5) + 0.5).requires_grad_()
    for number in (0.1, 0.1, 0.9, 0.5, 0.3, 0.7):
        got = rl.autograd.grad(compiled(x, y, number), (x, y))
        wanted = rl.autograd.grad(program(x, y, number), (x, y))
        for one, other in zip(got, wanted, strict=True):
            assert rl.allclose(one, other), number

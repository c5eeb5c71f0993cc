"""Wrong programs are refused where they are wrong, with the line underlined."""

import pytest

import rushlight as rl


def wrong_operand(x: int):
    return x + "a"


def unknown_name(x):
    return y + x  # noqa: F821


def wrong_return(x: str) -> int:
    return x


def one_way(x, n: int):
    if n > 0:
        z = x
    return z


def other_type(n: int):
    for i in range(n):
        n = float(i)
    return n


def with_yield(x):
    yield x


def lambda_inside(x):
    f = lambda y: y  # noqa: E731
    return f(x)


def optional_used(x: rl.Tensor, y: rl.Tensor | None):
    return x + y


def any_arguments(*x):
    return x


def attribute(x):
    return x.nothing()


def else_of_loop(n: int):
    for _ in range(n):
        pass
    else:
        n = 1
    return n


CASES = {
    wrong_operand: ("Arguments for call are not valid", 'x + "a"'),
    unknown_name: ("undefined value y", "y + x"),
    wrong_return: (
        "annotated as having type int but is actually of type str",
        "return x",
    ),
    one_way: ("z is not defined in the false branch", "z"),
    other_type: ("previously had type int but is now being assigned", "for i in"),
    with_yield: ("aren't supported", "yield x"),
    lambda_inside: ("aren't supported", "lambda"),
    optional_used: ("Expected a value of type", "x + y"),
    any_arguments: ("variable number of arguments", "*x"),
    attribute: ("'Tensor' object has no attribute or method 'nothing'", "x.nothing"),
    else_of_loop: ("else branches of loops aren't supported", "for _ in"),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_wrong_programs_are_refused_with_their_line(function):
    words, marked = CASES[function]
    with pytest.raises(Exception, match="HERE") as raised:
        rl.jit.script(function)
    text = str(raised.value)
    assert words in text and "<--- HERE" in text and "test_errors.py" in text
    lines = text.splitlines()
    under = next(at for at, line in enumerate(lines) if "<--- HERE" in line)
    column = lines[under].index("~")
    assert lines[under - 1][column:].startswith(marked)


def test_wrong_operands_of_a_call_name_the_argument():
    def double(x, n: int):
        return x * n

    translated = rl.jit.script(double)
    with pytest.raises(
        RuntimeError, match="Expected a value of type 'int' for argument 'n'"
    ):
        translated(rl.ones(2), "a")
    with pytest.raises(RuntimeError, match="Argument n not provided"):
        translated(rl.ones(2))
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'm'"):
        translated(rl.ones(2), 1, m=2)


def test_what_programs_raise_is_told_with_its_line_as_in_pytorch():
    def check(n: int) -> int:
        if n < 0:
            raise ValueError(f"{n} is negative")
        assert n < 10, "too large"
        return n

    translated = rl.jit.script(check)
    assert translated(3) == 3
    with pytest.raises(rl.jit.Error) as caught:
        translated(-1)
    assert str(caught.value).endswith("builtins.ValueError: -1 is negative\n")
    assert "raise ValueError(" in str(caught.value)
    with pytest.raises(rl.jit.Error, match="RuntimeError: AssertionError: too large"):
        translated(11)


def test_operators_of_programs_fail_as_runtime_errors_with_their_line():
    def inner(x):
        return x[5]

    def outer(x):
        return inner(x) + 1

    translated = rl.jit.script(outer)
    with pytest.raises(RuntimeError, match="index 5 out of range") as caught:
        translated(rl.ones(2))
    text = str(caught.value)
    assert text.index("inner(x) + 1") < text.index("return x[5]")
    assert isinstance(caught.value.__cause__, IndexError)


def test_modules_say_which_attribute_they_lack():
    class Holds(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.thing = object()

        def forward(self, x):
            return x + self.thing

    with pytest.raises(RuntimeError, match="failed to convert Python type: 'object'"):
        rl.jit.script(Holds())

"""Loops of numbers are machine code: PyTorch's results, its errors, its limits."""

import copy
import threading
import time

import pytest

import rushlight as rl
from rushlight.jit import _execute
from rushlight.jit._scalars import CompiledLoop
from tests.jit.both import loaded

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return loaded("scalars", "rushlight", str(tmp_path_factory.mktemp("scalars")))


def steps(translated):
    """The compiled steps of a translated function."""
    scope = _execute.ready(translated.function).__globals__
    return [value for value in scope.values() if isinstance(value, CompiledLoop)]


def outcome(run, operands):
    """The result with what became of the operands, or the error."""
    operands = copy.deepcopy(operands)
    try:
        return repr(run(*operands)), repr(operands)
    except Exception as error:
        return type(error).__name__, str(error).strip().splitlines()[-1]


def test_loops_of_numbers_are_compiled_and_give_pytorchs_results(programs):
    for function, calls in programs.PROGRAMS:
        own, other = rl.jit.script(function), torch.jit.script(function)
        assert steps(own), function.__name__
        for operands in calls:
            assert outcome(own, operands) == outcome(other, operands), function


def test_failures_in_compiled_loops_are_pytorchs(programs):
    for function, wrong, right in programs.WRONG:
        own, other = rl.jit.script(function), torch.jit.script(function)
        assert steps(own), function.__name__
        assert outcome(own, wrong) == outcome(other, wrong), function
        assert outcome(own, right) == outcome(other, right), function


def test_failures_show_the_line_of_the_source_underlined(programs):
    own = rl.jit.script(programs.divides)
    with pytest.raises(RuntimeError) as caught:
        own(40)
    lines = str(caught.value).splitlines()
    assert lines[0] == "The following operation failed in the TorchScript interpreter."
    under = next(at for at, line in enumerate(lines) if "<--- HERE" in line)
    assert lines[under - 1].strip() == "x = x + n // (30 - i)"
    assert lines[under - 1][lines[under].index("~") :].startswith("n // (30 - i)")
    assert lines[-1] == "RuntimeError: division by 0"


def test_remainders_by_zero_raise():
    def rest(n: int) -> int:
        x = 0
        for i in range(n):
            x += n % (20 - i)
        return x

    own = rl.jit.script(rest)
    assert steps(own) and own(19) == rest(19)
    with pytest.raises(RuntimeError, match="modulo by zero"):
        own(30)


def test_numbers_of_all_kinds_keep_pytorchs_rules_outside_of_loops():
    def numbers(a: int, b: int, x: float, y: float):
        return (
            (a / b, x / y, x // y, x % y, a << b, a >> b, a * a * a),
            (min(x, y), max(x, y), int(x), round(x), a // (b * b + 1), -a),
        )

    own, other = rl.jit.script(numbers), torch.jit.script(numbers)
    inf, nan = float("inf"), float("nan")
    for operands in (
        (7, 0, 1.0, 0.0), (-7, 64, nan, 1.0), (2**62, 3, 1.0, nan), (1, -1, -0.0, 0.0),
        (5, 2, inf, -2.5), (-5, 2, -7.5, 2.0), (3, 70, 0.1, 0.3), (2**40, 1, 2.5, inf),
    ):  # fmt: skip
        assert repr(own(*operands)) == repr(other(*operands)), operands


def test_integers_beyond_64_bits_wrap_where_a_loop_is_given_them():
    def grows(n: int) -> int:
        x = 4611686018427387904 + n
        y = x + x + x
        for _ in range(n):
            y = y + 1
        return y

    assert rl.jit.script(grows)(10) == torch.jit.script(grows)(10)


def test_a_loop_among_tensors_is_one_step():
    def mixed(x, n: int):
        k = 0
        for i in range(n):
            k += i * i % 7
        return x * k

    own = rl.jit.script(mixed)
    assert len(steps(own)) == 1
    assert own(rl.ones(2), 100).tolist() == mixed(rl.ones(2), 100).tolist()


def test_short_loops_stay_python():
    def short(n: int) -> int:
        for _ in range(3):
            n += 1
        return n

    own = rl.jit.script(short)
    assert not steps(own) and own(1) == 4


def test_threads_and_failures_share_no_memory(programs):
    own = rl.jit.script(programs.raises)
    results, wrong = [], []

    def work():
        for n in range(400):
            try:
                results.append(own(n % 25) == sum(range(n % 25)))
            except rl.jit.Error as error:
                wrong.append("too far" in str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results) and all(wrong) and len(results) + len(wrong) == 1600


def least_time(run, *operands):
    """The least time of several calls."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run(*operands)
        best = min(best, time.perf_counter() - start)
    return best


def test_loops_of_numbers_run_three_times_faster_than_python(programs):
    for function, n in ((programs.longest_chain, 400), (programs.wave, 4000)):
        own = rl.jit.script(function)
        own(n)
        assert least_time(own, n) * 3 < least_time(function, n), function

"""Scripted loops of numbers, in PyTorch's interpreter and compiled here."""

import math

from benchmarks.harness import Case, Group


def chains(n: int) -> int:
    """The longest of Collatz's chains."""
    best = 0
    for start in range(1, n):
        x = start
        steps = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        if steps > best:
            best = steps
    return best


def series(n: int) -> float:
    """A sum of sines."""
    total = 0.0
    for i in range(n):
        total += math.sin(i * 0.1) * i / (i + 1)
    return total


def escape(width: int) -> int:
    """Turns that points of a plane take to leave a circle."""
    count = 0
    for i in range(width):
        for j in range(width):
            x, y, step = 0.0, 0.0, 0
            while step < 50 and x * x + y * y < 4.0:
                x, y = (
                    x * x - y * y + i * 3.0 / width - 2.0,
                    2 * x * y + j * 2.0 / width,
                )
                step += 1
            count += step
    return count


def primes(marks: list[int]) -> int:
    """Sieves a list in place."""
    n = len(marks)
    for i in range(2, n):
        if marks[i] != 0:
            j = i * i
            while j < n:
                marks[j] = 0
                j += i
    total = 0
    for i in range(n):
        total += marks[i]
    return total


def fibonacci(n: int) -> int:
    """A number of the sequence, by its last digits."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) % 1000007
    return a


CALLS = (
    (chains, 300),
    (series, 3000),
    (escape, 12),
    (primes, list(range(2000))),
    (fibonacci, 3000),
    (fibonacci, 10),
)


def case(function, operand):
    """A call of the function, scripted."""

    def make(library):
        scripted = library.jit.script(function)
        return lambda: scripted(operand)

    size = operand if isinstance(operand, int) else len(operand)
    return Case(f"{function.__name__} {size}", make)


def groups(quick):
    """The rows of the table."""
    cases = [case(function, operand) for function, operand in CALLS]
    return [Group("scripted loops of numbers", 1.0, cases)]

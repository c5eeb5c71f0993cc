"""Elementwise kernels with loops and branches."""

import math

import pytest

import rushlight as rl
from rushlight.codegen.frontend.branching import branching
from rushlight.codegen.loops import T, f64, formula, loops_inline
from rushlight.dispatch.kernels import run_pointwise


@formula
def halved(x):
    return x * 0.5


@loops_inline
def collatz_next(x):
    odd = x - T(2) * T(f64(x) * 0.5 - (f64(x) * 0.5) % 1.0)
    value = x * T(3) + T(1) if odd == T(1) else halved(x)
    return value


@branching
def collatz(x):
    """How many steps lead to one."""
    at = x + T(0)
    steps = T(0)
    while at != T(1):
        at = collatz_next(at)
        steps = steps + T(1)
    return steps


def steps_of(n):
    count = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
    return count


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_each_element_takes_its_own_number_of_steps(dtype):
    x = rl.arange(1, 30, dtype=dtype)
    expected = [steps_of(n) for n in range(1, 30)]
    assert run_pointwise(collatz, [x]).tolist() == expected


@loops_inline
def is_far(x, bound):
    far = abs(x) > bound
    return far


@branching
def wandering(x, bound):
    """Loops in a loop, conditions that are calls, and branches that few take."""
    at = x + T(0)
    total = T(0)
    while is_far(at, bound):
        step = T(0)
        while step < at or step < T(0) - at:
            step = step + bound
            if step > bound * T(3):
                total = total + step
            elif at < T(0):
                total = total - T(1)
            else:
                at = at - T(0.25)
        for turn in range(3):
            at = at * T(0.75)
            total = total + T(turn)
        total = total + step
    value = total if total < T(1e6) else T(1e6)
    return value


def wandering_of(x, bound):
    at, total = x, 0.0
    while abs(at) > bound:
        step = 0.0
        while step < at or step < -at:
            step += bound
            if step > bound * 3:
                total += step
            elif at < 0:
                total -= 1
            else:
                at -= 0.25
        for turn in range(3):
            at *= 0.75
            total += turn
        total += step
    return min(total, 1e6)


@pytest.mark.parametrize("count", [1, 15, 16, 33, 500])
def test_elements_that_wait_for_others_are_what_they_would_be_alone(count):
    x = (rl.arange(count, dtype=rl.float64) * 37 % 101 - 50) * 0.5
    bound = rl.arange(count, dtype=rl.float64) % 5 * 0.5 + 0.5
    expected = list(map(wandering_of, x.tolist(), bound.tolist()))
    assert run_pointwise(wandering, [x, bound]).tolist() == expected
    alone = [run_pointwise(wandering, [x[k], bound[k]]).item() for k in range(count)]
    assert alone == expected


def test_layouts_are_those_of_other_elementwise_kernels():
    x = rl.arange(1, 13, dtype=rl.float32).reshape(3, 4).t()
    result = run_pointwise(collatz, [x])
    assert result.stride() == x.stride()
    assert result.tolist() == [[steps_of(int(n)) for n in row] for row in x.tolist()]
    wide = rl.arange(1, 25, dtype=rl.float32)[::2]
    assert run_pointwise(collatz, [wide]).tolist() == [
        steps_of(n) for n in range(1, 24, 2)
    ]


def test_complex_values_are_refused():
    with pytest.raises(NotImplementedError):
        run_pointwise(collatz, [rl.ones(2, dtype=rl.complex64)])


def test_stages_can_be_looked_at():
    stages = collatz.stages(("float32",), ("float32",), "float32")
    assert "while" in stages.expression
    assert stages.assembly
    assert math.isfinite(len(stages.llvm))


def test_what_stands_behind_a_rare_branch_is_called_and_not_repeated():
    from rushlight.codegen import math as mathematics
    from rushlight.codegen.emit.llvm import emit
    from rushlight.codegen.frontend.pointwise import pointwise
    from rushlight.codegen.language import exp
    from rushlight.codegen.passes.vectorize_loops import vectorize_loops

    def exponential(x):
        return exp(x)

    _, loops = pointwise(exponential).trace(("float32",), ("float32",), "float32")
    text = emit(vectorize_loops(loops))
    assert "far_exp" in mathematics.RARE
    assert "@far_exp_f32x" in text
    assert "noinline cold" in text

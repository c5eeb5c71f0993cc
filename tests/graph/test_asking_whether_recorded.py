"""What a program is told of being recorded, and the default type that it changes meanwhile."""

import pytest

import rushlight as rl


def asks(x):
    if rl.compiler.is_exporting():
        return x + 3
    if rl.compiler.is_compiling():
        return x + 2
    return x + 1


def test_a_program_knows_whether_it_is_compiled_or_exported():
    x = rl.zeros(2)
    compiled = rl.compile(asks)
    for _ in range(3):
        assert compiled(x).tolist() == [2, 2]
        assert asks(x).tolist() == [1, 1]

    class Model(rl.nn.Module):
        def forward(self, x):
            return asks(x)

    assert rl.export.export(Model(), (x,)).module()(x).tolist() == [3, 3]
    assert not rl.compiler.is_exporting()


def test_the_default_type_may_change_in_a_compiled_function():
    def changes(x):
        rl.set_default_dtype(rl.float64)
        try:
            wide = rl.ones(3) * x
        finally:
            rl.set_default_dtype(rl.float32)
        return wide + rl.ones(3), rl.ones(3)

    compiled = rl.compile(changes)
    x = rl.ones(3, dtype=rl.float32)
    for _ in range(4):
        for got, wanted in zip(compiled(x), changes(x), strict=True):
            assert got.dtype is wanted.dtype
            assert rl.equal(got, wanted)
        assert rl.get_default_dtype() is rl.float32


@pytest.fixture
def back_to_usual():
    yield
    rl.use_deterministic_algorithms(False)


def filled_when_asked(x):
    y = rl.empty_like(x * 2)
    return bool(y.isnan().all()), rl.zeros_like(x) + x


def test_new_memory_is_filled_in_deterministic_runs_of_a_recorded_function(
    back_to_usual,
):
    recorded = rl.compile(filled_when_asked)
    for number, asked in enumerate((False, False, True, True, True, False, True)):
        rl.use_deterministic_algorithms(asked)
        filled, result = recorded(rl.ones(64) * number)
        assert filled or not asked
        assert result.tolist() == [number] * 64


def test_a_deterministic_run_may_begin_and_end_inside(back_to_usual):
    def function(x):
        before = rl.are_deterministic_algorithms_enabled()
        rl.use_deterministic_algorithms(True)
        new = x.new_empty(32)
        rl.use_deterministic_algorithms(False)
        return before, new + 1, x * 2

    recorded = rl.compile(function)
    for number in range(4):
        before, new, doubled = recorded(rl.ones(3) * number)
        assert not before and new.isnan().all()
        assert doubled.tolist() == [2 * number] * 3

"""Kernels for NEON, run by an emulator, compute what those of SSE do and the reference."""

import numpy as np
import pytest

from rushlight.codegen.target import named, using
from tests.codegen.test_targets import one_function, results_on
from tools import emulate

pytestmark = pytest.mark.skipif(
    not emulate.found(), reason="needs qemu-aarch64, of Debian's qemu-user"
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "erf", "erfinv", "tanh"])
def test_functions_have_the_bits_of_the_oldest_x86(name, dtype):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(1001) * 2.0 ** rng.integers(-20, 12, 1001)).astype(dtype)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    with using(named(emulate.TARGET)):
        function = one_function(name, dtype, 1)
    out = np.empty_like(x)
    emulate.launch(function, [out, x], [], 0, len(x))
    expected = results_on(named("x86-64"), name, [x])
    assert np.array_equal(out, expected, equal_nan=True)
    assert np.array_equal(np.signbit(out[out == 0]), np.signbit(expected[out == 0]))


def test_a_program_that_fails_says_how(monkeypatch):
    with using(named(emulate.TARGET)):
        function = one_function("sqrt", "float32", 1)
    x = np.ones(8, "float32")
    with pytest.raises(RuntimeError, match="for neoverse-n1 ended with"):
        emulate.launch(function, [x], [], 0, 8)  # an operand too few: no such address


def test_operands_that_are_views_are_read_and_written_where_they_lie():
    with using(named(emulate.TARGET)):
        function = one_function("sqrt", "float64", 1)
    whole, source = np.zeros(64), np.arange(64.0)
    emulate.launch(function, [whole[8:], source[8:40]], [], 0, 32)
    assert np.array_equal(whole[8:40], np.sqrt(source[8:40]))
    assert not whole[:8].any()
    assert not whole[40:].any()

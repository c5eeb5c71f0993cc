"""Kernels that are launched by hand refuse operands that have no elements."""

import pytest

import rushlight as rl
from rushlight._subclasses import FakeTensorMode
from rushlight.kernels.window.pooling_kernels import max_unpool_place
from rushlight.operators.loop_calls import fault_flag, fresh, run


class Wrapper(rl.Tensor):
    @staticmethod
    def __new__(cls, held):
        return rl.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("nothing is asked of operators")


def fake(x):
    with FakeTensorMode() as mode:
        return mode.from_tensor(x)


@pytest.mark.parametrize("made", [fake, Wrapper, lambda x: x.to_sparse()])
def test_a_kernel_refuses_a_tensor_without_memory(made):
    x, places = rl.ones(1, 4, 4), rl.zeros(1, 4, 4, dtype=rl.int64)
    out = fresh(x, (1, 8, 8))
    given = [out, made(x), places, fault_flag(x)]
    with pytest.raises(RuntimeError, match="Tensor that doesn't have storage"):
        run(max_unpool_place, given, [64, 16], 1, 80, T="float32")


def test_a_kernel_launched_in_a_compiled_function_reads_what_waits():
    @rl.compile
    def unpooled(x, places):
        y = x + 1
        out = fresh(y, (1, 8, 8)).zero_()
        run(
            max_unpool_place,
            [out, y, places, fault_flag(y)],
            [64, 16],
            1,
            80,
            T="float32",
        )
        return out

    places = rl.arange(16).reshape(1, 4, 4)
    for _ in range(4):
        x = rl.randn(1, 4, 4)
        assert unpooled(x, places).flatten()[:16].equal((x + 1).flatten())

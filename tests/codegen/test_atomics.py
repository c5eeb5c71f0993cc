"""Values that threads join with one element, and lanes that have one value."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.loops import atomic_add, atomic_max, i64, loops
from rushlight.ir import expr as ir
from rushlight.ir import spec, threads
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Pointer, Var
from rushlight.operators import loop_calls


@loops
def joined(total: "T*", most: "i64*", x: "T*", size: int, begin: int, end: int):
    for k in range(begin, end):
        atomic_add(total, k % size, x[k])
        atomic_max(most, i64(0), k)


def program(write):
    """A function of a grid over one array, as ``write`` writes it."""
    b = Builder()
    out = Var("out", Pointer(ir.u32))
    write(b, out, b.let("thread", ir.Place("thread")))
    return ir.Function("tried", (out, INTS, END), b.statements, grid=True)


def run(write, threads=64):
    """What a block leaves in an array."""
    out = np.zeros(threads, np.uint32)
    function = program(write)
    spec.verify(function)
    ints = np.zeros(1, np.int64)
    operands = [out.ctypes.data, ints.ctypes.data, 1]
    reference_grid.run(function, operands, 1, threads)
    return out


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8", "complex64"])
def test_loop_kernels_join_values_as_their_python_does(kind):
    x = np.arange(20).astype(kind)
    total, most = np.zeros(7, kind), np.zeros(1, np.int64)
    found = [rl.from_numpy(array.copy()) for array in (total, most, x)]
    joined.reference([total, most, x], [7], 0, 20, T=kind)
    loop_calls.run(joined, found, [7], 20, T=kind)
    np.testing.assert_array_equal(found[0].numpy(), total)
    assert most[0] == found[1].item() == 19


def test_atomic_accesses_pass_each_other_and_no_others():
    one = ir.Const(ir.u32, 1)

    def adds(b, out, thread):
        b.add(threads.Atomic("add", out, thread % 2, one))

    assert run(adds)[:2].tolist() == [32, 32]

    def adds_and_reads(b, out, thread):
        adds(b, out, thread)
        b.store(out, thread + 2, ir.load(out, thread % 2))

    def adds_and_writes(b, out, thread):
        adds(b, out, thread)
        b.store(out, thread % 2, one)

    for write in (adds_and_reads, adds_and_writes):
        with pytest.raises(RaceError, match="no barrier between"):
            run(write)


def test_a_warps_barrier_orders_its_lanes_alone():
    def turned(distance, barrier):
        def write(b, out, thread):
            b.store(out, thread, ir.cast(ir.u32, thread))
            b.add(barrier)
            other = b.let("other", ir.load(out, thread ^ ir.Const(ir.i64, distance)))
            b.add(barrier)
            b.store(out, thread, other)

        return write

    assert run(turned(1, threads.WarpBarrier()))[:4].tolist() == [1, 0, 3, 2]
    with pytest.raises(RaceError, match="no barrier between"):
        run(turned(32, threads.WarpBarrier()))
    assert run(turned(32, ir.Barrier()))[0] == 32


def test_lanes_are_told_which_have_their_value():
    def write(b, out, thread):
        value = ir.cast(ir.u32, thread % 5 + thread // 32 * 8)
        b.store(out, thread, threads.Match(3, value))

    found = run(write)
    for thread, word in enumerate(found.tolist()):
        lanes = [n for n in range(32) if word >> n & 1]
        first = thread // 32 * 32
        assert lanes == [n for n in range(32) if (first + n) % 5 == thread % 5]


def test_what_cannot_be_joined_is_refused():
    real = Var("real", Pointer(ir.f32))
    place, one = ir.Const(ir.i64, 0), ir.Const(ir.f32, 1.0)
    for statement, fact in (
        (threads.Atomic("max", real, place, one), "max of f32 is not joined"),
        (
            threads.Atomic("add", real, place, ir.Const(ir.i64, 1)),
            "i64 is joined with one",
        ),
    ):
        function = ir.Function("tried", (real, INTS, END), (statement,), grid=True)
        with pytest.raises(spec.SpecError, match=fact):
            spec.verify(function)

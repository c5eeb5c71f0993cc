"""The LLVM emitter is held to the Python one, on hand-written and random programs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rushlight.codegen import toolchain
from rushlight.codegen.emit import llvm, llvm_text, python
from rushlight.codegen.lower import lower
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Call, Const, Var, boolean, cast, f32, i64, load, select
from rushlight.runtime.cpu.launch import NativeKernel, launch

names = iter(range(10**9))


def both(statements, arrays, ints=(), end=1):
    """What the native and the reference program make of copies of the arrays."""
    function = lower(ir.kernel(f"program{next(names)}", statements))
    binary = toolchain.compile_ir(llvm.emit(function)).object
    address = toolchain.load_in_process(binary, function.name)
    results = []
    for native in (True, False):
        copies = [array.copy() for array in arrays]
        pointers = [array.ctypes.data for array in copies]
        if native:
            launch(NativeKernel(function.name, address), pointers, list(ints), end, end)
        else:
            python.run(function, pointers, ints, 0, end)
        results.append(copies)
    return results


def agree(statements, arrays, ints=(), end=1):
    """Asserts that both programs do the same; returns what they made."""
    native, reference = both(statements, arrays, ints, end)
    for ours, theirs in zip(native, reference):
        np.testing.assert_array_equal(ours, theirs)
    return native


def test_loops_leave_and_continue():
    b = Builder()
    out = b.let("out", ir.argument(0, i64))
    count = b.declare("count", Const(i64, 0))
    with b.loop("i", 0, 100) as i:
        with b.when(i % 3 == 0):
            b.add(ir.Continue())
        with b.when(i > 20):
            b.add(ir.Break())
        b.assign(count, count + i)
    left = b.declare("left", Const(i64, 10))
    with b.loop_while(left > 0):
        b.assign(left, left - 3)
        b.assign(count, count * 2)
    b.store(out, 0, count)
    (out,) = agree(b.statements, [np.zeros(1, np.int64)])
    assert out[0] == sum(i for i in range(21) if i % 3) * 16


def test_local_arrays_and_branches():
    b = Builder()
    out = b.let("out", ir.argument(0, f32))
    table = b.array("table", f32, 8)
    with b.loop("i", 0, 8) as i:
        b.store(table, i, cast(f32, i) * 0.5)
    with b.loop("j", 0, 8) as j:
        with b.when(j % 2 == 0):
            b.store(out, j, load(table, 7 - j))
        with b.otherwise():
            b.store(out, j, -load(table, j))
    agree(b.statements, [np.zeros(8, np.float32)])


def test_vectors_move_by_index_and_by_mask():
    b = Builder()
    x, out = b.let("x", ir.argument(0, f32)), b.let("out", ir.argument(1, f32))
    lanes = ir.Ramp(8, Const(i64, 0), Const(i64, 1))
    mask = b.let("mask", ir.Binary("lt", lanes, Const(i64.vector(8), 5)))
    b.add(ir.Store(out, Const(i64, 0), load(x, 8, mask=mask, lanes=8)))
    b.add(ir.Store(out, Const(i64, 8), load(x, 16, 8) * 2.0, mask=mask))
    b.add(ir.Store(out, 31 - lanes, load(x, lanes * 3)))
    b.add(
        ir.Store(
            out, Const(i64, 32), ir.Shuffle([7, 0, 8, 15], load(x, 0, 8), load(x, 8, 8))
        )
    )
    b.store(out, 40, ir.Extract(3, load(x, 0, 8)))
    x = np.arange(64, dtype=np.float32)
    agree(b.statements, [x, np.full(64, -1, np.float32)])


@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
def test_horizontal_reductions_are_the_same_tree(op):
    b = Builder()
    x, out = b.let("x", ir.argument(0, f32)), b.let("out", ir.argument(1, f32))
    b.store(out, 0, Call(f"reduce_{op}", f32, load(x, 0, 16)))
    x = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    agree(b.statements, [x, np.zeros(1, np.float32)])


def test_a_rare_side_is_computed_where_a_lane_asks():
    b = Builder()
    x, out = b.let("x", ir.argument(0, f32)), b.let("out", ir.argument(1, f32))
    value = b.let("value", load(x, 0, 16))
    b.add(ir.Store(out, Const(i64, 0), Call("sin", value.type, value)))
    for far in (1.0, 3e30):
        x = np.linspace(-3, 3, 16).astype(np.float32)
        x[5] = far
        native, _ = both(b.statements, [x, np.zeros(16, np.float32)])
        np.testing.assert_allclose(native[1], np.sin(x.astype(float)), rtol=3e-7)


def test_elements_without_carried_dependence_may_be_written_in_place():
    b = Builder()
    x = b.let("x", ir.argument(0, ir.u8))
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:
        b.store(x, i, load(x, i) * 3 + 1)
    agree(b.statements, [np.arange(101, dtype=np.uint8)], end=101)


# Random expressions over three integer types and float32.

TYPES = {"int32": ir.i32, "uint8": ir.u8, "int64": i64, "float32": f32}
INTEGER_OPERATIONS = [
    "add",
    "sub",
    "mul",
    "and",
    "or",
    "xor",
    "min",
    "max",
    "floordiv",
    "mod",
]
FLOAT_OPERATIONS = ["add", "sub", "mul", "min", "max", "fmin", "fmax"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@st.composite
def expressions(draw, type, depth):
    """An expression of one type over the variables ``x_<type>``."""
    name = next(k for k, v in TYPES.items() if v == type)
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return Const(type, draw(st.integers(1, 9)))
        return Var(f"x_{name}", type)
    kind = draw(st.sampled_from(["binary", "binary", "select", "cast", "unary"]))
    if kind == "binary":
        table = FLOAT_OPERATIONS if type.is_float else INTEGER_OPERATIONS
        op = draw(st.sampled_from(table))
        left = draw(expressions(type, depth - 1))
        if op in ("floordiv", "mod"):  # by zero is unspecified
            return ir.Binary(op, left, Const(type, draw(st.integers(1, 20))))
        return ir.Binary(op, left, draw(expressions(type, depth - 1)))
    if kind == "select":
        compared = draw(st.sampled_from(list(TYPES.values())))
        condition = ir.Binary(
            draw(st.sampled_from(COMPARISONS)),
            draw(expressions(compared, depth - 1)),
            draw(expressions(compared, depth - 1)),
        )
        return select(
            condition,
            draw(expressions(type, depth - 1)),
            draw(expressions(type, depth - 1)),
        )
    if kind == "cast" and not type.is_float:  # floats may not fit an integer
        source = draw(st.sampled_from([t for t in TYPES.values() if not t.is_float]))
        return cast(type, draw(expressions(source, depth - 1)))
    inner = draw(expressions(type, depth - 1))
    return -inner if draw(st.booleans()) else abs(inner)


@st.composite
def programs(draw):
    """A vectorised loop that stores one random expression of each element."""
    name = draw(st.sampled_from(list(TYPES)))
    return name, draw(expressions(TYPES[name], 4))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(), st.integers(0, 40))
def test_random_programs_agree(program, n):
    name, value = program
    b = Builder()
    out = b.let("out", ir.argument(0, TYPES[name]))
    bases = {
        k: b.let(f"p_{k}", ir.argument(1 + j, t))
        for j, (k, t) in enumerate(TYPES.items())
    }
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:
        for k, base in bases.items():
            b.add(ir.Let(Var(f"x_{k}", TYPES[k]), load(base, i)))
        b.store(out, i, value)
    rng = np.random.default_rng(n)
    inputs = [rng.integers(-100, 100, n).astype(np.int64).astype(k) for k in TYPES]
    agree(b.statements, [np.zeros(n, name), *inputs], end=n)


def test_unknown_operations_are_refused():
    bits = ir.Binary("and", Var("x", f32), Var("x", f32))
    body = (ir.Let(Var("x", f32), Const(f32, 1)), ir.Let(Var("y", f32), bits))
    with pytest.raises(TypeError, match="and is not defined on f32"):
        llvm.emit(ir.kernel("k", body))


def test_booleans_take_a_byte_in_memory():
    assert llvm_text.memory_name(boolean) == "i8"
    assert llvm_text.type_name(boolean.vector(16)) == "<16 x i1>"
    assert llvm_text.literal(f32.vector(4), 0.5) == "splat (float 0x3FE0000000000000)"


def test_what_is_seldom_wanted_of_one_number_is_branched_around():
    """Where no pass is left that makes vectors of it; else both sides are computed."""
    from rushlight.codegen.language import log, rowwise, total

    @rowwise
    def log_of_sum(x, dim):
        return log(total(x, over=dim))

    def helper(function):
        text = llvm.emit(function)
        start = text.index("@log_f32(")
        return text[start : text.index("\n}\n", start)]

    row = ("float32",)
    assert "br i1" in helper(log_of_sum.lowered(row, row, "float32"))
    b = Builder()
    p = b.let("p", ir.argument(0, f32))
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:  # left to LLVM
        b.store(p, i, log(load(p, i)))
    assert "br i1" not in helper(ir.kernel("logarithms", b.statements))

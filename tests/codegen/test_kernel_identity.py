"""A kernel runs the code that its function computes, however it came to be."""

import importlib
import linecache
import os
import pkgutil
import sys

import numpy as np
import pytest

import rushlight
from rushlight import kernels, operators
from rushlight.codegen import fingerprint as prints
from rushlight.codegen.frontend.front import Front
from rushlight.codegen.language import pointwise, reduction, rowwise, select, total
from rushlight.codegen.loops import Source, loops
from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cpu.launch import launch


def run(kernel, x):
    """An elementwise kernel over one row."""
    x = np.asarray(x)
    out, name = np.zeros_like(x), (str(x.dtype),)
    native = kernel.specialize(name, name, name[0])
    ints = (x.size, x.itemsize, x.itemsize, 0, 0)
    launch(native, (out.ctypes.data, x.ctypes.data), ints, 1, 1)
    return out.tolist()


def run_loops(kernel, x):
    """A loop kernel over a range."""
    x = np.asarray(x)
    out = np.zeros_like(x)
    native = kernel.specialize(T=str(x.dtype))
    launch(native, (out.ctypes.data, x.ctypes.data), (), x.size, x.size)
    return out.tolist()


def test_closures_in_a_loop_each_run_their_own_version():
    kernels, loop_kernels = [], []
    for factor in (2.0, 3.0, 5.0):

        @pointwise
        def scaled(x, factor=factor):
            return x * factor

        def make(factor):
            @loops
            def scaled_loop(out: "T*", x: "T*", begin: int, end: int):
                for i in range(begin, end):
                    out[i] = x[i] * factor

            return scaled_loop, pointwise(lambda x: x * factor)

        loop_kernel, closed = make(factor)
        loop_kernels.append(loop_kernel)
        kernels += [pointwise(lambda x, f=factor: x * f), closed]
    x = np.ones(3, np.float32)
    results = [run(kernel, x)[0] for kernel in kernels[1::2]]
    assert results == [2.0, 3.0, 5.0]
    assert [run_loops(kernel, x)[0] for kernel in loop_kernels] == [2.0, 3.0, 5.0]


HELPER = "SCALE = {0}\ndef helper(x):\n    return x * SCALE\n"
KERNEL = """
from rushlight.codegen.language import pointwise, select
from rushlight.codegen.loops import loops, loops_inline
import identity_helper
from identity_helper import helper

@pointwise
def direct(x):
    return helper(x)

@pointwise
def through_module(x):
    return identity_helper.helper(x)
"""


def test_a_helper_edited_elsewhere_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "identity_kernels.py").write_text(KERNEL)
    for scale in (2.0, 7.0):
        path = tmp_path / "identity_helper.py"
        path.write_text(HELPER.format(scale))
        os.utime(path, ns=(0, int(scale) * 10**9))
        for name in ("identity_helper", "identity_kernels"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module("identity_kernels")
        code_cache.forget()
        x = np.ones(2, np.float32)
        assert run(module.direct, x) == [scale, scale]
        assert run(module.through_module, x) == [scale, scale]
    for name in ("identity_helper", "identity_kernels"):
        sys.modules.pop(name, None)


LOOP = """
def copied(out: "T*", x: "T*", begin: int, end: int):
    for i in range(begin, end):
        out[i] = x[i] + 1
"""


@pytest.mark.parametrize(
    "changed",
    [
        {"identity": 1},
        {"prepare": lambda x: x + 1},
        {"accumulate": lambda state, x: state - x},
        {"finish": lambda total: total * 3},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_reductions_that_share_a_combination_are_not_the_same(changed):
    def add(left, right):
        return left + right

    usual = {
        "identity": 0,
        "prepare": lambda x: x,
        "accumulate": lambda state, x: state + x,
        "finish": lambda total: total,
    }
    assert reduction(**usual)(add).digest == reduction(**usual)(add).digest
    assert (
        reduction(**usual)(add).digest != reduction(**{**usual, **changed})(add).digest
    )


def test_a_notebook_cell_defines_kernels():
    """A notebook keeps the text of its cells where tracebacks find it."""
    name = "<cell 1>"
    linecache.cache[name] = (len(LOOP), None, LOOP.splitlines(True), name)
    names = {"__name__": "__main__"}
    exec(compile(LOOP, name, "exec"), names)
    assert run_loops(loops(names["copied"]), np.ones(4, np.int32)) == [2] * 4
    exec("def f(x): return x * 2", names)
    assert run(pointwise(names["f"]), np.ones(4, np.int32)) == [2] * 4


def test_a_loop_kernel_without_a_text_says_so():
    names = {"__name__": "__main__"}
    exec(LOOP.replace("+ 1", "+ 41"), names)
    with pytest.raises(SyntaxError, match="copied: its source text is not known"):
        run_loops(loops(names["copied"]), np.ones(4, np.int32))


def package_kernels():
    """Every kernel that a module of the package names."""
    rooms = (
        *pkgutil.walk_packages(operators.__path__, "rushlight.operators."),
        *pkgutil.walk_packages(kernels.__path__, "rushlight.kernels."),
    )
    for info in rooms:
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, (Front, Source)):
                yield value


def test_every_kernel_of_the_package_has_one_digest(monkeypatch):
    def unknown(walk):
        raise AssertionError(f"nothing tells apart what follows {walk.parts[-3:]}")

    monkeypatch.setattr(prints._Walk, "unknown", unknown)
    found = list(package_kernels())
    assert len(found) > 200
    for kernel in found:
        first = prints.fingerprint(kernel.function)
        assert first == prints.fingerprint(kernel.function), kernel.name


def test_what_cannot_be_told_apart_is_looked_at_each_time():
    class Opaque:
        __slots__ = ()

    held = Opaque()

    def kernel(x):
        return x if held is None else x + 1

    assert prints.fingerprint(kernel) != prints.fingerprint(kernel)
    assert run(pointwise(kernel), np.ones(2, np.float32)) == [2.0, 2.0]


def test_64_bit_data_wraps_and_is_not_simplified_as_an_index():
    x = np.array([2**62, 2**61, -(2**62), 5, 2**63 - 1], np.int64)
    with np.errstate(over="ignore"):
        assert run(pointwise(lambda x: x * 4 // 4), x) == (x * 4 // 4).tolist()
        assert run(pointwise(lambda x: x * 4 % 4), x) == [0] * 5
        assert run(pointwise(lambda x: x * 6 // 3), x) == (x * 6 // 3).tolist()
        assert run(pointwise(lambda x: x // 2**40 // 2**40), x) == [0, 0, -1, 0, 0]
        later = pointwise(lambda x: select(x + 1 > 5, x * 0 + 1, 0))
        assert run(later, x) == (x + 1 > 5).astype(np.int64).tolist()
        expected = np.where(x + 1 > 5, 1, (x + 1) * 8 // 8)

    @loops
    def shifted(out: "i64*", x: "i64*", begin: int, end: int):
        for i in range(begin, end):
            y = x[i] + 1
            if y > 5:
                out[i] = 1
            else:
                out[i] = y * 8 // 8

    assert run_loops(shifted, x) == expected.tolist()


@pytest.mark.parametrize("dtype", ("float32", "int64", "bfloat16", "float16"))
def test_a_chain_of_thousands_of_steps_is_compiled(dtype):
    def chain(x):
        for step in range(5000):
            x = x + 1 if step % 2 else x - 1
        return x

    x = rushlight.arange(5).to(getattr(rushlight, dtype))
    out = rushlight.empty_like(x)
    native = pointwise(chain).specialize((dtype,), (dtype,), dtype)
    launch(native, (out, x), (5, x.itemsize, x.itemsize, 0, 0), 1, 1)
    assert out.tolist() == x.tolist()


def test_a_row_kernel_is_known_by_which_operands_have_one_value_a_row():
    def shares(x, weight, dim):
        return total(x * weight, over=dim)

    assert rowwise(shares).digest != rowwise(scalars=("weight",))(shares).digest

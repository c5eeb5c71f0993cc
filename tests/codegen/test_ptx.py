"""PTX: text that ptxas accepts for sm_90, with nothing spilled to memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight import te
from rushlight.codegen.emit import ptx
from rushlight.codegen.language import (
    cos,
    erf,
    exp,
    expm1,
    fma,
    log,
    log1p,
    maximum,
    pointwise,
    select,
    sigmoid,
    sin,
    sqrt,
    tanh,
)
from rushlight.codegen.schedules import cuda


def find_ptxas():
    """The assembler of an installation, or of the package ``nvidia-cuda-nvcc``."""
    places = (Path(folder) for folder in sys.path)
    wheels = (str(p) for place in places for p in place.glob("nvidia/cu*/bin/ptxas"))
    return shutil.which("ptxas") or next(wheels, None)


PTXAS = find_ptxas()
assembler = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on this machine")


def kernels():
    """Pointwise kernels by name: function, inputs."""
    return {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "relu": lambda x: maximum(x, 0.0),
        "leaky_relu": lambda x: select(x > 0, x, x * 0.01),
        "exp": lambda x: exp(x),
        "log": lambda x: log(x),
        "sqrt": lambda x: sqrt(x),
        "sin": lambda x: sin(x),
        "cos": lambda x: cos(x),
        "tanh": lambda x: tanh(x),
        "sigmoid": lambda x: sigmoid(x),
        "silu": lambda x: x * sigmoid(x),
        "gelu": lambda x: x * 0.5 * (1.0 + erf(x * 0.7071067811865476)),
        "softplus": lambda x: log1p(exp(x)),
        "elu": lambda x: select(x > 0, x, expm1(x)),
        "addcmul": lambda x, y, z: fma(y, z, x),
    }


def pointwise_ptx(name, dtype="float32"):
    """The PTX of one of `kernels` for a dtype."""
    function = kernels()[name]
    function.__name__ = name
    front = pointwise(function)
    compute = "float32" if dtype in ("float16", "bfloat16") else dtype
    loops = cuda.pointwise_loops(front, (dtype,) * front.arity, (dtype,), compute)
    return ptx.emit(loops)


def assemble(text, folder):
    """What ptxas says of a text; fails where it doesn't assemble without spills."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    done = subprocess.run(
        [PTXAS, "-arch=sm_90", "-v", str(source), "-o", str(folder / "kernel.cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"(\d+) bytes spill", done.stderr)
    assert set(re.findall(r"(\d+) bytes spill", done.stderr)) == {"0"}
    return done.stderr


@assembler
@pytest.mark.parametrize("name", list(kernels()))
def test_pointwise_kernels_assemble_without_spills(name, tmp_path):
    text = pointwise_ptx(name)
    assert ".target sm_90" in text
    assert ".extern .func" not in text, "no device library is called"
    assemble(text, tmp_path)


@assembler
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_pointwise_kernels_assemble_for_other_dtypes(dtype, tmp_path):
    assemble(pointwise_ptx("silu", dtype), tmp_path)


REDUCTIONS = {
    "sum": ("add", 0.0, None, None),
    "mean": ("add", 0.0, None, lambda total, count: total / count),
    "amax": ("max", float("-inf"), None, None),
    "norm": ("add", 0.0, lambda x: x * x, lambda total, count: sqrt(total)),
}


@assembler
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", list(REDUCTIONS))
def test_reductions_assemble_without_spills(name, dtype, tmp_path):
    parts = cuda.reduction_parts(name, dtype, dtype, *REDUCTIONS[name])
    text = ptx.emit_warps(f"row_{name}", parts[0].parameters[0].type.element, *parts)
    assert "shfl.sync.bfly.b32" in text
    assemble(text, tmp_path)


def matrix_product():
    a = te.placeholder((64, 32), name="a")
    b = te.placeholder((32, 48), name="b")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return a, b, c


@assembler
def test_scheduled_tensor_expressions_build_for_ptx(tmp_path):
    a, b, c = matrix_product()
    s = cuda.schedule(te.create_schedule(c))
    built = te.build(s, [a, b, c], target="ptx", name="matmul")
    assert built.launches == [("matmul", 64 * 48)]
    assemble(built.text, tmp_path)
    with pytest.raises(RuntimeError, match="runs on an NVIDIA device"):
        built()


def test_entries_divide_their_axis_among_the_grid():
    text = pointwise_ptx("add")
    assert ".visible .entry add" in text
    assert "%ctaid.x" in text and "%nctaid.x" in text

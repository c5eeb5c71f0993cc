"""PTX: text that ptxas accepts for three generations, with nothing spilled to memory."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from rushlight import te
from rushlight.codegen.emit import device, ptx
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_entries
from rushlight.codegen.target import NVIDIA, gpu, using
from rushlight.operators.elementwise import binary, unary
from rushlight.operators.foreach import optimizer_updates
from rushlight.operators.normalization import softmax
from rushlight.operators.random import philox
from rushlight.operators.reduction import reduction
from rushlight.tensor_expressions import cuda
from tests.codegen import grid_kernels
from tests.codegen.ptxas import PTXAS

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
RECORDED = Path(__file__).with_name("registers.json")
MORE = 8  # registers that another ptxas or LLVM may take


assembler = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on this machine")


def assemble(text, architecture, folder):
    """The registers of each entry, as ptxas counts them.

    Fails where the text doesn't assemble, or something is spilled, or products by groups
    are made to wait for each other.
    """
    source = folder / "kernels.ptx"
    source.write_text(text)
    done = subprocess.run(
        [PTXAS, f"-arch={architecture}", "-v", str(source), "-o", str(folder / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Potential Performance Loss" not in done.stderr
    assert set(re.findall(r"(\d+) bytes spill", done.stderr)) == {"0"}
    entries = re.findall(r"entry function '(\w+)'.*?Used (\d+) reg", done.stderr, re.S)
    return {name: int(count) for name, count in entries}


@assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_assemble_without_spills_in_the_registers_they_had(
    architecture, tmp_path
):
    texts, names = grid_kernels.texts(architecture)
    counts = {}
    for text, exactly in texts:
        assert f".target {exactly}\n" in text
        assert ".extern .func" not in text, "no device library is called"
        counts |= assemble(text, exactly, tmp_path)
    assert counts.keys() == names.keys()
    before = json.loads(RECORDED.read_text())[architecture]
    taken = {names[entry]: count for entry, count in counts.items()}
    assert taken.keys() == before.keys() or architecture != "sm_90"
    worse = {k: (before[k], n) for k, n in taken.items() if n > before[k] + MORE}
    assert not worse, "registers: before, now"


def test_rows_are_joined_by_exchange_and_in_the_blocks_memory():
    function, _ = grid_kernels.over_rows(grid_kernels.softmax)
    text = ptx.emit(function)
    assert ".shared .align" in text
    assert "shfl.sync.bfly.b32" in text
    assert "bar.sync" in text or "barrier.sync" in text


def test_rows_side_by_side_are_a_threads_each():
    function, _ = grid_kernels.over_rows(grid_kernels.softmax, beside=True)
    text = ptx.emit(function)
    assert "shfl" not in text
    assert "bar" not in text.replace("barrier", "")


@assembler
def test_scheduled_tensor_expressions_build_for_ptx():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="b")
    s = cuda.schedule(te.create_schedule(b))
    built = te.build(s, [a, b], target="ptx", name="twice")
    assert built.launches == [("twice", 64, None)]
    with pytest.raises(RuntimeError, match="runs on an NVIDIA device"):
        built()


def test_entries_divide_their_axis_among_the_grid():
    text = ptx.emit(grid_kernels.elementwise("add"))
    assert ".visible .entry add" in text
    assert "%ctaid.x" in text and "%nctaid.x" in text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("ndim", [1, 4])
def test_the_hosts_elementwise_kernels_use_no_local_memory_there(dtype, ndim, tmp_path):
    sources = [binary.mul, binary.where]
    sources += [] if dtype == "int32" else [unary.sin, unary.erf]
    for source in sources:
        inputs = (dtype,) * source.arity
        inputs = ("bool", *inputs[1:]) if source is binary.where else inputs
        with using(NVIDIA):
            loops = source.lowered(inputs, (dtype,), dtype, ())
        text = device.emit_elements(loops, 1 + source.arity, ndim, (), True)
        assert ".extern .func" not in text and ".local" not in text
        if PTXAS is not None:
            assert assemble(text, "sm_90", tmp_path)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("ndim", [1, 3])
def test_neighbours_are_one_load_an_operand_and_stay_in_registers(
    dtype, ndim, tmp_path
):
    width = {"uint8": 1, "bfloat16": 2}.get(dtype) or int(dtype[5:]) // 8
    each = min(gpu_entries.MOST_EACH, gpu_entries.LOAD // width)
    load = f"v{each * width // 4}.b32" if width < 8 else "v2.b64"
    sources = [binary.mul, *([] if dtype == "uint8" else [unary.sin, unary.erf])]
    for source in sources:
        inputs = (dtype,) * source.arity
        with using(NVIDIA):
            loops = source.lowered(inputs, (dtype,), dtype, ())
        wide = gpu_entries.Wide(each, 1, (width,) * (1 + source.arity))
        text = device.emit_elements(loops, 1 + source.arity, ndim, (), True, wide)
        assert text.count(f"ld.global.{load}") == source.arity
        assert text.count(f"st.global.{load}") == 1
        assert ".extern .func" not in text and ".local" not in text
        if PTXAS is not None:
            assert assemble(text, "sm_90", tmp_path)


def over_lists():
    """Entries of the optimizers' kernels over lists of tensors."""
    guarded = optimizer_updates.GUARDED[optimizer_updates.adam_amsgrad]
    rows = guarded, 5, 5, 10, (True, False)
    counter = optimizer_updates.adam_counted, 4, 1, 5, (True,)
    for dtype in ("float32", "bfloat16"):
        for rule, outputs, inputs, numbers, static in (rows, counter):
            kind = "float64" if rule is optimizer_updates.adam_counted else "float32"
            types = (dtype,) * inputs + (kind,) * numbers
            with using(NVIDIA):
                loops = rule.lowered(types, (dtype,) * outputs, kind, static)
            places = [(k, 4) for k in range(outputs)] + [(k, 4) for k in range(inputs)]
            operands = (*places, *[None] * numbers)
            yield device.emit_lists(loops, operands)
            if rule is guarded:
                width = 2 if dtype == "bfloat16" else 4
                shape = (width,) * (outputs + inputs) + (0,) * numbers
                wide = gpu_entries.Wide(gpu_entries.LOAD // width, outputs, shape)
                yield device.emit_lists(loops, operands, wide)


@assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_entries_that_are_launched_assemble_without_spills(architecture, tmp_path):
    def grid(front, *kinds, held=(), **choice):
        with using(NVIDIA):
            made = lower(front.grid(*kinds, **choice))
        with using(gpu(architecture)):
            return device.emit_grid(made, held)

    plain = ("float32",), ("float32",), "float32"
    with using(NVIDIA):
        words = [philox.philox.lower(T="float32", mode=0, told=told) for told in (0, 1)]
    with using(gpu(architecture)):
        texts = [*map(device.emit, words), *over_lists()]
    for together in (True, False):
        texts += [
            grid(reduction.sum, "float32", *plain[1:], together=together),
            grid(reduction.var, "float32", ("float32",), "float64", held=((2, 18),),
                 together=together),
            grid(softmax.softmax_kernel, *plain, (), together=together),
        ]  # fmt: skip
    for text in texts:
        assert f".target {architecture}\n" in text
        assert ".extern .func" not in text and ".local" not in text
        assert assemble(text, architecture, tmp_path)

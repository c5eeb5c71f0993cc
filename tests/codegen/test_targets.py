"""Kernels compiled for other processors need nothing that is not in every process."""

import functools
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rushlight.codegen import language as L
from rushlight.codegen import toolchain
from rushlight.codegen.emit import llvm, ptx
from rushlight.codegen.frontend.pointwise import Pointwise
from rushlight.codegen.language import reduction, rowwise
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule.contraction import matrix_tile
from rushlight.codegen.target import TARGETS, current, described, named, using
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.kernels.attention import attention_blocks
from rushlight.kernels.conv.direct import few_channels
from rushlight.kernels.conv.implicit_gemm import convolution_tile
from rushlight.kernels.matmul import contraction
from rushlight.operators.elementwise import binary, unary
from rushlight.operators.shape.conversion import copy
from rushlight.runtime.cpu.launch import NativeKernel, launch
from tests.codegen.grid_kernels import pointwise_loops
from tools import crosscompile

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="names processors of another kind"
)

RUN = """
import rushlight as rl
every = rl.arange(-(1 << 15), 1 << 15).to(rl.int16).view(rl.float16)
wide = every.float()
assert wide.half().view(rl.int16)[wide == wide].equal(every.view(rl.int16)[wide == wide])
assert (wide != wide).sum() == 2 * 1023
ties = rl.tensor([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 2**-25, 3 * 2**-25])
print(ties.half().tolist())
x = rl.tensor([0.5, 1.5, -2.0], dtype=rl.float16)
print((x + x).tolist(), x.exp().tolist(), x.sum().tolist(), x.softmax(0).tolist())
print((x.reshape(3, 1) @ x.reshape(1, 3)).tolist(), x.sort()[0].tolist(), x.max().item())
print((x > 0).tolist(), x.abs().tolist(), (-x).tolist(), x.cumsum(0).tolist())
"""


@pytest.mark.parametrize("name", TARGETS)
def test_elementwise_loops_are_vectors_that_branch_to_rare_values(name):
    for front, rare in ((unary.exp, "far_exp"), (unary.sin, "far_angle")):
        with using(named(name)):
            text = llvm.emit(front.lowered(("float32",), ("float32",), "float32"))
        assert text.startswith(llvm.AS_WRITTEN), "nothing is left to LLVM's vectoriser"
        blocks = re.split(r"^(?=[\w.]+:$)", text, flags=re.MULTILINE)
        calls = [
            block for block in blocks if re.search(rf"call <\d+ x .*@{rare}_", block)
        ]
        assert calls
        assert all(block.startswith("rare.") for block in calls)


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3"])
def test_lanes_of_a_branch_are_joined_in_registers_before_their_signs_are_taken(name):
    with using(named(name)):
        text = llvm.emit(unary.exp.lowered(("float32",), ("float32",), "float32"))
    far = text[: text.index("rare.")]
    asked = re.search(r"br i1 (%\S+), label %rare", text).group(1)
    assert "sext <16 x i1>" in far
    assert not re.search(rf"{asked} = icmp ne i16 ", text), "masks are narrowed first"


def test_logarithms_by_avx2_pick_from_one_register_or_from_rows():
    for dtype, lookups in ("float32", 3), ("float64", 0):
        for front in unary.log, unary.log2, unary.log10:
            with using(named("x86-64-v3")):
                text = llvm.emit(front.lowered((dtype,), (dtype,), dtype))
            rows = re.findall(r"@llvm.x86.avx2.permps\((.*), <8 x i32> ", text)
            assert len(set(rows)) == lookups, (
                "inverses, their logarithms, what these lose"
            )
            assert ("load <2 x double>" in text) == (dtype == "float64")
            assert "masked.gather" not in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_that_are_nan_are_joined_by_avx2_without_a_choice(dtype):
    for front, count in ((binary.clamp_min, 2), (binary.clamp_both, 3)):
        with using(named("x86-64-v3")):
            text = llvm.emit(front.lowered((dtype,) * count, (dtype,), dtype))
            compiled = toolchain.compile_ir(text, inspect=True)
        assert "vmaxp" in compiled.assembly
        assert "vblendvp" not in compiled.assembly


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_half_whose_sign_alone_changes_is_not_rounded(name, dtype):
    for front in unary.neg, unary.abs, binary.copysign:
        with using(named(name)):
            types = (dtype,) * front.arity, (dtype,), dtype
            text = llvm.emit(front.lowered(*types))
        assert f"@to_{dtype}" not in text and "fptrunc" not in text


@pytest.mark.parametrize("name, halves", [("x86-64-v4", 32), ("x86-64-v3", 16)])
def test_vectors_of_halves_fill_a_register_in_memory(name, halves):
    for dtype, lanes in ("bfloat16", halves), ("float16", halves), ("float32", 16):
        with using(named(name)):
            text = llvm.emit(unary.exp.lowered((dtype,), (dtype,), "float32"))
        assert f"store <{lanes} x " in text
        assert f"store <{2 * lanes} x " not in text


def test_bfloat16_is_taken_from_two_registers_at_once():
    with using(named("x86-64-v4")):
        types = ("bfloat16",), ("bfloat16",), "float32"
        compiled = toolchain.compile_ir(
            llvm.emit(unary.exp.lowered(*types)), inspect=True
        )
    assert re.search(r"vperm[it]2w", compiled.assembly)
    assert "vinserti64x4" not in compiled.assembly


def run(program, target, cache, *arguments):
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(cache)}
    environment.pop("RUSHLIGHT_TARGET", None)
    if target:
        environment["RUSHLIGHT_TARGET"] = target
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@functools.cache
def some_kernels():
    """Every twelfth unary and binary kernel in two types, and conversions of halves."""
    fronts = [
        kernel
        for module in (unary, binary)
        for kernel in vars(module).values()
        if isinstance(kernel, Pointwise)
    ]
    found = {}
    for front in fronts[::12]:
        for dtype in ("float16", "float32"):
            types = (dtype,) * front.arity, (dtype,), dtype, ()
            try:
                front.lowered(*types)
            except (AttributeError, NotImplementedError, TypeError):
                continue  # no kernel for the type, or with numbers among its operands
            found[front.kernel_name(*types)] = functools.partial(front.lowered, *types)
    for pair in (("float16", "float32"), ("float32", "float16"), ("int64", "float16")):
        types = pair[:1], pair[1:], pair[1], ()
        found[copy.kernel_name(*types)] = functools.partial(copy.lowered, *types)
    return found


def larger_kernels():
    """A reduction, rows, a product and a convolution, whose tails need masks."""
    row, asked = ("float32",), {}
    asked["sum"] = functools.partial(total.lowered, "float32", row, "float32")
    asked["sum of bytes"] = functools.partial(total.lowered, "uint8", row, "float32")
    asked["normal"] = functools.partial(normal.lowered, row, row, "float32")
    types = (ir.f32,) * 3
    asked["product"] = lambda: lower(
        contraction.product("product", *types, matrix_tile("float32", current()))
    )
    tile = functools.partial(convolution_tile, "float32")
    asked["few_channels"] = lambda: lower(
        few_channels("few_channels", ir.f32, tile(current()))
    )
    return asked


@reduction(identity=0)
def total(left, right):
    return left + right


@rowwise
def normal(x, dim):
    return x / L.total(x, over=dim)


@pytest.mark.parametrize("name", TARGETS)
def test_kernels_ask_the_process_for_little(name):
    assert len(some_kernels()) > 8
    for kernel, make in some_kernels().items():
        assert not crosscompile.faults_of(kernel, make, named(name))


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "neoverse-n1"])
def test_tails_ask_for_no_masks_that_are_not_there(name):
    for kernel, make in larger_kernels().items():
        assert not crosscompile.faults_of(kernel, make, named(name))


def test_tails_without_masks_are_one_loop_for_all():
    """A vector in part is a call, not a branch for each lane."""
    with using(named("neoverse-n1")):
        compiled = toolchain.compile_ir(
            llvm.emit(total.lowered("float32", ("float32",), "float32")), inspect=True
        )
    assert compiled.assembly.count("bl\tload_some_v16float") >= 1
    assert compiled.assembly.count("tbz") < 16


def one_function(name, dtype, arity):
    """A kernel that stores a function of as many arrays."""
    b, kind = Builder(), ir.Type(dtype)
    out, *sources = (b.let(f"p{k}", ir.argument(k, kind)) for k in range(arity + 1))
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:
        value = ir.Call(name, kind, *(ir.load(source, i) for source in sources))
        b.store(out, i, value)
    return lower(ir.kernel(f"{name}_{dtype}_{arity}", b.statements))


def results_on(target, name, inputs):
    """What the function gives, by code for a target that this machine runs."""
    with using(target):
        function = one_function(name, str(inputs[0].dtype), len(inputs))
    return run_on(target, function, inputs)


def run_on(target, function, inputs):
    """What a kernel makes of arrays, by code for a target that this machine runs."""
    dtype, n = str(inputs[0].dtype), len(inputs[0])
    with using(target):
        code = toolchain.compile_ir(llvm.emit(function)).object
    address = toolchain.load_in_process(code, function.name)
    out = np.empty(n, dtype)
    pointers = [array.ctypes.data for array in (out, *inputs)]
    launch(NativeKernel(function.name, address), pointers, [], n, n)
    return out


SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -0.3, -0.7, 8388607.5, 4503599627370495.5]
SPECIAL += [np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, arity", [
    ("fma", 3), ("floor", 1), ("ceil", 1), ("trunc", 1), ("round", 1),
])  # fmt: skip
def test_functions_are_the_same_bits_without_instructions_for_them(name, arity, dtype):
    rng, n = np.random.default_rng(3), 8001
    inputs = []
    for _ in range(arity):
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-8, 8, n)).astype(dtype)
        x[:2000] = rng.choice(SPECIAL, 2000)
        inputs.append(x)
    if arity == 3:  # sums that cancel, up to the last bits of the product
        near = rng.choice([1, 1 + 1e-7, 1 - 1e-7, 1e7, 1e-7, 1e-16], n - 3000)
        inputs[2][3000:] = -inputs[0][3000:] * inputs[1][3000:] * near
    own = results_on(current(), name, inputs)
    old = results_on(named("x86-64"), name, inputs)
    assert own.tobytes() == old.tobytes() or (
        np.array_equal(own, old, equal_nan=True)
        and np.array_equal(np.signbit(own[own == 0]), np.signbit(old[old == 0]))
    )


def test_code_for_a_gpu_does_not_depend_on_the_processor():
    kernel = pointwise_loops(binary.add, ("float16",) * 2, ("float16",), "float16")
    texts = set()
    for name in TARGETS:
        with using(named(name)):
            texts.add(ptx.emit(kernel))
    assert len(texts) == 1


def test_unknown_targets_are_refused_by_name():
    with pytest.raises(ValueError, match="i486 is no target; there are x86-64, x86"):
        named("i486")


def test_targets_are_described_by_what_the_system_says():
    new = described("x86_64", "fma f16c sse4_1 avx2 avx512f avx512bw avx512vl".split())
    assert (new.vector_bytes, new.registers, new.has_masks) == (64, 32, True)
    middle = described("x86_64", ["fma", "avx2"])
    assert (middle.masks(4), middle.masks(1), middle.has("halves")) == (
        True,
        False,
        False,
    )
    assert described("aarch64", ["asimd"]).has("fma")
    assert not described("x86_64", []).instructions


def test_halves_are_the_same_without_instructions_for_them(tmp_path):
    for name in ("old", "own"):
        (tmp_path / name).mkdir(mode=0o700)
    old = run(RUN, "x86-64-v2", tmp_path / "old")
    assert old == run(RUN, None, tmp_path / "own")


@pytest.mark.parametrize("dtype, mask, read", [
    ("float32", "bool", "<8 x i8>"), ("bfloat16", "", "<8 x i16>"),
])  # fmt: skip
def test_attention_reads_whole_vectors_where_no_mask_moves_elements(dtype, mask, read):
    with using(named("x86-64-v3")):
        kernel = attention_blocks.Forward(dtype, "float32", mask).kernel("attend")
        text = llvm.emit(kernel)
    reads = re.findall(rf"(load|call) {read}(?:, ptr %\.| @load_some)", text)
    assert reads.count("load") == reads.count("call") > 0  # and a row's last elements


def test_levels_are_tuned_for_the_processor_that_runs_their_code(monkeypatch):
    text = """
declare <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>, <16 x i1>, <16 x float>)
define void @picked(ptr %out, <16 x ptr> %places) {
  %values = call <16 x float> @llvm.masked.gather.v16f32.v16p0(
    <16 x ptr> align 4 %places, <16 x i1> splat (i1 true), <16 x float> poison)
  store <16 x float> %values, ptr %out
  ret void
}
"""
    machine = toolchain._machine.__wrapped__
    for host, runs_here, gathers in (
        ("znver5", True, False),
        ("znver5", False, True),
        ("sapphirerapids", True, True),
    ):
        monkeypatch.setattr(
            toolchain._llvm(), "get_host_cpu_name", lambda host=host: host
        )
        module = toolchain._llvm().parse_assembly(text)
        made = machine(named("x86-64-v4"), runs_here).emit_assembly(module)
        assert ("vgatherqps" in made) == gathers


def test_a_wheel_of_another_system_has_its_modules_kernels_and_tag(
    tmp_path, monkeypatch
):
    own = tmp_path / "rushlight-0.1.0-cp311-cp311-linux_x86_64.whl"
    about = "rushlight-0.1.0.dist-info/"
    with zipfile.ZipFile(own, "w") as packed:
        for name in (
            "core/state.so",
            "runtime/cpu/packs/x86-64-v4.pack",
            "__init__.py",
        ):
            packed.writestr(f"rushlight/{name}", "")
        packed.writestr(f"{about}RECORD", "")
        packed.writestr(
            f"{about}WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n"
        )

    def link_modules(system, folder, *flags):
        Path(folder, "rushlight/core/state.there").touch()
        return []

    monkeypatch.setattr(crosscompile, "link_modules", link_modules)
    monkeypatch.setattr(crosscompile.warm, "kernels_of", lambda exercises: {})
    assert crosscompile.write_wheel(own, "aarch64-macos.11.0") == []
    made = zipfile.ZipFile(
        tmp_path / "rushlight-0.1.0-cp311-cp311-macosx_11_0_arm64.whl"
    )
    assert {name for name in made.namelist() if not name.startswith(about)} == {
        "rushlight/core/state.there",
        "rushlight/runtime/cpu/packs/neoverse-n1.pack",
        "rushlight/__init__.py",
    }
    assert b"Tag: cp311-cp311-macosx_11_0_arm64" in made.read(f"{about}WHEEL")

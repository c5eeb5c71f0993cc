"""Kernels compiled for other processors need nothing that is not in every process."""

import json
import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the targets are x86-64's"
)
# What images may ask the process for: memory, and scratch that comes with the thread.
# The oldest processors have no fused product: the mathematics library's stands in.
ALLOWED = {"memcpy", "memmove", "memset", "rushlight_scratch"}
OLD = {"x86-64": {"fma", "fmaf"}, "x86-64-v2": {"fma", "fmaf"}}

COMPILE = """
import json, sys
from rushlight.backends.cpu.link import link
from rushlight.codegen.emit.llvm import emit
from rushlight.codegen.pointwise import Pointwise
from rushlight.codegen.toolchain import compile_ir
from rushlight.ops import binary, copying, unary
from rushlight.ops.conversion import copy

wanted, found, count = sys.argv[1].split(), {}, 0
for module in (unary, binary):
    kernels = [k for k in vars(module).values() if isinstance(k, Pointwise)]
    for kernel in kernels[:: int(sys.argv[2])]:
        for dtype in wanted:
            types = (dtype,) * kernel.arity
            try:
                function = kernel.lowered(types, (dtype,), dtype, ())
            except Exception:
                continue  # no kernel for the type, or with numbers among its operands
            for *_, name in link(compile_ir(emit(function)).object).external:
                found.setdefault(name, []).append(f"{kernel.name} of {dtype}")
            count += 1
for pair in (("float16", "float32"), ("float32", "float16"), ("float64", "float16")):
    function = copy.lowered(pair[:1], pair[1:], pair[1], ())
    for *_, name in link(compile_ir(emit(function)).object).external:
        found.setdefault(name, []).append(f"copy of {pair}")
print(json.dumps([count, found]))
"""

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


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_kernels_of_every_level_ask_the_process_for_little(target, tmp_path):
    tmp_path.chmod(0o700)
    count, found = json.loads(run(COMPILE, target, tmp_path, "float16 float32", "12"))
    assert count > 8
    allowed = ALLOWED | OLD.get(target, set())
    assert not {name: who[:3] for name, who in found.items() if name not in allowed}


def test_halves_are_the_same_without_instructions_for_them(tmp_path):
    for name in ("old", "own"):
        (tmp_path / name).mkdir(mode=0o700)
    old = run(RUN, "x86-64-v2", tmp_path / "old")
    assert old == run(RUN, None, tmp_path / "own")

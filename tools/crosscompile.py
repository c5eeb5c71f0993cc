"""Compiles the kernels of the pack for other processors, and runs what runs here.

``python -m tools.crosscompile`` runs the exercises of `rushlight.runtime.cpu.warm`,
notes every kernel that they ask for, and compiles each for every target: x86-64 from its
second to its fourth level, and a Neoverse. Machine code may ask the process for nothing
but the few functions of `ALLOWED`. Then the compiler's tests, which hold native kernels
to the reference emitter, run with kernels of the older levels.

``--every N`` takes each N-th kernel, ``--no-run`` leaves the tests out; names of targets
choose among them. ``--modules`` compiles the C of the core's modules, which a build leaves
beside them, for ARM's Linux and macOS instead, by zig's compiler (``pip install ziglang``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from rushlight.codegen import toolchain
from rushlight.codegen.emit.llvm import emit
from rushlight.codegen.target import TARGETS, named, using
from rushlight.runtime.cpu import warm
from rushlight.runtime.cpu.link import link

ROOT = Path(__file__).parent.parent
# What machine code may ask the process for: memory, and scratch that comes with the
# thread.
ALLOWED = {"memcpy", "memmove", "memset", "rushlight_scratch"}
COMPILED = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1")
RUN = ("x86-64-v2", "x86-64-v3")
SYSTEMS = ("aarch64-linux-gnu.2.28", "aarch64-macos")  # as zig names them
TESTS = [
    f"tests/codegen/test_{name}.py"
    for name in ("emitters", "loops", "pointwise", "reduction", "rowwise", "te")
]


def faults_of(name, lower, target) -> list:
    """What keeps a kernel from running on a target; nothing, if all is well."""
    with using(target):
        text = emit(lower())
        binary = toolchain.compile_ir(text).object
    wanted = {symbol for *_, symbol in link(binary).external} - ALLOWED
    faults = [f"{name} asks for {symbol}" for symbol in sorted(wanted)]
    if not target.masked and ("@llvm.masked.load" in text or "masked.store" in text):
        faults.append(f"{name} moves lanes by masks that {target.name} does not have")
    return faults


def compile_all(kernels, target) -> list:
    """The faults of all kernels on one target, with a line of what it took."""
    start, faults = time.perf_counter(), []
    for name, (_, lower) in kernels.items():
        faults += faults_of(name, lower, target)
    taken = time.perf_counter() - start
    print(f"{target.name}: {len(kernels)} kernels in {taken:.0f} s")
    return [f"{target.name}: {fault}" for fault in faults]


def compile_modules(system) -> list:
    """The modules whose C does not compile for a system, with what its compiler says."""
    faults, include = [], sysconfig.get_path("include")
    for source in sorted((ROOT / "rushlight").rglob("*.c")):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, "-m", "ziglang", "cc", "-target", system, f"-I{include}",
                "-fPIC", "-w", "-O0", "-c", source, "-o", Path(folder, "module.o"),
            ]  # fmt: skip
            ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            faults.append(f"{system}: {source.relative_to(ROOT)}\n{ended.stderr}")
    return faults


def run_tests(name) -> bool:
    """Whether the compiler's tests pass with kernels for another processor."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "RUSHLIGHT_TARGET": name,
            "RUSHLIGHT_CACHE": folder,
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ended = subprocess.run([*command, *TESTS], cwd=ROOT, env=environment)
    return ended.returncode == 0


def main(arguments) -> int:
    """Returns 1 where anything is wrong, having printed it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", default=COMPILED, metavar="TARGET")
    parser.add_argument("--every", type=int, default=1, help="take each N-th kernel")
    parser.add_argument("--no-run", action="store_true", help="compile only")
    parser.add_argument("--modules", action="store_true", help="the core instead")
    options = parser.parse_args(arguments)
    if options.modules:
        faults = [fault for system in SYSTEMS for fault in compile_modules(system)]
        print("\n".join(faults) or "all modules are well")
        return int(bool(faults))
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"{unknown[0]} is no target; there are {', '.join(TARGETS)}")
    kernels = dict(list(warm.kernels_of(warm.EXERCISES).items())[:: options.every])
    faults = []
    for name in options.targets:
        faults += compile_all(kernels, named(name))
    if not options.no_run and os.uname().machine == "x86_64":
        for name in options.targets:
            if name in RUN and not run_tests(name):
                faults.append(f"{name}: kernels do not do what the reference does")
    print("\n".join(faults) or "all kernels are well")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

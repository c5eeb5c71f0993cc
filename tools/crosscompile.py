"""Compiles the kernels of the pack for other processors, and runs what runs here.

``python -m tools.crosscompile`` runs the exercises of `rushlight.runtime.cpu.warm`,
notes every kernel that they ask for, and compiles each for every target: x86-64 from its
second to its fourth level, and a Neoverse. Machine code may ask the process for nothing
but the few functions of `ALLOWED`. Then the compiler's tests, which hold native kernels
to the reference emitter, run with kernels of the older levels.

``--every N`` takes each N-th kernel, ``--no-run`` leaves the tests out; names of targets
choose among them. ``--modules`` links the core's modules, of the C that a build leaves beside
them, for ARM's Linux and macOS instead, by zig's compiler (``pip install ziglang``);
``--wheels WHEEL`` writes what a wheel of this machine is there, into its folder: modules and
the Neoverse's kernels in the place of its own. No such machine has loaded one yet.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

from rushlight.codegen import toolchain
from rushlight.codegen.emit.llvm import emit
from rushlight.codegen.target import TARGETS, named, using
from rushlight.runtime.cpu import code_cache, warm
from rushlight.runtime.cpu.link import link

ROOT = Path(__file__).parent.parent
# What machine code may ask the process for: memory, and scratch that comes with the
# thread.
ALLOWED = {"memcpy", "memmove", "memset", "rushlight_scratch"}
COMPILED = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1")
RUN = ("x86-64-v2", "x86-64-v3")
PYTHON = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
# As zig names them: how a module is linked, how its file ends, the wheel's tag.
SYSTEMS = {
    "aarch64-linux-gnu.2.28": (
        ["-shared"], f".{PYTHON}-aarch64-linux-gnu.so", "manylinux_2_28_aarch64",
    ),
    "aarch64-macos.11.0": (
        ["-shared", "-Wl,-undefined,dynamic_lookup"], f".{PYTHON}-darwin.so",
        "macosx_11_0_arm64",
    ),
}  # fmt: skip
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


def link_modules(system, folder, *flags) -> list:
    """The modules whose C cannot be linked for a system, with what its compiler says.

    Args:
        system: a name of `SYSTEMS`.
        folder: where modules go, as they lie in the repository.
        flags: of the compiler.
    """
    linked, suffix, _ = SYSTEMS[system]
    faults, include = [], sysconfig.get_path("include")
    for source in sorted((ROOT / "rushlight").rglob("*.c")):
        module = Path(folder, source.relative_to(ROOT)).with_suffix(suffix)
        module.parent.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "ziglang", "cc", "-target", system, f"-I{include}",
            "-fPIC", "-fno-strict-aliasing", "-fwrapv", "-w", "-g0", *flags, *linked,
            source, "-o", module,
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            faults.append(f"{system}: {source.relative_to(ROOT)}\n{ended.stderr}")
    return faults


def write_wheel(wheel, system) -> list:
    """Writes a system's wheel beside one of this machine; the faults of its modules."""
    tag = SYSTEMS[system][2]
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
        packs = Path("rushlight", "runtime", "cpu", "packs")
        for own in *Path(folder).rglob("*.so"), *Path(folder, packs).glob("*.pack"):
            own.unlink()
        faults = link_modules(system, folder, "-O2")
        target, kernels = named("neoverse-n1"), warm.kernels_of(warm.EXERCISES)
        code_cache.ship(kernels, target, f"{folder}/{packs}/{target.name}.pack")
        (about,) = Path(folder).glob("*.dist-info/WHEEL")
        text = about.read_text()
        about.write_text(text.replace(wheel.stem.split("-")[-1], tag))
        pack = [sys.executable, "-m", "wheel", "pack", folder, "-d", wheel.parent]
        subprocess.run(pack, check=True)
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
    parser.add_argument("--wheels", type=Path, metavar="WHEEL", help="of the core")
    options = parser.parse_args(arguments)
    if options.modules or options.wheels:
        faults = []
        for system in SYSTEMS:
            if options.wheels:
                faults += write_wheel(options.wheels, system)
                continue
            with tempfile.TemporaryDirectory() as folder:
                faults += link_modules(system, folder, "-O0")
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

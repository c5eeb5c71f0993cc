"""Levels of x86-64: which one a run is made for, and both libraries held to it.

A library reads what holds it when it is imported, so a process that is not held yet starts
again with the settings in its environment, and processes that it starts inherit them.

PyTorch's own loops, oneDNN, FBGEMM and MKL are held; MKL by Intel's processors only, as others
get its code for AVX2 at most. ONNX Runtime has no such setting, and OpenVINO's own kernels have
none: they are held by copies that `benchmarks.hidden_instructions` answers for the processor.
"""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

# Of a level: what Rushlight compiles for, and PyTorch's loops, oneDNN, MKL and FBGEMM, which
# has nothing below AVX2.
SETTINGS = (
    "RUSHLIGHT_TARGET",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "FBGEMM_ENABLE_INSTRUCTIONS",
)
LEVELS = {
    "v2": ("x86-64-v2", "default", "SSE41", "SSE4_2", "AVX2"),
    "v3": ("x86-64-v3", "avx2", "AVX2", "AVX2", "AVX2"),
    "v4": ("x86-64-v4", "avx512", "AVX512_CORE", "AVX512", "AVX512"),
}


def settings(level: str) -> dict[str, str]:
    """The environment that holds both libraries to a level.

    >>> settings("v3")["ATEN_CPU_CAPABILITY"]
    'avx2'
    """
    return dict(zip(SETTINGS, LEVELS[level], strict=True))


def hold(level: str, module: str = "benchmarks") -> None:
    """Starts this process again where its environment does not hold it to a level.

    Args:
        level: of x86-64.
        module: what the process runs.
    """
    wanted = settings(level)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        arguments = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, **wanted})


def level_of(target) -> str:
    """The highest level that a target of the compiler has, or what it is called.

    >>> from rushlight.codegen.target import named
    >>> level_of(named("x86-64-v3")), level_of(named("neoverse-n1"))
    ('v3', 'neoverse-n1')
    """
    if target.name in ("x86-64", "x86-64-v2"):
        return "v2" if target.name == "x86-64-v2" else "v1"
    return next((level for level in ("v4", "v3") if target.has(level)), target.name)


def processor() -> str:
    """What the machine calls its processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def version(package: str, title: str) -> str:
    """A package by its title with its version, or that there is none.

    >>> version("no-such-package", "Peer")
    'no Peer'
    """
    try:
        return f"{title} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {title}"


def facts(exempt="") -> tuple[str, str]:
    """The level that a run is made for, and the processor with all versions.

    Args:
        exempt: what is not held to the level, in words.
    """
    import torch

    import rushlight
    from rushlight.codegen.target import current

    level = level_of(current())
    held = "held to " if os.environ.get("RUSHLIGHT_TARGET") else ""
    return level, (
        f"{processor()}, {held}{level}{exempt}, {os.cpu_count()} cores, "
        f"{platform.system()} on {platform.machine()}, "
        f"Python {platform.python_version()}, Rushlight {rushlight.__version__}, "
        f"PyTorch {torch.__version__}, {version('onnxruntime', 'ONNX Runtime')}, "
        f"{version('openvino', 'OpenVINO')}"
    )

"""What kernels are compiled for: one description, which every step of the way asks.

A `Target` says which processor LLVM compiles for, how wide its vectors are, how many of
them it has, which elements it loads by a mask, and what special instructions there are.
Schedules cut by it, passes and emitters choose by it, and cached code is filed under it.

`current()` is what this process compiles for: the processor itself, or the one that
``$RUSHLIGHT_TARGET`` names. `using(target)` is for code that is compiled and not run.

>>> named("x86-64-v3").vector_bytes
32
>>> named("x86-64-v3").masks(4), named("x86-64-v3").masks(1)
(True, False)
"""

import functools
import os
from contextlib import contextmanager
from contextvars import ContextVar

from rushlight.core import roles
from rushlight.core.device import backend_for

ELEMENTS = (1, 2, 4, 8)


class Target:
    """A processor to compile for.

    Args:
        name: what it is called; ``host`` is this machine's processor.
        triple: LLVM's name of its machine and system.
        cpu: LLVM's name of the processor; None where LLVM is to look at this one.
        vector_bytes: how wide a vector register is, and ``registers`` how many there are.
        masked: bytes of the elements that it loads and stores by a mask.
        instructions: what else it has: ``fma`` (products and sums in one rounding),
            ``halves`` (float16 to float32 and back), ``rounds`` (floor and its kind),
            ``dot_bf16`` and ``dot_int8`` (products of pairs and fours, summed),
            ``tiles_bf16`` and ``tiles_int8`` (the same by a unit of tiles, which a process
            asks its system for), ``v3`` and ``v4`` (all that this level of x86-64 asks for).
        identity: the text under which its code is filed; by default its name.
        caches: bytes of the first and second level. Blocks are cut by them, and the
            order of sums with the blocks: every target has the same, so that equal
            vectors mean equal bits.
    """

    __slots__ = (
        "caches",
        "cpu",
        "identity",
        "instructions",
        "masked",
        "name",
        "registers",
        "triple",
        "vector_bytes",
    )

    def __init__(
        self,
        name,
        triple,
        cpu,
        vector_bytes,
        registers,
        masked=(),
        instructions=(),
        identity="",
        caches=(32 << 10, 512 << 10),
    ):
        self.name, self.triple, self.cpu = name, triple, cpu
        self.vector_bytes, self.registers = vector_bytes, registers
        self.masked, self.instructions = tuple(masked), frozenset(instructions)
        self.identity = identity or " ".join([name, *sorted(self.instructions)])
        self.caches = caches

    def __repr__(self):
        return f"<target {self.name}>"

    def has(self, instruction: str) -> bool:
        """Whether the processor has an instruction; see the class."""
        return instruction in self.instructions

    def masks(self, itemsize: int) -> bool:
        """Whether elements of so many bytes are loaded and stored by a mask."""
        return itemsize in self.masked

    @property
    def has_masks(self) -> bool:
        """Whether elements of every size are loaded and stored by a mask."""
        return self.masked == ELEMENTS

    @property
    def is_gpu(self) -> bool:
        """Whether threads are scalar, and its "vectors" what one of them loads at once."""
        return self.triple.startswith("nvptx")

    @property
    def ptx(self) -> int:
        """Of a GPU, the version of PTX that its text is written in, times ten."""
        return PTX_VERSIONS.get(self.name, 0)

    def lanes(self, itemsize: int) -> int:
        """Elements of so many bytes in one vector register."""
        return self.vector_bytes // itemsize


X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_FUSED = ("fma", "halves", "rounds")
# What a level of x86-64 is, in the words of the system.
_V3 = set(
    "cx16 lahf_lm popcnt ssse3 sse4_1 sse4_2 avx avx2 bmi1 bmi2 f16c fma abm movbe".split()
)
_V4 = _V3 | set("avx512f avx512bw avx512cd avx512dq avx512vl".split())
TARGETS = {
    target.name: target
    for target in (
        Target("x86-64", X86, "x86-64", 16, 16),
        Target("x86-64-v2", X86, "x86-64-v2", 16, 16, (), ("rounds",)),
        Target("x86-64-v3", X86, "x86-64-v3", 32, 16, (4, 8), (*_FUSED, "v3")),
        Target("x86-64-v4", X86, "x86-64-v4", 64, 32, ELEMENTS, (*_FUSED, "v4")),
        Target("neoverse-n1", ARM, "neoverse-n1", 16, 32, (), _FUSED),
    )
}
LEVELS = ("x86-64-v4", "x86-64-v3", "neoverse-n1")  # what comes with the package
# A GPU's threads are scalar: its "vectors" are what one thread loads at once.
# The version of PTX is the lowest that knows the generation, or else what drivers of
# CUDA 11.8 read: newer ones read it, too.
PTX_VERSIONS = {
    "sm_75": 78,
    "sm_80": 78,
    "sm_86": 78,
    "sm_89": 78,
    "sm_90": 78,
    "sm_90a": 80,
    "sm_100": 86,
    "sm_120": 87,
}
GPUS = {
    name: Target(name, "nvptx64-nvidia-cuda", name, 16, 255, (), _FUSED)
    for name in PTX_VERSIONS
}
NVIDIA = GPUS["sm_90"]  # what loops are made for: they are the same for all of them


def gpu(architecture: str) -> Target:
    """The target whose code a generation of NVIDIA devices runs.

    That is its own, or the newest before it: PTX goes on with later devices.

    Args:
        architecture: such as ``"sm_80"``.

    Raises:
        ValueError: it is older than all that there are.

    >>> gpu("sm_89"), gpu("sm_87"), gpu("sm_90a")
    (<target sm_89>, <target sm_86>, <target sm_90a>)
    """
    if architecture in GPUS:
        return GPUS[architecture]
    wanted = int("".join(filter(str.isdigit, architecture)))
    before = [name for name in GPUS if name[3:].isdigit() and int(name[3:]) <= wanted]
    if not before:
        raise ValueError(
            f"kernels are not made for {architecture}: the oldest is {next(iter(GPUS))}"
        )
    return GPUS[max(before, key=lambda name: int(name[3:]))]


def gpu_target() -> Target:
    """The GPU that is being compiled for; `NVIDIA` where nobody said which."""
    target = current()
    return target if target.is_gpu else NVIDIA


def named(name: str) -> Target:
    """The target of a name.

    Raises:
        ValueError: there is none; the message lists those that there are.
    """
    if name not in TARGETS:
        raise ValueError(f"{name} is no target; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def level_of(target: Target) -> Target | None:
    """The target of `LEVELS` whose code computes the same bits on a processor.

    Its vectors are as many and as wide, and it has all instructions that are asked for.

    >>> level_of(named("x86-64-v3")), level_of(described("x86_64", ["avx2", "fma"]))
    (<target x86-64-v3>, None)
    """
    for name in LEVELS:
        level = TARGETS[name]
        same = all(
            getattr(level, fact) == getattr(target, fact)
            for fact in ("triple", "vector_bytes", "registers", "masked", "caches")
        )
        if same and level.instructions <= target.instructions:
            return level
    return None


def described(machine: str, flags, identity: str = "host") -> Target:
    """The target that a system's list of instruction sets describes.

    Args:
        machine: what the system calls the architecture.
        flags: the sets as ``/proc/cpuinfo`` names them.

    >>> described("x86_64", {"avx2", "fma", "f16c"}).vector_bytes
    32
    """
    flags = set(flags)
    if machine in ("aarch64", "arm64"):
        has = {"fma", "halves", "rounds"}
        return Target("host", ARM, None, 16, 32, (), has, identity)
    names = {"fma": "fma", "f16c": "halves", "sse4_1": "rounds"}
    has = {word for flag, word in names.items() if flag in flags}
    has |= {word for word, need in (("v3", _V3), ("v4", _V4)) if need <= flags}
    if "avx512_bf16" in flags:
        has.add("dot_bf16")
    if "avx512_vnni" in flags:
        has.add("dot_int8")
    if {"amx_tile", "avx512bw", "avx512vl"} <= flags:
        names = {"amx_bf16": "tiles_bf16", "amx_int8": "tiles_int8"}
        has |= {word for flag, word in names.items() if flag in flags}
    if {"avx512f", "avx512bw", "avx512vl"} <= flags:
        shape = 64, 32, ELEMENTS
    elif "avx2" in flags:
        shape = 32, 16, (4, 8)
    else:
        shape = 16, 16, ()
    return Target("host", X86, None, *shape, has, identity)


@functools.cache
def host() -> Target:
    """This machine's processor, from what the system says about it."""
    wanted = (
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "flags",
        "CPU implementer",
        "CPU part",
        "CPU variant",
        "Features",
    )
    machine = os.uname().machine
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(8192).split("\n\n")[0]
    except OSError:
        import platform

        first = ""
        facts = [f"{platform.machine()} {platform.processor()}"]
    else:
        pairs = (line.partition(":") for line in first.splitlines())
        facts = [f"{a}:{b}" for a, _, b in pairs if a.strip() in wanted]
        facts.insert(0, machine)
    flags = [
        flag
        for line in facts
        if line.partition(":")[0].strip() in ("flags", "Features")
        for flag in line.partition(":")[2].split()
    ]
    return described(machine, flags, "\n".join(facts))


_used: ContextVar = ContextVar("rushlight_target", default=None)


@functools.cache
def _of_process() -> Target:
    name = os.environ.get("RUSHLIGHT_TARGET")
    if not name:
        return host()
    try:
        return named(name)
    except ValueError as error:
        raise ValueError(f"RUSHLIGHT_TARGET={error}") from None


def current() -> Target:
    """What is being compiled for; by default what this process runs.

    Raises:
        ValueError: ``$RUSHLIGHT_TARGET`` names no target.
    """
    return _used.get() or _of_process()


def running() -> bool:
    """Whether kernels are made for the processor that this process runs on."""
    return _used.get() is None


def maker():
    """What makes a kernel of loops for the current target: the host's cache, or that of
    the devices.

    Both take a name, a digest of all that decides what is computed, and a function that
    gives the loops.
    """
    if current().is_gpu:
        return backend_for("cuda").roles().device_kernel.native
    return roles.host.code_cache.native


@contextmanager
def using(target: Target):
    """Compiles for another target inside: to look at the code, not to run it."""
    before = _used.get()
    try:
        _used.set(target)
        yield target
    finally:
        _used.set(before)

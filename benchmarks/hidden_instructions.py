"""Instructions of wider levels, hidden from the runtimes that ask the processor for them.

ONNX Runtime and OpenVINO have no setting: they ask by ``cpuid`` what there is. They are run
from copies in which each such instruction is replaced by one of as many bytes that does not
exist. The signal that it raises is answered with what the processor says, without the bits
of what is hidden. The handler is written in LLVM's language, as Python takes no such signal.
Where the instructions are, ``objdump`` knows; the copies are kept.
"""

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

COPIES = Path(__file__).parents[1] / "build" / "runtimes"
SIGINFO = 4
CPUID, INVALID = b"\x0f\xa2", b"\x06\xa2"
SITE = re.compile(r"^ *([0-9a-f]+):\tcpuid", re.MULTILINE)
CODE = re.compile(r"LOAD off +(0x[0-9a-f]+) vaddr (0x[0-9a-f]+).*\n.* flags r-x")
# Of a runtime: its libraries that ask, within the folder of its package, and others' that
# are large and not needed.
RUNTIMES = {
    "onnxruntime": ("capi/onnxruntime_pybind11_state*.so",),
    "openvino": ("libs/libopenvino.so.*", "libs/libopenvino_intel_cpu_plugin.so"),
}
UNUSED = shutil.ignore_patterns("*gpu_plugin*", "*npu*", "libonnxruntime.so.*")
# Of a leaf and subleaf of cpuid: bits that are hidden, of eax, ebx, ecx and edx.
AVX512 = {
    (7, 0): (
        (),
        (16, 17, 21, 26, 27, 28, 30, 31),
        (1, 6, 11, 12, 14),
        (2, 3, 8, 22, 23, 24, 25),
    ),
    (7, 1): ((4, 5, 21, 23), (), (), (4, 5, 8, 10, 19)),
}
AVX = {
    (1, 0): ((), (), (12, 28, 29), ()),
    (7, 0): (
        (),
        (3, 5, 8, *AVX512[7, 0][1]),
        (9, 10, *AVX512[7, 0][2]),
        AVX512[7, 0][3],
    ),
    (7, 1): AVX512[7, 1],
}
HIDDEN = {"v2": AVX, "v3": AVX512, "v4": {}}
# Where a frame of a signal keeps registers, on x86-64.
PLACES = {"rax": 144, "rbx": 128, "rcx": 152, "rdx": 136, "rip": 168}

HANDLER = """
target triple = "x86_64-unknown-linux-gnu"
define void @answer(i32 %signal, ptr %info, ptr %frame) {{
  %at.rax = getelementptr i8, ptr %frame, i64 {rax}
  %at.rbx = getelementptr i8, ptr %frame, i64 {rbx}
  %at.rcx = getelementptr i8, ptr %frame, i64 {rcx}
  %at.rdx = getelementptr i8, ptr %frame, i64 {rdx}
  %at.rip = getelementptr i8, ptr %frame, i64 {rip}
  %rip = load ptr, ptr %at.rip
  %code = load i16, ptr %rip, align 1
  %is = icmp eq i16 %code, {invalid}
  br i1 %is, label %cpuid, label %other
cpuid:
  %leaf = load i32, ptr %at.rax
  %sub = load i32, ptr %at.rcx
  %all = call {{i32, i32, i32, i32}} asm sideeffect "cpuid",
    "={{eax}},={{ebx}},={{ecx}},={{edx}},{{eax}},{{ecx}}"(i32 %leaf, i32 %sub)
{answers}
  %next = getelementptr i8, ptr %rip, i64 2
  store ptr %next, ptr %at.rip
  ret void
other:  ; the instruction faults again, and nobody takes it
  call ptr inttoptr (i64 {default} to ptr)(i32 {signal}, ptr null)
  ret void
}}
"""


def hide(level: str) -> bool:
    """Hides what a level lacks from the runtimes; False where that cannot be done.

    They must not have been imported.
    """
    if not HIDDEN[level]:
        return True
    x86 = sys.platform == "linux" and platform.machine() == "x86_64"
    if not x86 or shutil.which("objdump") is None:
        return False
    answer_signals(level)
    for name in RUNTIMES:
        if importlib.util.find_spec(name) is not None:
            sys.path.insert(0, str(copy_of(name)))
    return True


def copy_of(name: str) -> Path:
    """The folder of a runtime's copy that raises signals where it asks the processor."""
    folder = COPIES / f"{name}-{importlib.metadata.version(name)}"
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.{os.getpid()}")
        package = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(package, made / name, ignore=UNUSED)
        for pattern in RUNTIMES[name]:
            for file in (made / name).glob(pattern):
                replace_instructions(file)
        made.rename(folder)
    return folder


def replace_instructions(file: Path) -> int:
    """Replaces each ``cpuid`` in a library's file; how many."""
    header, listing = (
        subprocess.run(["objdump", *asked, file], capture_output=True, text=True).stdout
        for asked in (["-p"], ["-d", "--no-show-raw-insn"])
    )
    offset, address = (int(number, 16) for number in CODE.search(header).groups())
    sites = [int(site, 16) - address + offset for site in SITE.findall(listing)]
    content = bytearray(file.read_bytes())
    for site in sites:
        if content[site : site + 2] != CPUID:
            raise ValueError(f"{file.name}: no cpuid at {site:#x}")
        content[site : site + 2] = INVALID
    file.write_bytes(content)
    return len(sites)


def answer_signals(level: str) -> None:
    """Takes the signal of instructions that do not exist."""

    class Action(ctypes.Structure):
        _fields_ = [
            ("handler", ctypes.c_void_p),
            ("mask", ctypes.c_byte * 128),
            ("flags", ctypes.c_int),
            ("restorer", ctypes.c_void_p),
        ]

    address = handler_of(level).get_function_address("answer")
    action = Action(address, flags=SIGINFO)
    ctypes.CDLL(None).sigaction(int(signal.SIGILL), ctypes.byref(action), None)


@functools.cache  # the machine code lives as long as what points to it
def handler_of(level):
    """The machine code that answers faults."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    module = binding.parse_assembly(text_of(level))
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def text_of(level: str) -> str:
    """The handler in LLVM's language."""
    default = ctypes.cast(ctypes.CDLL(None).signal, ctypes.c_void_p).value
    lines = []
    for i, register in enumerate(("rax", "rbx", "rcx", "rdx")):
        value = f"%value.{i}"
        lines.append(f"  {value} = extractvalue {{i32, i32, i32, i32}} %all, {i}")
        for (leaf, sub), bits in HIDDEN[level].items():
            kept = ~sum(1 << bit for bit in bits[i]) & 0xFFFFFFFF
            name = f"{value}.{leaf}.{sub}"
            every = str(leaf < 4).lower()  # leaves without subleaves
            lines += [
                f"  {name}.leaf = icmp eq i32 %leaf, {leaf}",
                f"  {name}.sub = icmp eq i32 %sub, {sub}",
                f"  {name}.any = or i1 {name}.sub, {every}",
                f"  {name}.is = and i1 {name}.leaf, {name}.any",
                f"  {name}.kept = and i32 {value}, {kept}",
                f"  {name} = select i1 {name}.is, i32 {name}.kept, i32 {value}",
            ]
            value = name
        wide = f"%wide.{i}"
        lines.append(f"  {wide} = zext i32 {value} to i64")
        lines.append(f"  store i64 {wide}, ptr %at.{register}")
    return HANDLER.format(
        **PLACES,
        answers="\n".join(lines),
        default=default,
        signal=int(signal.SIGILL),
        invalid=int.from_bytes(INVALID, "little", signed=True),
    )

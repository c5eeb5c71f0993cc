"""Runs kernels for a Neoverse on any machine that has ``qemu-aarch64`` (Debian's qemu-user).

``python -m tools.emulate`` runs the compiler's tests that hold native kernels to the
reference emitter, with kernels for ``neoverse-n1`` in the place of native ones. Each launch
is a program of its own: the kernel's machine code as `rushlight.runtime.cpu.link` lays it
out, its operands behind it, and a driver that calls it and writes the operands back.

>>> _rounded(5, 4)
8
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from rushlight.codegen import toolchain
from rushlight.codegen.emit.llvm import emit
from rushlight.codegen.target import ARM, named, using
from rushlight.runtime.cpu.link import AARCH64, link

ROOT = Path(__file__).parent.parent
EMULATOR, TARGET = "qemu-aarch64", "neoverse-n1"
CODE, DATA = 0x10000000, 0x20000000  # where a program's two segments lie
SCRATCH = 64 << 20  # bytes behind the operands, zero at the start
PAGE = 0x10000
TESTS = [
    f"tests/codegen/test_{name}.py"
    for name in ("pieces", "pointwise", "reduction", "rowwise")
]

# The driver: calls the kernel, asks the system to write (64) until all is written, and to
# exit (93) with the kernel's result. Loads of constants (None) take one after another.
DRIVER = (
    *[None] * 5,  # x0 pointers, x1 numbers, x2 begin, x3 end, x9 kernel
    0xD63F0120,  # blr x9
    0x2A0003F3,  # mov w19, w0
    None, None,  # x20 operands, x21 their size
    0xD2800020, 0xAA1403E1, 0xAA1503E2, 0xD2800808,  # mov x0, 1; x1, x20; x2, x21; x8, 64
    0xD4000001,  # svc 0
    0x8B000294, 0xEB0002B5,  # add x20, x20, x0; subs x21, x21, x0
    0x54FFFF2C,  # b.gt, seven instructions back
    0xAA1303E0, 0xD2800BA8, 0xD4000001,  # mov x0, x19; mov x8, 93; svc 0
)  # fmt: skip
LOADED = 0, 1, 2, 3, 9, 20, 21  # the registers that take the constants
LIBRARY = """
define ptr @rushlight_scratch(i64 %size) nounwind {
  ret ptr inttoptr (i64 SCRATCH to ptr)
}

define ptr @memset(ptr %to, i32 %value, i64 %count) nounwind "no-builtins" {
entry:
  %byte = trunc i32 %value to i8
  br label %head
head:
  %k = phi i64 [0, %entry], [%next, %body]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %exit
body:
  %place = getelementptr i8, ptr %to, i64 %k
  store volatile i8 %byte, ptr %place
  %next = add i64 %k, 1
  br label %head
exit:
  ret ptr %to
}

define ptr @memcpy(ptr %to, ptr %from, i64 %count) nounwind "no-builtins" {
entry:
  br label %head
head:
  %k = phi i64 [0, %entry], [%next, %body]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %exit
body:
  %source = getelementptr i8, ptr %from, i64 %k
  %place = getelementptr i8, ptr %to, i64 %k
  %byte = load volatile i8, ptr %source
  store volatile i8 %byte, ptr %place
  %next = add i64 %k, 1
  br label %head
exit:
  ret ptr %to
}
"""


def found() -> bool:
    """Whether the emulator is on the path."""
    return shutil.which(EMULATOR) is not None


def _rounded(size, unit):
    return -(-size // unit) * unit


class Memory:
    """Operands behind one another, with the addresses that they have in the program."""

    def __init__(self):
        self.bytes, self.places = bytearray(), {}

    def add(self, data) -> int:
        """The address of a copy of bytes."""
        self.bytes += bytes(_rounded(len(self.bytes), 64) - len(self.bytes))
        start = len(self.bytes)
        self.bytes += data
        return DATA + start

    def address(self, array) -> int:
        """The address of an array's first element; all of what it is a view of is copied."""
        owner = array
        while owner.base is not None and hasattr(owner.base, "ctypes"):
            owner = owner.base
        if id(owner) not in self.places:
            self.places[id(owner)] = self.add(owner.tobytes("A")), owner
        return self.places[id(owner)][0] + array.ctypes.data - owner.ctypes.data

    def give_back(self, written):
        """Copies what a program wrote into the arrays that may be written."""
        import numpy as np

        for address, owner in self.places.values():
            if owner.flags.writeable and owner.nbytes:
                start = address - DATA
                flat = np.frombuffer(written, owner.dtype, owner.size, start)
                order = "F" if owner.flags.f_contiguous else "C"
                owner[...] = flat.reshape(owner.shape, order=order)


@functools.cache
def _object_of(text):
    return toolchain.compile_ir(text).object


def launch(function, arrays, ints, begin, end) -> int:
    """Calls a kernel for `TARGET` with arrays and numbers, in a program of its own.

    Returns:
        What went wrong, as the kernel says it: the bits of `expr.FAULTS`.

    Raises:
        RuntimeError: the program failed.
    """
    memory = Memory()
    pointers = [memory.address(array) for array in arrays]
    table = memory.add(struct.pack(f"<{len(pointers)}Q", *pointers))
    numbers = memory.add(struct.pack(f"<{len(ints)}q", *ints))
    size = len(memory.bytes)
    program = _program(function, memory.bytes, table, numbers, begin, end)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program")
        path.write_bytes(program)
        path.chmod(0o755)
        ended = subprocess.run([EMULATOR, str(path)], capture_output=True, timeout=600)
    if len(ended.stdout) != size:
        words = ended.stderr.decode(errors="replace").strip()
        raise RuntimeError(
            f"{function.name} for {TARGET} ended with {ended.returncode}, having written "
            f"{len(ended.stdout)} of {size} bytes\n  {words}"
        )
    memory.give_back(ended.stdout)
    return ended.returncode


def _driver(constants):
    """The driver's machine code with its constants behind it."""
    code, registers = bytearray(), iter(enumerate(LOADED))
    behind = _rounded(4 * len(DRIVER), 8)
    for word in DRIVER:
        if word is None:  # a load relative to itself, in words
            k, register = next(registers)
            distance = (behind + 8 * k - len(code)) // 4
            word = 0x58000000 | distance << 5 | register
        code += struct.pack("<I", word)
    code += bytes(behind - len(code))
    return bytes(code + struct.pack(f"<{len(constants)}Q", *constants))


def _program(function, data, table, numbers, begin, end):
    """An ELF program of the driver, the kernel and what it may ask for."""
    scratch = DATA + _rounded(len(data), PAGE)
    with using(named(TARGET)):
        texts = emit(function), LIBRARY.replace("SCRATCH", str(scratch))
        flats = [link(_object_of(text)) for text in texts]
    code, places = bytearray(64), []  # the driver is first, what is linked starts pages
    for flat in flats:
        code += bytes(_rounded(len(code), PAGE) - len(code))
        places.append(CODE + len(code))
        code += flat.code
    placed = list(zip(flats, places, strict=True))
    symbols = {
        name: place + offset
        for flat, place in placed
        for name, offset in flat.symbols.items()
    }
    for flat, place in placed:
        for slot, offset in flat.relative:
            struct.pack_into("<Q", code, place - CODE + slot, place + offset)
        for slot, addend, name in flat.external:
            struct.pack_into("<Q", code, place - CODE + slot, symbols[name] + addend)
    constants = table, numbers, begin, end, symbols[function.name], DATA, len(data)
    driver = _driver(constants)
    code[: len(driver)] = driver
    return _executable(code, data, CODE)


def _executable(code, data, start):
    """Two segments: code that is never written, and operands with scratch behind them."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 2, AARCH64, 1, start, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    behind = PAGE + _rounded(len(code), PAGE)
    room = _rounded(len(data), PAGE) + SCRATCH
    for flags, offset, address, size, extent in (
        (5, PAGE, CODE, len(code), len(code)), (6, behind, DATA, len(data), room),
    ):  # fmt: skip
        head += struct.pack(
            "<IIQQQQQQ", 1, flags, offset, address, address, size, extent, PAGE
        )
    file = bytearray(behind + len(data))
    file[: len(head)] = head
    file[PAGE : PAGE + len(code)] = code
    file[behind:] = data
    return bytes(file)


def main() -> int:
    """Runs the tests; returns what they end with, or 1 without the emulator."""
    if not found():
        print(f"{EMULATOR} is not on the path: it comes with Debian's qemu-user")
        return 1
    assert named(TARGET).triple == ARM
    environment = {**os.environ, "RUSHLIGHT_EMULATED": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run([*command, *TESTS], cwd=ROOT, env=environment)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())

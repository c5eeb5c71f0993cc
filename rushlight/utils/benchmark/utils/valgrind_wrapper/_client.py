"""What a program that Valgrind runs may ask of it: a sequence of instructions that does
nothing on a processor, and that Valgrind takes for a question.

Source: ``valgrind.h`` and ``callgrind.h``, the client requests of x86-64.
"""

import ctypes
import functools
import platform

_CALLGRIND = (ord("C") << 24) | (ord("T") << 16)
RUNNING_ON_VALGRIND = 0x1001
DUMP_STATS, TOGGLE_COLLECT = _CALLGRIND, _CALLGRIND + 2
START_INSTRUMENTATION = _CALLGRIND + 4
# Four turns of a register that leave it as it was, and an exchange of one with itself.
_CODE = """
define i64 @valgrind_request(ptr %question) {
  %answer = call i64 asm sideeffect "rolq $$3, %rdi; rolq $$13, %rdi; \
rolq $$61, %rdi; rolq $$51, %rdi; xchgq %rbx, %rbx", \
"={rdx},{rax},0,~{memory},~{flags}"(ptr %question, i64 0)
  ret i64 %answer
}
"""


def is_supported() -> bool:
    """Whether this processor's questions are known: x86-64's are."""
    return platform.machine() in ("x86_64", "AMD64")


@functools.cache
def _asking():
    import llvmlite.binding as llvm

    from rushlight.codegen import toolchain

    llvm.initialize_native_target()
    llvm.initialize_native_asmparser()
    binary = toolchain.compile_ir(_CODE).object
    address = toolchain.load_in_process(binary, "valgrind_request")
    return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)


def ask(request: int) -> int:
    """Valgrind's answer; 0 where nothing but a processor is there.

    >>> ask(RUNNING_ON_VALGRIND) if is_supported() else 0
    0
    """
    question = (ctypes.c_uint64 * 6)(request)
    return _asking()(ctypes.addressof(question))


def begin() -> None:
    """Has Callgrind look at what comes, without counting it yet.

    Raises:
        RuntimeError: Valgrind does not run this program.
    """
    if not ask(RUNNING_ON_VALGRIND):
        raise RuntimeError("Process does not appear to be running callgrind.")
    ask(START_INSTRUMENTATION)


def toggle() -> None:
    """Begins to count, or ends it."""
    ask(TOGGLE_COLLECT)


def toggle_and_dump() -> None:
    """Ends counting, and writes a file of what was counted."""
    ask(TOGGLE_COLLECT)
    ask(DUMP_STATS)


def write_kernels(path) -> None:
    """Writes where the machine code of kernels lies: Valgrind knows no names of it."""
    import json

    from rushlight.runtime.cpu.code_cache import by_address

    names = {address: kernel.name for address, kernel in by_address.items()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(names, file)

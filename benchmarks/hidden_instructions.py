"""Instructions of wider levels, hidden from every library that asks the processor for them.

Libraries without a setting ask by ``cpuid`` what there is. Linux can make that instruction a
fault (``ARCH_CPUID`` of ``arch_prctl``) where the processor has cpuid faulting, for a thread
and those that it starts. The fault is answered with what the processor says, without the bits
of what is hidden. The handler is written in LLVM's language, as Python takes no such signal.
"""

import ctypes
import functools
import platform
import signal
import sys

ARCH_CPUID, ARCH_PRCTL = 0x1012, 158
SIGINFO, NODEFER = 4, 0x40000000
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
  %is = icmp eq i16 %code, -24049  ; 0f a2
  br i1 %is, label %cpuid, label %other
cpuid:
  %leaf = load i32, ptr %at.rax
  %sub = load i32, ptr %at.rcx
  call void @fault(i64 1)
  %all = call {{i32, i32, i32, i32}} asm sideeffect "cpuid",
    "={{eax}},={{ebx}},={{ecx}},={{edx}},{{eax}},{{ecx}}"(i32 %leaf, i32 %sub)
  call void @fault(i64 0)
{answers}
  %next = getelementptr i8, ptr %rip, i64 2
  store ptr %next, ptr %at.rip
  ret void
other:  ; the fault comes again, and nobody takes it
  call ptr inttoptr (i64 {default} to ptr)(i32 {signal}, ptr null)
  ret void
}}
define void @fault(i64 %allowed) {{
  call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"(
    i64 {prctl}, i64 {cpuid}, i64 %allowed)
  ret void
}}
"""


def hide(level: str) -> bool:
    """Hides what a level lacks from this process; False where that cannot be done."""
    if not HIDDEN[level]:
        return True
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    engine = handler_of(level)

    class Action(ctypes.Structure):
        _fields_ = [
            ("handler", ctypes.c_void_p),
            ("mask", ctypes.c_byte * 128),
            ("flags", ctypes.c_int),
            ("restorer", ctypes.c_void_p),
        ]

    action = Action(engine.get_function_address("answer"), flags=SIGINFO | NODEFER)
    if libc.sigaction(int(signal.SIGSEGV), ctypes.byref(action), None):
        return False
    if libc.syscall(
        ctypes.c_long(ARCH_PRCTL), ctypes.c_long(ARCH_CPUID), ctypes.c_long(0)
    ):
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        return False
    return True


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
        signal=int(signal.SIGSEGV),
        prctl=ARCH_PRCTL,
        cpuid=ARCH_CPUID,
    )

"""Renders kernels as PTX for NVIDIA devices, through LLVM's NVPTX back end.

A kernel's parallel axis is divided among all threads of the grid: each takes an index,
then every index a grid's width further on. The loops inside an index are the host's; so
is the mathematics, in plain arithmetic: no device library is linked. An entry takes
the data pointers, then a pointer to the kernel's integers, then the axis's length.

A reduction may instead be divided among the lanes of a warp: see `emit_warps`.
"""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.emit import llvm
from rushlight.codegen.target import NVIDIA

LANES = 32
REGISTERS = {"tid": "tid.x", "ctaid": "ctaid.x", "ntid": "ntid.x", "nctaid": "nctaid.x"}

ENTRY = """\
define ptx_kernel void @{name}({parameters}, i64 %total) nounwind {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %width = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %tid.wide = zext i32 %tid to i64
  %block.wide = zext i32 %block to i64
  %width.wide = zext i32 %width to i64
  %blocks.wide = zext i32 %blocks to i64
  %before = mul i64 %block.wide, %width.wide
  %thread = add i64 %before, %tid.wide
  %threads = mul i64 %blocks.wide, %width.wide
{start}  br label %head
head:
  %index = phi i64 [{first}, %entry], [%next, %body]
  %more = icmp slt i64 %index, %total
  br i1 %more, label %body, label %exit
body:
{work}
  %next = add i64 %index, {step}
  br label %head
exit:
  ret void
}}
"""
CALL = """\
  %after = add i64 %index, 1
  %faults = call i32 @{name}.body({arguments}, i64 %index, i64 %after)"""
WARP_START = """\
  %lane.narrow = and i32 %tid, 31
  %lane = zext i32 %lane.narrow to i64
  %warp = udiv i64 %thread, 32
  %warps = udiv i64 %threads, 32
"""


def emit(*functions: ir.Function) -> str:
    """The PTX of loop kernels whose base pointers are distinct."""
    module = llvm._Module(NVIDIA, scratch=False)
    for function in functions:
        outer, body = module.separate(function)
        parameters = [f"ptr noalias %p{n}" for n in range(len(outer.body))]
        arguments = [f"ptr %p{n}" for n in range(len(outer.body))]
        call = CALL.format(
            name=function.name, arguments=", ".join([*arguments, "ptr %ints"])
        )
        module.bodies.append(
            ENTRY.format(
                name=function.name,
                parameters=", ".join([*parameters, "ptr %ints"]),
                start="",
                first="%thread",
                step="%threads",
                work=call,
            )
        )
    return assemble(module)


def assemble(module) -> str:
    """The PTX text of a collected module."""
    from rushlight.codegen.toolchain import compile_ptx

    for register in REGISTERS.values():
        module.declare(f"llvm.nvvm.read.ptx.sreg.{register}", "i32")
    return compile_ptx(module.text(), NVIDIA)


def emit_warps(name, element, partial, combine, finish) -> str:
    """The PTX of a reduction along contiguous rows: a warp for each row.

    Args:
        name: the entry; it takes output, input, integers (the row's length), rows.
        element: the type of a row's elements.
        partial: an `ir.Function` of (input pointer, start, stop, step) that reduces
            every step-th element of a span.
        combine: an `ir.Function` that joins two partial results.
        finish: an `ir.Function` that makes the output of a result and the length.
    """
    module = llvm._Module(NVIDIA, scratch=False)
    for function in (partial, combine, finish):
        module.add(function, "internal ")
    kind, bits = llvm.type_name(combine.result), combine.result.bits
    result = llvm.memory_name(finish.result)
    steps, value = [], "%part"
    for turn in range(5):
        steps += exchange(module, kind, bits, value, turn)
        steps.append(
            f"  %sum{turn} = call {kind} @{combine.name}"
            f"({kind} {value}, {kind} %other{turn})"
        )
        value = f"%sum{turn}"
    work = f"""\
  %row = mul i64 %index, %length
  %base = getelementptr {llvm.memory_name(element)}, ptr %p1, i64 %row
  %part = call {kind} @{partial.name}(ptr %base, i64 %lane, i64 %length, i64 {LANES})
{chr(10).join(steps)}
  %whole = call {result} @{finish.name}({kind} {value}, i64 %length)
  %place = getelementptr {result}, ptr %p0, i64 %index
  store {result} %whole, ptr %place"""
    start = WARP_START + "  %length = load i64, ptr %ints\n"
    module.bodies.append(
        ENTRY.format(
            name=name,
            parameters="ptr noalias %p0, ptr noalias %p1, ptr noalias %ints",
            start=start,
            first="%warp",
            step="%warps",
            work=work,
        )
    )
    return assemble(module)


def exchange(module, kind, bits, value, turn):
    """The lines that fetch the value of the lane ``1 << turn`` away, word by word."""
    shuffle = module.declare(
        "llvm.nvvm.shfl.sync.bfly.i32", "i32", "i32", "i32", "i32", "i32"
    )
    words = max(1, bits // 32)
    wide = f"i{32 * words}"
    cast = "bitcast" if not kind.startswith("i") else "add"
    source = (
        f"bitcast {kind} {value} to {wide}"
        if cast == "bitcast"
        else (f"add {wide} {value}, 0")
    )
    lines = [f"  %bits{turn} = {source}"]
    joined = None
    for word in range(words):
        tag = f"{turn}.{word}"
        lines += [
            f"  %high{tag} = lshr {wide} %bits{turn}, {32 * word}",
            f"  %word{tag} = trunc {wide} %high{tag} to i32"
            if words > 1
            else f"  %word{tag} = add i32 %high{tag}, 0",
            f"  %far{tag} = call i32 @{shuffle}(i32 -1, i32 %word{tag}, "
            f"i32 {1 << turn}, i32 31)",
        ]
        if words == 1:
            joined = f"%far{tag}"
            continue
        lines += [
            f"  %wide{tag} = zext i32 %far{tag} to {wide}",
            f"  %part{tag} = shl {wide} %wide{tag}, {32 * word}",
        ]
        if joined is None:
            joined = f"%part{tag}"
        else:
            lines.append(f"  %join{tag} = or {wide} {joined}, %part{tag}")
            joined = f"%join{tag}"
    back = (
        f"bitcast {wide} {joined} to {kind}"
        if cast == "bitcast"
        else (f"add {wide} {joined}, 0")
    )
    return [*lines, f"  %other{turn} = {back}"]

"""What lanes of a warp tell each other, and what threads make of an element together."""

from rushlight.codegen.emit.llvm_text import memory_name, type_name

HALVES = {"float16": "half", "bfloat16": "bfloat"}
BALLOT = "llvm.nvvm.vote.ballot.sync"
WARP_BARRIER = "llvm.nvvm.bar.warp.sync"
MATCH_BIT = """\
  %bit{n} = and i32 %value, {mask}
  %set{n} = icmp ne i32 %bit{n}, 0
  %have{n} = call i32 @{ballot}(i32 -1, i1 %set{n})
  %flip{n} = select i1 %set{n}, i32 0, i32 -1
  %like{n} = xor i32 %have{n}, %flip{n}
  %same{n} = and i32 %same{before}, %like{n}
"""
MATCH = """\
define internal i32 @{name}(i32 %value) alwaysinline convergent nounwind {{
  %same = or i32 -1, 0
{lines}  ret i32 %same{last}
}}
"""


def match(emitter, e):
    """The lanes that have a lane's value: a ballot for each bit of it."""
    name = f"match_{e.bits}"
    module = emitter.module
    if name not in module.loops:
        module.loops.add(name)
        ballot = module.declare(BALLOT, "i32", "i32", "i1")
        lines = [
            MATCH_BIT.format(n=n, mask=1 << n, ballot=ballot, before=n - 1 if n else "")
            for n in range(e.bits)
        ]
        text = MATCH.format(name=name, lines="".join(lines), last=e.bits - 1)
        module.bodies.insert(0, text)
    value = emitter.value(e.args[0])
    return emitter.fresh(f"call i32 @{name}(i32 {value}) convergent")


def invoke(emitter, e):
    """Runs a kernel of the host's, which is inlined where it is run."""
    module, name = emitter.module, e.function.name
    if name not in module.loops:
        module.loops.add(name)
        module.add(e.function, "internal ")
    return emitter.fresh(f"call i32 @{name}({', '.join(map(emitter.typed, e.args))})")


def warp_barrier(emitter, s):
    """Waits for a warp's lanes; see `expr.WarpBarrier`."""
    name = emitter.module.declare(WARP_BARRIER, "void", "i32")
    emitter.lines.append(f"  call void @{name}(i32 -1)")


def atomic(emitter, s):
    """What becomes of an element whatever others do meanwhile; see `expr.Atomic`."""
    value, type = emitter.value(s.value), s.value.type
    memory = memory_name(type)
    if type.is_bool:
        value = emitter.fresh(f"zext {type_name(type)} {value} to {memory}")
    if type.name in HALVES:  # elsewhere they are carried as their bits
        memory = HALVES[type.name]
        value = emitter.fresh(f"bitcast i16 {value} to {memory}")
    step = "fadd" if type.is_float else "or" if type.is_bool else "add"
    if s.op == "max":
        step = "max" if type.is_signed else "umax"
    scope = 'syncscope("device") '
    if s.op == "or":
        step, scope = "or", ""
    given = f"ptr {emitter.address(s.pointer, s.index)}, {memory} {value}"
    emitter.fresh(f"atomicrmw {step} {given} {scope}monotonic")

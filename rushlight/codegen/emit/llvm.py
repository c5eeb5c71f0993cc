"""Renders functions as LLVM IR text for the host.

Only text is made here; `toolchain` turns it into machine code. A call to one of
`mathematics` becomes an internal, always inlined function, so that every kernel
carries the maths it uses and LLVM's vectoriser sees through it.
"""

import hashlib
import re
from dataclasses import replace

from rushlight.codegen.emit import llvm_groups, llvm_threads, llvm_tiles
from rushlight.codegen.emit.llvm_expressions import Expressions
from rushlight.codegen.emit.llvm_text import memory_name, type_name
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir import threads
from rushlight.ir.rewrite import bodies_of

# Arrays of a kernel that take more than this are not on the stack: threads may have
# little of it.
STACK_BYTES = 12 * 1024
# What vector registers hold: such arrays become those, where they lie on the stack.
REGISTER_BYTES = 2048
SCRATCH = """\
  %.scratch = call noalias align 64 ptr @rushlight_scratch(i64 {size})
  %.scratch.none = icmp eq ptr %.scratch, null
  br i1 %.scratch.none, label %scratch.missing, label %entry
scratch.missing:
  ret i32 {fault}
entry:"""

# Vectors in part, where the processor has no masks: the lanes one after another, in a
# function, so that the code stays as short as it is seldom run.
_NEXT_LANE = """\
  br label %head
head:
  %left = phi {bits} [%mask, %entry], [%rest, %body]
  %more = icmp ne {bits} %left, 0
  br i1 %more, label %body, label %exit
body:
  %first = call {bits} @{count}({bits} %left, i1 true)
  %lane = {step}
"""
_LATER_LANES = """\
  %less = sub {bits} %left, 1
  %rest = and {bits} %left, %less
  br label %head
exit:
"""
LOAD_SOME = (
    """\
define internal {vector} @{name}(ptr %from, {bits} %mask) noinline nounwind {{
entry:
  %room = alloca {vector}, align 64
  store {vector} zeroinitializer, ptr %room
"""
    + _NEXT_LANE
    + """\
  %source = getelementptr {element}, ptr %from, i64 %lane
  %value = load {element}, ptr %source, align 1
  %target = getelementptr {element}, ptr %room, i64 %lane
  store {element} %value, ptr %target
"""
    + _LATER_LANES
    + """\
  %result = load {vector}, ptr %room
  ret {vector} %result
}}
"""
)
STORE_SOME = (
    """\
define internal void @{name}(ptr %to, {bits} %mask, {vector} %values) noinline nounwind {{
entry:
  %room = alloca {vector}, align 64
  store {vector} %values, ptr %room
"""
    + _NEXT_LANE
    + """\
  %source = getelementptr {element}, ptr %room, i64 %lane
  %value = load {element}, ptr %source
  %target = getelementptr {element}, ptr %to, i64 %lane
  store {element} %value, ptr %target, align 1
"""
    + _LATER_LANES
    + """\
  ret void
}}
"""
)

# First line of a module whose loops are to stay as written: vectors are explicit, so
# that the few passes that clean up code suffice.
AS_WRITTEN = "; loops as written\n"
REPEATS = f"{AS_WRITTEN}; that carry equal values\n"  # which a further pass finds
FEWEST = 4  # the elements that are worth a vector
SHARED, GLOBAL = "ptr addrspace(3)", "ptr addrspace(1)"
BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
ATTRIBUTES = 'nounwind "no-builtins" "prefer-vector-width"="512"'


def emit(*functions: ir.Function) -> str:
    """The LLVM IR text, for the current target, of these functions and all they call."""
    final = all(_is_rolled(function.body) for function in functions)
    module = _Module(current(), final=final)
    for function in functions:
        module.add(function, "")
    repeats = any(function.repeats for function in functions)
    head = REPEATS if repeats else AS_WRITTEN
    return (head if final else "") + module.text()


def _is_rolled(body):
    """Whether every loop asks to be left as it is."""
    return all(
        (not isinstance(s, ir.For) or s.kind == "rolled")
        and all(map(_is_rolled, bodies_of(s)))
        for s in body
    )


class _Module:
    """Collects function bodies, declarations and metadata of one module.

    Its loops may be ``final``: nobody turns what is scalar into vectors later.
    """

    def __init__(self, target, scratch=True, final=False):
        self.target, self.final = target, final
        self.bodies, self.declarations, self.metadata = [], {}, []
        self.helpers, self.loops, self.shared = {}, set(), []
        self.scratch = scratch

    def add(self, function, linkage):
        if function.distinct and not function.grid:
            function, start = self.separate(function)
            self.bodies.append(_Emitter(self, function).text(linkage, start))
        else:
            self.bodies.append(_Emitter(self, function).text(linkage))

    def separate(self, function):
        """Moves a kernel's body behind parameters that promise distinct memory.

        LLVM believes ``noalias`` of a parameter only; inlining then carries it on.
        """
        pointers = []
        for statement in function.body:
            if not isinstance(statement, ir.Let) or not isinstance(
                statement.var.type, ir.Pointer
            ):
                break
            pointers.append(statement)
        parameters = (*(s.var for s in pointers), *function.parameters[1:])
        inner = replace(
            function,
            name=f"{function.name}.body",
            parameters=parameters,
            body=function.body[len(pointers) :],
        )
        self.bodies.append(_Emitter(self, inner).text("internal "))
        return function.with_body(pointers), inner

    def declare(self, name, result, *parameters):
        self.declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"
        return name

    def note(self, text):
        """A metadata node; ``{self}`` stands for its own number."""
        self.metadata.append(text.replace("{self}", f"!{len(self.metadata)}"))
        return f"!{len(self.metadata) - 1}"

    def helper(self, name, types):
        """The module's own copy of a mathematical function for these types."""
        from rushlight.codegen import math

        mangled = "_".join([name, *map(str, types)])
        if mangled not in self.helpers:
            function = math.definition(name, types, self.target)
            self.helpers[mangled] = function
            self.bodies.append(_helper_text(self, mangled, function))
        return mangled, self.helpers[mangled].result

    def table(self, element, lanes):
        """The array in memory that holds the lanes of a constant vector.

        Named by what it holds: the text of a helper serves several modules.
        """
        name = f"table.{hashlib.sha256(lanes.encode()).hexdigest()[:16]}"
        count = lanes.count(",") + 1
        self.declarations[name] = (
            f"@{name} = private unnamed_addr constant [{count} x {element}] "
            f"[{lanes[1:-1]}], align 64"
        )
        return name

    def lane_loop(self, verb, element, lanes):
        """The function that loads or stores some lanes of a vector, one after another."""
        name = f"{verb}_some_v{lanes}{element}"
        if name not in self.loops:
            self.loops.add(name)
            count = self.declare(f"llvm.cttz.i{lanes}", f"i{lanes}", f"i{lanes}", "i1")
            form = LOAD_SOME if verb == "load" else STORE_SOME
            self.bodies.append(
                form.format(
                    name=name,
                    vector=f"<{lanes} x {element}>",
                    element=element,
                    bits=f"i{lanes}",
                    count=count,
                    step=_widened(lanes),
                )
            )
        return name

    def text(self):
        notes = [f"!{n} = distinct !{{{t}}}" for n, t in enumerate(self.metadata)]
        head = [*self.declarations.values(), *self.shared]
        parts = [*head, "", *self.bodies, *notes]
        return "\n".join(parts) + "\n"


def _widened(lanes):
    """How a lane's number becomes an index."""
    if lanes == 64:
        return "add i64 %first, 0"
    return f"{'zext' if lanes < 64 else 'trunc'} i{lanes} %first to i64"


def _is_rare(function):
    """Whether a function stands behind a branch, and not in a loop yet to be widened."""
    from rushlight.codegen.math import RARE

    return function.name in RARE and function.result.lanes > 1


_helper_cache: dict = {}


def _helper_text(module, mangled, function):
    """A helper's body; the same text serves every module of the process."""
    key = module.target.identity, module.final, mangled
    if key not in _helper_cache:
        alone = _Module(module.target, final=module.final)
        body = _Emitter(alone, function, mangled).text("internal ")
        needs = [
            (f.name, tuple(p.type for p in f.parameters))
            for f in alone.helpers.values()
        ]
        _helper_cache[key] = body, alone.declarations, needs
    body, declarations, needs = _helper_cache[key]
    module.declarations.update(declarations)
    for name, types in needs:
        module.helper(name, types)
    return body


class _Emitter(Expressions):
    """Writes one function, statement by statement, into basic blocks."""

    attributes = ATTRIBUTES

    def __init__(self, module, function, name=None):
        self.module, self.function = module, function
        self.name = name or function.name
        self.lines, self.allocas, self.count = [], [], 0
        # bytes of arrays that lie in the thread's scratch memory now and at most, and their
        # addresses: blocks that follow each other have the same room
        self.lends, self.lent, self.most_lent, self.lent_arrays = False, 0, 0, []
        self.stacked = 0
        self.room = {}  # where a block's arrays lie in what a launch gives it, in bytes
        self.scope, self.mutable = {}, {}
        self.loops, self.groups, self.memo, self.halves = [], [], {}, {}
        self.rows = {}  # of tables: where those of an index lie, and their columns
        self.used, self.label, self.ended = set(), "entry", False

    def text(self, linkage, callee=None):
        function = self.function
        result = "i32" if function.result is None else type_name(function.result)
        if function.grid:
            linkage, result = "ptx_kernel ", "void"
            llvm_groups.name_room(self)
        self.lends = function.result is None and self.module.scratch
        self.lends = self.lends and array_bytes(function.body) > STACK_BYTES
        parameters = []
        for var in function.parameters:
            parameters.append(f"{self.parameter(var)} {self.bind(var)}")
        if callee is None:
            self.body(function.body)
        else:
            self.forward(function.body, callee)
        if function.result is None and not self.ended:
            self.lines.append("  ret void" if function.grid else "  ret i32 0")
        start = ["entry:", *self.allocas]
        if self.lends:
            self.module.declare("rushlight_scratch", "noalias ptr", "i64")
            lend = SCRATCH.format(size=self.most_lent, fault=ir.OUT_OF_MEMORY)
            start = ["scratch.start:", *self.allocas, lend, *self.lent_arrays]
        inline = "alwaysinline " if linkage and not function.grid else ""
        if inline and _is_rare(function):
            inline = "noinline cold "
        return "\n".join(
            [
                f"define {linkage}{result} @{self.name}({', '.join(parameters)}) "
                f"{inline}{self.attributes} {{",
                *start,
                *self.lines,
                "}",
                "",
            ]
        )

    def forward(self, pointers, callee):
        """Loads the base pointers and calls the function that does the work."""
        for statement in pointers:
            self.let(statement)
        arguments = ", ".join(map(self.typed, callee.parameters))
        self.lines.append(f"  %faults = call i32 @{callee.name}({arguments})")
        self.lines.append("  ret i32 %faults")
        self.ended = True

    def parameter(self, var):
        if self.function.result is None and var.name == "ints":
            return "ptr noalias readonly"
        is_pointer = type_name(var.type) == "ptr"
        if self.function.distinct and var.name != "data" and is_pointer:
            return "ptr noalias"
        return type_name(var.type)

    # Names and blocks

    def bind(self, var):
        name = re.sub(r"[^A-Za-z0-9_.]", "_", var.name) or "v"
        while name in self.used:
            self.count += 1
            name = f"{name.split('.')[0]}.{self.count}"
        self.used.add(name)
        self.scope[var.name] = f"%{name}"
        return f"%{name}"

    def fresh(self, instruction):
        self.count += 1
        self.lines.append(f"  %.{self.count} = {instruction}")
        return f"%.{self.count}"

    def new_label(self, stem):
        self.count += 1
        return f"{stem}.{self.count}"

    def start(self, label):
        self.lines.append(f"{label}:")
        self.label, self.ended, self.memo, self.rows = label, False, {}, {}

    def jump(self, label):
        if not self.ended:
            self.lines.append(f"  br label %{label}")
            self.ended = True

    def branch(self, condition, yes, no):
        value = self.value(condition)
        self.lines.append(f"  br i1 {value}, label %{yes}, label %{no}")
        self.ended = True

    def body(self, statements):
        scope, mutable, lent = dict(self.scope), dict(self.mutable), self.lent
        for statement in statements:
            if self.ended:
                break
            self.memo = {}
            STATEMENTS[type(statement)](self, statement)
        self.scope, self.mutable, self.lent = scope, mutable, lent

    # Statements

    def let(self, s):
        self.scope[s.var.name] = self.value(s.value)
        self.mutable.pop(s.var.name, None)
        self.halves[s.var.name] = self.half_of(s.value)

    def declare(self, s):
        value = self.value(s.value)
        address = self.bind(s.var)
        self.allocas.append(f"  {address} = alloca {type_name(s.var.type)}")
        self.mutable[s.var.name], self.halves[s.var.name] = address, None
        self.lines.append(f"  store {type_name(s.var.type)} {value}, ptr {address}")

    def assign(self, s):
        address = self.mutable[s.var.name]
        value = self.value(s.value)
        self.lines.append(f"  store {type_name(s.var.type)} {value}, ptr {address}")

    def array(self, s):
        address = self.bind(s.var)
        if s.shared and s.var.name in self.room:
            place = f"ptr addrspacecast ({SHARED} @{self.name}_room to ptr)"
            offset = f"getelementptr i8, {place}, i64 {self.room[s.var.name]}"
            self.lines.append(f"  {address} = {offset}")
            return
        if s.shared:
            name = f"@{self.name}.{address[1:]}"
            element = memory_name(s.var.type.element)
            self.module.shared.append(
                f"{name} = internal addrspace(3) global [{s.size} x {element}] "
                f"poison, align {s.alignment}"
            )
            self.scope[s.var.name] = f"addrspacecast (ptr addrspace(3) {name} to ptr)"
            return
        bytes = bytes_of(s)
        on_stack = bytes <= REGISTER_BYTES and self.stacked + bytes <= STACK_BYTES
        if self.lends and not on_stack:
            place = f"getelementptr inbounds i8, ptr %.scratch, i64 {self.lent}"
            self.lent_arrays.append(f"  {address} = {place}")
            self.lent += bytes
            self.most_lent = max(self.most_lent, self.lent)
            return
        self.stacked += bytes
        self.allocas.append(
            f"  {address} = alloca [{s.size} x {memory_name(s.var.type.element)}], "
            f"align {s.alignment}"
        )

    def store(self, s):
        value, type = self.value(s.value), s.value.type
        if type.is_bool:
            value = self.fresh(f"zext {type_name(type)} {value} to {memory_name(type)}")
        align = s.alignment or s.pointer.type.element.itemsize
        memory = memory_name(type)
        address = self.address(s.pointer, s.index)
        if s.index.type.lanes > 1:
            return self.scatter(s, value, memory, address, align)
        if s.mask is not None and not self.masks(type):
            return self.some_lanes("store", type, address, s.mask, value)
        if s.mask is not None:
            mask = self.value(s.mask)
            lanes = f"<{type.lanes} x i1>"
            name = self.module.declare(
                f"llvm.masked.store.{self.memory_suffix(type)}.p0",
                "void",
                memory,
                "ptr",
                lanes,
            )
            self.lines.append(
                f"  call void @{name}({memory} {value}, ptr align "
                f"{align} {address}, {lanes} {mask}){self.access()}"
            )
            return None
        hint = f", !nontemporal {self.module.note('i32 1')}" if s.streaming else ""
        self.lines.append(
            f"  store {memory} {value}, ptr {address}, align {align}"
            f"{hint}{self.access()}"
        )
        return None

    def scatter(self, s, value, memory, address, align):
        lanes = s.value.type.lanes
        mask = "splat (i1 true)" if s.mask is None else self.value(s.mask)
        name = self.module.declare(
            f"llvm.masked.scatter.{self.memory_suffix(s.value.type)}.v{lanes}p0",
            "void",
            memory,
            f"<{lanes} x ptr>",
            f"<{lanes} x i1>",
        )
        self.lines.append(
            f"  call void @{name}({memory} {value}, <{lanes} x ptr> align {align} "
            f"{address}, <{lanes} x i1> {mask}){self.access()}"
        )

    def barrier(self, s):
        name = self.module.declare(BARRIER, "void", "i32")
        self.lines.append(f"  call void @{name}(i32 0)")
        self.memo = {}

    def copy(self, s):
        """A copy of 16 bytes beside what the thread does; see `expr.CopyAsync`."""
        target = self.fresh(
            f"addrspacecast ptr {self.address(s.pointer, s.index)} to {SHARED}"
        )
        source = self.fresh(
            f"addrspacecast ptr {self.address(s.source, s.place)} to {GLOBAL}"
        )
        size = self.fresh(f"trunc i64 {self.value(s.bytes)} to i32")
        name = "llvm.nvvm.cp.async.cg.shared.global.16.s"
        self.module.declare(name, "void", SHARED, GLOBAL, "i32")
        self.lines.append(
            f"  call void @{name}({SHARED} {target}, {GLOBAL} {source}, i32 {size})"
        )

    def commit(self, s):
        name = self.module.declare("llvm.nvvm.cp.async.commit.group", "void")
        self.lines.append(f"  call void @{name}()")

    def await_(self, s):
        name = self.module.declare("llvm.nvvm.cp.async.wait.group", "void", "i32")
        self.lines.append(f"  call void @{name}(i32 {s.pending})")
        self.memo = {}

    def prefetch(self, s):
        name = self.module.declare(
            "llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32"
        )
        address, near = self.address(s.pointer, s.index), 4 - s.level
        self.lines.append(
            f"  call void @{name}(ptr {address}, i32 0, i32 {near}, i32 1)"
        )

    def loop(self, s):
        start, stop = self.value(s.start), self.value(s.stop)
        step = self.value(s.step)
        head, body, latch, exit = map(self.new_label, ("head", "body", "next", "exit"))
        outer = self.scope.get(s.var.name), self.mutable.pop(s.var.name, None)
        type = type_name(s.var.type)
        # A final loop asks at its end whether it goes on, as processors like it: nobody
        # turns it later.
        transposed = self.module.final
        if transposed:
            some = self.fresh(f"icmp slt {type} {start}, {stop}")
            self.lines.append(f"  br i1 {some}, label %{head}, label %{exit}")
            self.ended = True
            entered, self.label = self.label, head
        else:
            self.jump(head)
            entered = self.label
        self.start(head)
        index = self.bind(s.var)
        following = f"{index}.next"
        self.lines.append(
            f"  {index} = phi {type} [{start}, %{entered}], [{following}, %{latch}]"
        )
        if not transposed:
            more = self.fresh(f"icmp slt {type} {index}, {stop}")
            self.lines.append(f"  br i1 {more}, label %{body}, label %{exit}")
            self.start(body)
        note = self.loop_note(s.kind, counted(s))
        self.loops.append((latch, exit))
        self.body(s.body)
        self.loops.pop()
        if s.kind in ("vectorized", "parallel"):
            self.groups.pop()
        self.jump(latch)
        self.start(latch)
        self.lines.append(f"  {following} = add nsw {type} {index}, {step}")
        if transposed:
            more = self.fresh(f"icmp slt {type} {following}, {stop}")
            self.lines.append(f"  br i1 {more}, label %{head}, label %{exit}{note}")
            self.ended = True
        else:
            self.lines.append(f"  br label %{head}{note}")
        self.start(exit)
        self.scope[s.var.name] = outer[0]
        if outer[1]:
            self.mutable[s.var.name] = outer[1]

    def loop_note(self, kind, count):
        note = self.module.note
        if kind == "unrolled":
            full = note('!"llvm.loop.unroll.full"')
            return f", !llvm.loop {note(f'{{self}}, {full}')}"
        if kind == "serial":
            return ""
        if kind == "rolled":
            plain = note('!"llvm.loop.vectorize.enable", i1 false')
            whole = note('!"llvm.loop.unroll.disable"')
            return f", !llvm.loop {note(f'{{self}}, {plain}, {whole}')}"
        group = note("")
        self.groups.append(group)
        accesses = note(f'!"llvm.loop.parallel_accesses", {group}')
        few = count is not None and count < FEWEST
        if few or self.module.target.is_gpu:  # LLVM would say that it cannot
            return f", !llvm.loop {note(f'{{self}}, {accesses}')}"
        enable = note('!"llvm.loop.vectorize.enable", i1 true')
        if (
            count is not None
        ):  # else LLVM unrolls a short loop before it would vectorise it
            once = note('!"llvm.loop.unroll.disable"')
            enable = f"{enable}, {once}"
        return f", !llvm.loop {note(f'{{self}}, {accesses}, {enable}')}"

    def while_(self, s):
        head, body, exit = map(self.new_label, ("while", "body", "exit"))
        transposed = self.module.final
        if transposed:
            self.branch(s.condition, body, exit)
        else:
            self.jump(head)
            self.start(head)
            self.branch(s.condition, body, exit)
        self.start(body)
        self.loops.append((head, exit))
        self.body(s.body)
        self.loops.pop()
        self.jump(head)
        if transposed:
            self.start(head)
            self.branch(s.condition, body, exit)
        self.start(exit)

    def if_(self, s):
        then, otherwise, end = map(self.new_label, ("then", "else", "end"))
        self.branch(s.condition, then, otherwise if s.otherwise else end)
        self.start(then)
        self.body(s.then)
        self.jump(end)
        if s.otherwise:
            self.start(otherwise)
            self.body(s.otherwise)
            self.jump(end)
        self.start(end)

    def break_(self, s):
        self.jump(self.loops[-1][1])

    def continue_(self, s):
        self.jump(self.loops[-1][0])

    def return_(self, s):
        value = self.value(s.value)
        self.lines.append(f"  ret {type_name(s.value.type)} {value}")
        self.ended = True


def counted(s):
    """How often a loop to a known end runs, or no less than that; else None."""
    if not isinstance(s.stop, ir.Const):
        return None
    if not (isinstance(s.start, ir.Const) and isinstance(s.step, ir.Const)):
        return FEWEST
    return len(range(s.start.value, s.stop.value, s.step.value))


def bytes_of(array):
    """The size of an array, as its neighbour's alignment asks for."""
    return -(-array.size * array.var.type.element.itemsize // 64) * 64


def array_bytes(body):
    """What all arrays of a body take together."""
    total = 0
    for statement in body:
        if isinstance(statement, ir.Array):
            total += bytes_of(statement)
        total += sum(map(array_bytes, bodies_of(statement)))
    return total


STATEMENTS = {
    ir.Let: _Emitter.let,
    ir.Declare: _Emitter.declare,
    ir.Assign: _Emitter.assign,
    ir.Array: _Emitter.array,
    ir.Barrier: _Emitter.barrier,
    threads.WarpBarrier: llvm_threads.warp_barrier,
    threads.Atomic: llvm_threads.atomic,
    ir.CopyAsync: _Emitter.copy,
    ir.CommitCopies: _Emitter.commit,
    ir.AwaitCopies: _Emitter.await_,
    ir.ShowUnits: llvm_groups.show_units,
    ir.Store: _Emitter.store,
    ir.For: _Emitter.loop,
    ir.Prefetch: _Emitter.prefetch,
    ir.TileStep: llvm_tiles.tile_step,
    ir.While: _Emitter.while_,
    ir.If: _Emitter.if_,
    ir.Break: _Emitter.break_,
    ir.Continue: _Emitter.continue_,
    ir.Return: _Emitter.return_,
}

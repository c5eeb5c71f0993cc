"""Renders functions as LLVM IR text for the host.

Only text is made here; `toolchain` turns it into machine code. A call to one of
`mathematics` becomes an internal, always inlined function, so that every kernel
carries the maths it uses and LLVM's vectoriser sees through it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace

from rushlight.compiler import expr as ir
from rushlight.compiler.expr import boolean, i64
from rushlight.compiler.rewrite import bodies_of

# Operation -> LLVM instruction, for (float, signed, unsigned, bool) operands.
INSTRUCTIONS = {
    "add": ("fadd", "add", "add", "or"),
    "sub": ("fsub", "sub", "sub", "xor"),
    "mul": ("fmul", "mul", "mul", "and"),
    "div": ("fdiv", None, None, None),
    "and": (None, "and", "and", "and"),
    "or": (None, "or", "or", "or"),
    "xor": (None, "xor", "xor", "xor"),
    "shl": (None, "shl", "shl", None),
    "shr": (None, "ashr", "lshr", None),
    "eq": ("fcmp oeq", "icmp eq", "icmp eq", "icmp eq"),
    "ne": ("fcmp une", "icmp ne", "icmp ne", "icmp ne"),
    "lt": ("fcmp olt", "icmp slt", "icmp ult", "icmp ult"),
    "le": ("fcmp ole", "icmp sle", "icmp ule", "icmp ule"),
    "gt": ("fcmp ogt", "icmp sgt", "icmp ugt", "icmp ugt"),
    "ge": ("fcmp oge", "icmp sge", "icmp uge", "icmp uge"),
}
EXTREMES = {  # operation -> (float comparison, intrinsic for ints, bool instruction)
    "min": ("fcmp olt", "min", "and"), "max": ("fcmp ogt", "max", "or"),
    "fmin": ("fcmp olt", "min", "and"), "fmax": ("fcmp ogt", "max", "or"),
}
INTRINSICS = {  # function -> LLVM's name; all operands have the type of the result
    "sqrt": "sqrt", "fma": "fma", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "roundeven", "copysign": "copysign",
    "popcount": "ctpop",
}
HELPERS = ("floordiv", "mod", "tdiv", "rem")  # operations written in `mathematics`
TYPES = {"bool": "i1", "float16": "half", "bfloat16": "bfloat", "float32": "float",
         "float64": "double"}
# First line of a module whose loops are to stay as written: vectors are explicit, so
# that the few passes that clean up code suffice.
AS_WRITTEN = "; loops as written\n"
ATTRIBUTES = 'nounwind "no-builtins" "prefer-vector-width"="512"'


def emit(*functions: ir.Function) -> str:
    """The LLVM IR text of one module with these functions and all they call."""
    module = _Module()
    for function in functions:
        module.add(function, "")
    final = all(_is_rolled(function.body) for function in functions)
    return (AS_WRITTEN if final else "") + module.text()


def _is_rolled(body):
    """Whether every loop asks to be left as it is."""
    return all((not isinstance(s, ir.For) or s.kind == "rolled")
               and all(map(_is_rolled, bodies_of(s))) for s in body)


def type_name(type) -> str:
    """LLVM's spelling of a register type."""
    if isinstance(type, ir.Pointer):
        return "ptr"
    name = TYPES.get(type.name) or f"i{type.bits}"
    return name if type.lanes == 1 else f"<{type.lanes} x {name}>"


def memory_name(type) -> str:
    """LLVM's spelling of a type in memory, where a ``bool`` takes a byte."""
    if not isinstance(type, ir.Pointer) and type.is_bool:
        return "i8" if type.lanes == 1 else f"<{type.lanes} x i8>"
    return type_name(type)


def literal(type, value) -> str:
    """A constant in LLVM's syntax; floats by their bits."""
    if type.is_bool:
        text = "true" if value else "false"
    elif type.is_float:
        text = _float_bits(type.name, value)
    else:
        text = str(value)
    if type.lanes == 1:
        return text
    return f"splat ({type_name(type.scalar)} {text})"


def _float_bits(name, value):
    if name == "float16":
        return f"0xH{struct.pack('>e', value).hex().upper()}"
    if name == "float64":
        return f"0x{struct.pack('>d', value).hex().upper()}"
    try:
        rounded = struct.pack(">f", value)
    except OverflowError:
        rounded = struct.pack(">f", float("inf") if value > 0 else float("-inf"))
    if name == "bfloat16":
        return f"0xR{rounded[:2].hex().upper()}"
    return f"0x{struct.pack('>d', struct.unpack('>f', rounded)[0]).hex().upper()}"


def suffix(type) -> str:
    """A type as LLVM writes it inside an overloaded intrinsic's name."""
    if isinstance(type, ir.Pointer):
        return "p0"
    if type.is_float:
        name = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(
            type.name, "f64")
    else:
        name = f"i{type.bits}"
    return name if type.lanes == 1 else f"v{type.lanes}{name}"


class _Module:
    """Collects function bodies, declarations and metadata of one module."""

    def __init__(self):
        self.bodies, self.declarations, self.metadata = [], {}, []
        self.helpers = {}

    def add(self, function, linkage):
        if function.distinct:
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
                    statement.var.type, ir.Pointer):
                break
            pointers.append(statement)
        parameters = (*(s.var for s in pointers), *function.parameters[1:])
        inner = replace(function, name=f"{function.name}.body", parameters=parameters,
                        body=function.body[len(pointers):])
        self.bodies.append(_Emitter(self, inner).text("internal "))
        return function.with_body(pointers), inner

    def declare(self, name, result, *parameters):
        self.declarations[name] = (
            f"declare {result} @{name}({', '.join(parameters)})")
        return name

    def note(self, text):
        """A metadata node; ``{self}`` stands for its own number."""
        self.metadata.append(text.replace("{self}", f"!{len(self.metadata)}"))
        return f"!{len(self.metadata) - 1}"

    def helper(self, name, types):
        """The module's own copy of a mathematical function for these types."""
        from rushlight.compiler import mathematics
        mangled = "_".join([name, *map(str, types)])
        if mangled not in self.helpers:
            function = mathematics.definition(name, types)
            self.helpers[mangled] = function
            self.bodies.append(_helper_text(self, mangled, function))
        return mangled, self.helpers[mangled].result

    def text(self):
        notes = [f"!{n} = distinct !{{{t}}}" for n, t in enumerate(self.metadata)]
        parts = [*self.declarations.values(), "", *self.bodies, *notes]
        return "\n".join(parts) + "\n"


_helper_cache: dict = {}


def _helper_text(module, mangled, function):
    """A helper's body; the same text serves every module of the process."""
    if mangled not in _helper_cache:
        alone = _Module()
        body = _Emitter(alone, function, mangled).text("internal ")
        needs = [(f.name, tuple(p.type for p in f.parameters))
                 for f in alone.helpers.values()]
        _helper_cache[mangled] = body, alone.declarations, needs
    body, declarations, needs = _helper_cache[mangled]
    module.declarations.update(declarations)
    for name, types in needs:
        module.helper(name, types)
    return body


class _Emitter:
    """Writes one function, statement by statement, into basic blocks."""

    def __init__(self, module, function, name=None):
        self.module, self.function = module, function
        self.name = name or function.name
        self.lines, self.allocas, self.count = [], [], 0
        self.scope, self.mutable = {}, {}
        self.loops, self.groups, self.memo = [], [], {}
        self.used, self.label, self.ended = set(), "entry", False

    def text(self, linkage, callee=None):
        function = self.function
        result = "void" if function.result is None else type_name(function.result)
        parameters = []
        for var in function.parameters:
            parameters.append(f"{self.parameter(var)} {self.bind(var)}")
        if callee is None:
            self.body(function.body)
        else:
            self.forward(function.body, callee)
        if function.result is None and not self.ended:
            self.lines.append("  ret void")
        inline = "alwaysinline " if linkage else ""
        return "\n".join([
            f"define {linkage}{result} @{self.name}({', '.join(parameters)}) "
            f"{inline}{ATTRIBUTES} {{", "entry:", *self.allocas, *self.lines, "}", ""])

    def forward(self, pointers, callee):
        """Loads the base pointers and calls the function that does the work."""
        for statement in pointers:
            self.let(statement)
        arguments = ", ".join(map(self.typed, callee.parameters))
        self.lines.append(f"  call void @{callee.name}({arguments})")

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
        self.label, self.ended, self.memo = label, False, {}

    def jump(self, label):
        if not self.ended:
            self.lines.append(f"  br label %{label}")
            self.ended = True

    def branch(self, condition, yes, no):
        value = self.value(condition)
        self.lines.append(f"  br i1 {value}, label %{yes}, label %{no}")
        self.ended = True

    def body(self, statements):
        scope, mutable = dict(self.scope), dict(self.mutable)
        for statement in statements:
            if self.ended:
                break
            self.memo = {}
            STATEMENTS[type(statement)](self, statement)
        self.scope, self.mutable = scope, mutable

    # Statements

    def let(self, s):
        self.scope[s.var.name] = self.value(s.value)
        self.mutable.pop(s.var.name, None)

    def declare(self, s):
        value = self.value(s.value)
        address = self.bind(s.var)
        self.allocas.append(f"  {address} = alloca {type_name(s.var.type)}")
        self.mutable[s.var.name] = address
        self.lines.append(f"  store {type_name(s.var.type)} {value}, ptr {address}")

    def assign(self, s):
        address = self.mutable[s.var.name]
        value = self.value(s.value)
        self.lines.append(f"  store {type_name(s.var.type)} {value}, ptr {address}")

    def array(self, s):
        address = self.bind(s.var)
        self.allocas.append(
            f"  {address} = alloca [{s.size} x {memory_name(s.var.type.element)}], "
            f"align {s.alignment}")

    def store(self, s):
        value, type = self.value(s.value), s.value.type
        if type.is_bool:
            value = self.fresh(f"zext {type_name(type)} {value} to {memory_name(type)}")
        align = s.alignment or s.pointer.type.element.itemsize
        memory = memory_name(type)
        address = self.address(s.pointer, s.index)
        if s.index.type.lanes > 1:
            return self.scatter(s, value, memory, address, align)
        if s.mask is not None:
            mask = self.value(s.mask)
            lanes = f"<{type.lanes} x i1>"
            name = self.module.declare(
                f"llvm.masked.store.{self.memory_suffix(type)}.p0", "void", memory,
                "ptr", lanes)
            self.lines.append(f"  call void @{name}({memory} {value}, ptr align "
                              f"{align} {address}, {lanes} {mask}){self.access()}")
            return None
        hint = f", !nontemporal {self.module.note('i32 1')}" if s.streaming else ""
        self.lines.append(f"  store {memory} {value}, ptr {address}, align {align}"
                          f"{hint}{self.access()}")
        return None

    def scatter(self, s, value, memory, address, align):
        lanes = s.value.type.lanes
        mask = "splat (i1 true)" if s.mask is None else self.value(s.mask)
        name = self.module.declare(
            f"llvm.masked.scatter.{self.memory_suffix(s.value.type)}.v{lanes}p0",
            "void", memory, f"<{lanes} x ptr>", f"<{lanes} x i1>")
        self.lines.append(
            f"  call void @{name}({memory} {value}, <{lanes} x ptr> align {align} "
            f"{address}, <{lanes} x i1> {mask}){self.access()}")

    def prefetch(self, s):
        name = self.module.declare("llvm.prefetch.p0", "void", "ptr", "i32", "i32",
                                   "i32")
        address = self.address(s.pointer, s.index)
        self.lines.append(
            f"  call void @{name}(ptr {address}, i32 0, i32 3, i32 1)")

    def loop(self, s):
        start, stop = self.value(s.start), self.value(s.stop)
        step = self.value(s.step)
        head, body, latch, exit = map(self.new_label, ("head", "body", "next", "exit"))
        before = self.label
        outer = self.scope.get(s.var.name), self.mutable.pop(s.var.name, None)
        self.jump(head)
        self.start(head)
        index, type = self.bind(s.var), type_name(s.var.type)
        following = f"{index}.next"
        self.lines.append(f"  {index} = phi {type} [{start}, %{before}], "
                          f"[{following}, %{latch}]")
        more = self.fresh(f"icmp slt {type} {index}, {stop}")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{exit}")
        self.start(body)
        note = self.loop_note(s.kind, isinstance(s.stop, ir.Const))
        self.loops.append((latch, exit))
        self.body(s.body)
        self.loops.pop()
        if s.kind in ("vectorized", "parallel"):
            self.groups.pop()
        self.jump(latch)
        self.start(latch)
        self.lines.append(f"  {following} = add nsw {type} {index}, {step}")
        self.lines.append(f"  br label %{head}{note}")
        self.start(exit)
        self.scope[s.var.name] = outer[0]
        if outer[1]:
            self.mutable[s.var.name] = outer[1]

    def loop_note(self, kind, counted):
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
        enable = note('!"llvm.loop.vectorize.enable", i1 true')
        if counted:  # else LLVM unrolls a short loop before it would vectorise it
            once = note('!"llvm.loop.unroll.disable"')
            enable = f"{enable}, {once}"
        return f", !llvm.loop {note(f'{{self}}, {accesses}, {enable}')}"

    def while_(self, s):
        head, body, exit = map(self.new_label, ("while", "body", "exit"))
        self.jump(head)
        self.start(head)
        self.branch(s.condition, body, exit)
        self.start(body)
        self.loops.append((head, exit))
        self.body(s.body)
        self.loops.pop()
        self.jump(head)
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

    # Expressions

    def value(self, e):
        """The operand text of an expression; each node is written once a statement."""
        if isinstance(e, ir.Const):
            return literal(e.type, e.value)
        if isinstance(e, ir.Var):
            if e.name in self.mutable:
                return self.read(e)
            return self.scope[e.name]
        known = self.memo.get(id(e))
        if known is None:  # the node is kept too, so that its id is not reused
            known = self.memo[id(e)] = EXPRESSIONS[type(e)](self, e), e
        return known[0]

    def read(self, e):
        if isinstance(e.type, ir.Pointer) and e.name not in self.mutable:
            return self.scope[e.name]
        return self.fresh(f"load {type_name(e.type)}, ptr {self.mutable[e.name]}")

    def typed(self, e):
        return f"{type_name(e.type)} {self.value(e)}"

    def unary(self, e):
        (inner,) = e.args
        type = type_name(e.type)
        if e.op == "not":
            return self.fresh(f"xor {self.typed(inner)}, {literal_ones(e.type)}")
        if e.type.is_float:
            if e.op == "neg":
                return self.fresh(f"fneg {self.typed(inner)}")
            return self.intrinsic("fabs", e.type, self.typed(inner))
        if e.op == "neg":
            return self.fresh(f"sub {type} {literal(e.type, 0)}, {self.value(inner)}")
        if not e.type.is_signed:
            return self.value(inner)
        name = self.module.declare(f"llvm.abs.{suffix(e.type)}", type, type, "i1")
        return self.fresh(f"call {type} @{name}({self.typed(inner)}, i1 false)")

    def binary(self, e):
        left, right = e.args
        type = left.type
        if e.op in EXTREMES:
            return self.extreme(e.op, type, left, right)
        if e.op in HELPERS:
            return self.divide(e, type, left, right)
        name = INSTRUCTIONS[e.op][_kind(type)]
        if name is None:
            raise TypeError(f"{e.op} is not defined on {type}")
        return self.fresh(f"{name} {self.typed(left)}, {self.value(right)}")

    def extreme(self, op, type, left, right):
        compare, stem, logical = EXTREMES[op]
        if type.is_bool:
            return self.fresh(f"{logical} {self.typed(left)}, {self.value(right)}")
        if type.is_int:
            name = ("s" if type.is_signed else "u") + stem
            return self.intrinsic(name, type, self.typed(left), self.typed(right))
        # The picked side is the right one where either is NaN, as `vmaxps` does;
        # one more blend then keeps the left side's NaN, or drops the right side's.
        a, b, name = self.value(left), self.value(right), type_name(type)
        mask = type_name(boolean.like(type))
        keep = self.fresh(f"{compare} {name} {a}, {b}")
        picked = self.fresh(f"select {mask} {keep}, {name} {a}, {name} {b}")
        special = a if op in ("min", "max") else b
        isnan = self.fresh(f"fcmp uno {name} {special}, {special}")
        return self.fresh(f"select {mask} {isnan}, {name} {a}, {name} {picked}")

    def divide(self, e, type, left, right):
        """Divides; by a positive constant in place, otherwise through a helper."""
        divisor = right.value if isinstance(right, ir.Const) else 0
        if type.is_int and divisor > 0:
            if divisor & divisor - 1 == 0 and (
                    e.op in ("floordiv", "mod") or not type.is_signed):
                return self.divide_by_power(e.op, type, left, divisor)
            if e.op in ("tdiv", "rem") or not type.is_signed:
                sign = "s" if type.is_signed else "u"
                name = "div" if e.op in ("tdiv", "floordiv") else "rem"
                return self.fresh(
                    f"{sign}{name} {self.typed(left)}, {self.value(right)}")
        return self.helper(e.op, e.type, left, right)

    def divide_by_power(self, op, type, left, divisor):
        if op in ("mod", "rem"):
            return self.fresh(
                f"and {self.typed(left)}, {literal(type, divisor - 1)}")
        shift = "ashr" if type.is_signed else "lshr"
        amount = literal(type, divisor.bit_length() - 1)
        return self.fresh(f"{shift} {self.typed(left)}, {amount}")

    def intrinsic(self, name, type, *operands):
        spelled = type_name(type)
        full = self.module.declare(f"llvm.{name}.{suffix(type)}", spelled,
                                   *[spelled] * len(operands))
        return self.fresh(f"call {spelled} @{full}({', '.join(operands)})")

    def helper(self, name, type, *args):
        mangled, _ = self.module.helper(name, tuple(arg.type for arg in args))
        operands = ", ".join(self.typed(arg) for arg in args)
        return self.fresh(f"call {type_name(type)} @{mangled}({operands})")

    def call(self, e):
        if e.name in INTRINSICS:
            return self.intrinsic(INTRINSICS[e.name], e.type, *map(self.typed, e.args))
        if e.name in SPECIAL_CALLS:
            return SPECIAL_CALLS[e.name](self, e)
        return self.helper(e.name, e.type, *e.args)

    def machine_division(self, e):
        """The instruction itself, which traps; only `mathematics.division` uses it."""
        left, right = e.args
        sign = "s" if e.type.is_signed else "u"
        name = sign + e.name.removeprefix("machine_")
        return self.fresh(f"{name} {self.typed(left)}, {self.value(right)}")

    def isnan(self, e):
        (inner,) = e.args
        return self.fresh(f"fcmp uno {self.typed(inner)}, {self.value(inner)}")

    def rarely(self, e):
        """A choice whose first side is computed only if some lane asks for it."""
        condition, rare, common = e.args
        if e.type.lanes == 1:  # LLVM's vectoriser may be about to widen this
            return self.value(ir.Select(condition, rare, common))
        wanted, usual = self.value(condition), self.value(common)
        then, end, type = self.new_label("rare"), self.new_label("end"), e.type
        lanes = f"i{type.lanes}"
        mask = self.fresh(f"bitcast {type_name(condition.type)} {wanted} to {lanes}")
        asked = self.fresh(f"icmp ne {lanes} {mask}, 0")
        self.lines.append(f"  br i1 {asked}, label %{then}, label %{end}")
        before, memo = self.label, self.memo
        self.start(then)
        self.memo = dict(memo)
        mixed = self.value(ir.Select(condition, rare, common))
        inside = self.label
        self.jump(end)
        self.start(end)
        self.memo = memo
        return self.fresh(f"phi {type_name(type)} [{usual}, %{before}], "
                          f"[{mixed}, %{inside}]")

    def count_zeros(self, e):
        stem = {"leading_zeros": "ctlz", "trailing_zeros": "cttz"}[e.name]
        type = type_name(e.type)
        name = self.module.declare(f"llvm.{stem}.{suffix(e.type)}", type, type, "i1")
        return self.fresh(f"call {type} @{name}({self.typed(e.args[0])}, i1 false)")

    def reduce(self, e):
        """A horizontal reduction, halving the lanes each time: a fixed tree."""
        (vector,) = e.args
        op, lanes = e.name.removeprefix("reduce_"), vector.type.lanes
        current = vector
        while lanes > 1:
            lanes //= 2
            low = ir.Shuffle(range(lanes), current, current)
            high = ir.Shuffle(range(lanes, 2 * lanes), current, current)
            current = ir.Binary(op, low, high)
        return self.value(ir.Extract(0, current) if current.type.lanes > 1 else current)

    def dot_bf16(self, e):
        """``accumulator + a0 b0 + a1 b1`` over pairs of bfloat16 lanes."""
        accumulator, a, b = e.args
        lanes, result = e.type.lanes, type_name(e.type)
        pair = type_name(a.type)
        name = self.module.declare(f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}",
                                   result, result, pair, pair)
        operands = ", ".join(map(self.typed, (accumulator, a, b)))
        return self.fresh(f"call {result} @{name}({operands})")

    def cast(self, e):
        (inner,) = e.args
        return self.convert(self.value(inner), inner.type, e.type)

    def convert(self, value, source, target):
        """Converts in at most three machine steps, small floats through f32."""
        if source.name == target.name:
            return value
        for hop in _cast_hops(source, target):
            value, source = self.convert_once(value, source, hop), hop
        return value

    def convert_once(self, value, source, target):
        from_name, to_name = type_name(source), type_name(target)
        if target.is_bool:
            compare = "fcmp une" if source.is_float else "icmp ne"
            return self.fresh(f"{compare} {from_name} {value}, {literal(source, 0)}")
        if source.name == "float32" and target.name == "bfloat16":
            mangled, _ = self.module.helper("to_bfloat16", (source,))
            return self.fresh(f"call {to_name} @{mangled}({from_name} {value})")
        return self.fresh(
            f"{_cast_instruction(source, target)} {from_name} {value} to {to_name}")

    def reinterpret(self, e):
        (inner,) = e.args
        value = self.value(inner)
        before, after = type_name(inner.type), type_name(e.type)
        if before == after:
            return value
        return self.fresh(f"bitcast {before} {value} to {after}")

    def select(self, e):
        return self.fresh("select " + ", ".join(map(self.typed, e.args)))

    def address(self, pointer, index):
        base = self.value(pointer)
        element = memory_name(pointer.type.element)
        if isinstance(index, ir.Const) and index.value == 0 and index.type.lanes == 1:
            return base
        return self.fresh(
            f"getelementptr inbounds {element}, ptr {base}, {self.typed(index)}")

    def access(self):
        """Marks a memory access as free of carried dependences in its loops."""
        if not self.groups:
            return ""
        if len(self.groups) == 1:
            return f", !llvm.access.group {self.groups[0]}"
        return f", !llvm.access.group {self.module.note(', '.join(self.groups))}"

    def load(self, e):
        pointer, index = e.args[:2]
        type = e.type
        memory = memory_name(type)
        address = self.address(pointer, index)
        if index.type.lanes > 1 or e.mask is not None:
            value = self.masked_load(e, address, index.type.lanes > 1)
        else:
            value = self.fresh(f"load {memory}, ptr {address}, align {e.alignment}"
                               f"{self.access()}")
        if type.is_bool:
            zero = "0" if type.lanes == 1 else "zeroinitializer"
            value = self.fresh(f"icmp ne {memory} {value}, {zero}")
        return value

    def masked_load(self, e, address, gathers):
        lanes, memory = e.type.lanes, memory_name(e.type)
        mask = "splat (i1 true)" if e.mask is None else self.value(e.mask)
        kind, where, mark = ("load", "ptr", "p0")
        if gathers:
            kind, where, mark = "gather", f"<{lanes} x ptr>", f"v{lanes}p0"
        name = self.module.declare(
            f"llvm.masked.{kind}.{self.memory_suffix(e.type)}.{mark}", memory, where,
            f"<{lanes} x i1>", memory)
        return self.fresh(
            f"call {memory} @{name}({where} align {e.alignment} {address}, "
            f"<{lanes} x i1> {mask}, {memory} zeroinitializer){self.access()}")

    def memory_suffix(self, type):
        return suffix(ir.u8.like(type) if type.is_bool else type)

    def offset(self, e):
        pointer, count = e.args
        return self.fresh(f"getelementptr inbounds i8, ptr {self.value(pointer)}, "
                          f"{self.typed(count)}")

    def broadcast(self, e):
        (inner,) = e.args
        if isinstance(inner, ir.Const):
            return literal(e.type, inner.value)
        type = type_name(e.type)
        first = self.fresh(f"insertelement {type} poison, {self.typed(inner)}, i64 0")
        return self.fresh(f"shufflevector {type} {first}, {type} poison, "
                          f"<{e.lanes} x i32> zeroinitializer")

    def ramp(self, e):
        base, step = e.args
        scalar = type_name(base.type)
        zero = "{}.0" if base.type.is_float else "{}"
        steps = ", ".join(f"{scalar} {zero.format(lane)}" for lane in range(e.lanes))
        counts = f"<{steps}>"
        type = type_name(e.type)
        stride = self.value(ir.Broadcast(e.lanes, step))
        start = self.value(ir.Broadcast(e.lanes, base))
        mul, add = ("fmul", "fadd") if base.type.is_float else ("mul", "add")
        distance = self.fresh(f"{mul} {type} {stride}, {counts}")
        return self.fresh(f"{add} {type} {start}, {distance}")

    def extract(self, e):
        return self.fresh(f"extractelement {self.typed(e.args[0])}, i64 {e.lane}")

    def shuffle(self, e):
        left, right = e.args
        picks = ", ".join(f"i32 {lane}" for lane in e.lanes)
        mixed = self.fresh(f"shufflevector {self.typed(left)}, {self.typed(right)}, "
                           f"<{len(e.lanes)} x i32> <{picks}>")
        if len(e.lanes) > 1:
            return mixed
        return self.fresh(f"extractelement <1 x {type_name(e.type)}> {mixed}, i64 0")


def literal_ones(type):
    """All bits set."""
    text = "true" if type.is_bool else "-1"
    return text if type.lanes == 1 else f"splat ({type_name(type.scalar)} {text})"


def _kind(type):
    if type.is_float:
        return 0
    if type.is_bool:
        return 3
    return 1 if type.is_signed else 2


def _cast_hops(source, target):
    """The types to pass through: the machine has no direct way between some."""
    small = ("float16", "bfloat16")
    middle = ir.f32.like(source)
    hops = []
    if source.name in small and target.name != "float32" and not target.is_bool:
        hops.append(middle)
    elif target.name in small and source.name != "float32":
        hops.append(middle)
    if source.is_float and target.is_int and target.bits < 64:
        wide = target.bits == 32 and not target.is_signed
        hops.append((i64 if wide else ir.i32).like(target))
    if not hops or hops[-1].name != target.name:
        hops.append(target)
    return hops


def _cast_instruction(source, target):
    if source.is_float and target.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if target.is_signed else "fptoui"
    if target.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    if target.bits < source.bits:
        return "trunc"
    if target.bits == source.bits:
        return "bitcast"
    return "sext" if source.is_signed else "zext"


STATEMENTS = {
    ir.Let: _Emitter.let, ir.Declare: _Emitter.declare, ir.Assign: _Emitter.assign,
    ir.Array: _Emitter.array, ir.Store: _Emitter.store, ir.For: _Emitter.loop,
    ir.Prefetch: _Emitter.prefetch, ir.While: _Emitter.while_, ir.If: _Emitter.if_,
    ir.Break: _Emitter.break_, ir.Continue: _Emitter.continue_,
    ir.Return: _Emitter.return_,
}
EXPRESSIONS = {
    ir.Unary: _Emitter.unary, ir.Binary: _Emitter.binary, ir.Cast: _Emitter.cast,
    ir.Reinterpret: _Emitter.reinterpret, ir.Select: _Emitter.select,
    ir.Call: _Emitter.call, ir.Load: _Emitter.load, ir.Offset: _Emitter.offset,
    ir.Broadcast: _Emitter.broadcast, ir.Ramp: _Emitter.ramp,
    ir.Extract: _Emitter.extract, ir.Shuffle: _Emitter.shuffle,
}
SPECIAL_CALLS = {
    "machine_div": _Emitter.machine_division,
    "machine_rem": _Emitter.machine_division,
    "rarely": _Emitter.rarely, "isnan": _Emitter.isnan, "dot_bf16": _Emitter.dot_bf16,
    "leading_zeros": _Emitter.count_zeros, "trailing_zeros": _Emitter.count_zeros,
    **{f"reduce_{op}": _Emitter.reduce
       for op in ("add", "mul", "min", "max", "and", "or", "xor")},
}

"""Renders expressions as LLVM IR instructions, one register for each node."""

from rushlight.codegen.emit import llvm_dot, llvm_groups, llvm_threads
from rushlight.codegen.emit.llvm_tables import Tables
from rushlight.codegen.emit.llvm_text import (
    C_FUNCTIONS,
    EXTREMES,
    HELPERS,
    INSTRUCTIONS,
    INTRINSICS,
    as_bits,
    cast_hops,
    cast_instruction,
    kind_of,
    literal,
    literal_ones,
    memory_name,
    suffix,
    type_name,
)
from rushlight.ir import expr as ir
from rushlight.ir import threads
from rushlight.ir.expr import boolean

# Products of matrix units, by the type of the factors: the intrinsic, and its words.
UNITS = {
    "float16": ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "<2 x half>"),
    "bfloat16": ("llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32"),
    "float32": ("llvm.nvvm.mma.m16n8k8.row.col.tf32", "i32"),
}


class Expressions(Tables):
    """The part of the emitter that writes values.

    It works on the state of `llvm._Emitter`: ``lines`` of the current block, the
    ``scope`` of names, ``mutable`` locals by address, and the ``memo`` of nodes that
    the current statement has written.
    """

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

    def in_float32(self, e):
        """An operation on floats whose values are bits here: done in float32."""
        wide = [
            ir.cast(ir.f32, arg) if as_bits(arg.type.name) else arg for arg in e.args
        ]
        if isinstance(e, ir.Call):
            kind = ir.f32.like(e.type) if as_bits(e.type.name) else e.type
            return self.value(ir.cast(e.type, ir.Call(e.name, kind, *wide)))
        return self.value(ir.cast(e.type, e.rebuild(wide)))

    def place(self, e):
        register = {"thread": "tid", "block": "ctaid", "threads": "ntid"}.get(
            e.name, "nctaid"
        )
        name = self.module.declare(f"llvm.nvvm.read.ptx.sreg.{register}.x", "i32")
        narrow = self.fresh(f"call i32 @{name}()")
        return self.fresh(f"zext i32 {narrow} to i64")

    def exchange(self, e):
        """A value of another lane, word by word."""
        (value,) = e.args
        kind, text = type_name(e.type), self.value(value)
        wide = e.type.bits == 64
        words = "i64" if wide else "i32"
        if kind in ("float", "double"):
            text = self.fresh(f"bitcast {kind} {text} to {words}")
        elif kind != words:
            text = self.fresh(f"zext {kind} {text} to {words}")
        if wide:
            low = self.fresh(f"trunc i64 {text} to i32")
            shifted = self.fresh(f"lshr i64 {text}, 32")
            high = self.fresh(f"trunc i64 {shifted} to i32")
            parts = [
                self.fresh(f"zext i32 {self.other_lane(word, e.distance)} to i64")
                for word in (low, high)
            ]
            upper = self.fresh(f"shl i64 {parts[1]}, 32")
            text = self.fresh(f"or i64 {parts[0]}, {upper}")
        else:
            text = self.other_lane(text, e.distance)
        if kind in ("float", "double"):
            return self.fresh(f"bitcast {words} {text} to {kind}")
        if kind != words:
            return self.fresh(f"trunc {words} {text} to {kind}")
        return text

    def unit_product(self, e):
        """One sum of a warp's matrix product; the four calls of a lane become one."""
        kind, half = e.packed or e.args[0].type.name, len(e.args) == 16
        if e.packed:
            words = [self.value(a) for a in e.args[:-4]]
        else:
            words = [self.word(a) for a in e.args[:-4]]
        if half:
            words = [
                self.joined(low, high) for low, high in zip(words[::2], words[1::2])
            ]
        name, type = UNITS[kind]
        if type != "i32":
            words = [self.fresh(f"bitcast i32 {word} to {type}") for word in words]
        result = "{ float, float, float, float }"
        kinds = [type] * 6 + ["float"] * 4
        self.module.declare(name, result, *kinds)
        values = words + [self.value(a) for a in e.args[-4:]]
        args = ", ".join(f"{k} {v}" for k, v in zip(kinds, values, strict=True))
        all_of_it = self.fresh(f"call {result} @{name}({args})")
        return self.fresh(f"extractvalue {result} {all_of_it}, {e.place}")

    def unit_rows(self, e):
        """Words of blocks of shared memory, as a vector of four."""
        shared, result = "ptr addrspace(3)", "{ i32, i32, i32, i32 }"
        address = self.fresh(f"addrspacecast ptr {self.address(*e.args)} to {shared}")
        transposed = ".trans" if e.transposed else ""
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{transposed}.b16.p3"
        self.module.declare(name, result, shared)
        words = self.fresh(f"call {result} @{name}({shared} {address})")
        vector = "poison"
        for n in range(4):
            word = self.fresh(f"extractvalue {result} {words}, {n}")
            vector = self.fresh(
                f"insertelement <4 x i32> {vector}, i32 {word}, i64 {n}"
            )
        return vector

    def packed(self, e):
        """Two floats rounded to halves, as a word; the first is its lower half."""
        kind = "half" if e.name == "packed_float16" else "bfloat"
        low, high = map(self.value, e.args)
        pair = self.fresh(f"insertelement <2 x float> poison, float {low}, i64 0")
        pair = self.fresh(f"insertelement <2 x float> {pair}, float {high}, i64 1")
        halves = self.fresh(f"fptrunc <2 x float> {pair} to <2 x {kind}>")
        return self.fresh(f"bitcast <2 x {kind}> {halves} to i32")

    def exp2_approx(self, e):
        """Two to the power of a float, to some 2 ** -22 of it; zero where that is subnormal."""
        name = self.module.declare("llvm.nvvm.ex2.approx.ftz.f", "float", "float")
        return self.fresh(f"call float @{name}(float {self.value(e.args[0])})")

    def word(self, e):
        """The bits of a factor's value; those of a float as TF32."""
        if e.type == ir.f32:
            name = self.module.declare("llvm.nvvm.f2tf32.rna", "i32", "float")
            return self.fresh(f"call i32 @{name}(float {self.value(e)})")
        kind, text = type_name(e.type), self.value(e)
        return text if kind == "i16" else self.fresh(f"bitcast {kind} {text} to i16")

    def joined(self, low, high):
        """Two halves as a word."""
        parts = [self.fresh(f"zext i16 {part} to i32") for part in (low, high)]
        upper = self.fresh(f"shl i32 {parts[1]}, 16")
        return self.fresh(f"or i32 {parts[0]}, {upper}")

    def other_lane(self, word, distance):
        """A word of the lane whose number differs by one bit."""
        types = ["i32"] * 5
        name = self.module.declare("llvm.nvvm.shfl.sync.bfly.i32", *types)
        return self.fresh(
            f"call i32 @{name}(i32 -1, i32 {word}, i32 {distance}, i32 31)"
        )

    def unary(self, e):
        (inner,) = e.args
        if as_bits(e.type.name):
            return self.in_float32(e)
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
        if as_bits(type.name):
            return self.in_float32(e)
        if e.op in EXTREMES:
            return self.extreme(e.op, type, left, right)
        if e.op in HELPERS:
            return self.divide(e, type, left, right)
        name = INSTRUCTIONS[e.op][kind_of(type)]
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
        if self.module.target.is_gpu and type == ir.f32 and op in ("fmin", "fmax"):
            name = f"{stem}num"  # an instruction of its own
            return self.intrinsic(name, type, self.typed(left), self.typed(right))
        number = isinstance(right, ir.Const) and right.value == right.value
        if number and op in ("min", "max"):
            return self.extreme_of_constant(compare, left, right)
        # The picked side is the right one where either is NaN, as `vmaxps` does;
        # one more blend then keeps the left side's NaN, or drops the right side's.
        a, b, name = self.value(left), self.value(right), type_name(type)
        mask = type_name(boolean.like(type))
        keep = self.fresh(f"{compare} {name} {a}, {b}")
        picked = self.fresh(f"select {mask} {keep}, {name} {a}, {name} {b}")
        special = a if op in ("min", "max") else b
        isnan = self.fresh(f"fcmp uno {name} {special}, {special}")
        return self.fresh(f"select {mask} {isnan}, {name} {a}, {name} {picked}")

    def extreme_of_constant(self, compare, left, right):
        """The smaller or larger of a float and a number: a NaN is on the left, and stays.

        Where they are equal the number is taken, whose zero may have another sign; if it is
        none, either is, and one instruction picks its right side.
        """
        a, b, name = self.value(left), self.value(right), type_name(left.type)
        mask = type_name(boolean.like(left.type))
        if right.value == 0:
            keep = self.fresh(f"{compare.replace(' o', ' u')} {name} {a}, {b}")
            return self.fresh(f"select {mask} {keep}, {name} {a}, {name} {b}")
        keep = self.fresh(f"{compare} {name} {b}, {a}")
        return self.fresh(f"select {mask} {keep}, {name} {b}, {name} {a}")

    def divide(self, e, type, left, right):
        """Divides; by a positive constant in place, otherwise through a helper."""
        divisor = right.value if isinstance(right, ir.Const) else 0
        if type.is_int and divisor > 0:
            if divisor & divisor - 1 == 0 and (
                e.op in ("floordiv", "mod") or not type.is_signed
            ):
                return self.divide_by_power(e.op, type, left, divisor)
            if e.op in ("tdiv", "rem") or not type.is_signed:
                sign = "s" if type.is_signed else "u"
                name = "div" if e.op in ("tdiv", "floordiv") else "rem"
                return self.fresh(
                    f"{sign}{name} {self.typed(left)}, {self.value(right)}"
                )
        return self.helper(e.op, e.type, left, right)

    def divide_by_power(self, op, type, left, divisor):
        if op in ("mod", "rem"):
            return self.fresh(f"and {self.typed(left)}, {literal(type, divisor - 1)}")
        shift = "ashr" if type.is_signed else "lshr"
        amount = literal(type, divisor.bit_length() - 1)
        return self.fresh(f"{shift} {self.typed(left)}, {amount}")

    def intrinsic(self, name, type, *operands):
        spelled = type_name(type)
        full = self.module.declare(
            f"llvm.{name}.{suffix(type)}", spelled, *[spelled] * len(operands)
        )
        return self.fresh(f"call {spelled} @{full}({', '.join(operands)})")

    def helper(self, name, type, *args):
        mangled, _ = self.module.helper(name, tuple(arg.type for arg in args))
        operands = ", ".join(self.typed(arg) for arg in args)
        return self.fresh(f"call {type_name(type)} @{mangled}({operands})")

    def call(self, e):
        if any(as_bits(arg.type.name) for arg in e.args if arg.type.is_float):
            if e.name != "dot_bf16":
                return self.in_float32(e)
        if e.name in LACKING and not self.module.target.has(LACKING[e.name]):
            return self.helper(f"plain_{e.name}", e.type, *e.args)
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

    def of_c(self, e):
        """A function of the C library's mathematics, as other programs call it."""
        name = self.module.declare(
            e.name.removeprefix("c_"), "double", *["double"] * len(e.args)
        )
        return self.fresh(f"call double @{name}({', '.join(map(self.typed, e.args))})")

    def refused(self, e):
        """A value where nobody listens to what it refuses."""
        return self.value(e.args[0])

    def any_lane(self, e):
        (inner,) = e.args
        return self.some_lane(self.value(inner), inner.type.lanes)

    def some_lane(self, mask, lanes):
        """Whether a lane of a mask is true.

        Where masks are vectors as wide as what was compared, registers are joined as they
        are before their signs are taken: narrowing them first is several instructions.
        """
        target = self.module.target
        bits = 512 // lanes
        if target.has_masks or target.is_gpu or bits not in (8, 16, 32, 64):
            return self.some_bit(mask, lanes)
        joined = self.fresh(f"sext <{lanes} x i1> {mask} to <{lanes} x i{bits}>")
        while lanes * bits > 8 * target.vector_bytes:
            kind, lanes = f"<{lanes} x i{bits}>", lanes // 2
            low, high = (
                self.fresh(
                    f"shufflevector {kind} {joined}, {kind} poison, <{lanes} x i32> "
                    f"<{', '.join(f'i32 {first + k}' for k in range(lanes))}>"
                )
                for first in (0, lanes)
            )
            joined = self.fresh(f"or <{lanes} x i{bits}> {low}, {high}")
        if bits == 16:  # no instruction takes the signs of words
            joined = self.fresh(
                f"bitcast <{lanes} x i16> {joined} to <{2 * lanes} x i8>"
            )
            bits, lanes = 8, 2 * lanes
        signs = self.fresh(f"icmp slt <{lanes} x i{bits}> {joined}, zeroinitializer")
        return self.some_bit(signs, lanes)

    def some_bit(self, mask, lanes):
        """Whether a mask's bits, taken together, are more than zero."""
        whole = self.fresh(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        return self.fresh(f"icmp ne i{lanes} {whole}, 0")

    def isnan(self, e):
        (inner,) = e.args
        return self.fresh(f"fcmp uno {self.typed(inner)}, {self.value(inner)}")

    def rarely(self, e):
        """A choice whose first side is computed only if some lane asks for it."""
        condition, rare, common = e.args
        scalar = e.type.lanes == 1
        # a thread of a GPU has no registers for a branch's doubles beside its own
        short = self.module.target.is_gpu and e.type.scalar.bits <= 32
        alone = self.module.final or short
        if scalar and not alone:  # LLVM may be about to make it a vector
            return self.value(ir.Select(condition, rare, common))
        wanted, usual = self.value(condition), self.value(common)
        then, end, type = self.new_label("rare"), self.new_label("end"), e.type
        asked = wanted
        if not scalar:
            asked = self.some_lane(wanted, type.lanes)
        self.lines.append(f"  br i1 {asked}, label %{then}, label %{end}")
        before, memo, rows = self.label, self.memo, self.rows
        self.start(then)
        self.memo, self.rows = dict(memo), dict(rows)
        mixed = self.value(ir.Select(condition, rare, common))
        inside = self.label
        self.jump(end)
        self.start(end)
        self.memo, self.rows = memo, rows
        return self.fresh(
            f"phi {type_name(type)} [{usual}, %{before}], [{mixed}, %{inside}]"
        )

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

    def cast(self, e):
        (inner,) = e.args
        found = self.half_of(inner) if as_bits(e.type.name) else None
        if found is not None and found[0] == e.type:
            return found[1]
        return self.convert(self.value(inner), inner.type, e.type)

    def half_of(self, e):
        """The type and the value of the half float that a float32 is exactly, or None.

        One that was widened, of which the sign alone may be changed since: its bits are at
        hand, and need no rounding.
        """
        if isinstance(e, ir.Var):
            return self.halves.get(e.name)
        if isinstance(e, ir.Cast):
            (inner,) = e.args
            narrow = as_bits(inner.type.name) and e.type.name == "float32"
            return (inner.type, self.value(inner)) if narrow else None
        changes = isinstance(e, ir.Unary) and e.op in ("neg", "abs")
        if not changes and not (isinstance(e, ir.Call) and e.name == "copysign"):
            return None
        found = list(map(self.half_of, e.args))
        if None in found or len({half for half, _ in found}) > 1:
            return None
        (half, first), second = found[0], found[-1][1]
        kind = type_name(half)
        sign, rest = (literal(ir.u16.like(half), mask) for mask in (1 << 15, 0x7FFF))
        if changes and e.op == "neg":
            return half, self.fresh(f"xor {kind} {first}, {sign}")
        size = self.fresh(f"and {kind} {first}, {rest}")
        if changes:
            return half, size
        taken = self.fresh(f"and {kind} {second}, {sign}")
        return half, self.fresh(f"or {kind} {size}, {taken}")

    def convert(self, value, source, target):
        """Converts in at most three machine steps, small floats through f32."""
        if source.name == target.name:
            return value
        for hop in cast_hops(source, target):
            value, source = self.convert_once(value, source, hop), hop
        return value

    def convert_once(self, value, source, target):
        from_name, to_name = type_name(source), type_name(target)
        if target.is_bool:
            compare = "fcmp une" if source.is_float else "icmp ne"
            return self.fresh(f"{compare} {from_name} {value}, {literal(source, 0)}")
        if "float16" in (source.name, target.name) and self.module.target.has("halves"):
            return self.convert_half(value, source, target)
        if source.name == "float32" and as_bits(target.name):
            mangled, _ = self.module.helper(f"to_{target.name}", (source,))
            return self.fresh(f"call {to_name} @{mangled}({from_name} {value})")
        stored = target.name in ir.FLOAT8 or target.name == "float16"
        if source.name in ir.FLOAT8 or source.name == "float16" or stored:
            name = f"to_{target.name}" if stored else f"from_{source.name}"
            mangled, _ = self.module.helper(name, (source,))
            return self.fresh(f"call {to_name} @{mangled}({from_name} {value})")
        if source.name == "bfloat16":  # its bits are the upper half of a float's
            bits = type_name(ir.u32.like(source))
            upper = literal(ir.u32.like(source), 16)
            wide = self.fresh(f"zext {from_name} {value} to {bits}")
            shifted = self.fresh(f"shl {bits} {wide}, {upper}")
            return self.fresh(f"bitcast {bits} {shifted} to {to_name}")
        return self.fresh(
            f"{cast_instruction(source, target)} {from_name} {value} to {to_name}"
        )

    def convert_half(self, value, source, target):
        """Between float32 and a half's bits, by the processor's instructions."""
        lanes, wide = source.lanes, type_name(ir.f32.like(source))
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        bits = type_name(ir.f16.like(source))
        if target.name == "float16":
            narrow = self.fresh(f"fptrunc {wide} {value} to {half}")
            return self.fresh(f"bitcast {half} {narrow} to {bits}")
        narrow = self.fresh(f"bitcast {bits} {value} to {half}")
        return self.fresh(f"fpext {half} {narrow} to {wide}")

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
            f"getelementptr inbounds {element}, ptr {base}, {self.typed(index)}"
        )

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
        gathers = index.type.lanes > 1
        if e.mask is not None and not gathers and not self.masks(type):
            value = self.some_lanes("load", type, address, e.mask)
        elif gathers or e.mask is not None:
            value = self.masked_load(e, address, gathers)
        else:
            value = self.fresh(
                f"load {memory}, ptr {address}, align {e.alignment}{self.access()}"
            )
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
            f"llvm.masked.{kind}.{self.memory_suffix(e.type)}.{mark}",
            memory,
            where,
            f"<{lanes} x i1>",
            memory,
        )
        return self.fresh(
            f"call {memory} @{name}({where} align {e.alignment} {address}, "
            f"<{lanes} x i1> {mask}, {memory} zeroinitializer){self.access()}"
        )

    def masks(self, type):
        """Whether the processor moves elements of a type by a mask."""
        return self.module.target.masks(type.itemsize)

    def some_lanes(self, verb, type, address, mask, value=None):
        """Loads or stores the lanes that a mask picks, by a loop over them."""
        lanes = mask.type.lanes
        chosen = self.fresh(f"bitcast {self.typed(mask)} to i{lanes}")
        element = memory_name(type.scalar)
        name = self.module.lane_loop(verb, element, lanes)
        operands = f"ptr {address}, i{lanes} {chosen}"
        if verb == "load":
            return self.fresh(f"call <{lanes} x {element}> @{name}({operands})")
        operands = f"{operands}, <{lanes} x {element}> {value}"
        self.lines.append(f"  call void @{name}({operands})")
        return None

    def memory_suffix(self, type):
        return suffix(ir.u8.like(type) if type.is_bool else type)

    def offset(self, e):
        pointer, count = e.args
        return self.fresh(
            f"getelementptr inbounds i8, ptr {self.value(pointer)}, {self.typed(count)}"
        )

    def broadcast(self, e):
        (inner,) = e.args
        if isinstance(inner, ir.Const):
            return literal(e.type, inner.value)
        type = type_name(e.type)
        first = self.fresh(f"insertelement {type} poison, {self.typed(inner)}, i64 0")
        return self.fresh(
            f"shufflevector {type} {first}, {type} poison, "
            f"<{e.lanes} x i32> zeroinitializer"
        )

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
        mixed = self.fresh(
            f"shufflevector {self.typed(left)}, {self.typed(right)}, "
            f"<{len(e.lanes)} x i32> <{picks}>"
        )
        if len(e.lanes) > 1:
            return mixed
        return self.fresh(f"extractelement <1 x {type_name(e.type)}> {mixed}, i64 0")


EXPRESSIONS = {
    ir.Unary: Expressions.unary,
    ir.Binary: Expressions.binary,
    ir.Cast: Expressions.cast,
    ir.Reinterpret: Expressions.reinterpret,
    ir.Select: Expressions.select,
    ir.Rarely: Expressions.rarely,
    ir.Refused: Expressions.refused,
    ir.AnyLane: Expressions.any_lane,
    ir.Call: Expressions.call,
    ir.Place: Expressions.place,
    ir.Exchange: Expressions.exchange,
    threads.Match: llvm_threads.match,
    threads.Invoke: llvm_threads.invoke,
    ir.UnitProduct: Expressions.unit_product,
    ir.UnitRows: Expressions.unit_rows,
    ir.GroupProduct: llvm_groups.group_product,
    ir.AwaitProducts: llvm_groups.await_products,
    ir.Load: Expressions.load,
    ir.Offset: Expressions.offset,
    ir.Broadcast: Expressions.broadcast,
    ir.Ramp: Expressions.ramp,
    ir.Extract: Expressions.extract,
    ir.Shuffle: Expressions.shuffle,
}
# Functions that are one instruction where a target has it, and a helper's elsewhere.
LACKING = {"fma": "fma", **dict.fromkeys(("floor", "ceil", "trunc", "round"), "rounds")}
SPECIAL_CALLS = {
    "machine_div": Expressions.machine_division,
    "machine_rem": Expressions.machine_division,
    "isnan": Expressions.isnan,
    "dot_bf16": llvm_dot.dot_bf16,
    "dot_int8": llvm_dot.dot_int8,
    "dot_int16": llvm_dot.dot_int16,
    "dot_int7": llvm_dot.dot_int7,
    "packed_float16": Expressions.packed,
    "packed_bfloat16": Expressions.packed,
    "exp2_approx": Expressions.exp2_approx,
    "lookup": Expressions.lookup,
    **dict.fromkeys(C_FUNCTIONS, Expressions.of_c),
    "column": Expressions.column,
    "leading_zeros": Expressions.count_zeros,
    "trailing_zeros": Expressions.count_zeros,
    **{
        f"reduce_{op}": Expressions.reduce
        for op in ("add", "mul", "min", "max", "and", "or", "xor")
    },
}

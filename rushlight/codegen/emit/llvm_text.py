"""How types, literals and conversions are spelled in LLVM IR."""

import struct

from rushlight.ir import expr as ir
from rushlight.ir.expr import i64

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
    "min": ("fcmp olt", "min", "and"),
    "max": ("fcmp ogt", "max", "or"),
    "fmin": ("fcmp olt", "min", "and"),
    "fmax": ("fcmp ogt", "max", "or"),
}
INTRINSICS = {  # function -> LLVM's name; all operands have the type of the result
    "sqrt": "sqrt",
    "fma": "fma",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "copysign": "copysign",
    "popcount": "ctpop",
}
# Functions of float64 that are the C library's, for programs whose results are to be
# those of C to the last bit.
C_FUNCTIONS = [
    f"c_{name}"
    for name in (
        "exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh lgamma tgamma erf erfc fmod pow atan2 copysign"
    ).split()
]
HELPERS = ("floordiv", "mod", "tdiv", "rem")  # operations written in `mathematics`
TYPES = {
    "bool": "i1",
    # Narrow floats are carried as their bits, on every target: what they are converted
    # by is all that differs.
    "float16": "i16",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    **dict.fromkeys(ir.FLOAT8, "i8"),
}


def as_bits(name) -> bool:
    """Whether floats of a type are carried as integers and computed in float32."""
    return name in ("float16", "bfloat16")


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


def literals(constants) -> str:
    """The vector that constants are the lanes of."""
    element = constants[0].type.scalar
    lanes = (f"{type_name(element)} {literal(element, c.value)}" for c in constants)
    return f"<{', '.join(lanes)}>"


def _float_bits(name, value):
    if name == "float16":
        return str(_float16_bits(value))
    if name == "float64":
        return f"0x{struct.pack('>d', value).hex().upper()}"
    try:
        rounded = struct.pack(">f", value)
    except OverflowError:
        rounded = struct.pack(">f", float("inf") if value > 0 else float("-inf"))
    if name == "bfloat16":
        return str(_bfloat16_bits(int.from_bytes(rounded, "big"), value != value))
    return f"0x{struct.pack('>d', struct.unpack('>f', rounded)[0]).hex().upper()}"


def _float16_bits(value):
    """A half's bits as a signed number; what is too large becomes an infinity."""
    try:
        return struct.unpack(">h", struct.pack(">e", value))[0]
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00 - 0x10000


def _bfloat16_bits(bits, is_nan):
    """The upper half of a float's bits, rounded to even, as a signed number."""
    if is_nan:
        return 0x7FC0
    half = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return half - 0x10000 if half >= 0x8000 else half


def suffix(type) -> str:
    """A type as LLVM writes it inside an overloaded intrinsic's name."""
    if isinstance(type, ir.Pointer):
        return "p0"
    if type.is_float:
        name = {"float16": "i16", "bfloat16": "i16", "float32": "f32"}.get(
            type.name, "i8" if type.name in ir.FLOAT8 else "f64"
        )
    else:
        name = f"i{type.bits}"
    return name if type.lanes == 1 else f"v{type.lanes}{name}"


def literal_ones(type):
    """All bits set."""
    text = "true" if type.is_bool else "-1"
    return text if type.lanes == 1 else f"splat ({type_name(type.scalar)} {text})"


def kind_of(type):
    if type.is_float:
        return 0
    if type.is_bool:
        return 3
    return 1 if type.is_signed else 2


def cast_hops(source, target):
    """The types to pass through: the machine has no direct way between some."""
    small = ("float16", "bfloat16", *ir.FLOAT8)
    middle = ir.f32.like(source)
    hops = []
    if (
        (as_bits(source.name) or source.name in ir.FLOAT8)
        and target.is_bool
        or (source.name in small and target.name != "float32" and not target.is_bool)
    ):
        hops.append(middle)
    elif target.name in small and source.name != "float32":
        hops.append(middle)
    if source.is_float and target.is_int and target.bits < 64:
        wide = target.bits == 32 and not target.is_signed
        hops.append((i64 if wide else ir.i32).like(target))
    if not hops or hops[-1].name != target.name:
        hops.append(target)
    return hops


def cast_instruction(source, target):
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

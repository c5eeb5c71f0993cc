"""The intermediate representation: typed expressions and the loops around them.

Expressions are immutable trees (or graphs: a node may be shared) over scalars and
short vectors. Statements are frozen records; a body is a tuple of statements. Both
print as Python that the reference emitter can run.

>>> x = Var("x", f32)
>>> select(x > 0, x, x * 0.01)
select(x > 0.0, x, x * 0.01)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
FLOAT8 = {  # stored only: a value is cast to float32 before anything is done with it
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
}
SIGNED = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
WIDTHS = {"bool": 1, **FLOATS, **FLOAT8, **SIGNED, **UNSIGNED}
SHORT_NAMES = {
    "bool": "boolean",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
}


@dataclass(frozen=True)
class Type:
    """A machine scalar, or a short vector of ``lanes`` of them."""

    name: str
    lanes: int = 1

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS or self.name in FLOAT8

    @property
    def is_int(self) -> bool:
        """Whether this is an integer of any signedness; ``bool`` is not."""
        return self.name in SIGNED or self.name in UNSIGNED

    @property
    def is_signed(self) -> bool:
        return self.name in SIGNED

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def bits(self) -> int:
        return WIDTHS[self.name]

    @property
    def itemsize(self) -> int:
        """Bytes of one lane in memory; a ``bool`` is stored as one byte."""
        return max(8, self.bits) // 8

    @property
    def scalar(self) -> Type:
        return self if self.lanes == 1 else Type(self.name)

    def vector(self, lanes: int) -> Type:
        """The same element with another number of lanes."""
        return Type(self.name, lanes)

    def like(self, other: Type) -> Type:
        """This element with as many lanes as ``other``."""
        return Type(self.name, other.lanes)

    def __str__(self):
        short = SHORT_NAMES[self.name]
        return short if self.lanes == 1 else f"{short}x{self.lanes}"


@dataclass(frozen=True)
class Pointer:
    """The address of elements of one type."""

    element: Type | Pointer
    lanes = 1
    is_float = is_int = is_signed = is_bool = False
    itemsize = 8

    def __str__(self):
        return f"{self.element}*"


boolean, f16, bf16, f32, f64 = map(Type, ("bool", *FLOATS))
i8, i16, i32, i64 = map(Type, SIGNED)
u8, u16, u32, u64 = map(Type, UNSIGNED)


class Expr:
    """A typed value; arithmetic on one builds a larger expression.

    A Python number on either side takes the type of the expression beside it.
    ``==`` compares values as the compiled program will, so expressions hash by
    identity; `same` compares structure.
    """

    __slots__ = ("args", "type")
    __hash__ = object.__hash__
    attributes: tuple = ()

    def rebuild(self, args) -> Expr:
        """This node over other arguments."""
        return type(self)(*self.attributes, *args)

    def __bool__(self):
        raise TypeError(
            "a symbolic value has no truth at compile time; use select(condition, "
            "yes, no) for a choice made per element"
        )

    def __repr__(self):
        from rushlight.codegen.emit.python import render_expr

        return render_expr(self)

    def __add__(self, other):
        return binary("add", self, other)

    def __radd__(self, other):
        return binary("add", other, self)

    def __sub__(self, other):
        return binary("sub", self, other)

    def __rsub__(self, other):
        return binary("sub", other, self)

    def __mul__(self, other):
        return binary("mul", self, other)

    def __rmul__(self, other):
        return binary("mul", other, self)

    def __truediv__(self, other):
        return binary("div", self, other)

    def __rtruediv__(self, other):
        return binary("div", other, self)

    def __floordiv__(self, other):
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other):
        return binary("floordiv", other, self)

    def __mod__(self, other):
        return binary("mod", self, other)

    def __rmod__(self, other):
        return binary("mod", other, self)

    def __and__(self, other):
        return binary("and", self, other)

    def __rand__(self, other):
        return binary("and", other, self)

    def __or__(self, other):
        return binary("or", self, other)

    def __ror__(self, other):
        return binary("or", other, self)

    def __xor__(self, other):
        return binary("xor", self, other)

    def __rxor__(self, other):
        return binary("xor", other, self)

    def __lshift__(self, other):
        return binary("shl", self, other)

    def __rlshift__(self, other):
        return binary("shl", other, self)

    def __rshift__(self, other):
        return binary("shr", self, other)

    def __rrshift__(self, other):
        return binary("shr", other, self)

    def __eq__(self, other):
        return binary("eq", self, other)

    def __ne__(self, other):
        return binary("ne", self, other)

    def __lt__(self, other):
        return binary("lt", self, other)

    def __le__(self, other):
        return binary("le", self, other)

    def __gt__(self, other):
        return binary("gt", self, other)

    def __ge__(self, other):
        return binary("ge", self, other)

    def __neg__(self):
        return Unary("neg", self)

    def __pos__(self):
        return self

    def __invert__(self):
        return Unary("not", self)

    def __abs__(self):
        return Unary("abs", self)


class Const(Expr):
    """A literal; with lanes, the same literal in every lane."""

    __slots__ = ("value",)

    def __init__(self, type, value):
        self.type, self.args = type, ()
        self.value = _literal(type, value)

    @property
    def attributes(self):
        return self.type, self.value


class Var(Expr):
    """A named value: parameter, ``Let``, loop index or mutable local."""

    __slots__ = ("name",)

    def __init__(self, name, type):
        self.name, self.type, self.args = name, type, ()

    @property
    def attributes(self):
        return self.name, self.type


class _Operation(Expr):
    __slots__ = ("op",)

    @property
    def attributes(self):
        return (self.op,)


class Unary(_Operation):
    """``neg``, ``abs``, or ``not`` (logical on bool, bitwise on integers)."""

    __slots__ = ()

    def __init__(self, op, value):
        self.op, self.type, self.args = op, value.type, (value,)


BITWISE = ("and", "or", "xor", "shl", "shr")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Binary(_Operation):
    """An operation on two values of one type; a comparison gives ``bool``.

    ``div`` is exact float division, ``floordiv``/``mod`` round towards minus
    infinity, ``tdiv``/``rem`` towards zero (``rem`` of floats is C's ``fmod``).
    ``min``/``max`` return NaN where either side is NaN, ``fmin``/``fmax`` the
    other side.
    """

    __slots__ = ()

    def __init__(self, op, left, right):
        self.op, self.args = op, (left, right)
        compares = op in COMPARISONS
        self.type = boolean.like(left.type) if compares else left.type


class _Typed(Expr):
    __slots__ = ()

    @property
    def attributes(self):
        return (self.type,)


class Cast(_Typed):
    """A value converted as PyTorch does: floats truncate, ``bool`` is ``!= 0``."""

    __slots__ = ()

    def __init__(self, type, value):
        self.type, self.args = type, (value,)


class Reinterpret(_Typed):
    """The same bits read as another type of the same width."""

    __slots__ = ()

    def __init__(self, type, value):
        self.type, self.args = type, (value,)


class Select(Expr):
    """``yes`` where ``condition`` holds, else ``no``; both are evaluated."""

    __slots__ = ()

    def __init__(self, condition, yes, no):
        self.type, self.args = yes.type, (condition, yes, no)


class Rarely(Select):
    """A `Select` whose first side is seldom wanted: vectors compute it if a lane asks."""

    __slots__ = ()


class Refused(Expr):
    """A value, and a condition under which the kernel refuses its operands.

    ``name`` is a key of `FAULTS`.
    """

    __slots__ = ("name",)

    def __init__(self, name, value, condition):
        self.name, self.type, self.args = name, value.type, (value, condition)

    @property
    def attributes(self):
        return (self.name,)


class AnyLane(Expr):
    """Whether a condition holds in one lane of a vector, or in more."""

    __slots__ = ()

    def __init__(self, condition):
        self.type, self.args = boolean, (condition,)


class Folded(Expr):
    """What is computed at once where a rule of `rewrite` fires; only rules have it."""

    __slots__ = ()

    def __init__(self, value):
        self.type, self.args = value.type, (value,)


class Call(_Typed):
    """A named function: a machine intrinsic or one of `mathematics`."""

    __slots__ = ("name",)

    def __init__(self, name, type, *args):
        self.name, self.type, self.args = name, type, args

    @property
    def attributes(self):
        return self.name, self.type


class Along(Expr):
    """What a monoid makes of the values of a row: a leaf of its state, one for all of it.

    Those with one monoid and the same values are leaves of one state. It and the two
    below are the language of kernels over rows; none of them is left in the loops that
    are made of it.
    """

    __slots__ = ("leaf", "monoid")

    def __init__(self, monoid, leaf, *values):
        self.monoid, self.leaf = monoid, leaf
        self.type, self.args = monoid.types[leaf], values

    @property
    def attributes(self):
        return self.monoid, self.leaf

    @property
    def op(self):
        """The monoid's name."""
        return self.monoid.name


class At(Expr):
    """The value that an expression has at one position of each row."""

    __slots__ = ()

    def __init__(self, value, position):
        self.type, self.args = value.type, (value, position)


class Position(Expr):
    """The position along the row of each value."""

    __slots__ = ()

    def __init__(self):
        self.type, self.args = i64, ()


POSITIONS = ("thread", "block", "threads", "blocks")


class Place(Expr):
    """Where a thread of a grid is: its number in its block, its block's number.

    ``threads`` and ``blocks`` are how many there are, of a block and of the grid.
    """

    __slots__ = ("name",)

    def __init__(self, name):
        if name not in POSITIONS:
            raise ValueError(f"{name} is no place; there are {', '.join(POSITIONS)}")
        self.name, self.type, self.args = name, i64, ()

    @property
    def attributes(self):
        return (self.name,)


class Exchange(Expr):
    """The value that another lane of a warp has: the one whose number differs by a bit.

    Every lane of the warp must arrive at it.
    """

    __slots__ = ("distance",)

    def __init__(self, distance, value):
        self.distance, self.type, self.args = distance, value.type, (value,)

    @property
    def attributes(self):
        return (self.distance,)


class UnitProduct(Expr):
    """One of four sums of a lane: a warp's product of 16 rows and 8 columns by its units.

    The lane's share of the left factor (8 halves of a depth of 16, or 4 floats, rounded to
    TF32, of a depth of 8), of the right one (half as many) and of what is added (4 floats)
    lie as PTX says of ``mma.m16n8k16`` and ``mma.m16n8k8``. Every lane must arrive at it.

    Attributes:
        place: which of the four sums.
        packed: the type of the halves, where factors are words of two; else None.
    """

    __slots__ = ("packed", "place")

    def __init__(self, place, *values, packed=None):
        self.place, self.type, self.args = place, values[-1].type, values
        self.packed = packed

    @property
    def attributes(self):
        return self.place, self.packed

    def rebuild(self, args):
        return UnitProduct(self.place, *args, packed=self.packed)


class UnitRows(Expr):
    """A lane's words of four blocks of 8 rows and 8 halves, read from shared memory.

    Lane ``8 n + r`` says where row ``r`` of block ``n`` begins, and gets of each block the
    ``lane % 4``-th word of row ``lane // 4`` (PTX's ``ldmatrix``). A block that is
    ``transposed`` is transposed first. Every lane must arrive at it.
    """

    __slots__ = ("transposed",)

    def __init__(self, transposed, pointer, index):
        self.transposed, self.type, self.args = (
            transposed,
            u32.vector(4),
            (pointer, index),
        )

    @property
    def attributes(self):
        return (self.transposed,)


class GroupProduct(Expr):
    """A warpgroup asks its units to add a product to its sums, and goes on meanwhile.

    A group is 128 threads in order. They multiply 64 rows of the left factor and as many
    columns of the right one as a lane has twice sums, over a depth of 64 halves, as PTX
    says of ``wgmma`` with ``m64nNk16``. Both factors lie in shared memory, at multiples
    of 1,024 bytes: lines of 64 halves, a row's (or column's) along the depth, or where a
    factor is ``transposed`` a depth's along 64 rows, 64 such lines before the next 64 rows.
    The eight runs of 16 bytes of line ``n`` are mixed: run ``r`` is at ``r ^ n % 8``.

    Every thread of the group must arrive at it, with the same addresses. Sums are not to
    be read, nor factors to be written, before an `AwaitProducts`.

    Attributes:
        transposed: of both factors.
    """

    __slots__ = ("transposed",)

    def __init__(self, transposed, sums, left, left_index, right, right_index):
        self.transposed, self.type = transposed, sums.type
        self.args = sums, left, left_index, right, right_index

    @property
    def attributes(self):
        return (self.transposed,)


class AwaitProducts(Expr):
    """Sums of a warpgroup, when all products but the last ``pending`` ones are done.

    They may be read where none is pending. Every thread of the group must arrive at it.
    """

    __slots__ = ("pending",)

    def __init__(self, pending, sums):
        self.pending, self.type, self.args = pending, sums.type, (sums,)

    @property
    def attributes(self):
        return (self.pending,)


class Load(Expr):
    """Elements read at ``pointer[index]``.

    With ``lanes`` > 1 and a scalar index this reads consecutive elements; a vector
    index gathers. ``mask`` (a third argument) leaves masked-off lanes zero.
    ``alignment`` is in bytes, by default that of one element.
    """

    __slots__ = ("alignment", "lanes")

    def __init__(self, lanes, alignment, pointer, index, *mask):
        self.lanes, self.alignment = lanes, alignment
        self.args = (pointer, index, *mask)
        element = pointer.type.element
        self.type = element if lanes == 1 else element.vector(lanes)

    @property
    def attributes(self):
        return self.lanes, self.alignment

    @property
    def mask(self):
        return self.args[2] if len(self.args) == 3 else None


class Offset(Expr):
    """A pointer moved by a number of bytes."""

    __slots__ = ()

    def __init__(self, pointer, bytes):
        self.type, self.args = pointer.type, (pointer, bytes)


class Broadcast(Expr):
    """A scalar copied to every lane."""

    __slots__ = ("lanes",)

    def __init__(self, lanes, value):
        self.lanes, self.args = lanes, (value,)
        self.type = value.type.vector(lanes)

    @property
    def attributes(self):
        return (self.lanes,)


class Ramp(Expr):
    """The vector ``base, base + step, base + 2 step ...``."""

    __slots__ = ("lanes",)

    def __init__(self, lanes, base, step):
        self.lanes, self.args = lanes, (base, step)
        self.type = base.type.vector(lanes)

    @property
    def attributes(self):
        return (self.lanes,)


class Extract(Expr):
    """One lane of a vector; the lane is known at compile time."""

    __slots__ = ("lane",)

    def __init__(self, lane, vector):
        self.lane, self.type, self.args = lane, vector.type.scalar, (vector,)

    @property
    def attributes(self):
        return (self.lane,)


class Shuffle(Expr):
    """Lanes picked from the concatenation of two vectors of one type."""

    __slots__ = ("lanes",)

    def __init__(self, lanes, left, right):
        self.lanes, self.args = tuple(lanes), (left, right)
        self.type = left.type.vector(len(self.lanes))

    @property
    def attributes(self):
        return (self.lanes,)


def _literal(type, value):
    if type.is_bool:
        return bool(value)
    if type.is_float:
        return float(value)
    if isinstance(value, float) and not value.is_integer():
        raise TypeError(f"the literal {value} does not fit {type}")
    low = -(1 << type.bits - 1) if type.is_signed else 0
    return (int(value) - low) % (1 << type.bits) + low


def as_expr(value, type) -> Expr:
    """``value`` as an expression; a Python number becomes a literal of ``type``."""
    if isinstance(value, Expr):
        if value.type.lanes == 1 and type.lanes > 1:
            return Broadcast(type.lanes, value)
        return value
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"cannot use {value!r} in a kernel expression")
    if isinstance(value, float) and not type.is_float:
        raise TypeError(
            f"the float literal {value} beside a value of type {type}: "
            "cast the value first"
        )
    return Const(type, value)


def unify(*values) -> tuple[Expr, ...]:
    """Every value as an expression of one type: literals and scalars adapt."""
    typed = [value.type for value in values if isinstance(value, Expr)]
    if not typed:
        raise TypeError(f"no symbolic value among {values!r}")
    type = max(typed, key=lambda item: item.lanes)
    result = tuple(as_expr(value, type) for value in values)
    if any(item.type != type for item in result):
        kinds = ", ".join(str(item.type) for item in result)
        raise TypeError(f"operands differ in type ({kinds}): cast one of them")
    return result


def binary(op, left, right) -> Expr:
    """`Binary` after unifying the two sides; ``NotImplemented`` for other objects."""
    for value in (left, right):
        if not isinstance(value, (Expr, bool, int, float)):
            return NotImplemented
    return Binary(op, *unify(left, right))


def select(condition, yes, no) -> Expr:
    """`Select` after unifying the two sides."""
    yes, no = unify(yes, no)
    if condition.type.lanes > 1 and yes.type.lanes == 1:
        lanes = condition.type.lanes
        yes, no = Broadcast(lanes, yes), Broadcast(lanes, no)
    return Select(as_expr(condition, boolean.like(yes.type)), yes, no)


def cast(type, value) -> Expr:
    """``value`` converted to ``type`` with its own lanes; nothing if it has it."""
    type = type.like(value.type)
    return value if value.type == type else Cast(type, value)


def load(pointer, index, lanes=1, alignment=None, mask=None) -> Load:
    """`Load` with the usual defaults."""
    index = as_expr(index, i64)
    lanes = max(lanes, index.type.lanes)
    rest = () if mask is None else (mask,)
    alignment = alignment or pointer.type.element.itemsize
    return Load(lanes, alignment, pointer, index, *rest)


def same(left: Expr, right: Expr) -> bool:
    """Whether two expressions are the same program text."""
    if left is right:
        return True
    if type(left) is not type(right) or left.type != right.type:
        return False
    if repr(left.attributes) != repr(right.attributes):
        return False
    return len(left.args) == len(right.args) and all(map(same, left.args, right.args))


class Statement:
    """One step of a program."""

    __slots__ = ()

    def __str__(self):
        from rushlight.codegen.emit.python import render_statements

        return render_statements((self,))


@dataclass(frozen=True, eq=False)
class Let(Statement):
    """Names a value that never changes within its block."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Declare(Statement):
    """Makes a mutable local with its first value."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Assign(Statement):
    """Gives a mutable local its next value."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Array(Statement):
    """An array of ``size`` elements; ``var`` is its address.

    It is each thread's own, or in a grid ``shared`` by the threads of a block.
    """

    var: Var
    size: int
    alignment: int = 64
    shared: bool = False


@dataclass(frozen=True, eq=False)
class Barrier(Statement):
    """Waits for all threads of a block: what they wrote before, they all see."""


@dataclass(frozen=True, eq=False)
class CopyAsync(Statement):
    """Copies 16 bytes into shared memory while the thread goes on.

    Only ``bytes`` of them are read, the rest become zeros. They are there for this thread
    after an `AwaitCopies`, for others after a `Barrier` behind it.
    """

    pointer: Expr
    index: Expr
    source: Expr
    place: Expr
    bytes: Expr


@dataclass(frozen=True, eq=False)
class CommitCopies(Statement):
    """Makes a group of the copies that a thread has asked for since the last one."""


@dataclass(frozen=True, eq=False)
class AwaitCopies(Statement):
    """Waits for a thread's groups of copies, but for the last ``pending`` ones."""

    pending: int


@dataclass(frozen=True, eq=False)
class ShowUnits(Statement):
    """Lets units that read shared memory see what this thread has written there."""


@dataclass(frozen=True, eq=False)
class Store(Statement):
    """Writes ``value`` at ``pointer[index]``; lanes go to consecutive elements.

    A vector index scatters. ``streaming`` bypasses the cache (needs alignment to
    the whole vector).
    """

    pointer: Expr
    index: Expr
    value: Expr
    alignment: int = 0
    mask: Expr | None = None
    streaming: bool = False


@dataclass(frozen=True, eq=False)
class Prefetch(Statement):
    """Asks for the cache line at ``pointer[index]``, in a level; never faults."""

    pointer: Expr
    index: Expr
    level: int = 1


TILE_PRODUCTS = "pairs", "fours", "unsigned_fours"
TILE_MOVES = "load", "stream", "store"
TILE_STEPS = ("configure", "zero", *TILE_MOVES, *TILE_PRODUCTS, "release")


@dataclass(frozen=True, eq=False)
class TileStep(Statement):
    """A step of a processor's unit of tiles: eight squares of 16 rows of 64 bytes.

    A kernel has them between ``configure`` and ``release``. ``zero``, ``load``, ``stream``
    (a load of what is not read again soon) and ``store`` are of a tile, whose rows lie
    ``pitch`` bytes apart from ``pointer[index]`` on. The others add to a tile of 32-bit
    sums a product, of words in the rows of ``left`` with those in the columns of
    ``right``: ``pairs`` of bfloat16, or ``fours`` of bytes, which are signed, those on
    the left ``unsigned_fours``.
    """

    name: str
    tile: int = 0
    left: int = 0
    right: int = 0
    pointer: Expr | None = None
    index: Expr | None = None
    pitch: Expr | None = None


LOOP_KINDS = ("serial", "vectorized", "unrolled", "rolled", "parallel")


@dataclass(frozen=True, eq=False)
class For(Statement):
    """Counts ``var`` from ``start`` to ``stop`` by ``step``.

    ``vectorized`` promises that no iteration reads what another one writes;
    ``unrolled`` asks for straight-line code and ``rolled`` for none of LLVM's loop
    transformations; ``parallel`` is ``vectorized`` over
    cores, and runs serially in the host emitter (the launcher splits work).
    """

    var: Var
    start: Expr
    stop: Expr
    body: tuple
    step: Expr = field(default_factory=lambda: Const(i64, 1))
    kind: str = "serial"


@dataclass(frozen=True, eq=False)
class While(Statement):
    """Repeats ``body`` while ``condition`` holds."""

    condition: Expr
    body: tuple


@dataclass(frozen=True, eq=False)
class If(Statement):
    """Runs one of two bodies."""

    condition: Expr
    then: tuple
    otherwise: tuple = ()


@dataclass(frozen=True, eq=False)
class Break(Statement):
    """Leaves the innermost loop."""


@dataclass(frozen=True, eq=False)
class Continue(Statement):
    """Goes on with the next iteration of the innermost loop."""


@dataclass(frozen=True, eq=False)
class Return(Statement):
    """Ends a helper function with its value."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Function:
    """A program with parameters: a kernel, or a helper that returns a value.

    A kernel has exactly the parameters `KERNEL_PARAMETERS` and no ``result``: it
    returns faults, 0 unless a `Return` says otherwise. It is ``distinct`` if its body
    starts by naming base pointers that do not overlap.

    A function of a ``grid`` is run by every thread of a device's grid. Its parameters are
    pointers and integers, and it returns nothing. Its loops ``repeat`` values where they
    carry some that are equal, as counts of what several sums took in are. A multiprocessor
    is to hold so many ``blocks`` at once, at least: registers of a thread follow it.
    """

    name: str
    parameters: tuple
    body: tuple
    result: Type | None = None
    distinct: bool = False
    grid: bool = False
    repeats: bool = False
    blocks: int = 0

    def __str__(self):
        from rushlight.codegen.emit.python import render

        return render(self)

    def with_body(self, body) -> Function:
        return replace(self, body=tuple(body))


# What a kernel may return besides 0, as bits; a `Refused` of the name sets its bit where
# its condition holds.
FAULTS = {"refuse_zero_division": 1, "found_not_finite": 4, "refuse_index": 8}
OUT_OF_MEMORY = 2

DATA = Var("data", Pointer(Pointer(u8)))
INTS = Var("ints", Pointer(i64))
BEGIN = Var("begin", i64)
END = Var("end", i64)
KERNEL_PARAMETERS = (DATA, INTS, BEGIN, END)


def kernel(name, body) -> Function:
    """A function with the one signature that every native kernel has."""
    return Function(name, KERNEL_PARAMETERS, tuple(body))


def argument(position, element) -> Expr:
    """Base pointer number ``position`` of the kernel, as elements of one type."""
    return Reinterpret(Pointer(element), load(DATA, position))


def integer(position) -> Expr:
    """Integer argument number ``position`` of the kernel."""
    return load(INTS, position)

"""What a well-formed program is, checked between passes.

Every value has the type that its operation gives it, every name is defined before it
is used and not used beyond its block, and stores match what they write to.
"""

from rushlight.ir import expr as ir
from rushlight.ir import threads


class SpecError(TypeError):
    """A program that no emitter may see: the fault, and the statement it is in."""


def verify(function: ir.Function, after: str = "") -> None:
    """Checks a whole program.

    Args:
        after: the pass that made it, for the message.

    Raises:
        SpecError: the first fault.
    """
    checker = _Checker(function, after)
    names = {var.name: var for var in function.parameters}
    if function.grid and function.result is not None:
        checker.fail("a function of a grid returns nothing", function.name)
    checker.block(function.body, names, {}, False)


class _Checker:
    """Walks a program with the names in scope; mutable ones apart."""

    def __init__(self, function, after):
        self.function, self.after, self.seen = function, after, set()

    def fail(self, fact, item):
        where = f" after {self.after}" if self.after else ""
        raise SpecError(f"{self.function.name}{where}: {fact}\n  in: {item}")

    def block(self, statements, names, mutable, in_loop):
        names, mutable = dict(names), dict(mutable)
        for statement in statements:
            if not isinstance(statement, ir.Statement):
                self.fail(f"{type(statement).__name__} is not a statement", statement)
            self.seen = set()
            CHECKS[type(statement)](self, statement, names, mutable, in_loop)

    def value(self, e, names, statement, type=None):
        if type is not None and e.type != type:
            self.fail(f"expected {type}, found {e.type}: {e!r}", statement)
        if id(e) in self.seen:
            return
        self.seen.add(id(e))
        if isinstance(e, ir.Var):
            known = names.get(e.name)
            if known is None:
                self.fail(f"{e.name} is used before it is defined", statement)
            if known.type != e.type:
                self.fail(f"{e.name} is {known.type}, used as {e.type}", statement)
        if isinstance(e, GRID_ALONE) and not self.function.grid:
            self.fail(
                f"{e.__class__.__name__} is for functions of a grid: {e!r}", statement
            )
        for arg in e.args:
            self.value(arg, names, statement)
        fault = _fault(e)
        if fault:
            self.fail(f"{fault}: {e!r}", statement)

    def define(self, s, names, mutable, in_loop):
        self.value(s.value, names, s, s.var.type)
        names[s.var.name] = s.var
        if isinstance(s, ir.Declare):
            mutable[s.var.name] = s.var
        else:
            mutable.pop(s.var.name, None)

    def assign(self, s, names, mutable, in_loop):
        if s.var.name not in mutable:
            self.fail(f"{s.var.name} is assigned but not a mutable local", s)
        self.value(s.value, names, s, mutable[s.var.name].type)

    def array(self, s, names, mutable, in_loop):
        if not isinstance(s.var.type, ir.Pointer) or s.size < 1:
            self.fail("an array needs a pointer type and a size", s)
        if s.shared and not self.function.grid:
            self.fail("only the threads of a grid share arrays", s)
        names[s.var.name] = s.var

    def barrier(self, s, names, mutable, in_loop):
        if not self.function.grid:
            self.fail("only the threads of a grid wait for each other", s)

    def atomic(self, s, names, mutable, in_loop):
        for e in (s.pointer, s.index, s.value):
            self.value(e, names, s)
        element = getattr(s.pointer.type, "element", None)
        if element != s.value.type or s.index.type != ir.i64:
            self.fail(f"{s.value.type} is joined with one of {s.pointer.type}", s)
        if s.op not in threads.ATOMIC or (s.op != "add" and not element.is_int):
            self.fail(f"{s.op} of {element} is not joined atomically", s)

    def copy(self, s, names, mutable, in_loop):
        if not self.function.grid:
            self.fail("only the threads of a grid copy while they go on", s)
        for e in (s.pointer, s.index, s.source, s.place, s.bytes):
            self.value(e, names, s)
        if s.pointer.type != s.source.type or not isinstance(s.source.type, ir.Pointer):
            self.fail(f"{s.source.type} is copied to {s.pointer.type}", s)

    def group(self, s, names, mutable, in_loop):
        if not self.function.grid:
            self.fail("only the threads of a grid copy, and wait for copies", s)

    def store(self, s, names, mutable, in_loop):
        for e in (s.pointer, s.index, s.value):
            self.value(e, names, s)
        if s.mask is not None:
            self.value(s.mask, names, s, ir.boolean.like(s.value.type))
        if not isinstance(s.pointer.type, ir.Pointer):
            self.fail("the target of a store is not a pointer", s)
        element, written = s.pointer.type.element, s.value.type
        if element != (written if isinstance(written, ir.Pointer) else written.scalar):
            self.fail(f"{written} is stored among {element}", s)

    def tile_step(self, s, names, mutable, in_loop):
        if s.name not in ir.TILE_STEPS:
            self.fail(f"{s.name!r} is no step of tiles", s)
        if self.function.grid or not all(
            n in range(8) for n in (s.tile, s.left, s.right)
        ):
            self.fail("a processor's kernel has eight tiles", s)
        moves = s.name in ir.TILE_MOVES
        if moves != all(e is not None for e in (s.pointer, s.index, s.pitch)):
            self.fail("tiles are loaded from somewhere, and stored there", s)
        if moves:
            self.value(s.pointer, names, s)
            self.value(s.index, names, s, ir.i64)
            self.value(s.pitch, names, s, ir.i64)

    def prefetch(self, s, names, mutable, in_loop):
        self.value(s.pointer, names, s)
        self.value(s.index, names, s)

    def loop(self, s, names, mutable, in_loop):
        for bound in (s.start, s.stop, s.step):
            self.value(bound, names, s, s.var.type)
        if s.kind not in ir.LOOP_KINDS:
            self.fail(f"{s.kind!r} is no kind of loop", s)
        self.block(
            s.body,
            {**names, s.var.name: s.var},
            {k: v for k, v in mutable.items() if k != s.var.name},
            True,
        )

    def while_(self, s, names, mutable, in_loop):
        self.value(s.condition, names, s, ir.boolean)
        self.block(s.body, names, mutable, True)

    def if_(self, s, names, mutable, in_loop):
        self.value(s.condition, names, s, ir.boolean)
        self.block(s.then, names, mutable, in_loop)
        self.block(s.otherwise, names, mutable, in_loop)

    def leave(self, s, names, mutable, in_loop):
        if not in_loop:
            self.fail("there is no loop to leave or continue", s)

    def return_(self, s, names, mutable, in_loop):
        self.value(s.value, names, s, self.function.result or ir.i32)


def _fault(e):
    """What is wrong with one expression whose operands are right, or None."""
    rule = RULES.get(type(e))
    return rule(e) if rule else None


def _binary_fault(e):
    left, right = (arg.type for arg in e.args)
    if left != right:
        return f"operands differ in type ({left}, {right})"
    if e.op == "div" and not left.is_float:
        return f"/ divides floats, not {left}"
    if e.op in ir.BITWISE and left.is_float:
        return f"bits of {left} are not to be operated on"
    return None


def _select_fault(e):
    condition, yes, no = (arg.type for arg in e.args)
    if not condition.is_bool:
        return f"the condition is {condition}"
    if condition.lanes not in (1, yes.lanes):
        return f"{condition.lanes} conditions pick among {yes.lanes} lanes"
    return None if yes == no else f"the sides differ in type ({yes}, {no})"


def _reinterpret_fault(e):
    before, after = e.args[0].type, e.type
    pointers = isinstance(before, ir.Pointer), isinstance(after, ir.Pointer)
    if any(pointers):
        return None if all(pointers) else "a pointer is no number"
    same = before.bits * before.lanes == after.bits * after.lanes
    return None if same else f"{before} and {after} differ in width"


def _cast_fault(e):
    same = e.args[0].type.lanes == e.type.lanes
    return None if same else "a cast keeps the number of lanes"


def _load_fault(e):
    pointer, index = e.args[0].type, e.args[1].type
    if not isinstance(pointer, ir.Pointer):
        return f"{pointer} is no pointer"
    if not index.is_int:
        return f"the index is {index}"
    if e.mask is not None and e.mask.type != ir.boolean.vector(e.lanes):
        return f"the mask is {e.mask.type}"
    return None


def _call_fault(e):
    if e.name not in ("lookup", "column"):
        return None
    index, *table = e.args
    if e.name == "column":
        place, width, *table = table
        if not 0 <= place.value < width.value or len(table) % width.value:
            return f"no column {place.value} of {len(table)} numbers by {width.value}"
        table = table[:: width.value]
    if not index.type.is_int or index.type.bits != e.type.bits:
        return f"{index.type} picks from a table of {e.type}"
    if not all(isinstance(value, ir.Const) for value in table):
        return "a table is made of constants"
    size = len(table)
    return None if size and size & size - 1 == 0 else f"a table has {size} places"


def _refused_fault(e):
    if e.name not in ir.FAULTS:
        return f"{e.name} is no fault; there are {', '.join(ir.FAULTS)}"
    return None if e.args[1].type.is_bool else f"the condition is {e.args[1].type}"


def _exchange_fault(e):
    good = e.distance in (1, 2, 4, 8, 16) and e.type.lanes == 1
    return None if good else "lanes exchange scalars, 1, 2, 4, 8 or 16 apart"


def _invoke_fault(e):
    takes = [parameter.type for parameter in ir.KERNEL_PARAMETERS]
    found = [arg.type for arg in e.args], [p.type for p in e.function.parameters]
    return None if found == (takes, takes) else f"{e.function.name} is no kernel, run"


def _match_fault(e):
    good = e.args[0].type == ir.u32 and 1 <= e.bits <= 32
    return (
        None if good else f"{e.bits} bits of a word are compared, not {e.args[0].type}"
    )


def _units_fault(e):
    factors, sums = {a.type for a in e.args[:-4]}, {a.type for a in e.args[-4:]}
    if e.packed is not None:
        good = len(e.args) == 10 and factors == {ir.u32} and sums == {ir.f32}
        good = good and e.packed in ("float16", "bfloat16")
        return None if good else "units multiply 6 words of halves and add 4 floats"
    halves = factors <= {ir.f16} or factors <= {ir.bf16}
    good = len(e.args) == (16 if halves else 10) and 0 <= e.place < 4
    if (
        good
        and len(factors) == 1
        and (halves or factors == {ir.f32})
        and sums == {ir.f32}
    ):
        return None
    return "units multiply 12 halves, or 6 floats, of a lane and add 4 floats"


def _unit_rows_fault(e):
    pointer = e.args[0].type
    halves = isinstance(pointer, ir.Pointer) and pointer.element in (ir.f16, ir.bf16)
    return None if halves else f"rows of halves are read, not of {pointer}"


def _group_fault(e):
    sums, left, _, right, _ = (a.type for a in e.args)
    if sums.scalar != ir.f32 or sums.lanes % 4 or not 4 <= sums.lanes <= 128:
        return f"a group's product has 4 to 128 sums of a lane, by fours, not {sums}"
    if e.transposed[1] and sums.lanes % 32:
        return f"columns that are turned come by 64, not {sums.lanes * 2}"
    kinds = [getattr(pointer, "element", None) for pointer in (left, right)]
    halves = kinds[0] == kinds[1] and kinds[0] in (ir.f16, ir.bf16)
    return None if halves else f"a group multiplies halves, not {left} and {right}"


def _unary_fault(e):
    if e.op == "not" and e.type.is_float:
        return f"~ takes bool or integers, not {e.type}"
    return None


GRID_ALONE = (
    ir.Place, ir.Exchange, threads.Match, threads.Invoke, ir.UnitProduct, ir.UnitRows,
    ir.GroupProduct, ir.AwaitProducts,
)  # fmt: skip
RULES = {
    ir.Binary: _binary_fault,
    ir.Select: _select_fault,
    ir.Rarely: _select_fault,
    ir.Refused: _refused_fault,
    ir.Cast: _cast_fault,
    ir.Reinterpret: _reinterpret_fault,
    ir.Load: _load_fault,
    ir.Unary: _unary_fault,
    ir.Call: _call_fault,
    ir.Exchange: _exchange_fault,
    threads.Match: _match_fault,
    threads.Invoke: _invoke_fault,
    ir.UnitProduct: _units_fault,
    ir.UnitRows: _unit_rows_fault,
    ir.GroupProduct: _group_fault,
}
CHECKS = {
    ir.Let: _Checker.define,
    ir.Declare: _Checker.define,
    ir.Assign: _Checker.assign,
    ir.Array: _Checker.array,
    ir.Barrier: _Checker.barrier,
    threads.WarpBarrier: _Checker.barrier,
    threads.Atomic: _Checker.atomic,
    ir.CopyAsync: _Checker.copy,
    ir.CommitCopies: _Checker.group,
    ir.AwaitCopies: _Checker.group,
    ir.ShowUnits: _Checker.group,
    ir.Store: _Checker.store,
    ir.For: _Checker.loop,
    ir.Prefetch: _Checker.prefetch,
    ir.TileStep: _Checker.tile_step,
    ir.While: _Checker.while_,
    ir.If: _Checker.if_,
    ir.Break: _Checker.leave,
    ir.Continue: _Checker.leave,
    ir.Return: _Checker.return_,
}

"""Entries for a device's grid around the host's loops, which run in them unchanged.

A kernel of the host's is a function of pointers, integers and a span of its parallel axis. So
whatever has loops for the host has an entry here: its threads take spans of the axis, or an
element each of an elementwise kernel (whose rows then have one element), or elements of many
tensors in one launch. What deserves a layout of its own (rows over the lanes of a warp, tiles
in shared memory) is written as a function of a grid, see `gpu_lowering`.

An entry takes what a launch passes by value: the pointers (`MOST_DATA` of them), the integers
(`MOST_INTS`), numbers of 16 bytes (`MOST_NUMBERS`) or a table (`ROOM` words), how much there
is to divide, and where faults are noted. The compiler sees which of them are read, and the
device loads no others.
"""

from dataclasses import dataclass, replace

from rushlight.codegen.passes.narrow_divisions import narrow_divisions
from rushlight.codegen.schedule.gpu_lowering import MOST_DATA, MOST_INTS
from rushlight.codegen.schedule.gpu_passes import LOAD, move
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Const, Place, Pointer, Var, i32, i64, u8, u32, u64
from rushlight.ir.threads import Atomic, Invoke

MOST_NUMBERS = 12  # numbers of 16 bytes that a launch passes by value
NUMBER_BYTES = 16
MOST_EACH = 8  # elements that a thread takes at once, at most
ROOM = 440  # 64-bit words of a launch over lists: what tensors have, row by row
PIECE = 4096  # elements of one tensor that a block takes at a time

# What a launch passes; other names are a kernel's own.
DATA, INTS = Var("launch_data", Pointer(Pointer(u8))), Var("launch_ints", Pointer(i64))
NUMBERS, TABLE = Var("launch_numbers", Pointer(u64)), Var("launch_table", Pointer(i64))
TOTAL, CHUNK = Var("launch_total", i64), Var("launch_chunk", i64)
TENSORS, PIECES = Var("launch_tensors", i64), Var("launch_pieces", i64)
FAULT = Var("launch_fault", Pointer(i32))
BY_VALUE = {  # how many there are of what lies in the parameters, and the bytes of each
    DATA.name: (MOST_DATA, 8),
    INTS.name: (MOST_INTS, 8),
    NUMBERS.name: (MOST_NUMBERS, NUMBER_BYTES),
    TABLE.name: (ROOM, 8),
}
GRID_PARAMETERS = DATA, INTS, TOTAL, CHUNK, FAULT
ELEMENT_PARAMETERS = DATA, INTS, NUMBERS, TOTAL, FAULT
LIST_PARAMETERS = TABLE, NUMBERS, TENSORS, PIECES, FAULT


def entry_name(name):
    """A kernel's name, of the letters that PTX allows."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def grid_entry(function, held=()) -> ir.Function:
    """A function of a grid as an entry: its pointers are the launch's, in order.

    Args:
        function: its parameters are pointers, the integers, and the length of the axis that
            blocks, or threads, divide.
        held: pairs of a pointer's position and an integer's: where the pointer is to the
            launch's own copy of that integer.
    """
    *pointers, ints, total = function.parameters
    held, lets = dict(held), [ir.Let(ints, INTS), ir.Let(total, TOTAL)]
    for k, var in enumerate(pointers):
        value = ir.load(DATA, k)
        if k in held:
            value = ir.Offset(INTS, Const(i64, 8 * held[k]))
        lets.append(ir.Let(var, ir.Reinterpret(var.type, value)))
    return replace(
        function,
        name=entry_name(function.name),
        parameters=GRID_PARAMETERS,
        body=(*lets, *function.body),
    )


def span_entry(function, narrow=False) -> ir.Function:
    """A kernel of the host's as an entry: each thread takes spans of ``chunk`` places, the
    grid's width further on, until the axis ends.

    Args:
        function: the host's loops.
        narrow: whether indices are divided in 32 bits; see `narrow_divisions`.
    """
    name = span_name(function.name, narrow)
    function = narrow_divisions(function) if narrow else function
    b, inner = Builder(), _inner(function, name)
    thread, threads = _threads(b)
    with b.loop("start", thread * CHUNK, TOTAL, threads * CHUNK) as start:
        stop = ir.binary("min", start + CHUNK, TOTAL)
        _note(b, Invoke(inner, DATA, INTS, start, stop))
    return _entry(function, GRID_PARAMETERS, b, name)


def span_name(name, narrow):
    """The entry of a kernel over spans."""
    return entry_name(name) + ("_32" if narrow else "")


def element_entry(function, count, ndim, numbers, narrow, wide=None) -> ir.Function:
    """An elementwise kernel whose threads take one element each, or a few.

    A thread finds where its element lies in each operand from the sizes and strides of
    ``ndim`` loops. A few elements that are neighbours are read and written at once (`Wide`);
    then the innermost size and strides are those of such groups, and what one loop leaves over
    is taken one by one.

    Args:
        function: the host's loops; its integers are the length of a row and the steps.
        count: how many operands there are.
        ndim: how many loops; 1 where elements lie behind one another.
        numbers: the positions of operands that are numbers and come by value.
        narrow: whether all indices fit 32 bits.
        wide: how a thread takes several elements, or None.
    """
    name = element_name(function.name, ndim, numbers, narrow, wide)
    b = Builder()
    one = _OneElement(b, _inner(function, name), count, wide)
    for n, k in enumerate(numbers):
        one.place(k, _number(n))
    bases = {
        k: b.let("base", ir.load(DATA, k)) for k in range(count) if k not in numbers
    }
    sizes = [b.let("size", ir.load(INTS, d)) for d in range(ndim - 1)]
    strides = {
        k: [b.let("stride", ir.load(INTS, ndim + k * ndim + d)) for d in range(ndim)]
        for k in bases
    }
    thread, threads = _threads(b)
    with b.loop("index", thread, TOTAL, threads) as index:
        positions = _split(b, index, sizes, narrow)
        for k, base in bases.items():
            offset = positions[0] * strides[k][0]
            for place, stride in zip(positions[1:], strides[k][1:], strict=True):
                offset = offset + place * stride
            one.place(k, ir.Offset(base, offset))
        one.run() if wide is None else wide.run(one)
    if wide is not None and ndim == 1:  # what fills no load is the first threads'
        lone = b.let("lone", TOTAL * wide.each + thread)
        with b.when(lone < ir.load(INTS, ndim + count * ndim)):
            one.run_at(bases, lone, wide.widths)
    return _entry(function, ELEMENT_PARAMETERS, b, name)


def element_name(name, ndim, numbers, narrow, wide=None):
    """The entry of an elementwise kernel for a layout."""
    marks = "".join(map(str, numbers)) or "none"
    bits = 32 if narrow else 64
    return f"{entry_name(name)}_d{ndim}_n{marks}_{bits}{wide.mark if wide else ''}"


def most_tensors(lists):
    """Of how many tensors one launch's table has room, for a number of lists."""
    return ROOM // (2 + lists)


def list_entry(function, operands, wide=None) -> ir.Function:
    """An elementwise kernel over several lists of tensors at once.

    The launch's table has a row of where each tensor's pieces begin, one of how many elements
    it has, and one of addresses for each list. A block takes a piece of one tensor, a thread
    one element at a time, or a few neighbours.

    Args:
        function: the host's loops, as for `element_entry`.
        operands: for each operand a list's number and the bytes from element to element
            (0: one element for each tensor), or None for a number, which comes by value.
        wide: how a thread takes several elements, or None.
    """
    name = list_name(function.name, operands, wide)
    most = most_tensors(1 + max(item[0] for item in operands if item))
    b = Builder()
    one = _OneElement(b, _inner(function, name), len(operands), wide)
    numbers = [k for k, item in enumerate(operands) if item is None]
    for n, k in enumerate(numbers):
        one.place(k, _number(n))
    widths = [item and item[1] for item in operands]
    addresses = ir.Reinterpret(Pointer(Pointer(u8)), TABLE)
    with b.loop("piece", Place("block"), PIECES, Place("blocks")) as piece:
        which = b.declare("which", Const(i64, 0))
        with b.loop_while((which < TENSORS - 1) & (ir.load(TABLE, which + 1) <= piece)):
            b.assign(which, which + 1)
        tensor = b.let("tensor", which)
        start = b.let("start", (piece - ir.load(TABLE, tensor)) * PIECE)
        elements = ir.load(TABLE, tensor + most)
        stop = b.let("stop", ir.binary("min", start + PIECE, elements))
        bases = {
            k: b.let("base", ir.load(addresses, tensor + (2 + item[0]) * most))
            for k, item in enumerate(operands)
            if item is not None
        }
        each = wide.each if wide else 1
        first, step = start + Place("thread") * each, Place("threads") * each
        with b.loop("index", first, stop, step) as index:
            if wide is None:
                one.run_at(bases, index, widths)
            else:
                with b.when(index + each <= stop):
                    one.place_at(bases, index, widths)
                    wide.run(one)
                with b.otherwise(), b.loop("lone", index, stop) as lone:
                    one.run_at(bases, lone, widths)
    return _entry(function, LIST_PARAMETERS, b, name)


def list_name(name, operands, wide=None):
    """The entry of an elementwise kernel over lists, for a layout of its operands."""
    marks = ["n" if item is None else f"{item[0]}w{item[1]}" for item in operands]
    how = wide.mark if wide else ""
    return f"{entry_name(name)}_lists_{'_'.join(marks)}{how}"


@dataclass(frozen=True)
class Wide:
    """How a thread takes several elements that are neighbours, with one load an operand.

    All are read before the first is written, so that an operand may be the output, too.

    Attributes:
        each: how many elements.
        outputs: how many operands are written; they come first.
        widths: for each operand the bytes of an element, or 0 where it is one and the same
            for all of them, or a number.
    """

    each: int
    outputs: int
    widths: tuple

    @property
    def mark(self):
        """What tells its entries from others'."""
        alike = "".join("s" if width == 0 else "w" for width in self.widths)
        return f"_by{self.each}{alike}"

    def run(self, one):
        """Reads a thread's elements, computes, and writes them; their places are known."""
        b, held = one.b, one.held
        given = {k: one.placed[k] for k in held}
        for k in held:
            if k >= self.outputs:
                move(b, held[k], given[k], self.each * self.widths[k])
        for j in range(self.each):
            for k in held:
                one.place(k, ir.Offset(held[k], Const(i64, j * self.widths[k])))
            one.run()
        for k in held:
            if k < self.outputs:
                move(b, given[k], held[k], self.each * self.widths[k])


class _OneElement:
    """The host's loops over one element: where it lies is told operand by operand.

    Args:
        wide: where it is given there is room for a thread's elements, ``held``, which become
            registers.
    """

    def __init__(self, b, inner, count, wide):
        self.b, self.inner = b, inner
        self.positions = b.array("places", Pointer(u8), count)
        self.steps = b.array("steps", i64, 1 + 2 * count)
        for n in range(1 + 2 * count):
            b.store(self.steps, n, int(n == 0))  # a row of one; it goes no further
        self.placed, self.held = {}, {}
        for k, width in enumerate(wide.widths if wide else ()):
            if width:
                var = self.held[k] = Var(b.fresh("held"), Pointer(u8))
                b.add(ir.Array(var, wide.each * width, LOAD))

    def place(self, k, pointer):
        """Says where an operand's element lies."""
        self.placed[k] = self.b.let("element", pointer)
        self.b.store(self.positions, k, self.placed[k])

    def place_at(self, bases, index, widths):
        """Says so of operands whose elements lie behind one another."""
        for k, base in bases.items():
            self.place(k, ir.Offset(base, index * widths[k]))

    def run(self):
        """Computes the element, and notes what is refused."""
        given = self.positions, self.steps, Const(i64, 0), Const(i64, 1)
        _note(self.b, Invoke(self.inner, *given))

    def run_at(self, bases, index, widths):
        """Computes one of those that lie behind one another."""
        self.place_at(bases, index, widths)
        self.run()


def _number(n):
    """Where a number lies that comes by value."""
    return ir.Reinterpret(Pointer(u8), ir.Offset(NUMBERS, Const(i64, NUMBER_BYTES * n)))


def _inner(function, name):
    """The host's kernel under a name that no other of the module has."""
    return replace(function, name=f"{name}.host")


def _entry(function, parameters, b, name=None):
    name = name or entry_name(function.name)
    return ir.Function(name, parameters, b.statements, grid=True)


def _threads(b):
    """The number of this thread among all of the grid, and how many there are."""
    thread = b.let("thread", Place("block") * Place("threads") + Place("thread"))
    return thread, b.let("threads", Place("blocks") * Place("threads"))


def _note(b, faults):
    """Notes what a run refused, for whoever waits for the device."""
    faults = b.let("faults", faults)
    with b.when(faults != 0):
        b.add(Atomic("or", FAULT, Const(i64, 0), faults))


def _split(b, index, sizes, narrow):
    """A thread's place in each loop, innermost first, from its place in all of them."""
    if not sizes:
        return [index]
    type, positions, rest = (u32 if narrow else u64), [], None
    rest = b.let("rest", ir.cast(type, index))
    for size in sizes:
        size = b.let("narrowed", ir.cast(type, size))
        left = b.let("left", ir.Call("machine_div", type, rest, size))
        positions.append(b.let("place", ir.cast(i64, rest - left * size)))
        rest = left
    return [*positions, b.let("place", ir.cast(i64, rest))]

"""Renders any loop kernel as an entry for an NVIDIA device, with the host's parameters.

A kernel of the host's is a function of pointers, integers and a span of its parallel
axis. On a card the same function runs with the same pointers and integers, and each
thread takes spans of ``chunk`` places: the grid's width further on, until the axis ends.
So whatever has loops for the host has an entry here; what deserves a layout of its own
(rows over the lanes of a warp, tiles in shared memory) has another emitter.

An entry takes, by value, the pointers (`MOST_DATA` of them), the integers (`MOST_INTS`),
the axis's length, the chunk, and where faults are to be noted. The compiler sees which
of them are read, and the card loads no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.codegen.emit import llvm, llvm_groups
from rushlight.codegen.schedule.gpu_lowering import MOST_DATA, MOST_INTS
from rushlight.codegen.target import gpu_target
from rushlight.ir import expr as ir

THREADS = 256  # of a block whose threads take elements, or spans, at most
# Where a thread is, and how many there are.
PLACES = ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")

# The number of this thread, and of all threads of the grid
THREAD = """\
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
"""
# Notes what a turn of the grid's loop refused
NOTE = """\
  %wrong = icmp ne i32 %faults, 0
  br i1 %wrong, label %note, label %tail
note:
  %noted = atomicrmw or ptr %fault, i32 %faults monotonic
  br label %tail
tail:
"""
ENTRY = """\
define ptx_kernel void @{entry}(ptr byval([{data} x ptr]) align 8 %data, \
ptr byval([{ints} x i64]) align 8 %ints, i64 %total, i64 %chunk, ptr %fault) nounwind {bound}{{
begin:
{thread}  %first = mul i64 %thread, %chunk
  %step = mul i64 %threads, %chunk
  br label %head
head:
  %from = phi i64 [%first, %begin], [%next, %tail]
  %more = icmp slt i64 %from, %total
  br i1 %more, label %body, label %exit
body:
  %far = add i64 %from, %chunk
  %whole = icmp slt i64 %far, %total
  %to = select i1 %whole, i64 %far, i64 %total
  %faults = call i32 @{inner}(ptr %data, ptr %ints, i64 %from, i64 %to)
{note}  %next = add i64 %from, %step
  br label %head
exit:
  ret void
}}
"""


def emit(function: ir.Function) -> str:
    """The PTX of a loop kernel; its entry has the function's name."""
    module = llvm._Module(gpu_target(), scratch=False)
    entry = entry_name(function.name)
    inner = replace(function, name=f"{entry}.host")
    module.add(inner, "internal ")
    module.bodies.append(
        ENTRY.format(
            entry=entry,
            bound=bound_of(THREADS),
            inner=f"{entry}.host",
            data=MOST_DATA,
            ints=MOST_INTS,
            thread=THREAD,
            note=NOTE,
        )
    )
    return assemble(module)


def bound_of(threads):
    """The attribute that says how many threads a block has at most: registers follow it."""
    return f'"nvvm.maxntid"="{threads}" ' if threads else ""


def emit_grid(function: ir.Function, held=(), threads=None) -> str:
    """The PTX of a function of a grid; its entry has the function's name.

    Its pointers are the launch's, in order, then come the integers and the length of the
    axis that blocks, or threads, divide.

    Args:
        held: pairs of a pointer's position and an integer's: where the pointer is to the
            launch's own copy of that integer.
        threads: how many a block has, at most.
    """
    module = llvm._Module(gpu_target(), scratch=False)
    entry = replace(function, name=entry_name(function.name))
    module.bodies.append(_GridEntry(module, entry, dict(held), threads).text())
    return assemble(module)


GRID = """\
define ptx_kernel void @{entry}(ptr byval([{data} x ptr]) align 8 %data, \
ptr byval([{ints} x i64]) align 8 %ints, i64 %total, i64 %chunk, ptr %fault) nounwind {bound}{{
entry:
{lines}
  ret void
}}
"""


class _GridEntry(llvm._Emitter):
    """Writes a function of a grid as an entry with a launch's parameters."""

    def __init__(self, module, function, held, threads):
        super().__init__(module, function)
        self.held, self.threads = held, threads
        self.used |= {"data", "ints", "total", "chunk", "fault"}

    def text(self):
        llvm_groups.name_room(self)
        *pointers, ints, total = self.function.parameters
        self.scope |= {ints.name: "%ints", total.name: "%total"}
        for k, var in enumerate(pointers):
            name = self.bind(var)
            if k in self.held:
                place = f"getelementptr i64, ptr %ints, i64 {self.held[k]}"
                self.lines.append(f"  {name} = {place}")
            else:
                slot = self.fresh(f"getelementptr ptr, ptr %data, i64 {k}")
                self.lines.append(f"  {name} = load ptr, ptr {slot}")
        self.body(self.function.body)
        return GRID.format(
            entry=self.name,
            bound=bound_of(self.threads),
            data=MOST_DATA,
            ints=MOST_INTS,
            lines="\n".join([*self.allocas, *self.lines]),
        )


def assemble(module) -> str:
    """The PTX text of a collected module, whose threads know their places."""
    from rushlight.codegen.toolchain import compile_ptx

    for place in PLACES:
        module.declare(f"llvm.nvvm.read.ptx.sreg.{place}", "i32")
    return compile_ptx(module.text(), module.target)


def entry_name(name):
    """A kernel's name, of the letters that PTX allows."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


NUMBERS = 12  # numbers of 16 bytes that a launch passes by value
LOAD = 16  # bytes that a thread moves at once, at most
MOST_EACH = 8  # elements that a thread takes at once, at most
ELEMENTS = """\
define ptx_kernel void @{entry}(ptr byval([{data} x ptr]) align 8 %data, \
ptr byval([{ints} x i64]) align 8 %ints, ptr byval([{numbers} x i128]) align 16 %numbers, \
i64 %total, ptr %fault) nounwind {bound}{{
begin:
  %places = alloca [{count} x ptr], align 8
  %steps = alloca [{n_steps} x i64], align 8
{thread}{start}
  br label %head
head:
  %index = phi i64 [%thread, %begin], [%next, %tail]
  %more = icmp slt i64 %index, %total
  br i1 %more, label %body, label %exit
body:
{work}
{note}  %next = add i64 %index, %threads
  br label %head
exit:
{rest}  ret void
}}
"""
# What does not fill a load is the first threads', an element each
REST = """\
  %past = mul i64 %total, {each}
  %lone = add i64 %past, %thread
  %beyond = icmp slt i64 %lone, %elements
  br i1 %beyond, label %one, label %done
one:
{work}
  %faults.one = call i32 @{inner}(ptr %places, ptr %steps, i64 0, i64 1)
  %wrong.one = icmp ne i32 %faults.one, 0
  br i1 %wrong.one, label %note.one, label %done
note.one:
  %noted.one = atomicrmw or ptr %fault, i32 %faults.one monotonic
  br label %done
done:
"""


def emit_elements(function, count, ndim, numbers, narrow, wide=None) -> str:
    """The PTX of an elementwise kernel whose threads take one element each, or a few.

    The kernel is the host's, of rows of one element: a thread finds where its element
    lies in each operand from the sizes and strides of ``ndim`` loops. A few elements
    that are neighbours are read and written at once (`Wide`); then the innermost size and
    strides are those of such groups, and what one loop leaves over is taken one by one.

    Args:
        function: the host's loops; its integers are the length of a row and the steps.
        count: how many operands there are.
        ndim: how many loops; 1 where elements lie behind one another.
        numbers: the positions of operands that are numbers and come by value.
        narrow: whether all indices fit 32 bits.
        wide: how a thread takes several elements, or None.
    """
    module = llvm._Module(gpu_target(), scratch=False)
    entry = elements_name(function.name, ndim, numbers, narrow, wide)
    inner = f"{entry}.host"
    module.add(replace(function, name=inner), "internal ")
    start = []
    for n in range(1 + 2 * count):
        start += [
            f"  %step{n} = getelementptr i64, ptr %steps, i64 {n}",
            f"  store i64 {int(n == 0)}, ptr %step{n}",
        ]
    tensors = [k for k in range(count) if k not in numbers]
    for k in range(count):
        if k in numbers:
            slot = f"ptr %numbers, i64 {numbers.index(k)}"
            start.append(f"  %base{k} = getelementptr i128, {slot}")
        else:
            start += [
                f"  %slot{k} = getelementptr ptr, ptr %data, i64 {k}",
                f"  %base{k} = load ptr, ptr %slot{k}",
            ]
        start.append(f"  %place{k} = getelementptr ptr, ptr %places, i64 {k}")
        if k in numbers:
            start.append(f"  store ptr %base{k}, ptr %place{k}")
    for d in range(ndim - 1):
        start += _integer(f"size{d}", d)
    for k in tensors:
        for d in range(ndim):
            start += _integer(f"stride{k}.{d}", ndim + k * ndim + d)
    work, rest = _offsets(tensors, ndim, narrow), ""
    if wide is None:
        call = f"call i32 @{inner}(ptr %places, ptr %steps, i64 0, i64 1)"
        work.append(f"  %faults = {call}")
    else:
        start += wide.room()
        work += wide.work(inner)
        if ndim == 1:
            start += _integer("elements", ndim + count * ndim)
            rest = REST.format(
                each=wide.each, inner=inner, work="\n".join(wide.alone(tensors))
            )
    module.bodies.append(
        ELEMENTS.format(
            entry=entry,
            bound=bound_of(THREADS),
            data=MOST_DATA,
            ints=MOST_INTS,
            numbers=NUMBERS,
            thread=THREAD,
            note=NOTE,
            count=count,
            n_steps=1 + 2 * count,
            start="\n".join(start),
            work="\n".join(work),
            rest=rest,
        )
    )
    return assemble(module)


def elements_name(name, ndim, numbers, narrow, wide=None):
    """The entry of an elementwise kernel for a layout."""
    marks = "".join(map(str, numbers)) or "none"
    bits = 32 if narrow else 64
    return f"{entry_name(name)}_d{ndim}_n{marks}_{bits}{wide.mark if wide else ''}"


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

    def moved(self, k):
        """The type that an operand's elements are moved as, and of how many bytes."""
        size = self.each * self.widths[k]
        return (f"i{8 * size}" if size <= 4 else f"<{size // 4} x i32>"), size

    def kept(self):
        """The operands whose elements lie side by side."""
        return [k for k, width in enumerate(self.widths) if width]

    def room(self):
        """The lines that make room for a thread's elements, which become registers."""
        return [
            f"  %held{k} = alloca [{self.moved(k)[1]} x i8], align {LOAD}"
            for k in self.kept()
        ]

    def work(self, inner):
        """The lines that read a thread's elements, compute, and write them."""
        lines = []
        for k in self.kept():
            if k >= self.outputs:
                kind, size = self.moved(k)
                lines += [
                    f"  %read{k} = load {kind}, ptr %element{k}, align {size}",
                    f"  store {kind} %read{k}, ptr %held{k}, align {size}",
                ]
        for j in range(self.each):
            for k in self.kept():
                at = f"getelementptr i8, ptr %held{k}, i64 {j * self.widths[k]}"
                lines += [
                    f"  %one{k}.{j} = {at}",
                    f"  store ptr %one{k}.{j}, ptr %place{k}",
                ]
            call = f"call i32 @{inner}(ptr %places, ptr %steps, i64 0, i64 1)"
            lines.append(f"  %faults{j} = {call} alwaysinline")
        found = "%faults0"
        for j in range(1, self.each):
            name = "%faults" if j + 1 == self.each else f"%found{j}"
            lines.append(f"  {name} = or i32 {found}, %faults{j}")
            found = name
        for k in self.kept():
            if k < self.outputs:
                kind, size = self.moved(k)
                lines += [
                    f"  %made{k} = load {kind}, ptr %held{k}, align {size}",
                    f"  store {kind} %made{k}, ptr %element{k}, align {size}",
                ]
        return lines

    def alone(self, tensors):
        """The lines that find one element, which no load is filled with."""
        lines = []
        for k in tensors:
            lines += [
                f"  %far{k}.one = mul i64 %lone, {self.widths[k]}",
                f"  %element{k}.one = getelementptr i8, ptr %base{k}, i64 %far{k}.one",
                f"  store ptr %element{k}.one, ptr %place{k}",
            ]
        return lines


ROOM = 440  # 64-bit words of a launch over lists: what tensors have, row by row
PIECE = 4096  # elements of one tensor that a block takes at a time
LISTS = """\
define ptx_kernel void @{entry}(ptr byval([{room} x i64]) align 8 %table, \
ptr byval([{numbers} x i128]) align 16 %numbers, i64 %tensors, i64 %pieces, ptr %fault) \
nounwind {bound}{{
begin:
  %places = alloca [{count} x ptr], align 8
  %steps = alloca [{n_steps} x i64], align 8
{thread}{start}
  %last = sub i64 %tensors, 1
  br label %head
head:
  %piece = phi i64 [%block.wide, %begin], [%piece.next, %tail.piece]
  %more = icmp slt i64 %piece, %pieces
  br i1 %more, label %search, label %exit
search:
  %which = phi i64 [0, %head], [%beyond, %compare]
  %ended = icmp slt i64 %which, %last
  br i1 %ended, label %compare, label %found
compare:
  %beyond = add i64 %which, 1
  %at.beyond = getelementptr i64, ptr %table, i64 %beyond
  %first.beyond = load i64, ptr %at.beyond
  %on = icmp sle i64 %first.beyond, %piece
  br i1 %on, label %search, label %found
found:
  %at.first = getelementptr i64, ptr %table, i64 %which
  %first = load i64, ptr %at.first
  %row.count = add i64 %which, {each}
  %at.count = getelementptr i64, ptr %table, i64 %row.count
  %elements = load i64, ptr %at.count
  %piece.own = sub i64 %piece, %first
  %from = mul i64 %piece.own, {piece}
  %far = add i64 %from, {piece}
  %whole = icmp slt i64 %far, %elements
  %to = select i1 %whole, i64 %far, i64 %elements
  %own = mul i64 %tid.wide, {group}
  %begins = add i64 %from, %own
  %stride = mul i64 %width.wide, {group}
{bases}
  br label %each
each:
  %index = phi i64 [%begins, %found], [%next, %tail]
  %inside = icmp slt i64 %index, %to
  br i1 %inside, label %body, label %tail.piece
body:
{work}
{note}  %next = add i64 %index, %stride
  br label %each
{few}tail.piece:
  %piece.next = add i64 %piece, %blocks.wide
  br label %head
exit:
  ret void
}}
"""


# A group that a tensor's end cuts off goes element by element
GROUP = """\
  %group.end = add i64 %index, {group}
  %full = icmp sle i64 %group.end, %to
  br i1 %full, label %group, label %few
group:
"""
FEW = """\
few:
  %lone = phi i64 [%index, %body], [%lone.next, %few.next]
{alone}
  %faults.one = call i32 @{inner}(ptr %places, ptr %steps, i64 0, i64 1)
  %wrong.one = icmp ne i32 %faults.one, 0
  br i1 %wrong.one, label %note.one, label %few.next
note.one:
  %noted.one = atomicrmw or ptr %fault, i32 %faults.one monotonic
  br label %few.next
few.next:
  %lone.next = add i64 %lone, 1
  %ended.few = icmp sge i64 %lone.next, %to
  br i1 %ended.few, label %tail.piece, label %few
"""


def most_tensors(lists):
    """Of how many tensors one launch's table has room, for a number of lists."""
    return ROOM // (2 + lists)


def emit_lists(function, operands, wide=None) -> str:
    """The PTX of an elementwise kernel over several lists of tensors at once.

    The launch's table has a row of where each tensor's pieces begin, one of how many
    elements it has, and one of addresses for each list. A block takes a piece of one
    tensor, a thread one element at a time, or a few neighbours.

    Args:
        function: the host's loops, as for `emit_elements`.
        operands: for each operand a list's number and the bytes from element to element
            (0: one element for each tensor), or None for a number, which comes by value.
        wide: how a thread takes several elements, or None.
    """
    module = llvm._Module(gpu_target(), scratch=False)
    entry = lists_name(function.name, operands, wide)
    inner = f"{entry}.host"
    module.add(replace(function, name=inner), "internal ")
    count = len(operands)
    each = most_tensors(1 + max(item[0] for item in operands if item))
    start, bases, work, numbers = [], [], [], 0
    for n in range(1 + 2 * count):
        start += [
            f"  %step{n} = getelementptr i64, ptr %steps, i64 {n}",
            f"  store i64 {int(n == 0)}, ptr %step{n}",
        ]
    for k, item in enumerate(operands):
        start.append(f"  %place{k} = getelementptr ptr, ptr %places, i64 {k}")
        if item is None:
            start += [
                f"  %number{k} = getelementptr i128, ptr %numbers, i64 {numbers}",
                f"  store ptr %number{k}, ptr %place{k}",
            ]
            numbers += 1
            continue
        row, width = item
        bases += [
            f"  %row{k} = add i64 %which, {(2 + row) * each}",
            f"  %at.base{k} = getelementptr i64, ptr %table, i64 %row{k}",
            f"  %base{k} = load ptr, ptr %at.base{k}",
        ]
        work += [
            f"  %far{k} = mul i64 %index, {width}",
            f"  %element{k} = getelementptr i8, ptr %base{k}, i64 %far{k}",
            f"  store ptr %element{k}, ptr %place{k}",
        ]
    few = ""
    if wide is None:
        call = f"call i32 @{inner}(ptr %places, ptr %steps, i64 0, i64 1)"
        work.append(f"  %faults = {call}")
    else:
        start += wide.room()
        group = GROUP.format(group=wide.each)
        work = [group.rstrip(), *work, *wide.work(inner)]
        lists = [k for k, item in enumerate(operands) if item is not None]
        few = FEW.format(alone="\n".join(wide.alone(lists)), inner=inner)
    module.bodies.append(
        LISTS.format(
            entry=entry,
            bound=bound_of(THREADS),
            group=wide.each if wide else 1,
            few=few,
            room=ROOM,
            numbers=NUMBERS,
            piece=PIECE,
            each=each,
            thread=THREAD,
            note=NOTE,
            count=count,
            n_steps=1 + 2 * count,
            start="\n".join(start),
            bases="\n".join(bases),
            work="\n".join(work),
        )
    )
    return assemble(module)


def lists_name(name, operands, wide=None):
    """The entry of an elementwise kernel over lists, for a layout of its operands."""
    marks = ["n" if item is None else f"{item[0]}w{item[1]}" for item in operands]
    how = wide.mark if wide else ""
    return f"{entry_name(name)}_lists_{'_'.join(marks)}{how}"


def _integer(name, position):
    """The lines that read an integer of the launch."""
    return [
        f"  %at.{name} = getelementptr i64, ptr %ints, i64 {position}",
        f"  %{name} = load i64, ptr %at.{name}",
    ]


def _offsets(tensors, ndim, narrow):
    """The lines that find a thread's element in every operand, innermost loop first."""
    lines, rest = [], "%index"
    kind = "i32" if narrow else "i64"
    if narrow and ndim > 1:
        lines.append("  %rest = trunc i64 %index to i32")
        rest = "%rest"
    places = []
    for d in range(ndim):
        place = rest
        if d + 1 < ndim:
            size = f"%size{d}"
            if narrow:
                lines.append(f"  %short{d} = trunc i64 {size} to i32")
                size = f"%short{d}"
            lines += [
                f"  %left{d} = udiv {kind} {rest}, {size}",
                f"  %done{d} = mul {kind} %left{d}, {size}",
                f"  %place.{d} = sub {kind} {rest}, %done{d}",
            ]
            rest, place = f"%left{d}", f"%place.{d}"
        if narrow and ndim > 1:
            lines.append(f"  %wide{d} = zext i32 {place} to i64")
            place = f"%wide{d}"
        places.append(place)
    for k in tensors:
        offset = None
        for d, place in enumerate(places):
            lines.append(f"  %far{k}.{d} = mul i64 {place}, %stride{k}.{d}")
            if offset is None:
                offset = f"%far{k}.{d}"
            else:
                lines.append(f"  %sum{k}.{d} = add i64 {offset}, %far{k}.{d}")
                offset = f"%sum{k}.{d}"
        lines += [
            f"  %element{k} = getelementptr i8, ptr %base{k}, i64 {offset}",
            f"  store ptr %element{k}, ptr %place{k}",
        ]
    return lines

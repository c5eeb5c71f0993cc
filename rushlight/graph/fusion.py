"""Elementwise steps become one kernel: their expressions are put into one another.

A group takes steps over the same sizes while nothing stands between them. It is placed
where its last step stood; a step that touches what the group writes, or writes what the
group reads, closes it first. What no one else reads stays in registers and never has
memory. A value is rounded to the type that it would be stored in before it is used again.
"""

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import prod

from rushlight._inductor import config
from rushlight.codegen.frontend.nest import (
    CONTIGUOUS,
    ROW,
    SHORT,
    STRIDED,
    Nest,
    arrange,
)
from rushlight.codegen.frontend.pointwise import (
    _COMPUTING,
    COMPUTED_IN,
    Pointwise,
    _as_result,
    _symbol,
)
from rushlight.codegen.frontend.type_support import as_bits
from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import from_sequence
from rushlight.dispatch.declared import FUNCTIONAL, INPLACE
from rushlight.graph.device_fusion import TooMany, elements_of, rows_of
from rushlight.graph.fused_node import Member, is_window, said
from rushlight.graph.kernel_resolution import pointwise_kernel, resolve
from rushlight.graph.program import Instruction
from rushlight.graph.reduction_nodes import row_member_of
from rushlight.graph.steps import NUMBER, TENSOR
from rushlight.ir import expr as ir
from rushlight.ir.expr import Type

REAL = frozenset(
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
)
INPUTS = 18  # of one kernel
OPERANDS = 24  # outputs included
MEMBERS = 48  # steps in one kernel
LONE = 1 << 14  # places of one row of values that take long
DEPTH = 2  # reductions behind one another: each computes again what lies before
MOVES = ("clone", "_to_copy", "copy_")
FLOATS = ("float32", "float64")
WHOLE = frozenset("int64 int32 int16 int8 uint8".split())


@Pointwise
def moved(x):
    """The value itself, in the type that it is stored as."""
    return x


def member_of(step, tape_window):
    """The step as a member; None where it is not elementwise or of unusual types.

    Args:
        tape_window: gives the tensor of a window.
    """
    call, op = step.call, step.op
    if any(not value.plain for value in step.reads):
        return None
    if op.name in MOVES and op.namespace == "aten":
        return move_of(step)
    kernel = pointwise_kernel(op, call.device_of())
    if kernel is None or type(kernel.source) is not Pointwise:
        return None  # one with loops inside is not an expression
    args = []
    for i, value in enumerate(call.values):
        kind = call.kind(i)
        if kind == TENSOR:
            value = tape_window(value)
        elif kind == NUMBER:
            value = 1.5
        elif kind != 0:
            return None
        args.append(value)
    positions, in_types, out_types, compute, statics, sizes = resolve(
        op, kernel, tuple(args)
    )
    if isinstance(compute, str):
        compute = (compute,) * len(in_types)
    if not {*in_types, *out_types, *compute} <= REAL:
        return None
    named = as_bits(kernel.source, in_types, out_types, compute)
    if named != (in_types, out_types, compute):
        return None
    inputs = []
    for position, kind in zip(positions, in_types, strict=True):
        value = call.values[position]
        if call.kind(position) == TENSOR:
            inputs.append(value)
        elif call.kind(position) == NUMBER:
            if kind not in ("float32", "float64"):
                return None
            inputs.append(("number", value, all_dtypes()[kind].code))
        else:
            if value is None or isinstance(value, str):
                return None
            inputs.append(from_sequence(value, all_dtypes()[kind], None))
    if op.form == FUNCTIONAL:
        outputs = [value for _, value in call.results]
    else:
        written = call.values[0] if op.form == INPLACE else call.values[len(args) - 1]
        outputs = [written]
    good = all(
        hasattr(value, "slot")
        and value.plain
        and value.sizes == tuple(sizes)
        and value.dtype.name == kind
        and value.count
        and not _repeats(value)
        for value, kind in zip(outputs, out_types, strict=True)
    )
    if not good:
        return None
    return Member(
        *(step, kernel.source, inputs, in_types, out_types, compute, statics),
        *(outputs, tuple(sizes)),
    )


def move_of(step):
    """A copy or conversion as a member; None where it is more than that."""
    call = step.call
    if step.op.name == "copy_":
        target, source = call.values[:2]
    else:
        ((kind, target),) = call.results
        source = call.values[0]
        if kind != 0:
            return None
    one, other = source.dtype.name, target.dtype.name
    exact = one == other or one == "bool" or one in WHOLE and other != "bool"
    wider = one in ("float16", "bfloat16", "float32") and other in FLOATS
    wider = wider or one == "float32" and other in ("float16", "bfloat16")
    wider = wider or (one, other) == ("float64", "float32")
    if not {one, other} <= REAL or not (exact or wider) or not target.plain:
        return None
    if _repeats(target) or not target.count or source.ndim > target.ndim:
        return None
    lead = target.ndim - source.ndim
    if any(
        size not in (1, whole)
        for size, whole in zip(source.sizes, target.sizes[lead:], strict=True)
    ):
        return None
    return Member(
        *(step, moved, [source], (one,), (other,), (one,), (), [target]), target.sizes
    )


def _repeats(value):
    """Whether elements of a window lie on one another."""
    return any(
        size > 1 and step == 0
        for size, step in zip(value.sizes, value.strides, strict=True)
    )


@dataclass(eq=False)
class Group:
    """Members that become one kernel.

    Attributes:
        axes: the dimensions that it reduces; None while no member does.
        reads, writes: storage -> keys of what is read and written there.
        inputs: keys of what the kernel is passed.
    """

    sizes: tuple
    axes: tuple | None = None
    members: list = field(default_factory=list)
    reads: dict = field(default_factory=dict)
    writes: dict = field(default_factory=dict)
    inputs: set = field(default_factory=set)
    depths: dict = field(default_factory=dict)  # key -> how many reductions lie behind

    def conflicts(self, step):
        """Whether a step cannot change places with the group."""
        return any(value.slot in self.writes for value in step.reads) or any(
            value.slot in self.reads or value.slot in self.writes
            for value in step.writes
        )

    def has_room(self):
        """Whether it may have one more member."""
        return len(self.members) < config.max_fusion_size

    def takes(self, member):
        """Whether a member can be computed with the others, in the same loops."""
        axes = self.axes
        if self.members and self.members[0].device != member.device:
            return False
        if member.axes is not None:
            if axes not in (None, member.axes):
                return False
            axes = member.axes
        if len(self.members) >= MEMBERS:
            return False
        found = member.keys_in(self.sizes, axes)
        if found is None:
            return False
        in_keys, out_keys = found
        if member.axes is not None and self.depth(in_keys) >= DEPTH:
            return False
        own: dict = {}
        for key in filter(is_place, in_keys):
            if key[0] in self.writes and self.writes[key[0]] != {key}:
                return False
            own.setdefault(key[0], set()).add(key)
        for key in out_keys:
            looks = self.reads.get(key[0], set()) | self.writes.get(key[0], set())
            if not looks | own.get(key[0], set()) <= {key}:
                return False
        inputs = self.inputs | self.inputs_of(in_keys)
        if axes is not None and not self.reads_before_it_writes(axes, inputs, out_keys):
            return False
        return len(inputs) <= INPUTS

    def reads_before_it_writes(self, axes, inputs, out_keys):
        """Whether nothing that a later pass along a row reads is written by an earlier.

        What has one value for each row is read before any of it is written.
        """
        written = {key for keys in self.writes.values() for key in keys} | {*out_keys}
        slots = {key[0] for key in written if any(key[3][d] for d in axes)}
        return not any(is_place(key) and key[0] in slots for key in inputs)

    def depth(self, in_keys):
        """How many reductions lie behind some operands, one after the other."""
        return max((self.depths.get(key, 0) for key in in_keys), default=0)

    def inputs_of(self, in_keys):
        """What a kernel would have to be passed for a member."""
        return {key for key in in_keys if not (is_place(key) and key[0] in self.writes)}

    @property
    def touched(self):
        """The storages that it reads or writes."""
        return {*self.reads, *self.writes}

    @property
    def is_lone_move(self):
        """Whether all it does is copy: there are kernels for that."""
        return len(self.members) == 1 and self.members[0].source is moved

    def add(self, member):
        """Takes a member in."""
        if member.axes is not None:
            self.axes = member.axes
        member.in_keys, member.out_keys = member.keys_in(self.sizes, self.axes)
        self.inputs |= self.inputs_of(member.in_keys)
        self.members.append(member)
        for key in filter(is_place, member.in_keys):
            self.reads.setdefault(key[0], set()).add(key)
        depth = self.depth(member.in_keys) + (member.axes is not None)
        for key in member.out_keys:
            self.writes.setdefault(key[0], set()).add(key)
            self.depths[key] = depth


def is_place(key):
    """Whether an operand's key is of a window, and not of a number."""
    return key[0] != "one"


def members_of(steps, tape_window):
    """For each step the member that it can be of a group, or None.

    Args:
        tape_window: gives the tensor of a window.
    """
    return [member_of(step, tape_window) or row_member_of(step) for step in steps]


def grouped(steps, members, holding=None):
    """The steps in an order in which they may run, elementwise ones in groups.

    Args:
        members: see `members_of`.
        holding: says which groups keep too much memory while they wait for more members
            (`rushlight.graph.memory_plan.Holding`); None where they may.
    """
    done, open_groups = [], []
    for number, (step, member) in enumerate(zip(steps, members, strict=True)):
        mine = None
        if member is not None and config.fuse:
            room = [one for one in open_groups if one.has_room()]
            mine = next((one for one in room if one.takes(member)), None)
        for group in [one for one in open_groups if one is not mine]:
            waits = holding is not None and holding.is_too_much(group, number)
            if waits or group.conflicts(step):
                open_groups.remove(group)
                done.append(group)
        if member is None:
            done.append(step)
            continue
        if mine is None:
            mine = Group(member.sizes)
            open_groups.append(mine)
        mine.add(member)
    return done + open_groups


class Joined:
    """The kernel of a group: the members' expressions put into one another.

    Args:
        members: in their order.
        inputs: keys of the kernel's inputs.
        outputs: keys of the windows that it stores.
    """

    def __init__(self, members, inputs, outputs):
        self.members = [replace(one, step=said(one.step)) for one in members]
        self.inputs, self.outputs = inputs, outputs
        self.specialized = {}
        offsets = {key: k for k, key in enumerate(inputs)}
        text = []
        made: dict = {}  # key -> the member and the output that wrote it last
        for k, member in enumerate(members):
            wiring = [offsets.get(key) for key in member.in_keys]
            sources = [made.get(key) for key in member.in_keys]
            text.append((member.key(), member.axes, sources, wiring))
            made.update((key, (k, j)) for j, key in enumerate(member.out_keys))
        stored = [made[key] for key in outputs]
        self.digest = blake2b(repr((text, stored)).encode(), digest_size=12).hexdigest()
        self.name = f"fused_{self.digest[:16]}"
        self.function = self.compute

    def expressions(self, in_dtypes, compute, static):
        """The results' expressions, and the symbols that they depend on."""
        symbols = [_symbol(f"x{k}", kind) for k, kind in enumerate(in_dtypes)]
        return self.applied(symbols, in_dtypes), symbols

    def applied(self, values, kinds):
        """The results' expressions of some values, which were stored in some types."""
        known = {
            key: (value, kind)
            for key, value, kind in zip(self.inputs, values, kinds, strict=True)
        }
        for member in self.members:
            values = [
                _converted(*known[key], kind)
                for key, kind in zip(member.in_keys, member.compute, strict=True)
            ]
            results = applied(member, values)
            for key, value, kind in zip(
                member.out_keys, results, member.out_types, strict=True
            ):
                known[key] = _stored(value, kind), kind
        return [known[key][0] for key in self.outputs]

    def compute(self, *values):
        """The members one after the other; `expressions` does it with their types."""
        raise NotImplementedError(f"{self.name} is made of the types of its operands")

    def log(self):
        """The operators, for those who read programs."""
        return ", ".join(member.step.op.name for member in self.members)


class Fused(Joined, Pointwise):
    """A kernel that goes element by element."""

    def specialize(self, in_dtypes, out_dtypes, compute, static=()):
        """The native kernel; the members' types were judged one by one."""
        return self.native(in_dtypes, out_dtypes, compute, static)

    def kernel_name(self, in_dtypes, out_dtypes, compute, static):
        """The linker symbol."""
        return self.name


class FusedRows(Joined, Nest):
    """A kernel over rows."""


def applied(member, values):
    """What a member makes of the values of its operands."""
    half = [kind for kind in member.compute if kind in COMPUTED_IN]
    token = _COMPUTING.set((half or [*member.compute, "float32"])[0])
    try:
        if member.axes is not None:
            values = [*values, ROW]
        result = member.source.function(*values, *member.statics)
    finally:
        _COMPUTING.reset(token)
    results = result if isinstance(result, tuple) else (result,)
    return [_as_result(value, values[0]) for value in results]


def _stored(value, kind):
    """A value as it would be read again after it was stored."""
    stored = ir.cast(Type(kind), value)
    wide = COMPUTED_IN.get(kind)
    return stored if wide is None else ir.cast(Type(wide), stored)


def _converted(value, kind, compute):
    """A value of a type as an expression wants it that computes in another."""
    if kind == compute:
        return value
    wide = Type(COMPUTED_IN.get(compute, compute))
    value = ir.cast(wide, value)
    if compute in COMPUTED_IN and kind != "bool":
        return ir.cast(wide, ir.cast(Type(compute), value))
    return value


def operands_of(group, stored):
    """What a group's kernel is passed: the operands that it reads and those that it stores.

    Args:
        stored: the numbers of the storages whose values are wanted afterwards.

    Returns:
        Two dictionaries in the operands' order: from keys to windows or numbers, and from
        keys to windows.
    """
    read: dict = {}
    written: dict = {}
    for member in group.members:
        for key, one in zip(member.in_keys, member.inputs, strict=True):
            if key not in written:
                read.setdefault(key, one)
        for key, one in zip(member.out_keys, member.outputs, strict=True):
            written[key] = one
    return read, {key: one for key, one in written.items() if one.slot in stored}


def instr_of(group, stored):
    """The compiled step of a group, and the storages that it touches.

    Args:
        stored: the numbers of the storages whose values are wanted afterwards.

    Raises:
        TooMany: it has more operands or loops than a kernel can have.
        ComputedAgain: it is faster as two.
    """
    read, written = operands_of(group, stored)
    if not written:
        return None
    inputs, outputs = list(read), list(written)
    if len(outputs) + len(inputs) > OPERANDS:
        raise TooMany
    in_types = tuple(_kind_of(key, group.members) for key in inputs)
    out_types = tuple(one.dtype.name for one in written.values())
    ones = [*written.values(), *read.values()]
    items = [all_dtypes()[kind].itemsize for kind in (*out_types, *in_types)]
    strides = [
        [step * item for step in key[3]] if is_place(key) else [0] * len(group.sizes)
        for key, item in zip([*outputs, *inputs], items, strict=True)
    ]
    offsets = [
        (one.slot, one.offset * item) if is_window(one) else one
        for one, item in zip(ones, items, strict=True)
    ]
    kernel = inputs, outputs, in_types, out_types
    instr = launch_of(group, kernel, strides, offsets, group.members[0].device)
    return instr, [one.slot for one in ones if is_window(one)]


def launch_of(group, kernel, strides, offsets, device):
    """The compiled step that launches a group's kernel.

    Args:
        kernel: keys of what is read and of what is stored, and their dtypes' names.
        strides: each operand's byte steps over the group's sizes, outputs first.
        offsets: of the operands; see `Instruction.set_kernel`.

    Raises:
        TooMany: it has more loops than a kernel can have.
    """
    inputs, outputs, in_types, out_types = kernel
    instr, types = Instruction(None, None), (in_types, out_types)
    items = [all_dtypes()[kind].itemsize for kind in (*out_types, *in_types)]
    members = group.members
    if group.axes is not None and device.on_host:
        rows_instr(instr, group, kernel, strides, items, offsets)
        return instr
    if group.axes is not None:
        instr.details = FusedRows(members, inputs, outputs)
        rows = rows_of(instr.details, types, device, offsets, group, strides, items)
        instr.set_launch(rows)
        return instr
    single = len(members) == 1 and len(outputs) == len(members[0].outputs)
    if single and len(inputs) == len(members[0].inputs):
        (member,) = members
        source, choices = member.source, (_plain(member.compute), member.statics)
        instr.details = member.step.op.name
    else:
        source = instr.details = Fused(members, inputs, outputs)
        choices = in_types, ()
    found = loops(group.sizes, strides)
    if device.on_host:
        instr.set_kernel(source.specialize(*types, *choices), offsets, items)
        instr.set_loops(*found, items)
    else:
        instr.set_launch(elements_of(source, types, choices, device, offsets, found))
    return instr


def rows_instr(instr, group, kernel, strides, items, offsets):
    """Makes a step the launch of a group's nest of loops."""
    inputs, outputs, in_types, out_types = kernel
    axes = group.axes
    kept = [d for d in range(len(group.sizes)) if d not in axes]
    order = [*kept, *axes]
    found = arrange(
        [group.sizes[d] for d in kept],
        [group.sizes[d] for d in axes],
        [[row[d] for d in order] for row in strides],
        items,
        len(outputs),
    )
    if found is None or len(found.integers) > 96:
        raise TooMany
    found, types = found.with_short_rows(), (in_types, out_types)
    instr.details = FusedRows(group.members, inputs, outputs)
    if len(group.members) > 1 and is_slower(instr.details, types, found):
        raise FasterUnfused
    native = instr.details.specialize(in_types, out_types, in_types, found)
    instr.set_kernel(native, offsets, items)
    instr.set_raw(found.integers, found.rows, found.grain)
    instr.rank, instr.along = found.key[0], found.key[1] in (CONTIGUOUS, SHORT)


class FasterUnfused(Exception):
    """A group's kernel would take longer than those of its parts."""


_slower: dict = {}


def is_slower(fused, types, found):
    """Whether a kernel over rows is slower than those of its members.

    It is where it computes what takes long in more than one pass over a row, or of a lone row,
    which threads do not share; and over columns, of which each pass comes from memory, where it
    moves as much as they do.
    """
    lone = found.rows == 1 and prod(found.integers[: found.key[0]]) > LONE
    asked = fused.digest, types, found.key, lone
    if asked not in _slower:
        results, members = fused.program(*types, types[0], found.key)[0], fused.members
        axes = next(one.axes for one in members if one.axes is not None)
        columns = found.key[1] == STRIDED
        unfused = sum(one.moves(axes) for one in members) if columns else 0
        again = results.computes_again() or (lone and results.calls)
        _slower[asked] = again or 0 < unfused <= results.moves()
    return _slower[asked]


def _plain(compute):
    return compute[0] if len(set(compute)) == 1 else compute


def _kind_of(key, members):
    for member in members:
        for other, kind in zip(member.in_keys, member.in_types, strict=True):
            if other == key:
                return kind
    raise LookupError(key)


def loops(sizes, strides):
    """The sizes of the loops, the innermost first, and each operand's byte strides.

    Dimensions are ordered by the first operand's strides and merged where they can be.
    """
    order = sorted(
        (d for d in range(len(sizes)) if sizes[d] != 1),
        key=lambda d: (strides[0][d], -d),
    )
    merged: list = []  # sizes
    steps: list = [[] for _ in strides]
    for d in order:
        if merged and all(
            row[d] == mine[-1] * merged[-1]
            for row, mine in zip(strides, steps, strict=True)
        ):
            merged[-1] *= sizes[d]
            continue
        merged.append(sizes[d])
        for row, mine in zip(strides, steps, strict=True):
            mine.append(row[d])
    return merged, steps

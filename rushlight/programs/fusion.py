"""Elementwise steps become one kernel: their expressions are put into one another.

A group takes steps over the same sizes while nothing stands between them. It is placed
where its last step stood; a step that touches what the group writes, or writes what the
group reads, closes it first. What no one else reads stays in registers and never has
memory. A value is rounded to the type that it would be stored in before it is used again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from rushlight.codegen import expr as ir
from rushlight.codegen.expr import Type
from rushlight.codegen.pointwise import (
    _COMPUTING,
    COMPUTED_IN,
    Pointwise,
    _as_result,
    _symbol,
)
from rushlight.codegen.stored_only import as_bits
from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import from_sequence
from rushlight.programs.program import Step as Turn
from rushlight.programs.resolving import pointwise_kernel, resolve
from rushlight.programs.steps import NUMBER, TENSOR

REAL = frozenset(
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
)
INPUTS = 12  # of one kernel
OPERANDS = 22  # outputs included
MEMBERS = 48  # steps in one kernel
MOVES = ("clone", "_to_copy", "copy_")
FLOATS = ("float32", "float64")
WHOLE = frozenset("int64 int32 int16 int8 uint8".split())


@Pointwise
def moved(x):
    """The value itself, in the type that it is stored as."""
    return x


class TooMany(Exception):
    """A group has more operands than kernels have."""


@dataclass(eq=False)
class Member:
    """An elementwise step that a kernel can take in.

    Attributes:
        source: the operator's expression.
        inputs: a window, ``("number", index, type)`` or a tensor of one element for each.
        in_types, compute, statics, out_types: what the expression is specialised for.
        outputs: the windows that are written.
        sizes: what it goes over.
    """

    step: object
    source: object
    inputs: list
    in_types: tuple
    out_types: tuple
    compute: tuple
    statics: tuple
    outputs: list
    sizes: tuple

    def key(self):
        """What the member computes, as text; wiring apart."""
        parts = self.source.name, self.source.digest, self.in_types, self.out_types
        return repr((*parts, self.compute, self.statics))


def is_window(one):
    """Whether an input is a window on a storage."""
    return hasattr(one, "slot")


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
    kernel = pointwise_kernel(op)
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
    named = as_bits(kernel.source.name, in_types, out_types, compute)
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
    if op.form == 0:
        outputs = [value for _, value in call.results]
    else:
        written = call.values[0] if op.form == 1 else call.values[len(args) - 1]
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
        *(step, moved, [source], (one,), (other,), (one,), (), [target]),
        target.sizes,
    )


def _repeats(value):
    """Whether elements of a window lie on one another."""
    return any(
        size > 1 and step == 0
        for size, step in zip(value.sizes, value.strides, strict=True)
    )


@dataclass(eq=False)
class Group:
    """Members that become one kernel."""

    sizes: tuple
    members: list = field(default_factory=list)
    reads: dict = field(default_factory=dict)  # slot -> looks
    writes: dict = field(default_factory=dict)
    inputs: set = field(default_factory=set)

    def conflicts(self, step):
        """Whether a step cannot change places with the group."""
        return any(value.slot in self.writes for value in step.reads) or any(
            value.slot in self.reads or value.slot in self.writes
            for value in step.writes
        )

    def takes(self, member):
        """Whether a member can be computed element by element with the others."""
        if member.sizes != self.sizes or len(self.members) >= MEMBERS:
            return False
        for value in filter(is_window, member.inputs):
            if value.slot in self.writes and self.writes[value.slot] != {value.look}:
                return False
        for value in member.outputs:
            looks = self.reads.get(value.slot, set()) | self.writes.get(
                value.slot, set()
            )
            own = {
                one.look
                for one in filter(is_window, member.inputs)
                if one.slot == value.slot
            }
            if not looks | own <= {value.look}:
                return False
        return len(self.inputs | self.inputs_of(member)) <= INPUTS

    def inputs_of(self, member):
        """What a kernel would have to be passed for a member."""
        return {
            _name(one)
            for one in member.inputs
            if not (is_window(one) and one.slot in self.writes)
        }

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
        self.inputs |= self.inputs_of(member)
        self.members.append(member)
        for value in filter(is_window, member.inputs):
            self.reads.setdefault(value.slot, set()).add(value.look)
        for value in member.outputs:
            self.writes.setdefault(value.slot, set()).add(value.look)


def grouped(steps, tape_window, enabled=True):
    """The steps in an order in which they may run, elementwise ones in groups."""
    done, open_groups = [], []
    for step in steps:
        member = member_of(step, tape_window)
        mine = None
        if member is not None and enabled:
            mine = next((one for one in open_groups if one.takes(member)), None)
        for group in [one for one in open_groups if one is not mine]:
            if group.conflicts(step):
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


class Fused(Pointwise):
    """The kernel of a group: the members' expressions put into one another.

    Args:
        members: in their order.
        inputs: the kernel's inputs: windows, numbers, tensors.
        outputs: the windows that it stores.
    """

    def __init__(self, members, inputs, outputs):
        self.members, self.inputs, self.outputs = members, inputs, outputs
        self.specialized = {}
        places = {_name(one): k for k, one in enumerate(inputs)}
        text = []
        for member in members:
            wiring = [(places.get(_name(one)), _rank(one)) for one in member.inputs]
            wiring += [_rank(one) for one in member.outputs]
            text.append((member.key(), self._relative(member), wiring))
        stored = [self._writer(one) for one in outputs]
        self.digest = blake2b(repr((text, stored)).encode(), digest_size=12).hexdigest()
        self.name = f"fused_{self.digest[:16]}"
        self.function = self.compute

    def _writer(self, value):
        """Which member writes a window last."""
        return max(
            (k, j)
            for k, member in enumerate(self.members)
            for j, one in enumerate(member.outputs)
            if _name(one) == _name(value)
        )

    def _relative(self, member):
        """Where each input of a member comes from: an earlier member's output, or not."""
        before = self.members[: self.members.index(member)]
        found = []
        for one in member.inputs:
            places = [
                (k, j)
                for k, other in enumerate(before)
                for j, made in enumerate(other.outputs)
                if is_window(one) and _name(made) == _name(one)
            ]
            found.append(places[-1] if places else None)
        return found

    def kernel_name(self, in_dtypes, out_dtypes, compute, static):
        """The linker symbol."""
        return self.name

    def expressions(self, in_dtypes, compute, static):
        """The results' expressions, and the symbols that they depend on."""
        symbols = [_symbol(f"x{k}", kind) for k, kind in enumerate(in_dtypes)]
        known = {
            _name(one): (symbol, kind)
            for one, symbol, kind in zip(self.inputs, symbols, in_dtypes, strict=True)
        }
        for member in self.members:
            values = [
                _converted(*known[_name(one)], kind)
                for one, kind in zip(member.inputs, member.compute, strict=True)
            ]
            results = _applied(member, values)
            for one, value, kind in zip(
                member.outputs, results, member.out_types, strict=True
            ):
                known[_name(one)] = _stored(value, kind), kind
        return [known[_name(one)][0] for one in self.outputs], symbols

    def compute(self, *values):
        """The members one after the other; `expressions` does it with their types."""
        raise NotImplementedError(f"{self.name} is made of the types of its operands")

    def tell(self):
        """The operators, for those who read programs."""
        return ", ".join(member.step.op.name for member in self.members)


def _name(one):
    """What tells a window or number from others."""
    return (one.slot, one.look) if is_window(one) else id(one)


def _rank(one):
    return one.ndim if is_window(one) else -1


def _applied(member, values):
    half = [kind for kind in member.compute if kind in COMPUTED_IN]
    token = _COMPUTING.set((half or [*member.compute, "float32"])[0])
    try:
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


def turn_of(group, stored):
    """The compiled step of a group, and its kernel.

    Args:
        stored: the numbers of the storages whose values are wanted afterwards.
    """
    members = group.members
    inputs, outputs, known, written = [], [], set(), {}
    for member in members:
        for one in member.inputs:
            if _name(one) not in known and _name(one) not in written:
                known.add(_name(one))
                inputs.append(one)
        for one in member.outputs:
            written[_name(one)] = one
    outputs = [one for one in written.values() if one.slot in stored]
    if not outputs:
        return None
    if len(outputs) + len(inputs) > OPERANDS:
        raise TooMany
    in_types = tuple(_kind_of(one, members) for one in inputs)
    out_types = tuple(one.dtype.name for one in outputs)
    if len(members) == 1 and len(outputs) == len(members[0].outputs):
        member = members[0]
        kernel = member.source.specialize(
            member.in_types, out_types, _plain(member.compute), member.statics
        )
        inputs, told = member.inputs, member.step.op.name
        in_types = member.in_types
    else:
        fused = Fused(members, inputs, outputs)
        kernel = fused.native(in_types, out_types, in_types, ())
        told = fused
    turn = Turn(None, told)
    operands = [*outputs, *inputs]
    kinds = (*out_types, *in_types)
    items = [all_dtypes()[kind].itemsize for kind in kinds]
    turn.set_kernel(
        kernel,
        [
            (one.slot, one.offset * item) if is_window(one) else one
            for one, item in zip(operands, items, strict=True)
        ],
        items,
    )
    turn.set_loops(*loops(group.sizes, operands, items), items)
    return turn, [one.slot for one in operands if is_window(one)]


def _plain(compute):
    return compute[0] if len(set(compute)) == 1 else compute


def _kind_of(one, members):
    if is_window(one):
        return one.dtype.name
    for member in members:
        for other, kind in zip(member.inputs, member.in_types, strict=True):
            if other is one:
                return kind
    raise LookupError(one)


def loops(sizes, operands, items):
    """The sizes of the loops, the innermost first, and each operand's byte strides.

    Dimensions are ordered by the first operand's strides and merged where they can be.
    """
    rank = len(sizes)
    strides = []
    for one, item in zip(operands, items, strict=True):
        if not is_window(one):
            strides.append([0] * rank)
            continue
        lead = rank - one.ndim
        strides.append(
            [0] * lead
            + [
                0 if size == 1 else step * item
                for size, step in zip(one.sizes, one.strides, strict=True)
            ]
        )
    order = sorted(
        (d for d in range(rank) if sizes[d] != 1), key=lambda d: (strides[0][d], -d)
    )
    merged: list = []  # sizes
    steps: list = [[] for _ in operands]
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

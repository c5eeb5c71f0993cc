"""What elementwise steps do with a convolution's results becomes part of its kernel.

    s3 = convolution(s0, s1, s2)
    s6 = relu(batch_norm_apply(s3, ...) + s0)       ->  s6 = _convolution_behind(...)

The group that reads the results is one function already (`rushlight.programs.fusion`); the
convolution goes over each block of its sums with it while the block is in a cache. That is
the same program where nobody else sees the sums, and nothing between the two writes what
the convolution reads, since it runs where the group stood.
"""

from __future__ import annotations

from math import prod

from rushlight._inductor import config
from rushlight.ops.contraction_after import OTHERS, Behind, name
from rushlight.programs.fusion import Group, Joined, is_place
from rushlight.programs.member import is_window
from rushlight.programs.planning import peak_of
from rushlight.programs.steps import CONSTANT, FRESH, TENSOR, TENSORS, step_of
from rushlight.programs.tape import made_call

TYPES = ("float32", "float64")  # halves round their sums in a pass of their own
MOST = 16  # further operands


def joined(graph, parts):
    """The parts, with convolutions that have the group behind them in their kernel."""
    if not config.epilogue_fusion:
        return parts
    for group in [part for part in parts if isinstance(part, Group)]:
        found = Pair.of(graph, parts, group)
        if found is None:
            continue
        parts_after = [part for part in parts if part is not found.step]
        parts_after[parts_after.index(group)] = found.one()
        if peak_of(graph, parts_after) <= peak_of(graph, parts):
            parts = parts_after
    return parts


class Pair:
    """A convolution and the group that is to be behind it.

    Attributes:
        step: the convolution.
        sums: its result.
        result: the window that the group stores.
        inputs: key -> window of what else the group reads, in their order.
    """

    def __init__(self, step, group, result, inputs):
        self.step, self.group, self.result, self.inputs = step, group, result, inputs
        ((_, self.sums),) = step.call.results
        self.key = key_of(self.sums)

    @classmethod
    def of(cls, graph, parts, group):
        """What is found for a group; None where there is nothing."""
        if group.axes is not None:
            return None
        at = parts.index(group)
        for number in range(at - 1, -1, -1):
            step = parts[number]
            if isinstance(step, Group) or not group.touched & set(step.makes):
                continue
            if is_convolution(step) and is_free(parts, number, at):
                found = cls.around(graph, parts[at + 1 :], step, group)
                if found is not None:
                    return found
        return None

    @classmethod
    def around(cls, graph, later, step, group):
        """The pair, if the group stores one dense result and reads what can be read."""
        ((_, sums),) = step.call.results
        written, inputs = {}, {}
        for member in group.members:
            for key, one in zip(member.in_keys, member.inputs, strict=True):
                if key not in written:
                    inputs.setdefault(key, one)
            for key, one in zip(member.out_keys, member.outputs, strict=True):
                written[key] = one
        used = {slot for part in later for slot in part.touched}
        stored = {
            key: one
            for key, one in written.items()
            if one.slot in used or graph.lives(one.slot)
        }
        if len(stored) != 1 or group.sizes != sums.sizes:
            return None
        ((key, result),) = stored.items()
        whole = prod(result.sizes) * result.dtype.itemsize
        makes = {slot for member in group.members for slot in member.step.makes}
        if (
            not is_dense(result)
            or graph.sizes.get(result.slot) != whole
            or result.slot not in {*makes, sums.slot}
            or result.dtype.name not in TYPES
        ):
            return None
        lone = [key for key in inputs if is_place(key) and key[0] == sums.slot]
        if lone != [key_of(sums)]:
            return None
        del inputs[lone[0]]
        if sums.slot != result.slot and (sums.slot in used or graph.lives(sums.slot)):
            return None
        if any(one.slot == result.slot for one in inputs.values() if is_window(one)):
            return None
        if len(inputs) > MOST or not all(
            is_window(one) and fits(one, sums) for one in inputs.values()
        ):
            return None
        return cls(step, group, result, inputs)

    def one(self):
        """The step that is both."""
        from rushlight.dispatch.dispatcher import packets

        keys = [self.key, *self.inputs]
        function = Fold(self.group.members, keys, [key_of(self.result)])
        behind = Behind(function, function.joined.digest, function.joined.name)
        values, call = self.step.call.values, self.step.call
        x, weight, bias, stride, padding, dilation, _, _, groups = values
        others = list(self.inputs.values())
        arguments = [
            *((TENSOR, x), (TENSOR, weight), (call.kind(2), bias)),
            *((TENSORS, others), (CONSTANT, name(behind)), (CONSTANT, stride)),
            *((CONSTANT, padding), (CONSTANT, dilation), (CONSTANT, groups)),
            (CONSTANT, self.result.dtype),
        ]
        op = packets()["aten", "_convolution_behind"].default
        kinds, values = map(list, zip(*arguments, strict=True))
        return step_of(made_call(op, values, kinds, call, self.result))


class Fold:
    """A group's function of a convolution's result and of what else it reads."""

    def __init__(self, members, inputs, outputs):
        self.joined = Joined(members, inputs, outputs)
        kinds = {}
        for member in members:
            kinds |= dict(zip(member.in_keys, member.in_types, strict=True))
        self.types = tuple(kinds[key] for key in inputs)

    def __call__(self, *values):
        return self.joined.applied(values, self.types)[0]


def is_convolution(step):
    """Whether a step is a convolution of float operands that is not transposed."""
    call = step.call
    if str(call.op) != "aten.convolution.default" or len(call.results) != 1:
        return False
    ((kind, sums),) = call.results
    return (
        kind == FRESH
        and call.device.on_host
        and not call.values[6]
        and sums.dtype.name in TYPES
        and sums.count > 0
        and prod(call.values[1].sizes) > 0
        and is_dense(sums)
        and all(value.plain for value in step.reads)
    )


def is_free(parts, number, at):
    """Whether nothing between a step and a group touches what it makes, or writes what
    it reads."""
    step = parts[number]
    reads = {value.slot for value in step.reads}
    for part in parts[number + 1 : at]:
        if part.touched & set(step.makes):
            return False
        writes = part.writes
        slots = writes if isinstance(part, Group) else {one.slot for one in writes}
        if reads & set(slots):
            return False
    writes = set(parts[at].writes) - set(step.makes)
    return not reads & writes


def key_of(value):
    """Where a window lies, as members of a group of its sizes say."""
    steps = tuple(
        0 if size == 1 else step
        for size, step in zip(value.sizes, value.strides, strict=True)
    )
    return value.slot, value.offset, value.dtype.name, steps


def is_dense(value):
    """Whether a window is row after row, from the start of its storage."""
    step = 1
    for size, stride in zip(value.sizes[::-1], value.strides[::-1], strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return not value.offset


def fits(one, sums):
    """Whether an operand lies as the sums do, or has one value for each channel."""
    if one.dtype.name not in OTHERS or not one.plain:
        return False
    if one.sizes == sums.sizes and key_of(one)[3] == key_of(sums)[3]:
        return True
    sizes = (1,) * (sums.ndim - one.ndim) + one.sizes
    strides = (0,) * (sums.ndim - one.ndim) + one.strides
    alone = all(size == 1 for d, size in enumerate(sizes) if d != 1)
    return alone and sizes[1] == sums.sizes[1] and (sizes[1] == 1 or strides[1] == 1)


__all__ = ["joined"]

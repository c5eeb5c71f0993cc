"""What elementwise steps do with a product's or convolution's results is in its kernel.

    s3 = convolution(s0, s1, s2)
    s6 = relu(batch_norm_apply(s3, ...) + s0)       ->  s6 = _conv_with_epilogue(...)

The group that reads the results is one function already (`rushlight.graph.fusion`); the
*head* (`rushlight.graph.fusion_anchor`) goes over each block of its sums with it while the block
is in a cache. That is the same program where nobody else sees the sums, and nothing between
the two writes what the head reads, since it runs where the group stood.
"""

from math import prod

from rushlight._inductor import config
from rushlight.core import logs
from rushlight.graph.fused_node import is_window
from rushlight.graph.fusion import Group, Joined, is_place
from rushlight.graph.fusion_anchor import head_of, is_dense, key_of
from rushlight.graph.memory_plan import peak_of
from rushlight.graph.steps import step_of
from rushlight.graph.tape import made_call

MOST = 16  # further operands


def joined(graph, parts, name):
    """The parts, with heads that have the group behind them in their kernel.

    Args:
        name: the function's, for the logs.
    """
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
            found.log(name)
    return parts


class Pair:
    """A head and the group that is to be behind it.

    Attributes:
        head: see `rushlight.graph.fusion_anchor`.
        result: the window that the group stores.
        epilogue: the name of the group's function.
        inputs: key -> window of what else the group reads, in their order.
    """

    def __init__(self, head, group, result, epilogue, inputs):
        self.head, self.group, self.result, self.inputs = head, group, result, inputs
        self.step, self.epilogue = head.step, epilogue

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
            head = head_of(step)
            if head is not None and is_free(parts, number, at):
                found = cls.around(graph, parts[at + 1 :], head, group)
                if found is not None:
                    return found
        return None

    @classmethod
    def around(cls, graph, later, head, group):
        """The pair, if the group stores one dense result and reads what can be read."""
        sums = head.sums
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
        if len(stored) != 1 or not head.spreads_over(group.sizes):
            return None
        ((key, result),) = stored.items()
        whole = prod(result.sizes) * result.dtype.itemsize
        makes = {slot for member in group.members for slot in member.step.makes}
        if (
            not is_dense(result)
            or graph.sizes.get(result.slot) != whole
            or result.slot not in {*makes, sums.slot}
            or not head.stores(result.dtype)
        ):
            return None
        lone = [one for one in inputs if is_place(one) and one[0] == sums.slot]
        if lone != [key_of(sums, group.sizes)]:
            return None
        del inputs[lone[0]]
        if sums.slot != result.slot and (sums.slot in used or graph.lives(sums.slot)):
            return None
        if any(one.slot == result.slot for one in inputs.values() if is_window(one)):
            return None
        if len(inputs) > MOST or not all(
            is_window(one) and head.reads(one, group.sizes) for one in inputs.values()
        ):
            return None
        keys = [lone[0], *inputs]
        epilogue = head.epilogue(group, Fold(group.members, keys, [key]))
        if epilogue is None:
            return None
        return cls(head, group, result, epilogue, inputs)

    def one(self):
        """The step that is both."""
        from rushlight.dispatch.dispatcher import packets

        others = list(self.inputs.values())
        arguments = self.head.arguments(others, self.epilogue, self.result)
        op = packets()["aten", self.head.operator].default
        kinds, values = map(list, zip(*arguments, strict=True))
        return step_of(made_call(op, values, kinds, self.step.call, self.result))

    def log(self, name):
        """Says which operators are behind which."""
        ops = ", ".join(member.step.op.name for member in self.group.members)
        logs.fusion.say(f"{name}: in the kernel of {self.step.op}, behind it: {ops}")


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

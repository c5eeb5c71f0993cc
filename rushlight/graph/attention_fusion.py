"""Attention that a program writes out becomes one operator, where nobody sees its scores.

    s1 = bmm(q, k)                 product of queries and turned keys
    s2 = s1 / p0                   or times, or neither
    s3 = masked_fill(s2, m, p1)    or a mask that is added, or neither
    s4 = _softmax(s3, -1)          ->   s5 = _attention_in_steps(q, k, v, m, ...)
    s5 = bmm(s4, v)

Law: every storage between is made by one step, read by the next one alone, whole, and seen
by nobody afterwards; nothing that the first product reads is written before the last one.
Numbers stay parameters. A query that sees nothing gets NaN, as from a softmax.
"""

from dataclasses import dataclass, field
from math import prod

from rushlight.core import logs
from rushlight.graph.steps import CONSTANT, NUMBER, TENSOR, step_of
from rushlight.graph.tape import made_call

SCALES = {"aten.mul.Tensor": False, "aten.div.Tensor": True}
MASKS = {"aten.masked_fill.Scalar": 2, "aten.add.Tensor": None}


@dataclass
class Found:
    """What was found on the way from the weights to the queries.

    Attributes:
        steps: numbers of the steps, the last one first.
        fill, factor: pairs of a kind of argument and its value.
        mask: the window of what is added, or of where scores are filled.
    """

    steps: list = field(default_factory=list)
    mask: object = None
    query: object = None
    key: object = None
    lead: list = field(default_factory=list)
    fill: tuple = (CONSTANT, None)
    factor: tuple = (CONSTANT, None)
    divides: bool = False


def recognise(graph, name):
    """Puts an operator in place of the steps of attention; returns how often."""
    count, number = 0, 0
    while number < len(graph.steps):
        step = graph.steps[number]
        if str(step.op) == "aten.bmm.default":
            found = Chain(graph, number).follow()
            if found is not None:
                number = replace(graph, number, found)
                count += 1
                if logs.fusion.active:
                    logs.fusion.say(f"{name}: attention: {graph.steps[number].op}")
        number += 1
    return count


class Chain:
    """The steps that lead to a product of weights and values, followed backwards."""

    def __init__(self, graph, number):
        self.graph, self.number = graph, number
        self.found = Found()
        self.masked = 0  # the number of the step that takes the mask

    def maker(self, value, user):
        """The number of the step that makes all of a window for one user; or None."""
        graph, slot = self.graph, value.slot
        if graph.lives(slot) or not is_whole(graph, value):
            return None
        touching = [
            i
            for i, step in enumerate(graph.steps)
            if slot in step.touched and (step.writes or step.makes)
        ]
        if len(touching) != 2 or touching[1] != user:
            return None
        step = graph.steps[touching[0]]
        if not step.pure or step.makes != [slot] or len(step.call.results) != 1:
            return None
        made = step.call.results[0][1]
        same = made.sizes[-2:] == value.sizes[-2:] and made.dtype is value.dtype
        if not same or not is_whole(graph, made):
            return None
        self.found.steps.append(touching[0])
        return touching[0]

    def follow(self):
        """What was found, or None where it is no attention."""
        call = self.graph.steps[self.number].call
        weights, values = call.values[:2]
        if weights.dtype.name not in ("float32", "float64") or not is_worth(weights):
            return None
        if not weights.device.on_host:
            return None
        at = self.maker(weights, self.number)
        if at is None or not self.is_softmax(at):
            return None
        scores = self.graph.steps[at].call.values[0]
        if len(scores.sizes) not in (3, 4):
            return None
        self.found.lead = list(scores.sizes[:-2])
        at = self.maker(scores, at)
        for look in (self.take_mask, self.take_scale):
            if at is not None:
                at = look(at)
        if at is None or str(self.graph.steps[at].op) != "aten.bmm.default":
            return None
        return self.found if self.stays(at, values) else None

    def is_softmax(self, at):
        """Whether a step is a softmax along the last dimension."""
        call = self.graph.steps[at].call
        if str(call.op) != "aten._softmax.default":
            return False
        x, dim, widens = call.values
        return dim in (-1, len(x.sizes) - 1) and not widens

    def take_mask(self, at):
        """Takes a mask; returns the number of the step before it."""
        call = self.graph.steps[at].call
        kind = str(call.op)
        if kind not in MASKS:
            return at
        sizes = call.results[0][1].sizes
        scores, mask = call.values[:2]
        if kind == "aten.add.Tensor":
            if call.kind(2) != CONSTANT or call.values[2] != 1:
                return None
            if call.kind(0) != TENSOR or call.kind(1) != TENSOR:
                return None
            if self.graph.lives(scores.slot) or scores.sizes != sizes:
                scores, mask = mask, scores
            if mask.dtype is not scores.dtype:
                return None
        else:
            self.found.fill = call.kind(2), call.values[2]
            if mask.dtype.name != "bool" or call.kind(2) not in (CONSTANT, NUMBER):
                return None
        if scores.sizes != sizes or not mask.plain or mask.slot == scores.slot:
            return None
        self.found.mask, self.masked = mask, at
        return self.maker(scores, at)

    def take_scale(self, at):
        """Takes a factor; returns the number of the step before it."""
        call = self.graph.steps[at].call
        kind = str(call.op)
        if kind not in SCALES:
            return at
        number = call.values[1]
        known = call.kind(1) == CONSTANT and isinstance(number, (int, float))
        if call.kind(0) != TENSOR or not (known or call.kind(1) == NUMBER):
            return None
        self.found.factor, self.found.divides = (call.kind(1), number), SCALES[kind]
        return self.maker(call.values[0], at)

    def stays(self, at, values):
        """Whether what is read is still the same where all is computed at once."""
        query, key = self.graph.steps[at].call.values[:2]
        read = [query, key, values]
        if any(not value.plain for value in read):
            return False
        if prod(self.found.lead) != query.sizes[0]:
            return False
        self.found.query, self.found.key = query, key
        since = {query.slot: at, key.slot: at}
        if self.found.mask is not None:
            since.setdefault(self.found.mask.slot, self.masked)
        return not any(
            value.slot in since and since[value.slot] < i
            for i, step in enumerate(self.graph.steps[: self.number])
            for value in step.writes
        )


def is_whole(graph, value):
    """Whether a window is all of its storage, row after row."""
    step = 1
    for size, stride in zip(
        reversed(value.sizes), reversed(value.strides), strict=True
    ):
        if size != 1 and stride != step:
            return False
        step *= size
    whole = value.count * value.dtype.itemsize == graph.sizes.get(value.slot)
    return whole and value.plain and not value.offset


def is_worth(weights):
    """Whether blocks are faster than what the steps would become."""
    queries, keys = weights.sizes[-2:]
    return queries >= 64 or (queries >= 32 and keys <= 64)


def replace(graph, number, found):
    """Puts the operator in; returns its number."""
    from rushlight.dispatch.dispatcher import packets

    call = graph.steps[number].call
    op = packets()["aten", "_attention_in_steps"].default
    mask = (CONSTANT, None) if found.mask is None else (TENSOR, found.mask)
    fill, factor = (
        (kind, float(value))
        if kind == CONSTANT and value is not None
        else (kind, value)
        for kind, value in (found.fill, found.factor)
    )
    arguments = [
        *((TENSOR, value) for value in (found.query, found.key, call.values[1])),
        *(mask, (CONSTANT, found.lead), fill, factor, (CONSTANT, found.divides)),
    ]
    made = made_call(
        op, [v for _, v in arguments], [kind for kind, _ in arguments], call
    )
    gone = set(found.steps)
    steps = [
        step_of(made) if i == number else step
        for i, step in enumerate(graph.steps)
        if i not in gone
    ]
    graph.steps = steps
    return number - len(gone)

"""From the rows that a recording leaves to events: names, shapes, memory, operations."""

import gc
import math

from rushlight._profiling.arguments import TensorFacts, read_facts
from rushlight.autograd.profiler_util import EventList, FunctionEvent
from rushlight.core import spans

OPERATOR, BACKWARD, NODE, ANNOTATION, PROGRAM, MEMORY = range(len(spans.KINDS))
# What kinds of functions PyTorch tells apart, by its numbers.
_SCOPES = {OPERATOR: 0, BACKWARD: 1, NODE: 1, ANNOTATION: 7, PROGRAM: 0}
_HERE = ("autograd/profiler.py", "profiler/profiler.py")


def _conv2d(shapes, values):
    sizes, weight = shapes[0], shapes[1]
    stride, padding, dilation = values[3:6]
    if len(sizes) != 4 or len(weight) != 4 or isinstance(padding, str):
        return None
    pair = lambda v: (v * 2 if len(v) == 1 else v) if isinstance(v, list) else [v, v]  # noqa: E731
    out = 1
    for i, (step, pad, gap) in enumerate(
        zip(pair(stride), pair(padding), pair(dilation), strict=True)
    ):
        reach = gap * (weight[2 + i] - 1)
        out *= (sizes[2 + i] + 2 * pad - reach - 1) // step + 1
    return 2 * sizes[0] * out * weight[0] * weight[1] * weight[2] * weight[3]


def _product(first, second):
    """Multiplications and additions of two matrices, or of batches of them."""

    def flops(shapes, values):
        a, b = shapes[first], shapes[second]
        if len(a) < 2 or len(b) < 2:
            return None
        return 2 * math.prod(a) * b[-1]

    return flops


def _linear(shapes, values):
    """Of a product with a weight's rows; lone vectors are not counted, as in PyTorch."""
    a, weight = shapes[0], shapes[1]
    return 2 * math.prod(a) * weight[0] if len(a) > 1 else None


def _recurrent(weight):
    """Of a sequence's products of hidden states; those of its inputs are an operator."""

    def flops(shapes, values):
        return 2 * shapes[0][0] * math.prod(shapes[weight])

    return flops


def _elements(shapes, values):
    return math.prod(shapes[0])


# What profiles count, by the operator's name: of shapes and of what is no tensor. What
# PyTorch takes apart into products, and one operator does here, counts what they do there.
FLOPS = {
    "conv2d": _conv2d,
    "mm": _product(0, 1),
    "bmm": _product(0, 1),
    "addmm": _product(1, 2),
    "baddbmm": _product(1, 2),
    "add": _elements,
    "mul": _elements,
    "linear": _linear,
    "_gru_sequence": _recurrent(3),
    "_lstm_sequence": _recurrent(4),
    "_rnn_sequence": _recurrent(3),
}


def _shape(fact):
    """An argument's sizes: none where it is no tensor."""
    if type(fact) is TensorFacts:
        return list(fact.shape)
    if type(fact) is list and any(type(one) is TensorFacts for one in fact):
        return [_shape(one) for one in fact]
    return []


def _value(fact):
    """An argument that is no tensor; nothing for those that are."""
    if type(fact) is TensorFacts:
        return ""
    if type(fact) is list and any(type(one) is TensorFacts for one in fact):
        return ""
    return fact


def _flops(name, shapes, values):
    formula = FLOPS.get(name)
    if formula is None or not shapes:
        return None
    try:
        return formula(shapes, values)
    except (IndexError, TypeError, ValueError):
        return None  # a form of the operator that the formula is not for


def python_lines(stack):
    """Lines of Python, without the profiler's own."""
    return [
        f"{file}({line}): {function}"
        for file, line, function in stack or ()
        if not file.endswith(_HERE)
    ]


class Collector:
    """Makes events of a recording's rows.

    Args:
        began: when the recording began, on the rows' clock.
        shapes, flops, memory: whether events show them.
    """

    def __init__(self, began, shapes=False, flops=False, memory=False):
        self.began = began
        self.shapes, self.flops, self.memory = shapes, flops, memory
        self.threads: dict = {}  # Python's number of a thread -> 1, 2, ...
        self.forward: dict = {}  # sequence number -> the innermost forward call
        self.open: dict = {}  # thread -> the spans around what comes next

    def events(self, rows):
        """The events, in the order in which they began."""
        found = EventList(profile_memory=self.memory, with_flops=self.flops)
        collecting = gc.isenabled()
        gc.disable()  # nothing that is made here goes away before the end
        try:
            for row in rows:
                event = self._of_memory(row) if row[0] == MEMORY else self._of_span(row)
                if event is not None:
                    event.id = len(found)
                    found.append(event)
        finally:
            if collecting:
                gc.enable()
        return found

    def _around(self, thread, start):
        """The spans of a thread that are open at a time, outermost first."""
        stack = self.open.setdefault(thread, [])
        while stack and stack[-1].end_ns <= start:
            stack.pop()
        return stack

    def _number(self, thread):
        return self.threads.setdefault(thread, len(self.threads) + 1)

    def _of_memory(self, row):
        _, _, _, thread, start, _, change, address = row
        around = self._around(thread, start)
        for event in around:
            event.cpu_memory_usage += change
        if around or not self.memory:
            return None
        moment = (start - self.began) / 1000
        event = FunctionEvent(
            0, "[memory]", self._number(thread), moment, moment, sequence_nr=-1
        )
        event.cpu_memory_usage = change
        event.kind, event.start_ns, event.end_ns = MEMORY, start, start
        event.os_thread, event.facts, event.address = thread, None, address
        return event

    def _of_span(self, row):
        kind, what, info, thread, start, end, sequence, _ = row
        facts = stack = results = None
        if kind == OPERATOR and info is not None:
            facts, stack, *rest = info
            facts = None if facts is None else [read_facts(one) for one in facts]
            results = [read_facts(one) for one in rest[0] or ()] if rest else None
        name, overload = _name(kind, what)
        event = FunctionEvent(
            0,
            name,
            self._number(thread),
            (start - self.began) / 1000,
            (end - self.began) / 1000,
            overload_name=overload,
            sequence_nr=sequence,
            scope=_SCOPES[kind],
            is_user_annotation=kind == ANNOTATION,
            stack=python_lines(stack),
        )
        event.kind, event.facts, event.os_thread = kind, facts, thread
        event.results = results
        event.start_ns, event.end_ns = start, end
        if facts is not None:
            self._describe(event, facts)
        around = self._around(thread, start)
        if around:
            around[-1].append_cpu_child(event)
            event.set_cpu_parent(around[-1])
        around.append(event)
        self._link(event, kind, sequence)
        return event

    def _describe(self, event, facts):
        shapes, values = [_shape(one) for one in facts], [_value(one) for one in facts]
        if self.shapes:
            event.input_shapes, event.concrete_inputs = shapes, values
        if self.flops:
            event.flops = _flops(event.name.rpartition("::")[2], shapes, values)

    def _link(self, event, kind, sequence):
        """A forward call and its node know each other by autograd's number."""
        if sequence < 0:
            return
        if kind == OPERATOR:
            self.forward[sequence] = event
        elif kind in (BACKWARD, NODE) and sequence in self.forward:
            call = self.forward[sequence]
            event.fwd_thread = call.thread
            event.stack = event.stack or call.stack


def _name(kind, what):
    """What an event is called, and an operator's overload."""
    if kind == OPERATOR:
        base, _, overload = what.name.partition(".")
        return f"{what.namespace}::{base}", overload
    if kind == BACKWARD:
        return f"autograd::engine::evaluate_function: {what}", None
    return str(what), None

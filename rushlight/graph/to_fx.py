"""A path as an ``fx`` graph: for backends that are functions, and for reading."""

from __future__ import annotations

import operator

from rushlight import fx
from rushlight.core.state import excluded_keys, set_keys
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor
from rushlight.fx.experimental.pre_dispatch import user_stack
from rushlight.graph import logs
from rushlight.graph.steps import FRESH, TENSOR, TENSORS, WINDOW, Graph, window
from rushlight.graph.tape import Value, hold
from rushlight.nn.modules.module import Module
from rushlight.operators import call as ops


class Exported:
    """A path's graph, and which storages its inputs and outputs are windows of.

    Attributes:
        module: the `GraphModule`; it gives a tuple.
        inputs: the windows that are passed.
        outputs: the windows that come back: what the path makes and somebody wants.
    """

    def __init__(self, leaf, wanted):
        self.graph = fx.Graph()
        self.wanted = wanted
        self.nodes: dict = {}  # slot -> the node of its first window, and the window
        self.inputs: list = []
        path = leaf.path
        self._place_inputs(path)
        for call in path:
            self._add(call)
        outputs = [
            slot for slot, kind in enumerate(wanted) if kind == 2 and slot in self.nodes
        ]
        self.outputs = [self.nodes[slot][1] for slot in outputs]
        self.graph.output(tuple(self.nodes[slot][0] for slot in outputs))
        self.module = fx.GraphModule(Module(), self.graph)

    def _place_inputs(self, path):
        """A placeholder for each storage that was there."""
        for call in path:
            for value in _windows(call):
                if value.slot not in self.nodes and not self.wanted[value.slot]:
                    node = self.graph.placeholder(f"arg{len(self.inputs)}")
                    node.meta["value"] = value
                    self.nodes[value.slot] = node, value
                    self.inputs.append(value)

    def _window(self, value):
        """The node of a window on a storage."""
        node, first = self.nodes[value.slot]
        if value.look == first.look and value.plain:
            return node
        if value.dtype is not first.dtype:
            node = self.graph.call_function(ops.view.overloads[1], (node, value.dtype))
        return self.graph.call_function(
            ops.as_strided.overloads[0],
            (node, list(value.sizes), list(value.strides), value.offset),
        )

    def _argument(self, call, i, value):
        kind = call.kind(i)
        if kind == TENSOR:
            return self._window(value)
        if kind == TENSORS:
            made = [
                self._window(one) if isinstance(one, Value) else one for one in value
            ]
            return made if isinstance(value, list) else tuple(made)
        return value

    def _add(self, call):
        rows = call.op.signature.rows
        args, kwargs = [], {}
        for i, value in enumerate(call.values):
            made = self._argument(call, i, value)
            if rows[i][3]:
                kwargs[rows[i][0]] = made
            else:
                args.append(made)
        node = self.graph.call_function(call.op, tuple(args), kwargs)
        if call.notes is not None:
            node.meta["stack_trace"] = user_stack([call.notes])
        for number, (kind, value) in enumerate(call.results):
            if kind != FRESH or value.slot in self.nodes:
                continue
            one = node
            if call.shape is not None:
                one = self.graph.call_function(operator.getitem, (node, number))
            self.nodes[value.slot] = one, value


def _windows(call):
    for i, value in enumerate(call.values):
        if call.kind(i) == TENSOR:
            yield value
        elif call.kind(i) == TENSORS:
            yield from (one for one in value if isinstance(one, Value))
    for kind, value in call.results:
        if kind == WINDOW:
            yield value


def example_of(tape, value):
    """A tensor like a window; of zeros where its storage is gone already."""
    storage = tape.slots[value.slot]
    pairs = zip(value.sizes, value.strides, strict=True)
    last = value.offset + sum((size - 1) * step for size, step in pairs)
    needed = (last + 1) * value.dtype.itemsize if value.count else 0
    if storage is not None and storage.nbytes() >= needed:
        return window(tape, value)
    storage = UntypedStorage(needed, device=value.device)
    return make_tensor(
        storage, value.sizes, value.strides, value.offset, value.dtype
    ).zero_()


class Lent:
    """A program that is another's: a function of the graph's inputs."""

    def __init__(self, exported, function, graph):
        self.exported, self.function, self.graph = exported, function, graph

    def __call__(self, tape):
        inputs = [window(tape, value) for value in self.exported.inputs]
        made = self.function(*inputs)
        made = (made,) if isinstance(made, Tensor) else tuple(made)
        for value, result in zip(self.exported.outputs, made, strict=True):
            hold(tape, value, result)


def program(runner, leaf, wanted, examples):
    """What a backend makes of a path's graph.

    Args:
        runner: the function's; its ``backend`` is called.
        leaf: the last call of the path.
        wanted: what is wanted of each storage.
        examples: storages by number, for the example inputs.
    """
    exported = Exported(leaf, wanted)
    graph = Graph.of(leaf, wanted)
    if logs.graph.active:
        logs.graph.say(f"{runner.name}:\n{exported.module.code}")

    class Tape:
        slots = examples

    inputs = [example_of(Tape, value) for value in exported.inputs]
    # the backend's own operators are nobody's path
    keys = set_keys(0, excluded_keys())
    try:
        function = runner.backend(exported.module, inputs)
    finally:
        set_keys(*keys)
    if not callable(function):
        raise TypeError(
            f"the backend {runner.backend!r} gave {function!r}, which is no function"
        )
    return Lent(exported, function, graph)

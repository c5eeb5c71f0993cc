"""Loops of numbers as machine code: a ``prim::Loop`` becomes one compiled step.

A loop is compiled where all that it reads and makes are integers, floats, truth values,
tuples of them and lists that keep their length. What is wrong while it runs returns the
number of a fault; the step then raises it with the place in the source.
"""

import ctypes
import hashlib
import struct
from array import array

from rushlight.codegen.emit.llvm import emit
from rushlight.codegen.lower import lower
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.jit import _types
from rushlight.jit._scalar_operators import LEAST, TYPES, WAYS
from rushlight.jit._sources import Fault

FEWEST_TRIPS = 9  # loops known to be shorter cost less than the call of a step
_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_SIZE = (1 << 64) - 1


class Unsuited(Exception):
    """A loop that has something besides numbers."""


class Held:
    """A list of numbers in memory: where it starts, and how many there are."""

    def __init__(self, start, size, element):
        self.start, self.size, self.element = start, size, element
        self.written = False


def _scalar(kind):
    return TYPES.get(kind.annotation_str)


def _element(kind):
    return _scalar(kind.getElementType()) if isinstance(kind, _types.ListType) else None


class LoopBody:
    """The program of a loop in the making.

    ``inputs`` are values of the graph around, in the order of their slots; a list has a
    slot for its length, and an array of its own. ``faults`` are messages with the nodes
    that they are about.
    """

    def __init__(self, node):
        self.build, self.node = Builder(), node
        self.known, self.inputs, self.lists = {}, [], []
        self.faults, self.head, self.results = [], [], []

    # -- values ------------------------------------------------------------------------

    def named(self, value):
        """The value under a name: computed here, once."""
        if isinstance(value, tuple):
            return tuple(map(self.named, value))
        if not isinstance(value, ir.Expr) or isinstance(value, ir.Const):
            return value
        return self.build.let("v", value)

    def read(self, value):
        """The expression of a value; what is made outside of the loop is an input."""
        if value in self.known:
            return self.known[value]
        node = value.node
        if node is not None and node.kind_ == "prim::Constant":
            found = self.constant(node.attributes["value"])
        elif node is not None and node.kind_ == "prim::Uninitialized":
            found = self.nothing(value.type)
        elif node is not None and node.kind_ == "prim::TupleConstruct":
            found = tuple(map(self.read, node.inputs_))
        else:
            found = self.input(value)
        self.known[value] = found
        return found

    def constant(self, python):
        if type(python) in (bool, int, float):
            return ir.Const(TYPES[type(python).__name__], python)
        raise Unsuited

    def nothing(self, kind):
        """What stands for a value that no one reads."""
        if isinstance(kind, _types.TupleType):
            return tuple(map(self.nothing, kind.elements()))
        if _scalar(kind) is None:
            raise Unsuited
        return ir.Const(_scalar(kind), 0)

    def slot(self, kind, number):
        """The number in a slot."""
        if kind.is_bool:
            return ir.load(ir.argument(0, ir.i64), number) != 0
        return ir.load(ir.argument(0, kind), number)

    def input(self, value):
        kind, element = _scalar(value.type), _element(value.type)
        if kind is None and element is None:
            raise Unsuited
        number = len(self.inputs)
        self.inputs.append(value)
        found = ir.Var(self.build.fresh("given"), kind or ir.i64)
        self.head.append(ir.Let(found, self.slot(found.type, number)))
        if kind is not None:
            return found
        stored = ir.i64 if element.is_bool else element
        start = ir.Var(self.build.fresh("items"), ir.Pointer(stored))
        self.head.append(ir.Let(start, ir.argument(1 + len(self.lists), stored)))
        self.lists.append((value, Held(start, found, element)))
        return self.lists[-1][1]

    # -- faults ------------------------------------------------------------------------

    def fault_where(self, condition, message, node, value=None):
        """Ends the step where a condition holds; ``value`` is shown in the message."""
        if isinstance(condition, ir.Const):
            return
        with self.build.when(condition):
            self.fault(message, node, value)

    def fault(self, message, node, value=None, kind=None):
        if value is not None:
            self.build.store(ir.argument(0, ir.f64), 0, value)
        self.faults.append((message, node.place, kind))
        self.build.add(ir.Return(ir.Const(ir.i32, len(self.faults))))

    # -- nodes -------------------------------------------------------------------------

    def block(self, block):
        """The statements of a block."""
        for node in block.nodes_:
            way = _NODES.get(node.kind_)
            if way is not None:
                way(self, node)
            else:
                self.operator(node)

    def operator(self, node):
        schema = node.schema
        if schema is None or schema.template is None:
            raise Unsuited
        over = f".{schema.overload_name}" if schema.overload_name else ""
        way = WAYS.get(f"{schema.name}{over}")
        if way is None:
            raise Unsuited
        operands = [self.read(value) for value in node.inputs_]
        for operand, argument in zip(operands, schema.arguments):
            if isinstance(operand, tuple) or isinstance(operand, Held) != isinstance(
                argument.type, _types.ListType
            ):
                raise Unsuited
        made = self.named(way(self, node, *operands))
        self.give(node.outputs_, [made])

    def give(self, values, made):
        for value, expression in zip(values, made):
            self.known[value] = expression

    def declared(self, value):
        """Variables of the shape of a value, first set to it."""
        if isinstance(value, tuple):
            return tuple(map(self.declared, value))
        if isinstance(value, Held):
            raise Unsuited  # another list may come into its place
        return self.build.declare("changing", value)

    def assign(self, variable, value):
        """Gives variables their next value."""
        if isinstance(variable, tuple):
            if not isinstance(value, tuple) or len(value) != len(variable):
                raise Unsuited
            for one, part in zip(variable, value):
                self.assign(one, part)
        elif not isinstance(value, ir.Expr) or value.type != variable.type:
            raise Unsuited
        elif value is not variable:
            self.build.assign(variable, value)

    # -- the whole ---------------------------------------------------------------------

    def finish(self):
        """The function of the loop, its results stored behind the inputs."""
        _loop(self, self.node)
        flat = []
        for value in self.node.outputs_:
            self.results.append(_flatten(self.known[value], flat))
        first = max(1, len(self.inputs))
        for number, value in enumerate(flat):
            kind = ir.i64 if value.type.is_bool else value.type
            self.build.store(ir.argument(0, kind), first + number, ir.cast(kind, value))
        body = (*self.head, *self.build.statements)
        name = hashlib.sha256("\n".join(map(str, body)).encode()).hexdigest()[:16]
        self.formats = [_FORMATS[value.type.name] for value in flat]
        return lower(ir.kernel(f"loop_{name}", body))


_FORMATS = {"int64": "q", "float64": "d", "bool": "q"}


def _flatten(value, into):
    """The shape of a value: how many numbers each place has; adds them to a list."""
    if isinstance(value, tuple):
        return tuple(_flatten(part, into) for part in value)
    into.append(value)
    return into[-1].type


def _constant(step, node):
    return None


def _if(step, node):
    before = step.read(node.inputs_[0])
    results = None
    kinds = [step.nothing(value.type) for value in node.outputs_]
    results = [step.declared(kind) for kind in kinds]
    yes, no = node.blocks_
    with step.build.when(before):
        _branch(step, yes, results)
    with step.build.otherwise():
        _branch(step, no, results)
    step.give(node.outputs_, [step.named(result) for result in results])


def _branch(step, block, results):
    step.block(block)
    for result, value in zip(results, block.returns.inputs_):
        step.assign(result, step.read(value))


def _loop(step, node):
    count, first, *initial = node.inputs_
    (block,) = node.blocks_
    at, *params = block.params
    again, *after = block.returns.inputs_
    build = step.build
    carried = [step.declared(step.named(step.read(value))) for value in initial]
    index = build.declare("trip", ir.Const(ir.i64, 0))
    going = build.declare("going", step.read(first))
    most = step.read(count)
    with build.loop_while(going & (index < most)):
        step.known[at] = step.named(index)
        step.give(params, [step.named(one) for one in carried])
        step.block(block)
        values = [step.read(value) for value in after]
        build.assign(going, step.read(again))
        for one, value in zip(carried, values):
            step.assign(one, value)
        build.assign(index, index + 1)
    step.give(node.outputs_, [step.named(one) for one in carried])


def _tuple(step, node):
    if node.outputs_[0].type.name is not None:
        raise Unsuited
    step.give(node.outputs_, [tuple(step.read(value) for value in node.inputs_)])


def _unpack(step, node):
    step.give(node.outputs_, step.read(node.inputs_[0]))


def _index(step, node):
    whole, at = map(step.read, node.inputs_)
    if not isinstance(whole, tuple) or not isinstance(at, ir.Const):
        raise Unsuited
    step.give(node.outputs_, [whole[at.value]])


def _raise(step, node):
    texts = [
        value.node and value.node.attributes.get("value") for value in node.inputs_
    ]
    if not all(text is None or isinstance(text, str) for text in texts):
        raise Unsuited
    if texts[0] is None:
        raise Unsuited
    step.fault(texts[0], node, kind=(texts[1:] or [None])[0] or "")


def _call(step, node):
    graph = node.attributes["function"].graph
    step.give(graph.params, [step.read(value) for value in node.inputs_])
    step.block(graph)
    step.give(node.outputs_, [step.read(value) for value in graph.returns.inputs_])


def _alias(step, node):
    step.give(node.outputs_, [step.read(node.inputs_[0])])


_NODES = {
    "prim::Constant": _constant,
    "prim::Uninitialized": _constant,
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::TupleConstruct": _tuple,
    "prim::TupleUnpack": _unpack,
    "prim::TupleIndex": _index,
    "prim::RaiseException": _raise,
    "prim::CallFunction": _call,
    "prim::unchecked_cast": _alias,
}


class CompiledLoop:
    """A loop of numbers as one call: takes its inputs, gives its results."""

    def __init__(self, step):
        function = step.finish()
        self.inputs = step.inputs
        self.faults, self.results = step.faults, step.results
        self.kernel = host.code_cache.native_text(function.name, emit(function))
        self.run = _SIGNATURE(self.kernel.address)
        self.lists = [
            (step.inputs.index(value), "d" if held.element == ir.f64 else "q", held)
            for value, held in step.lists
        ]
        kinds = [_scalar(value.type) or ir.i64 for value in step.inputs]
        given = "".join(_FORMATS[kind.name] for kind in kinds) or "q"
        self.whole = [at for at, letter in enumerate(given) if letter == "q"]
        self.count = len(kinds)
        self.pack = struct.Struct(given).pack_into
        self.unpack = struct.Struct("".join(step.formats)).unpack_from
        self.first, self.size = 8 * len(given), len(given) + len(step.formats)
        self.plain = len(self.results) == 1 and not isinstance(self.results[0], tuple)
        self.bare = all(isinstance(r, ir.Type) and not r.is_bool for r in self.results)
        self.spare = []

    def __call__(self, *values):
        held = self.copies(values) if self.lists else ()
        if held:
            values = list(values)
            for at, copied, _, _ in held:
                values[at] = len(copied)
        try:
            room = self.spare.pop()  # one that no other thread is in
        except IndexError:
            room = self.room()
        slots, data, address = room
        try:
            self.pack(slots, 0, *values)
        except struct.error:
            self.pack(slots, 0, *self.wrapped(values))
        for number, (_, copied, _, _) in enumerate(held):
            data[1 + number] = copied.buffer_info()[0]
        fault = self.run(address, None, 0, 1)
        if fault:
            self.refuse(fault, slots)
        made = self.unpack(slots, self.first)
        self.spare.append(room)
        for _, copied, original, kind in held:
            if kind.written:
                original[:] = map(bool, copied) if kind.element.is_bool else copied
        if self.bare:
            return made[0] if self.plain else made
        parts = iter(made)
        found = tuple(_shaped(shape, parts) for shape in self.results)
        return found[0] if self.plain else found

    def room(self):
        """Words for inputs and results, and the array of pointers that a call is given."""
        slots = array("q", bytes(8 * self.size))
        data = array("Q", [slots.buffer_info()[0], *[0] * len(self.lists)])
        return slots, data, data.buffer_info()[0]

    def wrapped(self, values):
        """The inputs, integers of more than 64 bits cut; a word where there is none."""
        values = list(values) or [0]
        for at in self.whole:
            values[at] = (values[at] - LEAST & _SIZE) + LEAST
        return values

    def copies(self, values):
        """The lists' numbers as arrays."""
        seen, found = {}, []
        for at, letter, held in self.lists:
            original = values[at]
            copied = seen.get(id(original))  # one list under two names stays one
            if copied is None:
                copied = seen[id(original)] = array(letter, original)
            found.append((at, copied, original, held))
        return found

    def refuse(self, fault, slots):
        """Raises what a fault stands for, with its place."""
        message, place, kind = self.faults[fault - 1]
        if "{}" in message:
            message = message.format(f"{struct.unpack_from('d', slots)[0]:f}")
        raise Fault(message, place, kind)


def _shaped(shape, parts):
    if isinstance(shape, tuple):
        return tuple(_shaped(part, parts) for part in shape)
    value = next(parts)
    return bool(value) if shape.is_bool else value


def _short(node):
    count = node.inputs_[0].node
    trips = count.attributes.get("value") if count is not None else None
    return type(trips) is int and trips < FEWEST_TRIPS


def compiled(node):
    """The compiled step of a loop; None where it is not of numbers alone, or short."""
    if _short(node):
        return None
    try:
        return CompiledLoop(LoopBody(node))
    except Unsuited:
        return None

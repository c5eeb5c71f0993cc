"""A reader for the part of the pickle format that checkpoints are made of.

It builds numbers, strings, containers and what a caller's table of globals can make,
and nothing else: no import, no attribute look-up, no call of anything not in the table.
Every length is checked against the bytes that are there before it is used.
"""

import reprlib
import struct
from pickle import UnpicklingError


class _Mark:
    """Where a run of items on the stack begins."""


_MARK = _Mark()
# Of tuples and frozensets in one another: Python hashes and compares them by recursion,
# and a member of two twice.
MAX_DEPTH = 100
MAX_WEIGHT = 1_000_000


class Reader:
    """Reads one pickled value.

    Args:
        data: the pickled bytes.
        find_global: ``(module, name)`` to the object it stands for; raises if refused.
        may_call: whether a pickled program may call this object.
        persistent: what a persistent id stands for; its ``fault``, if it has one, is an
            exception that says nothing of the data.
    """

    def __init__(self, data, find_global, may_call, persistent):
        self.data = data
        self.at = 0
        self.stack = []
        self.memo = {}
        self.nested = {}  # id of a tuple or frozenset with such in it -> depth, weight, itself
        self.find_global = find_global
        self.may_call = may_call
        self.persistent = persistent

    def load(self):
        """The value.

        Raises:
            UnpicklingError: the bytes are cut short, malformed, or ask for a program.
        """
        try:
            while True:
                code = self.take(1)[0]
                if code == STOP:
                    return self.stack.pop()
                step = STEPS.get(code)
                if step is None:
                    raise UnpicklingError(
                        f"Unsupported operand {code} at byte {self.at - 1}: "
                        "checkpoints hold numbers, text, containers and tensors only"
                    )
                step(self)
        except (UnpicklingError, RuntimeError, EOFError):
            raise
        except Exception as error:
            if error is getattr(self.persistent, "fault", None):
                raise
            raise UnpicklingError(
                f"malformed pickle data at byte {self.at}: "
                f"{type(error).__name__}: {error}"
            ) from error

    # -- the bytes ---------------------------------------------------------------

    def take(self, count):
        end = self.at + count
        if not 0 <= count <= len(self.data) - self.at:
            raise UnpicklingError(
                f"pickle data was truncated: {count} bytes wanted at byte {self.at} "
                f"of {len(self.data)}"
            )
        part = self.data[self.at : end]
        self.at = end
        return bytes(part)

    def number(self, layout):
        return struct.unpack("<" + layout, self.take(struct.calcsize(layout)))[0]

    def line(self):
        end = bytes(self.data[self.at : self.at + 4096]).find(b"\n")
        if end < 0:
            raise UnpicklingError(f"pickle data has no end of line after {self.at}")
        text = self.take(end + 1)[:-1]
        return text.decode("utf-8")

    # -- the stack ---------------------------------------------------------------

    def push(self, value):
        self.stack.append(value)

    def items(self):
        """The values since the last mark, which goes with them."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                found = self.stack[i + 1 :]
                del self.stack[i:]
                return found
        raise UnpicklingError("malformed pickle data: no mark on the stack")

    def pops(self, count):
        if len(self.stack) < count:
            raise UnpicklingError("malformed pickle data: the stack is empty")
        found = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return found

    def top(self, *kinds):
        value = self.stack[-1]
        if not isinstance(value, kinds):
            raise UnpicklingError(
                f"Can only fill {' or '.join(kind.__name__ for kind in kinds)}, "
                f"not {type(value).__name__}"
            )
        return value

    def push_nested(self, made):
        """Pushes a tuple or a frozenset, unless hashing or comparing it would not end.

        Raises:
            UnpicklingError: such values are nested too deeply in it, or too often.
        """
        inner = [
            self.nested.get(id(v), (1, 1))
            for v in made
            if type(v) in (tuple, frozenset)
        ]
        if inner:
            depth = 1 + max(entry[0] for entry in inner)
            weight = 1 + sum(entry[1] for entry in inner)
            if depth > MAX_DEPTH or weight > MAX_WEIGHT:
                raise UnpicklingError(
                    f"tuples are nested {depth} deep, {weight} in all"
                )
            self.nested[id(made)] = depth, weight, made
        self.push(made)

    def append(self, values):
        self.top(list).extend(values)

    def add(self, values):
        self.top(set).update(values)

    def set_items(self, values):
        target = self.top(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[key] = value

    def get_global(self, module, name):
        if not isinstance(module, str) or not isinstance(name, str):
            raise UnpicklingError("malformed pickle data: a global's name is not text")
        self.push(self.find_global(module, name))

    def call(self, new):
        """Calls an object of the table with a tuple of arguments."""
        function, arguments = self.pops(2)
        proper = isinstance(arguments, tuple) and (
            not new or isinstance(function, type)
        )
        if not proper or not self.may_call(function):
            raise UnpicklingError(
                f"Trying to call {reprlib.repr(function)}, which checkpoints may not do"
            )
        made = function.__new__(function, *arguments) if new else function(*arguments)
        if type(made) is frozenset:
            self.push_nested(made)
        else:
            self.push(made)

    def build(self):
        """Gives the object on top its state."""
        target, state = self.stack[-2], self.stack.pop()
        if not self.may_call(type(target)):
            raise UnpicklingError(
                f"Can only build objects of allowed types, not {type(target).__name__}"
            )
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        slots = {}
        if isinstance(state, tuple) and len(state) == 2:
            state, slots = state
        target.__dict__.update(state or {})
        for name, value in (slots or {}).items():
            setattr(target, name, value)


def _constant(value):
    return lambda r: r.push(value)


def _fresh(make):
    return lambda r: r.push(make())


def _number(layout):
    return lambda r: r.push(r.number(layout))


def _bytes(layout):
    return lambda r: r.push(r.take(r.number(layout)))


def _text(layout):
    return lambda r: r.push(r.take(r.number(layout)).decode("utf-8", "surrogatepass"))


def _latin(layout):
    return lambda r: r.push(r.take(r.number(layout)).decode("latin-1"))


def _long(layout):
    return lambda r: r.push(
        int.from_bytes(r.take(r.number(layout)), "little", signed=True)
    )


def _tuple(count):
    return lambda r: r.push_nested(tuple(r.pops(count)))


def _get(layout):
    return lambda r: r.push(r.memo[r.number(layout)])


def _put(layout):
    def step(reader):
        reader.memo[reader.number(layout)] = reader.stack[-1]

    return step


def _memoize(reader):
    reader.memo[len(reader.memo)] = reader.stack[-1]


def _big_float(reader):
    reader.push(struct.unpack(">d", reader.take(8))[0])


def _global(reader):
    module, name = reader.line(), reader.line()
    reader.get_global(module, name)


STOP = ord(".")
# Opcode -> what it does; the names are those of the pickle format.
STEPS = {
    ord(code): step
    for code, step in {
        "\x80": lambda r: r.take(1),  # PROTO
        "\x95": lambda r: r.take(8),  # FRAME
        "(": _constant(_MARK),
        "N": _constant(None),
        "\x88": _constant(True),
        "\x89": _constant(False),
        "K": _number("B"),
        "M": _number("H"),
        "J": _number("i"),
        "G": _big_float,
        "\x8a": _long("B"),
        "\x8b": _long("i"),
        "X": _text("I"),
        "\x8c": _text("B"),
        "\x8d": _text("Q"),
        "U": _latin("B"),
        "T": _latin("i"),
        "C": _bytes("B"),
        "B": _bytes("I"),
        "\x8e": _bytes("Q"),
        "}": _fresh(dict),
        "]": _fresh(list),
        "\x8f": _fresh(set),
        ")": _constant(()),
        "t": lambda r: r.push_nested(tuple(r.items())),
        "l": lambda r: r.push(r.items()),
        "\x85": _tuple(1),
        "\x86": _tuple(2),
        "\x87": _tuple(3),
        "a": lambda r: r.append(r.pops(1)),
        "e": lambda r: r.append(r.items()),
        "s": lambda r: r.set_items(r.pops(2)),
        "u": lambda r: r.set_items(r.items()),
        "\x90": lambda r: r.add(r.items()),
        "\x91": lambda r: r.push_nested(frozenset(r.items())),
        "0": lambda r: r.pops(1),
        "1": lambda r: r.items(),
        "h": _get("B"),
        "j": _get("I"),
        "q": _put("B"),
        "r": _put("I"),
        "\x94": _memoize,
        "c": _global,
        "\x93": lambda r: r.get_global(*r.pops(2)),
        "R": lambda r: r.call(False),
        "\x81": lambda r: r.call(True),
        "b": lambda r: r.build(),
        "Q": lambda r: r.push(r.persistent(r.pops(1)[0])),
    }.items()
}

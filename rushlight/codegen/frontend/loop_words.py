"""Words of loop kernels, and the functions that they are read from."""

import ast
import inspect
import textwrap
from functools import cached_property
from types import SimpleNamespace

from rushlight.codegen.frontend.storage import accumulated
from rushlight.ir.expr import FLOATS, SHORT_NAMES

LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}


class TypeName:
    """A dtype known when the kernel is specialised; called, it converts a value."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name

    def __call__(self, value):
        raise TypeError(f"{self.name}(...) has a meaning only inside a loop kernel")


T, A, I = TypeName("T"), TypeName("A"), TypeName("I")
boolean, f16, bf16, f32, f64 = map(TypeName, ("boolean", "f16", "bf16", "f32", "f64"))
i8, i16, i32, i64 = map(TypeName, ("i8", "i16", "i32", "i64"))
u8, u16, u32, u64 = map(TypeName, ("u8", "u16", "u32", "u64"))


class Special:
    """A word that the reader of kernels understands: it has no value of its own."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *args):
        raise TypeError(f"{self.name}(...) has a meaning only inside a loop kernel")


lowest, highest = Special("lowest"), Special("highest")
local, vectorized = Special("local"), Special("vectorized")
is_float, stored = Special("is_float"), Special("stored")
atomic_add, atomic_max = Special("atomic_add"), Special("atomic_max")


class Integers:
    """A record of integer parameters: one annotation for several of the launch's ints.

    The field ``count`` of a parameter ``width`` is frozen as ``width_count``.

    >>> sizes = Integers("rows columns")
    >>> sizes.of([2, 3]).columns
    3
    """

    def __init__(self, names):
        self.names = tuple(names.split())

    def of(self, numbers):
        """The record with the next numbers of an iterable."""
        numbers = iter(numbers)
        return SimpleNamespace(**{name: int(next(numbers)) for name in self.names})


class Source:
    """A function's syntax tree, with what is needed to point at its lines."""

    def __init__(self, function):
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.file = function.__code__.co_filename
        self.first_line = function.__code__.co_firstlineno

    @cached_property
    def tree(self):
        """The ``def`` statement, its lines numbered as in the file."""
        try:
            lines, start = inspect.getsourcelines(self.function)
        except OSError:
            self.fail(
                self.function,
                "its source text is not known: a loop kernel is read from a file or "
                "from a notebook's cell, not from a string or a bare prompt",
            )
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        ast.increment_lineno(tree, start - 1)
        return tree

    @cached_property
    def parameters(self):
        """Pairs of parameter name and annotation text."""
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            self.fail(self.tree, "parameters are positional only")
        return [(item.arg, self.annotation(item)) for item in arguments.args]

    def annotation(self, item):
        note = item.annotation
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            return note.value
        return note.id if isinstance(note, ast.Name) else None

    def lookup(self, name):
        """The value of a name from the enclosing functions, a global or a built-in."""
        free = self.function.__code__.co_freevars
        if name in free:
            return self.function.__closure__[free.index(name)].cell_contents
        scope = self.function.__globals__
        if name in scope:
            return scope[name]
        builtins = scope.get("__builtins__")
        table = builtins if isinstance(builtins, dict) else vars(builtins)
        return table.get(name)

    def fail(self, node, fact):
        """Raises a SyntaxError that names the file and line of ``node``."""
        line = getattr(node, "lineno", self.first_line)
        raise SyntaxError(f"{self.file}:{line}: in loop kernel {self.name}: {fact}")


class Inline(Source):
    """A helper that loop kernels may call; its body is copied into theirs."""

    def __call__(self, *args):
        return self.function(*args)


def type_table(choices):
    """What every type name stands for: ``T`` and those derived from it, and the rest.

    >>> table = type_table({"T": "bfloat16"})
    >>> table["T"], table["A"], table["i64"]
    ('bfloat16', 'float32', 'int64')
    """
    table = dict(LONG_NAMES)
    table["T"] = choices.get("T", "float32")
    table["A"] = choices.get("A") or accumulated(table["T"])
    table["I"] = choices.get("I", "int64")
    return table


def bounds(type):
    """The lowest and highest value of a type; infinities for floats.

    >>> from rushlight.ir.expr import Type
    >>> bounds(Type("int8"))
    (-128, 127)
    """
    if type.name in FLOATS:
        return float("-inf"), float("inf")
    if type.is_bool:
        return False, True
    low = -(1 << type.bits - 1) if type.is_signed else 0
    return low, low + (1 << type.bits) - 1

"""What names of a program stand for while it is translated, values of graphs aside.

Modules, functions, classes and ranges are known when the program is translated; only
what runs need becomes a :class:`~rushlight.jit.ir.Value`.
"""


class Sugar:
    """Something that a name stands for and that is no value of the graph."""

    kind = "value"


class PythonValue(Sugar):
    """An object of Python: a module, a function, a class or a constant."""

    kind = "python value"

    def __init__(self, python, name=""):
        self.python, self.name = python, name


class Stored(Sugar):
    """A value that an archive keeps beside its code."""

    kind = "constant"

    def __init__(self, python):
        self.python = python


class Builtin(Sugar):
    """An operator; ``self_value`` is bound as its first operand."""

    kind = "builtin"

    def __init__(self, name, self_value=None):
        self.name, self.self_value = name, self_value


class Special(Sugar):
    """A form that the language has by name: ``annotate``, ``isinstance``, …"""

    kind = "special form"

    def __init__(self, name):
        self.name = self.kind = name


class Namespace(Sugar):
    """Dotted names of archives: ``torch``, ``ops.prim``, ``__torch__.a``."""

    kind = "module"

    def __init__(self, path):
        self.path = path


class TypeName(Sugar):
    """A type that is called as a cast: ``int``, ``float``, …"""

    kind = "type"

    def __init__(self, type):
        self.type = type


class FunctionValue(Sugar):
    """A translated function."""

    kind = "function"

    def __init__(self, function):
        self.function = function


class ClassValue(Sugar):
    """A class of the program: calling it makes an object."""

    kind = "class"

    def __init__(self, type):
        self.type = type


class Creator(Sugar):
    """``Class.__new__``: an object before its ``__init__``."""

    kind = "function"

    def __init__(self, type):
        self.type = type


class Method(Sugar):
    """A method of an object."""

    kind = "method"

    def __init__(self, self_value, name):
        self.self_value, self.name = self_value, name


class Fixed(Sugar):
    """Several things in a row, known one by one: what a loop over them repeats."""

    kind = "tuple"

    def __init__(self, items, keys=None):
        self.items, self.keys = list(items), keys


class Range(Sugar):
    """``range`` of values."""

    kind = "range"

    def __init__(self, start, stop, step, simple):
        self.start, self.stop, self.step, self.simple = start, stop, step, simple


class Zipped(Sugar):
    """``zip`` or ``enumerate``: several things walked through together."""

    kind = "iterable"

    def __init__(self, parts):
        self.parts = parts


class Counted(Sugar):
    """The numbers of ``enumerate``."""

    kind = "iterable"

    def __init__(self, start):
        self.start = start


class Super(Sugar):
    """``super()`` of a module's method."""

    kind = "super"

    def __init__(self, self_value):
        self.self_value = self_value


class Undefined(Sugar):
    """A name that not every way here defines."""

    kind = "undefined"

    def __init__(self, message, place=None):
        self.message, self.place = message, place


class Held(Sugar):
    """``items``, ``keys`` or ``values`` of a module that holds others."""

    kind = "method"

    def __init__(self, self_value, name):
        self.self_value, self.name = self_value, name


class Closure(Sugar):
    """A function inside of another, which ``fork`` runs: an archive's."""

    kind = "function"

    def __init__(self, tree):
        self.tree = tree


class Ignored(Sugar):
    """A method that is not translated."""

    kind = "method"

    def __init__(self, self_value, python):
        self.self_value, self.python = self_value, python

"""Loop kernels: a restricted Python function, read from its source, becomes loop IR.

    @loops
    def running_sum(out: "T*", x: "T*", size: int, begin: int, end: int):
        for row in range(begin, end):
            mass = A(0)
            for i in range(size):
                mass = mass + A(x[row * size + i])
                out[row * size + i] = T(mass)

Parameters annotated ``"T*"`` are arrays of a dtype chosen by ``specialize(T=...)``, in
the order in which the launcher passes pointers; ``int`` parameters arrive through the
kernel's integers in their own order, or are frozen into the code by
``specialize(size=16)``. The last two are the range that one call handles.

Type names: ``T`` the data, ``A`` what to accumulate it in, ``I`` an index dtype, and
``f32``, ``i64``, ... themselves. float16 and bfloat16 are computed in float32; bool
reads as a truth value. ``//`` and ``%`` round as Python's do; ``min`` and ``max`` take
integers; ``is_float(T)`` is known, so a branch on it is chosen while reading;
``stored("T", x)`` is ``x`` as it would be read again after it was stored. A name
keeps the type of its first value; it lives in the block where it first
appears. Functions of `rushlight.codegen.language` may be called.

The same function runs as plain Python over NumPy arrays: ``kernel.reference``.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cached_property

from rushlight.codegen import target
from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.storage import accumulated
from rushlight.codegen.frontend.storage_only import refuse_stored_only
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


class Loops(Source):
    """A loop kernel: specialised for dtypes on first use, and kept.

    Attributes:
        example: the specialisation that `rushlight.explain` shows.
    """

    def __init__(self, function):
        super().__init__(function)
        self.specialized = {}
        self.example = {"T": "float32"}

    def specialize(self, **choices):
        """The native kernel for these dtypes and frozen integers.

        Args:
            choices: dtype names for ``T``, ``A``, ``I``; numbers for ``int`` ones.

        Raises:
            NotImplementedError: a type is stored only, and not computed with.
        """
        key = tuple(choices.items())
        if not target.running():
            key = (target.current(), key)
        kernel = self.specialized.get(key)
        if kernel is None:
            refuse_stored_only(self.name, choices.values())
            kernel = target.maker()(
                self.kernel_name(choices),
                self.digest,
                lambda: self.lower(**choices),
            )
            # several threads may get here at once: all must keep the same machine code
            kernel = self.specialized.setdefault(key, kernel)
        return kernel

    @cached_property
    def digest(self):
        """A digest of all that describes this kernel; see `fingerprint`."""
        return fingerprint(self.function)

    def kernel_name(self, choices):
        """A symbol that tells this specialisation from the others."""
        marks = [f"{name}_{value}" for name, value in sorted(choices.items())]
        return "_".join(["loops", self.name, *marks]).replace("-", "m")

    def trace(self, **choices):
        """The source text, and the loop IR read from it for the chosen dtypes."""
        from rushlight.codegen.frontend.loops_reader import read_kernel

        function = read_kernel(self, type_table(choices), choices)
        return inspect.getsource(self.function), function

    def lower(self, **choices):
        """The loop IR after every pass, as emitters see it.

        Raises:
            NotImplementedError: the kernel is not one of complex values.
        """
        from rushlight.codegen.frontend.front import refuse_complex
        from rushlight.codegen.lower import lower

        try:
            return lower(self.trace(**choices)[1])
        except (AttributeError, KeyError, SyntaxError, TypeError) as error:
            refuse_complex(self.name, repr(choices), error)
            raise

    def stages(self, **choices):
        """Every stage on the way to machine code, for `rushlight.explain`."""
        from rushlight.codegen.frontend.front import stages_of

        return stages_of(*self.trace(**choices))

    def reference(self, arrays, ints, begin, end, **choices):
        """Runs the source itself, as Python over flat NumPy arrays, in place.

        Args:
            arrays: one array for each array parameter (None where absent).
            ints: one number for each ``int`` parameter.
        """
        from rushlight.codegen.frontend.loops_reference import run_reference

        run_reference(self, type_table(choices), arrays, ints, begin, end)

    def __call__(self, *args):
        raise TypeError(
            f"{self.name} is a loop kernel: launch {self.name}.specialize(T=...), or "
            f"run {self.name}.reference(arrays, ints, begin, end)"
        )


def loops(function) -> Loops:
    """Makes a function over flat arrays and integers a loop kernel."""
    return Loops(function)


def loops_inline(function) -> Inline:
    """Makes a function a helper that loop kernels may call."""
    return Inline(function)


def formula(function):
    """Lets loop kernels call a function of symbolic values, such as a long polynomial."""
    function.is_formula = True
    return function


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

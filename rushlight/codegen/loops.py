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
``specialize(size=16)``. A parameter annotated with `Integers` is a record of them, whose
fields are frozen as ``specialize(width_size=16)``. The last two are the range that one
call handles.

Type names: ``T`` the data, ``A`` what to accumulate it in, ``I`` an index dtype, and
``f32``, ``i64``, ... themselves. float16 and bfloat16 are computed in float32; bool
reads as a truth value. ``//`` and ``%`` round as Python's do; ``min`` and ``max`` take
integers; ``is_float(T)`` is known, so a branch on it is chosen while reading;
``stored("T", x)`` is ``x`` as it would be read again after it was stored;
``atomic_add(out, place, x)`` and ``atomic_max`` join a value with an element that other
threads may join theirs with. A name
keeps the type of its first value; it lives in the block where it first
appears. Functions of `rushlight.codegen.language` may be called.

The same function runs as plain Python over NumPy arrays: ``kernel.reference``.
"""

import inspect
from functools import cached_property

from rushlight.codegen import target
from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.loop_words import (
    A,
    I,
    Inline,
    Integers,
    Source,
    Special,
    T,
    TypeName,
    atomic_add,
    atomic_max,
    bf16,
    boolean,
    bounds,
    f16,
    f32,
    f64,
    highest,
    i8,
    i16,
    i32,
    i64,
    is_float,
    local,
    lowest,
    stored,
    type_table,
    u8,
    u16,
    u32,
    u64,
    vectorized,
)
from rushlight.codegen.frontend.type_support import (
    USUAL,
    TypeSupport,
    refuse_complex,
    refuse_stored_only,
)

__all__ = [
    "A",
    "I",
    "Inline",
    "Integers",
    "Loops",
    "Source",
    "Special",
    "T",
    "TypeName",
    "atomic_add",
    "atomic_max",
    "bf16",
    "boolean",
    "bounds",
    "f16",
    "f32",
    "f64",
    "formula",
    "highest",
    "i16",
    "i32",
    "i64",
    "i8",
    "is_float",
    "local",
    "loops",
    "loops_inline",
    "lowest",
    "stored",
    "type_table",
    "u16",
    "u32",
    "u64",
    "u8",
    "vectorized",
]


class Loops(Source):
    """A loop kernel: specialised for dtypes on first use, and kept.

    Attributes:
        example: the specialisation that `rushlight.explain` shows.
        schedule: a pass over the loops as they are written, or None.
        support: the types that it takes beside the usual ones.
    """

    def __init__(self, function, schedule=None, support=USUAL):
        super().__init__(function)
        self.schedule, self.support = schedule, support
        self.specialized = {}
        self.example = {"T": "float32"}

    @cached_property
    def collapsed(self):
        """The same kernel with its outer loops as one: a range counts their turns.

        What devices of many threads run, where an item is a thread's.
        """
        from rushlight.codegen.passes.collapse_loops import collapse_loops

        return Loops(self.function, collapse_loops, self.support)

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
            refuse_stored_only(self, choices.values())
            kernel = target.maker()(
                self.kernel_name(choices), self.digest, lambda: self.lower(**choices)
            )
            # several threads may get here at once: all must keep the same machine code
            kernel = self.specialized.setdefault(key, kernel)
        return kernel

    @cached_property
    def digest(self):
        """A digest of all that describes this kernel; see `fingerprint`."""
        return fingerprint(self.function, *filter(None, [self.schedule]))

    def kernel_name(self, choices):
        """A symbol that tells this specialisation from the others."""
        marks = [f"{name}_{value}" for name, value in sorted(choices.items())]
        if self.schedule is not None:
            marks.insert(0, self.schedule.__name__)
        return "_".join(["loops", self.name, *marks]).replace("-", "m")

    def trace(self, **choices):
        """The source text, and the loop IR read from it for the chosen dtypes."""
        from rushlight.codegen.frontend.loops_reader import read_kernel

        function = read_kernel(self, type_table(choices), choices)
        if self.schedule is not None:
            function = self.schedule(function)
        return inspect.getsource(self.function), function

    def lower(self, **choices):
        """The loop IR after every pass, as emitters see it.

        Raises:
            NotImplementedError: the kernel is not one of complex values.
        """
        from rushlight.codegen.lower import lower

        try:
            return lower(self.trace(**choices)[1])
        except (AttributeError, KeyError, SyntaxError, TypeError) as error:
            refuse_complex(self, repr(choices), error)
            raise

    def stages(self, **choices):
        """Every stage on the way to machine code, for `rushlight.explain`."""
        from rushlight.codegen.frontend.front import stages_of

        return stages_of(*self.trace(**choices))

    def reference(self, arrays, ints, begin, end, **choices):
        """Runs the source itself, as Python over flat NumPy arrays, in place.

        Args:
            arrays: one array for each array parameter (None where absent).
            ints: one number for each ``int`` parameter, and each field of a record.
        """
        from rushlight.codegen.frontend.loops_reference import run_reference

        run_reference(self, type_table(choices), arrays, ints, begin, end)

    def __call__(self, *args):
        raise TypeError(
            f"{self.name} is a loop kernel: launch {self.name}.specialize(T=...), or "
            f"run {self.name}.reference(arrays, ints, begin, end)"
        )


def loops(function=None, **support) -> Loops:
    """Makes a function over flat arrays and integers a loop kernel.

    Args:
        function: the loops.
        support: the types that it takes beside the usual ones; see `TypeSupport`.
    """
    if function is None:
        return lambda one: loops(one, **support)
    return Loops(function, support=TypeSupport(**support))


def loops_inline(function) -> Inline:
    """Makes a function a helper that loop kernels may call."""
    return Inline(function)


def formula(function):
    """Lets loop kernels call a function of symbolic values, such as a long polynomial."""
    function.is_formula = True
    return function

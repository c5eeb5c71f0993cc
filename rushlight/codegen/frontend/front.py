"""What every kernel front object shares: identity, specialisation, inspection."""

import functools
from contextlib import contextmanager
from dataclasses import dataclass

from rushlight.codegen import target
from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.type_support import USUAL, refuse_complex

SYMBOLS = str.maketrans(
    {"-": "m", ".": "p", "+": "", "(": "", ")": "", ",": "_", " ": "", "'": ""}
)


@dataclass(frozen=True)
class Stages:
    """A kernel at each step on its way to machine code.

    Attributes:
        expression: what was traced, as text.
        loops: pairs of pass name and the loops after it.
        llvm: the LLVM IR handed over.
        optimized: what LLVM's pipeline made of it.
        assembly: the machine code as text.
    """

    expression: str
    loops: tuple
    llvm: str
    optimized: str
    assembly: str


def stages_of(expression, function) -> Stages:
    """Every stage of a traced kernel: the loops after each pass, LLVM IR, assembly."""
    from rushlight.codegen import toolchain
    from rushlight.codegen.emit import llvm
    from rushlight.codegen.lower import lower_in_steps

    steps = tuple(lower_in_steps(function))
    text = llvm.emit(steps[-1][1])
    compiled = toolchain.compile_ir(text, inspect=True)
    loops = tuple((name, str(program)) for name, program in steps)
    return Stages(expression, loops, text, compiled.optimized, compiled.assembly)


class Front:
    """A kernel described in Python, made native for given dtypes on first use.

    Subclasses define ``trace(*specialization)``, which returns the traced expression
    and the loops built from it, and ``kernel_name(*specialization)``. Those that go over
    rows define ``program(*specialization)``: the results and the layout.

    Attributes:
        has_rows: whether it does.
        support: the types that it takes beside the usual ones.
    """

    has_rows = False
    support = USUAL

    def __init__(self, function):
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.specialized = {}

    @functools.cached_property
    def digest(self) -> str:
        """A digest of all that describes this kernel; see `fingerprint`."""
        return fingerprint(self.function)

    def native(self, *specialization):
        """The native kernel of a specialisation, built at most once a process."""
        key = specialization if target.running() else (target.current(), specialization)
        kernel = self.specialized.get(key)
        if kernel is None:
            name = self.kernel_name(*specialization)
            kernel = target.maker()(
                name, self.digest, lambda: self.lowered(*specialization)
            )
            if not target.running():
                self.equip(kernel, *specialization)
            # several threads may get here at once: all must keep the same machine code
            kernel = self.specialized.setdefault(key, kernel)
        return kernel

    def equip(self, kernel, *specialization):
        """Tells a device's kernel what its launches ask beside the loops."""
        if self.has_rows:
            kernel.grid = functools.partial(self.grid, *specialization)
            kernel.parts = functools.partial(self.parts, *specialization)
            kernel.find_parted = functools.partial(self.parted, *specialization)
            kernel.registers = functools.partial(self.registers, *specialization)

    def lowered(self, *specialization):
        """The loops of a specialisation after every pass.

        Raises:
            NotImplementedError: the function is not one of these types' values.
        """
        from rushlight.codegen.lower import lower

        with self.refusals(*specialization):
            return lower(self.trace(*specialization)[1])

    @contextmanager
    def refusals(self, *specialization):
        """Says of what could not be traced that the function is not one of such values."""
        from rushlight.ir.spec import SpecError

        try:
            yield
        except (AttributeError, KeyError, TypeError) as error:
            refuse_complex(self, repr(specialization), error)
            if isinstance(error, SpecError):
                types = specialization[0]
                types = types if isinstance(types, str) else " and ".join(types)
                raise NotImplementedError(
                    f'"{self.name}" is not implemented for {types}'
                ) from error
            raise

    def ways(self, *specialization):
        """What decides how a kernel's rows are worked on; see `nest_loops.ways`."""
        from rushlight.codegen.frontend.nest_loops import ways

        with self.refusals(*specialization):
            return ways(self.program(*specialization)[0])

    def grid(self, *specialization, **how):
        """The kernel over rows as a function of a device's grid.

        Args:
            how: as for `gpu_lowering.rows`.
        """
        from rushlight.codegen.schedule import gpu_lowering

        name = self.kernel_name(*specialization)
        return gpu_lowering.rows(name, *self.program(*specialization), **how)

    def registers(self, *specialization):
        """What keeping a row takes; see `gpu_lowering.registers_of`."""
        from rushlight.codegen.schedule import gpu_lowering

        return gpu_lowering.registers_of(*self.program(*specialization))

    def parted(self, *specialization):
        """How the kernel's rows become parts; see `grids.parted`."""
        from rushlight.codegen.schedule import gpu_lowering

        return gpu_lowering.parted(*self.program(*specialization))

    def parts(self, *specialization, **how):
        """The kernel where rows are many blocks'; see `grids.parts`."""
        from rushlight.codegen.schedule import gpu_lowering

        name = self.kernel_name(*specialization)
        return gpu_lowering.parts(name, *self.program(*specialization), **how)

    def stages(self, *specialization) -> Stages:
        """Every stage of a specialisation, for `rushlight.explain`."""
        return stages_of(*self.trace(*specialization))

    def __repr__(self):
        return f"<{type(self).__name__.lower()} kernel {self.name}>"


def symbol(*parts) -> str:
    """A linker symbol from a kernel's name and what it is specialised for.

    >>> symbol("add", ("float32", "float32"), ("float32",), "float32", ())
    'add__f32_f32__f32__f32'
    """
    words = [
        "_".join(map(_word, part)) if isinstance(part, tuple) else _word(part)
        for part in parts
    ]
    return "__".join(word for word in words if word)


def _word(value):
    from rushlight.ir.expr import SHORT_NAMES

    text = SHORT_NAMES.get(value, str(value)) if isinstance(value, str) else repr(value)
    clean = text.translate(SYMBOLS)
    return "".join(c if c.isalnum() or c == "_" else f"x{ord(c):x}" for c in clean)

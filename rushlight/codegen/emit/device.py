"""Renders entries for an NVIDIA device as PTX: functions of a grid with a launch's parameters.

What the entries are is said in `rushlight.codegen.schedule.gpu_entries`.
"""

from rushlight.codegen.emit import llvm
from rushlight.codegen.schedule import gpu_entries
from rushlight.codegen.target import gpu_target
from rushlight.ir import expr as ir

THREADS = 256  # of a block whose threads take elements, or spans, at most


def emit(function: ir.Function, narrow=False) -> str:
    """The PTX of a loop kernel whose threads take spans, as `gpu_entries.span_entry` has it."""
    return emit_entry(gpu_entries.span_entry(function, narrow))


def emit_grid(function: ir.Function, held=(), threads=None) -> str:
    """The PTX of a function of a grid.

    Args:
        held: as for `gpu_entries.grid_entry`.
        threads: how many a block has, at most.
    """
    return emit_entry(gpu_entries.grid_entry(function, held), threads)


def emit_elements(function, count, ndim, numbers, narrow, wide=None) -> str:
    """The PTX of an elementwise kernel for a layout, as `gpu_entries.element_entry` has it."""
    entry = gpu_entries.element_entry(function, count, ndim, numbers, narrow, wide)
    return emit_entry(entry)


def emit_lists(function, operands, wide=None) -> str:
    """The PTX of an elementwise kernel over lists, as `gpu_entries.list_entry` has it."""
    return emit_entry(gpu_entries.list_entry(function, operands, wide))


def emit_entry(function: ir.Function, threads=THREADS) -> str:
    """The PTX of an entry.

    Args:
        function: its parameters are those of a launch.
        threads: how many a block has, at most: registers follow it.
    """
    module = llvm._Module(gpu_target(), scratch=False)
    module.bodies.append(_Entry(module, function, threads).text(""))
    return assemble(module)


class _Entry(llvm._Emitter):
    """Writes an entry: what a launch passes by value lies in its parameters."""

    def __init__(self, module, function, threads):
        super().__init__(module, function)
        bound = f'"nvvm.maxntid"="{threads}" ' if threads else ""
        blocks = function.blocks
        bound += f'"nvvm.minctasm"="{blocks}" ' if blocks else ""
        self.attributes = f"nounwind {bound}"

    def parameter(self, var):
        if var.name not in gpu_entries.BY_VALUE:
            return super().parameter(var)
        count, bytes = gpu_entries.BY_VALUE[var.name]
        return f"ptr byval([{count} x i{8 * bytes}]) align {bytes}"


def assemble(module) -> str:
    """The PTX text of a collected module."""
    from rushlight.codegen.toolchain import compile_ptx

    return compile_ptx(module.text(), module.target)

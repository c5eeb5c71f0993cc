"""Programs as text that one can read: Python, kernel by kernel."""

from __future__ import annotations

from rushlight.programs.fusion import Fused


def code_of(program):
    """A program as text: the fused kernels as functions, then the steps in order."""
    kernels, lines, seen = [], [], {}
    marks = {0: "before", 2: "after"}
    for slot, kind in enumerate(program.graph.wanted):
        if kind == 0:
            lines.append(f"    # s{slot} is there {marks[0]}")
    for step in program.steps:
        told = step.told
        if step.kernel is None:
            lines.append(f"    {told}")
        else:
            slots = ", ".join("number" if s is None else f"s{s}" for s in step.places)
            name = told if isinstance(told, str) else told.name
            if isinstance(told, Fused) and name not in seen:
                seen[name] = True
                kernels.append(f"# {told.tell()}\n{expression_of(told)}\n")
            for target, source in step.taken:
                lines.append(f"    s{target} = memory_of(s{source})")
            for slot in step.asked:
                lines.append(f"    s{slot} = memory({program.graph.sizes[slot]})")
            lines.append(f"    {name}({slots})")
        if step.freed:
            lines.append(f"    del {', '.join(f's{slot}' for slot in step.freed)}")
    return "\n".join([*kernels, "def program():", *(lines or ["    pass"])])


def expression_of(fused):
    """What a fused kernel computes for each element."""
    kinds = tuple(_types(fused))
    outputs, inputs = fused.expressions(kinds, kinds, ())
    return fused.describe(outputs, inputs)


def _types(fused):
    from rushlight.programs.fusion import _kind_of

    return [_kind_of(one, fused.members) for one in fused.inputs]

"""Programs as text that one can read: Python, kernel by kernel."""

from __future__ import annotations

from rushlight.graph.fusion import Joined, _kind_of

RUN, LAUNCH, CHECK, FILL, LOOK = range(5)


def code_of(program):
    """A program as text: the fused kernels as functions, then the steps in order."""
    kernels, lines, seen = [], [], {}
    marks = {0: "before", 2: "after"}
    for slot, kind in enumerate(program.graph.wanted):
        if kind == 0:
            lines.append(f"    # s{slot} is there {marks[0]}")
    for step in program.steps:
        told = step.told
        for target, source in step.taken:
            lines.append(f"    s{target} = memory_of(s{source})")
        for place in step.asked:
            lines.append(f"    s{place} = memory({program.bytes_of(place)})")
        if step.kind == RUN:
            lines.append(f"    {told}")
        elif step.kind == LAUNCH:
            slots = ", ".join("number" if s is None else f"s{s}" for s in step.places)
            name = told.name if isinstance(told, Joined) else str(told)
            if isinstance(told, Joined) and name not in seen:
                seen[name] = True
                kernels.append(f"# {told.tell()}\n{expression_of(told)}\n")
            lines.append(f"    {name}({slots})")
        elif step.kind == CHECK:
            lines.append(f"    check({step.call.op})")
        elif step.kind == LOOK:
            lines.append(f"    look(s{step.places[0]}, {step.call.op})")
        else:
            lines.append(f"    s{step.places[0]}[:] = table")
        if step.freed:
            lines.append(f"    del {', '.join(f's{slot}' for slot in step.freed)}")
    return "\n".join([*kernels, "def program():", *(lines or ["    pass"])])


def expression_of(fused):
    """What a fused kernel computes for each element, or for each row."""
    kinds = tuple(_kind_of(key, fused.members) for key in fused.inputs)
    outputs, inputs = fused.expressions(kinds, kinds, ())
    return fused.describe(outputs, inputs)

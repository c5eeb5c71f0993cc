"""What is written about each program that is built: logs, and files where they are wanted.

With ``TORCH_COMPILE_DEBUG=1``, or ``torch._inductor.config.trace.enabled``, each program has
a folder:

    torch_compile_debug/run_2026_11_27_01_22_39_000000-pid_7/torchinductor/model__0_forward_0.0/
        fx_graph_readable.py      the operators, as a module of `fx`
        ir_pre_fusion.txt         the same with their memory, before kernels are made of them
        ir_post_fusion.txt        which became one kernel
        output_code.py            the program: Python that runs
        arguments.bin             what it was given, if ``trace.save_real_tensors``
"""

import os
import sys
from datetime import datetime
from itertools import count
from pathlib import Path

from rushlight._inductor import config
from rushlight.core import logs
from rushlight.graph.fusion import Group
from rushlight.graph.output_code import code_of

_numbers = count()
kept: list = []  # lists that the texts of programs join, while somebody wants them
_begun = f"{datetime.now():run_%Y_%m_%d_%H_%M_%S_%f}-pid_{os.getpid()}"


def write_trace(runner, tape, leaf, wanted, program):
    """Writes what is wanted of a program that is about to run for the first time.

    Args:
        runner: the compiled function's.
        tape: has the storages, by number.
        leaf: the last call of the path.
        wanted: what is wanted of each storage.
        program: the path's.
    """
    if logs.output_code.active or kept:
        text = code_of(program.graph, runner.name)
        logs.output_code.say(f"{runner.name}:\n{text}")
        for texts in kept:
            texts.append(text)
    if not config.trace.enabled:
        return
    folder = new_folder(runner)
    write_files(folder, runner.name, tape, leaf, wanted, program)
    sys.stderr.write(f"{runner.name} debug trace: {folder}\n")


def new_folder(runner):
    """The folder of the next program, which it makes."""
    number = next(_numbers)
    kind = "backward" if runner.name.endswith(", backward") else "forward"
    root = Path(config.trace.debug_dir or runner.limits.debug_dir_root)
    folder = (
        root / _begun / "torchinductor" / f"model__{number}_{kind}_{number}.{number}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_files(folder, name, tape, leaf, wanted, program):
    """Writes a program's files."""
    from rushlight.graph.generated import save_arguments
    from rushlight.graph.to_fx import Exported

    graph, saved, files = program.graph, None, {}
    if config.trace.save_real_tensors:
        storages = {slot: tape.slots[slot] for slot in graph.given_windows()}
        save_arguments(folder / "arguments.bin", storages.values())
        saved = "arguments.bin", {slot: s.nbytes() for slot, s in storages.items()}
    if config.trace.fx_graph:
        exported = Exported(leaf, wanted, numbers=graph.numbers)
        files["fx_graph_readable.py"] = exported.module.code.strip()
    if config.trace.ir_pre_fusion:
        files["ir_pre_fusion.txt"] = str(graph)
    if config.trace.ir_post_fusion:
        files["ir_post_fusion.txt"] = "\n".join(map(shown, graph.items))
    if config.trace.output_code:
        files["output_code.py"] = code_of(graph, name, saved).strip()
    for file, text in files.items():
        (folder / file).write_text(f"{text}\n", encoding="utf-8")


def shown(item):
    """What an item of a program is: the operators of a kernel, or a call."""
    if not isinstance(item.group, Group):
        return f"call: {item.instr.details}"
    steps = "".join(f"\n    {member.step}" for member in item.group.members)
    return f"kernel over {list(item.group.sizes)}:{steps}"

"""Libraries for other processors than this process compiles for: another process writes them.

All code of a process is for one processor (`rushlight.codegen.target`), and a library is what
a program has launched; so the program goes to a process of that processor.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rushlight.codegen.target import host, named
from rushlight.export._archive import save
from rushlight.export.exported_program import ExportedProgram
from rushlight.serialization._write import save as save_tensors
from rushlight.utils._pytree import tree_flatten

_WRITER = """
import sys
from rushlight.export import aot_compile, load
from rushlight import load as load_tensors
examples = load_tensors(sys.argv[4])
aot_compile(load(sys.argv[1]), directory=sys.argv[2], name=sys.argv[3], examples=examples)
"""


def write_library_for(target, program, given, directory, name):
    """Has a library be written for another processor; see `aot_compile`.

    Args:
        target: its name.
        program: an `ExportedProgram` with an example.
        given: arguments and keyword arguments, of which the first have to be none: a
            program has an example.
        directory, name: of the library.

    Returns:
        its name.

    Raises:
        ValueError: there is no such target, or none of its code runs here; it is no program.
    """
    wanted, here = named(target).triple, host().triple
    if wanted.partition("-")[0] != here.partition("-")[0]:
        raise ValueError(
            f"aot_compile: code for {target} cannot be run here, and a library is what a "
            "program has launched\n  remedy: call aot_compile on such a machine"
        )
    if not isinstance(program, ExportedProgram) or tree_flatten(given[0])[0]:
        raise ValueError(
            "aot_compile: for another target it takes an exported program with its example "
            f"alone, not {type(program).__name__} and arguments\n"
            "  remedy: torch.export.export"
        )
    name = name or "program"
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {
        "RUSHLIGHT_TARGET": target,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with tempfile.TemporaryDirectory() as between:
        path = os.path.join(between, "program.pt2")
        save(program, path)
        examples = os.path.join(between, "examples.pt")
        save_tensors([list(args) for args, _ in given[1:]], examples)
        command = [
            sys.executable,
            "-c",
            _WRITER,
            path,
            str(Path(directory).resolve()),
            name,
            examples,
        ]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended by {done.returncode}"])[
            -1
        ]
        raise ValueError(
            f"aot_compile: a process for {target} cannot write the library here: {last}"
        )
    return name

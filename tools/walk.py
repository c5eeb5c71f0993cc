"""Which files a call passes, in order: functions of compiled modules and of Python's.

``python -m tools.walk`` prints the walks of `WALKS`; ``--write`` puts them into
``docs/tour/12-walks.md``. They are of a real run: gdb stops at every function of the
compiled modules, and Python's profiling hook names the functions between them. What C's
compiler has put into its caller is not seen, nor is the machine code of kernels.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.modules import PACKAGE, source_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tour" / "12-walks.md"
START, END = "<!-- walks -->", "<!-- end of walks -->"
# A walk's call, and what is there before; each has run a few times when it is followed.
WALKS = {
    "a + b": "a, b = rl.ones(4), rl.ones(4)",
    "softmax(a, 1)": "a = rl.ones(2, 8); softmax = rl.softmax",
    "conv2d(x, w)": (
        "conv2d = rl.nn.functional.conv2d; x, w = rl.ones(1, 3, 8, 8), rl.ones(4, 3, 3, 3)"
    ),
    "y.backward(retain_graph=True)": (
        "x = rl.ones(4, requires_grad=True); y = (x * x).sum()"
    ),
    "f(x)": "f = rl.compile(lambda x: (x * 2 + 1).relu()); x = rl.ones(4)",
    "a.cuda() + b": (
        "from tests.cuda.conftest import Machine, imagined; "
        "card = imagined(Machine()); card.__enter__(); "
        "a, b = rl.ones(4), rl.ones(4).cuda()"
    ),
}


def scopes(calls=WALKS):
    """Each walk's call, compiled, and the names that it uses, after four turns of it.

    All begin before any has its turns: a device that appears makes kept launches stale.
    """
    import rushlight as rl

    made = {}
    for call in calls:
        names = {"rl": rl}
        exec(WALKS[call], names)
        made[call] = compile(call, f"<{call}>", "eval"), names
    for code, names in made.values():
        for _ in range(4):
            eval(code, names)
    return made


def followed(code, names, tell):
    """Runs a call; ``tell(file, function)`` hears of Python's functions of the package."""

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            if code.co_name[0] != "<":  # an expression in its function
                tell(code.co_filename, code.co_name)

    sys.setprofile(look)
    try:
        eval(code, names)
    finally:
        sys.setprofile(None)


def follow_all(path):
    """In the process that gdb looks at: all walks, told by signals and system calls."""
    import signal

    told = []

    def tell(file, function):
        told.append((file, function))
        os.getppid()  # where gdb counts

    made = scopes()
    os.kill(os.getpid(), signal.SIGUSR1)  # gdb sets its breakpoints
    for call, (code, names) in made.items():
        tell("", call)
        followed(code, names, tell)
    os.kill(os.getpid(), signal.SIGUSR1)
    Path(path).write_text(json.dumps(told), encoding="utf-8")


def place_of(symbol):
    """The file and the function of a C function that Cython made.

    >>> place_of("__pyx_f_9rushlight_8dispatch_10dispatcher_8Operator_call")
    ('dispatch/dispatcher.py', 'call')
    >>> place_of("__pyx_pw_9rushlight_5graph_7program_7Program_4set_items")
    ('graph/program.py', 'set_items')
    >>> place_of("__pyx_f_9rushlight_5graph_13call_matching_same_tensor.part.0")
    ('graph/call_matching.py', 'same_tensor')
    """
    rest = re.sub("^__pyx_(f|pw)_", "", symbol)
    parts: list[str] = []
    while found := re.match(r"(\d+)", rest):
        length, begun = int(found.group()), found.end()
        if rest[begun + length : begun + length + 1] != "_":
            break
        named = ".".join([*parts, rest[begun : begun + length]])
        if len(parts) > 1 and source_of(named) is None and source_of(".".join(parts)):
            if not rest[begun].isupper():
                break  # a number of Cython's before the function's name
        else:
            parts.append(rest[begun : begun + length])
        rest = rest[begun + length + 1 :]
    file = source_of(".".join(parts)).relative_to(PACKAGE).as_posix()
    return file, re.sub(r"^\d+|\..*", "", rest)


def walks():
    """Call -> pairs of file and function, in the order of a run under gdb."""
    gdb = shutil.which("gdb")
    if gdb is None:
        raise SystemExit("tools.walk needs gdb, to see functions of compiled modules")
    with tempfile.TemporaryDirectory() as folder:
        told, stopped = Path(folder, "told"), Path(folder, "stopped")
        usual = {k: v for k, v in os.environ.items() if not k.startswith("RUSHLIGHT_")}
        script = f"from tools import walk; walk.follow_all({str(told)!r})"
        subprocess.run(
            [gdb, "-nx", "-batch", "-x", str(ROOT / "tools" / "walk_gdb.py"),
             "--args", sys.executable, "-c", script],
            cwd=ROOT, env={**usual, "WALK_STOPPED": str(stopped)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        return merged(
            json.loads(told.read_text(encoding="utf-8")),
            stopped.read_text(encoding="utf-8").split(),
        )


def inside(file, function):
    """A function's file as a path within the package."""
    return Path(file).relative_to(PACKAGE).as_posix(), function


def merged(told, stopped):
    """Functions of both languages in one order; gdb has a dot for each of Python's."""
    found: dict = {}
    python = iter(told)
    steps: list = []
    for symbol in stopped:
        if symbol != ".":
            steps.append(place_of(symbol))
            continue
        file, function = next(python)
        if file:
            steps.append(inside(file, function))
        else:
            steps = found[function] = []
    return found


def stretches(steps):
    """Files in order, each with the functions that run before another file's.

    >>> stretches([("a/x.py", "f"), ("a/x.py", "g"), ("a/x.py", "f"), ("b/y.py", "h")])
    [('a/x.py', ['f', 'g']), ('b/y.py', ['h'])]
    """
    found: list = []
    for file, function in steps:
        if not found or found[-1][0] != file:
            found.append((file, []))
        if function not in found[-1][1]:
            found[-1][1].append(function)
    return found


def rooms_of(steps):
    """The rooms that a walk passes, in order, each as often as it is entered.

    >>> rooms_of([("core/x.py", "f"), ("core/z.py", "g"), ("ir/y.py", "h")])
    ['core', 'ir']
    """
    rooms = (file.split("/")[0] for file, _ in steps)
    return [room for room, _ in itertools.groupby(rooms)]


def text_of(found):
    """The page's part that is written by this tool."""
    heads = "| call | rooms | files | changes of room | without `core` |"
    rows = [START, "", heads, "| --- " * 5 + "|"]
    details = []
    for call, steps in found.items():
        parts = stretches(steps)
        rooms, files = rooms_of(steps), {file for file, _ in parts}
        bare = [room for room in rooms if room != "core"]
        without = [room for room, _ in itertools.groupby(bare)]
        counts = len({*rooms}), len(files), len(rooms) - 1, len(without) - 1
        rows.append(f"| `{call}` | {' | '.join(map(str, counts))} |")
        details += ["", f"## `{call}`", "", "```"]
        for file, functions in parts:
            line = f"{file:36} {', '.join(functions)}"
            details.append(line if len(line) <= 95 else line[:92] + "...")
        details.append("```")
    return "\n".join([*rows, *details, "", END])


def functions_of(file):
    """Names of the functions that a file of the package defines."""
    tree = ast.parse((PACKAGE / file).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def main(arguments):
    """Prints the walks, or writes the page."""
    text = text_of(walks())
    if "--write" not in arguments:
        print(text)
        return
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    PAGE.write_text(before + text + rest.partition(END)[2])


if __name__ == "__main__":
    main(sys.argv[1:])

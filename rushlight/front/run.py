"""``python -m rushlight.run train.py ...``: a PyTorch program, run on Rushlight."""

from __future__ import annotations

import builtins
import os
import re
import sys
import types
from importlib.machinery import SourceFileLoader

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_MAPPING = (
    os.path.join(os.path.dirname(_FOLDER), "torch_compat"),
    os.path.join(_FOLDER, "_name_errors.py"),
)
USAGE = """usage: python -m rushlight.run script.py [argument ...]
       python -m rushlight.run -m module [argument ...]
       python -m rushlight.run -c code [argument ...]

Runs a program in which `import torch` means Rushlight. Its arguments are its own."""


def main(arguments=None):
    """Runs the program that the arguments name; returns when it ends.

    Args:
        arguments: those after ``python -m rushlight.run``; by default this process's.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    start, named = arguments[0], arguments[:2]
    if start in ("-m", "-c") and len(named) < 2:
        print(f"Argument expected for the {start} option\n{USAGE}", file=sys.stderr)
        raise SystemExit(2)
    from rushlight.torch_compat import install_as_torch

    install_as_torch()
    try:
        if start == "-m":
            run_module(arguments[1], arguments[2:])
        elif start == "-c":
            run_text(arguments[1], "<string>", ["-c", *arguments[2:]])
        elif start == "-":
            run_text(sys.stdin.read(), "<stdin>", arguments)
        else:
            run_script(start, arguments)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        report(error)
        raise SystemExit(1) from None


def new_main(**attributes):
    """An empty ``__main__`` in place of the launcher's."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, **attributes)
    new_main.replaced = sys.modules.get("__main__")  # its names stay alive
    sys.modules["__main__"] = module
    return module


def put_first_on_path(folder):
    """What Python does with a program's folder, unless it is told not to."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def run_text(text, name, argv):
    """Runs a program given as text."""
    sys.argv[:] = argv
    put_first_on_path("")
    module = new_main(__annotations__={})
    exec(compile(text, name, "exec"), module.__dict__)


def run_script(path, argv):
    """Runs a program's file, or a folder or archive that has a ``__main__.py``."""
    import runpy

    sys.argv[:] = argv
    if os.path.isdir(path) or path.endswith((".zip", ".pyz", ".pyc")):
        sys.path[0] = path
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {error.args}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    put_first_on_path(os.path.dirname(os.path.realpath(path)))
    module = new_main(
        __file__=path,
        __cached__=None,
        __annotations__={},
        __loader__=SourceFileLoader("__main__", path),
    )
    exec(compile(text, path, "exec"), module.__dict__)


def run_module(name, rest):
    """Runs a module or a package's ``__main__``, as ``python -m`` does."""
    import runpy

    sys.argv[:] = ["-m", *rest]
    new_main(__annotations__={})
    runpy._run_module_as_main(name)  # what `python -m` itself calls


def report(error):
    """Shows an exception as Python does, without the launcher's own lines."""
    here = (__file__, "<frozen runpy>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in here:
        trace = trace.tb_next
    if trace is not None or isinstance(error, SyntaxError):
        error = error.with_traceback(trace)
    while trace is not None and trace.tb_next is not None:
        if trace.tb_next.tb_frame.f_code.co_filename.startswith(_MAPPING):
            trace.tb_next = None  # an import that was answered with no
        trace = trace.tb_next
    sys.last_type, sys.last_value = type(error), error
    sys.last_traceback = error.__traceback__
    note_missing(error)
    sys.excepthook(type(error), error, error.__traceback__)


def note_missing(error):
    """Adds to a failed ``from torch.x import y`` which name stands nearest."""
    found = re.match(r"cannot import name '(\w+)' from '(torch[\w.]*)' \(", str(error))
    module = sys.modules.get(found[2]) if found else None
    if module is not None and isinstance(error, ImportError):
        from rushlight._name_errors import nearest

        error.add_note(f"Rushlight does not have it{nearest(module, found[1])}")


if __name__ == "__main__":
    main()

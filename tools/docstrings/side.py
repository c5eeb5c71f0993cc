"""Runs examples on one side: ``python -m tools.docstrings.side pytorch|rushlight``.

Reads lines of JSON, each a name and its statements, and answers each with a line: what
every statement gave, as text, or what it raised.
"""

import contextlib
import io
import json
import math
import random
import signal
import sys
import tempfile
import warnings

SECONDS = 20  # that one statement may take


class TooLongError(Exception):
    """A statement did not end in time."""


def main(side):
    if side == "rushlight":
        import rushlight

        rushlight.install_as_torch()
    import numpy
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _too_long)
    answers, sys.stdout = sys.stdout, io.StringIO()
    known = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    known.update(np=numpy, math=math, __name__="__main__")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for line in sys.stdin:
            name, statements = json.loads(line)
            for seed in (torch.manual_seed, numpy.random.seed, random.seed):
                seed(7)
            rows = run(statements, dict(known))
            answers.write(json.dumps([name, rows]) + "\n")
            answers.flush()
            restore(torch)


def run(statements, scope):
    """What each statement gave: how it ended, its value as text, what it printed."""
    rows = []
    for source in statements:
        printed = io.StringIO()
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(printed):
                with contextlib.redirect_stderr(io.StringIO()):
                    how, text = "ok", value_of(source, scope)
        except TooLongError:
            how, text = "timeout", ""
        except (Exception, SystemExit) as error:
            how, text = "raise", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        rows.append([how, text[:6000], printed.getvalue()[:6000]])
        if how == "timeout":
            break
    return rows


def value_of(source, scope):
    """The representation of an expression's value; nothing of a statement's."""
    try:
        code = compile(source, "<example>", "eval")
    except SyntaxError:
        exec(compile(source, "<example>", "exec"), scope)
        return ""
    value = eval(code, scope)
    return "" if value is None else repr(value)


def restore(torch):
    """Undoes what an example may have set for the whole process."""
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    torch.use_deterministic_algorithms(False)


def _too_long(*_):
    raise TooLongError


if __name__ == "__main__":
    main(sys.argv[1])

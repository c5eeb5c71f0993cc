"""Runs the programs of ``programs/`` with one framework and prints what they show.

Called with the framework's name; the other one is asked by another process, as only one
of them can be called ``torch`` in a process. Output: JSON, texts by title.
"""

import contextlib
import io
import json
import pathlib
import re
import sys
import warnings

FOLDER = pathlib.Path(__file__).parent / "programs"


def programs():
    """Titles and programs: a title stands after ``###``."""
    for path in sorted(FOLDER.glob("*.txt")):
        parts = re.split(r"^### ?(.*)$", path.read_text(), flags=re.M)
        for title, code in zip(parts[1::2], parts[2::2], strict=True):
            yield f"{path.stem}: {title}", code


def plain(text):
    """A text without what differs between two runs of one program."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    return re.sub(r"eval_with_key>\.\d+", "eval_with_key>", text)


def run(code):
    """What a program prints, with the error that it ends in."""
    shown = []

    def show(*values):
        shown.append(plain(" ".join(map(str, values))))

    def refuses(function, words=True):
        """Shows what a call raises: the kind, and the words' first line."""
        try:
            result = function()
        except Exception as error:
            first = str(error).split("\n")[0] if words else ""
            show(type(error).__name__, first)
        else:
            show("no error", result)

    names = {"show": show, "refuses": refuses, "__name__": "program"}
    sys.modules["program"] = type(sys)("program")
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        module = sys.modules["program"]
        module.__dict__.update(names)
        try:
            exec(PREAMBLE + code, module.__dict__)
        except Exception as error:
            show(type(error).__name__, error)
    return shown


PREAMBLE = """
import math, operator, typing
import torch
import torch.fx
from torch import fx, nn
from torch.fx import symbolic_trace
import torch.nn.functional as F
"""

if __name__ == "__main__":
    if sys.argv[1] == "rushlight":
        import rushlight

        rushlight.install_as_torch()
    with contextlib.redirect_stdout(io.StringIO()):  # what programs print themselves
        found = {title: run(code) for title, code in programs()}
    json.dump(found, sys.stdout)

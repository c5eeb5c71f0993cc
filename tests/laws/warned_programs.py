"""Runs the programs of ``warnings.txt`` on one side and prints what each was warned of.

python -m tests.laws.warned_programs torch
"""

from __future__ import annotations

import importlib
import json
import pathlib
import re
import sys
import warnings

import numpy as np

FILE = pathlib.Path(__file__).with_name("warnings.txt")


def programs():
    """Titles and programs."""
    parts = re.split(r"^### (.*)$", FILE.read_text(), flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def run(code, names):
    """Category and words of every warning, and the kind of the exception or None."""
    refused = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            exec(code, names)
        except Exception as error:
            refused = type(error).__name__
    words = [
        (one.category.__name__, str(one.message).partition("(Triggered")[0].strip())
        for one in said
    ]
    return {"warnings": words, "refused": refused}


def main(side):
    framework = importlib.import_module(side)

    def im(name):
        return importlib.import_module(f"{side}.{name}")

    names = {"t": framework, "np": np, "im": im}
    names |= {"nn": framework.nn, "F": framework.nn.functional}
    found = {}
    for title, code in programs():
        found[title] = {"first": run(code, names), "again": run(code, names)}
    framework.set_warn_always(True)
    for title, code in programs():
        found[title]["always"] = run(code, names)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])

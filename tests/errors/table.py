"""Mistakes as data: a small program each, and the whole text of the error it meets."""

import contextlib
import re
import tempfile
import warnings
from pathlib import Path

MISTAKES = []


def mistake(kind, text):
    """Registers a program, the type of the exception that it ends in, and its text."""

    def register(program):
        MISTAKES.append((program, kind, text))
        return program

    return register


def outcome(program, framework):
    """The exception that a program ends in, and its text without what varies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program(framework)
        except Exception as error:
            return type(error), plain(str(error))
    return None, "no error"


def plain(text):
    """A text without the places and amounts of one machine."""
    text = re.sub(r"/\S*/cut\.pt", "PATH", text)
    text = re.sub(r"/\S*\.py:\d+", "FILE:LINE", text)
    text = re.sub(r"in use: .*", "in use: ...", text)
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


@contextlib.contextmanager
def cut_checkpoint(framework, length):
    """The path of a checkpoint's first ``length`` bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.pt"
        framework.save(framework.nn.Linear(2, 3).state_dict(), path)
        path.write_bytes(path.read_bytes()[:length])
        yield path

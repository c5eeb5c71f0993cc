"""Where a translated program's parts stand in its source, and errors that show it."""

import ast
import inspect
import textwrap

from rushlight.core import naming

CONTEXT = 3


class Error(Exception):
    """What a translated program raises."""


class Fault(Exception):
    """What went wrong in a compiled step: the message, its place, the kind of raise.

    ``kind`` is None for an operator's failure, and the exception's name of a ``raise``.
    """

    def __init__(self, message, place, kind=None):
        super().__init__(message)
        self.place, self.kind = place, kind


class TracerWarning(Warning):
    """What a recorded program may do otherwise than the original."""

    @staticmethod
    def ignore_lib_warnings():
        """Leaves out warnings of the package's own lines."""


class ScriptError(RuntimeError):
    """What is wrong with a program, with the source underlined."""


class FrontendError(Exception):
    """What is wrong with the text of a program, before it is translated."""


class NotSupportedError(FrontendError):
    """A construct of Python that translated programs do not have."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression of Python that translated programs do not have."""

    named = {
        "FunctionDef": "function definitions",
        "AsyncFunctionDef": "async function definitions",
        "ClassDef": "class definitions",
        "Delete": "del statements",
        "AsyncFor": "async for loops",
        "AsyncWith": "async with statements",
        "Try": "try blocks",
        "Import": "import statements",
        "ImportFrom": "import statements",
        "Global": "global variables",
        "Nonlocal": "nonlocal variables",
    }


def unsupported(tree, place):
    """The exception for a kind of node that the language does not have."""
    name = type(tree).__name__
    words = UnsupportedNodeError.named.get(name, name)
    return error(f"{words} aren't supported", place, UnsupportedNodeError)


class Untranslatable(Exception):
    """What this translation does not do although the language has it: Python runs it."""


class Source:
    """A text, with the file and the line that it begins at."""

    def __init__(self, text, filename="<string>", first_line=1, indent=0):
        self.lines = text.splitlines() or [""]
        self.text = text
        self.filename, self.first_line, self.indent = filename, first_line, indent

    @classmethod
    def of(cls, python):
        """The source of a function or class."""
        python = inspect.unwrap(python)
        try:
            lines, first = inspect.getsourcelines(python)
            filename = inspect.getsourcefile(python) or "<unknown>"
        except (OSError, TypeError) as error:
            if naming.is_own(getattr(python, "__module__", None)):
                raise Untranslatable(f"{python.__module__}.{python.__name__}") from None
            raise OSError(
                f"Can't get source for {python}. TorchScript requires source access in "
                "order to carry out compilation, make sure original .py files are "
                "available."
            ) from error
        text = "".join(lines)
        bare = textwrap.dedent(text)
        indent = len(lines[0]) - len(lines[0].lstrip())
        return cls(bare, filename, first, indent)

    def parse(self):
        """The program's tree."""
        return ast.parse(self.text)


class Range:
    """A place in a source: line and columns, counted from 0."""

    __slots__ = ("source", "line", "column", "end", "last")

    def __init__(self, source, line=0, column=0, end=0, last=None):
        self.source, self.line, self.column, self.end = source, line, column, end
        self.last = line if last is None else last

    @classmethod
    def of(cls, source, tree):
        """The place of a part of the tree."""
        line = getattr(tree, "lineno", 1) - 1
        column = getattr(tree, "col_offset", 0)
        end = column + 1
        if getattr(tree, "end_lineno", None) == line + 1:
            end = tree.end_col_offset
        return cls(source, line, column, end)

    @classmethod
    def whole(cls, source, tree):
        """The place of a statement, with all of its lines."""
        made = cls.of(source, tree)
        made.last = tree.end_lineno - 1
        return made

    def short(self):
        """File, line and column, as graphs print them."""
        source = self.source
        column = self.column + source.indent
        return f"{source.filename}:{source.first_line + self.line}:{column}"

    def under(self, line):
        """What underlines one of the lines."""
        if self.last == self.line:
            start, end = self.column, min(self.end, len(line))
        else:
            start, end = len(line) - len(line.lstrip()), len(line.rstrip())
        return " " * start + "~" * max(1, end - start)

    def highlight(self, function=""):
        """The lines about the place, underlined."""
        source = self.source
        number = source.first_line + self.line
        named = f", in {function}" if function else ""
        shown = [f'  File "{source.filename}", line {number}{named}']
        first = max(0, self.line - CONTEXT)
        pad = " " * source.indent
        for at in range(first, min(len(source.lines), self.last + 1 + CONTEXT)):
            shown.append(f"{pad}    {source.lines[at]}".rstrip())
            if self.line <= at <= self.last:
                here = " <--- HERE" if at == self.last else ""
                shown.append(f"{pad}    {self.under(source.lines[at])}{here}")
        return "\n".join(shown)


def error(message, place, kind=ScriptError):
    """The exception for what is wrong at a place."""
    return kind(f"\n{message}:\n{place.highlight()}\n")

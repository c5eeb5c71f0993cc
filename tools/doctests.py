"""Runs the examples in the pages and the docstrings.

A page is one program, from its top to its end: a ``python`` fence either holds ``>>>``
examples, whose output is compared, or plain code, which must run. The examples of a
docstring see the names of their module. An ``example:`` of an operator's declaration is a
program of its own.

``python -m tools.doctests [--write] [page ...]`` runs pages and declaration files, all by
default; ``--write`` puts the output that differs into them.
"""

import ast
import contextlib
import doctest
import importlib
import io
import os
import re
import sys
import tempfile
import traceback
import types
import warnings
from functools import cache
from pathlib import Path

import yaml

from opgen.also import filled, sources_below
from opgen.templates import words_of
from tools.modules import module_name, source_of

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STACK = re.compile(r"^(Traceback .*\n)(?: .*\n)+", re.MULTILINE)
EXAMPLE = re.compile(r"^  example: \|\n((?:    .*\n|\n)+)", re.MULTILINE)
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages():
    """The README and every page of the documents, the generated reference apart."""
    found = sorted(ROOT.glob("docs/**/*.md"))
    reference = ROOT / "docs" / "reference"
    guides = [page for page in found if reference not in page.parents]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *guides]


def declarations():
    """The files that declare operators."""
    return sorted((ROOT / "rushlight" / "operators").rglob("*.yaml"))


def familiar():
    """The names that every example may use."""
    import rushlight

    return {"rl": rushlight, "rushlight": rushlight, "torch": rushlight}


def blocks(text):
    """Pairs of line number (from 0) and code, one for each fence to run here."""
    for found in FENCE.finditer(text):
        yield text.count("\n", 0, found.start(1)), found[1]


@cache
def made_of():
    """What declarations say that others are made of."""
    return sources_below(ROOT / "rushlight" / "operators")


def example_blocks(text):
    """The same of a declaration file: its examples, each name's of an entry for several."""
    for found in EXAMPLE.finditer(text):
        line = text.count("\n", 0, found.start(1))
        first = text.rfind("\n- ", 0, found.start()) + 1
        (entry,) = yaml.compose(text[first : found.end()]).value
        for words in words_of(entry, made_of()):
            yield line, filled(found[1], words)


class Page:
    """One page as a program; ``faults`` are the reports of what went wrong.

    The page is a module while it runs, so that kernels defined in it know their file.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.text = self.path.read_text()
        self.module = types.ModuleType(f"page_{re.sub(r'[^a-z0-9]', '_', path.stem)}")
        self.module.__file__ = str(path)
        self.names = self.module.__dict__
        self.names.update(familiar())
        self.faults = []
        self.differences = []
        self.count = 0

    def run(self):
        """Runs every block in order, in an empty folder; returns the page."""
        sys.modules[self.module.__name__] = self.module
        try:
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for line, code in blocks(self.text):
                        self.run_block(line, code)
        finally:
            del sys.modules[self.module.__name__]
        return self

    def run_block(self, line, code):
        name = os.path.relpath(self.path, ROOT)
        if ">>>" not in code:
            self.count += 1
            text = "\n" * line + code
            try:
                exec(compile(text, str(self.path), "exec"), self.names)
            except Exception as error:
                self.faults.append(f"{name}:{line}: {type(error).__name__}: {error}")
            return
        try:
            examples = doctest.DocTestParser().get_examples(code, name)
        except ValueError as error:
            self.faults.append(f"{name}:{line}: {error}")
            return
        test = doctest.DocTest(examples, self.names, name, str(self.path), line, code)
        test.globs = self.names  # the constructor copies
        report = io.StringIO()
        runner = Keeping(optionflags=OPTIONS)
        runner.run(test, out=report.write, clear_globs=False)
        self.count += len(examples)
        self.differences += [
            (line + example.lineno, example, got) for example, got in runner.differences
        ]
        if report.getvalue():
            self.faults.append(report.getvalue())

    def rewritten(self):
        """The page's text with the output that its examples gave."""
        lines = self.text.split("\n")
        for start, example, got in sorted(
            self.differences, key=lambda row: row[0], reverse=True
        ):
            first = start + example.source.count("\n")
            last = first + example.want.count("\n")
            got = steady(STACK.sub(r"\1    ...\n", got))
            margin = " " * example.indent
            shown = [
                margin + (line or "<BLANKLINE>")
                for line in got.rstrip("\n").split("\n")
            ]
            lines[first:last] = shown if got else []
        return "\n".join(lines)


class Declarations(Page):
    """A declaration file; each example starts anew."""

    def run(self):
        """Runs every example; returns the file."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for line, code in example_blocks(self.text):
                self.names = familiar()
                self.run_block(line, code)
        return self


def opened(path):
    """A page, or a declaration file."""
    return (Declarations if Path(path).suffix == ".yaml" else Page)(path)


def steady(text):
    """Output without the lines and addresses that change from day to day.

    >>> steady("<Node at 0x7f2a> rushlight/operators/elementwise/unary.py:12")
    '<Node at 0x...> rushlight/operators/elementwise/unary.py:...'
    """
    text = re.sub(r"\b0x[0-9a-f]{4,}", "0x...", text)
    return re.sub(r"(\.(?:py|yaml)):\d+", r"\1:...", text)


class Keeping(doctest.DocTestRunner):
    """Keeps what examples printed where that is not what was expected."""

    def __init__(self, **options):
        super().__init__(verbose=False, **options)
        self.differences = []

    def report_failure(self, out, test, example, got):
        self.differences.append((example, got))
        super().report_failure(out, test, example, got)

    def report_unexpected_exception(self, out, test, example, raised):
        text = "".join(traceback.format_exception_only(*raised[:2]))
        got = f"Traceback (most recent call last):\n    ...\n{text}"
        self.differences.append((example, got))
        super().report_unexpected_exception(out, test, example, raised)


# ---- docstrings


def modules():
    """Names of the modules with an example in their source."""
    for path in sorted((ROOT / "rushlight").rglob("*.py")):
        if "_generated" not in path.parts and ">>>" in path.read_text():
            yield module_name(path)


def docstrings(path):
    """Names, lines (from 0) and texts of a file's docstrings that have examples."""
    todo = [("", ast.parse(path.read_text()))]
    while todo:
        name, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                todo.append((f"{name}.{child.name}", child))
        documented = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
        text = documented and ast.get_docstring(node, clean=False)
        if text and ">>>" in text:
            yield name, node.body[0].lineno - 1, text


def run_docstrings(name):
    """Runs the examples of a module; returns their number and the failures' reports.

    They are read from the source: compiled functions don't tell their lines.
    """
    module = importlib.import_module(name)
    source = source_of(name)
    report, count = io.StringIO(), 0
    for place, line, text in docstrings(source):
        names = familiar() | vars(module)
        test = doctest.DocTestParser().get_doctest(
            text, names, name + place, str(source), line
        )
        count += len(test.examples)
        doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(
            test, out=report.write
        )
    return count, report.getvalue()


def main(arguments):
    """Runs pages, and without names the docstrings too; 1 if an example failed."""
    sys.path.insert(0, str(ROOT))
    importlib.import_module("tools.said_once").count_as_said()
    importlib.import_module("rushlight")  # without it, no output is worth writing
    write = "--write" in arguments
    named = [Path(name).resolve() for name in arguments if name != "--write"]
    failed = count = 0
    for page in [opened(path).run() for path in named or [*pages(), *declarations()]]:
        count += page.count
        failed += len(page.faults)
        if write and page.differences:
            page.path.write_text(page.rewritten())
        print("".join(fault.rstrip() + "\n" for fault in page.faults), end="")
    for module in [] if named else modules():
        tried, report = run_docstrings(module)
        count += tried
        failed += bool(report)
        print(report, end="")
    print(f"examples: {count} run; {failed} places failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

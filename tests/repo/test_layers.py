"""Calls go down: a module imports its own floor or lower ones, in any form."""

import ast
from pathlib import Path

from tests.repo.floors import FLOORS, arrows, floor_of, upward
from tests.repo.imports import PACKAGE, imports, resolve, sources
from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2] / "rushlight"
MODULES = sorted(path for path in ROOT.rglob("*.py") if "_generated" not in path.parts)
LISTED = Path(__file__).with_name("import_exceptions.txt")
# What is left of what the order forbids. The number may only become smaller.
MOST_EXCEPTIONS = 11


def exceptions():
    """Arrows against the order, each with the reason why it is still there.

    A line is ``importer -> imported: reason``, modules without the package's name; a
    reason goes for the lines below it as well, until the next one.
    """
    found, reason = {}, ""
    for line in LISTED.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            reason = line.lstrip("# ") or reason
            continue
        pair = line.split(" -> ")
        assert reason, f"{line}: an exception needs a reason above it"
        found[tuple(f"{PACKAGE}.{name}".removesuffix(".root") for name in pair)] = (
            reason
        )
    return found


EXCEPTIONS = exceptions()


def show(pair):
    """An arrow, as the list of exceptions has it, and the lines that draw it."""
    lines = [f"{u.form} at line {u.line}" for u in imports() if u[:2] == pair]
    return f"{' -> '.join(pair)} ({', '.join(lines)})"


def test_every_module_stands_on_a_floor():
    lost = [name for name in sources() if floor_of(name) is None]
    assert not lost, f"no floor for {lost}: add them to FLOORS in tests/repo/floors.py"
    assert next(iter(FLOORS)) == "core"


def test_every_import_is_of_a_module_that_exists():
    assert not [use for use in imports() if not use.known]


def test_nothing_is_imported_upward():
    found = sorted(upward(arrows()) - EXCEPTIONS.keys())
    assert not found, (
        "imports of a higher floor:\n  "
        + "\n  ".join(map(show, found))
        + "\n  remedy: move what is needed below, or have the caller hand it in"
    )


def test_exceptions_become_fewer():
    gone = EXCEPTIONS.keys() - arrows()
    assert not gone, f"strike what is no longer imported from {LISTED.name}: {gone}"
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS, "mend the import; do not list it"


def test_imports_are_read_in_every_form(tmp_path):
    from tests.repo import imports as reader

    source = tmp_path / "sample.py"
    source.write_text(
        "from rushlight import nn\nimport rushlight as torch\n"
        "from cython.cimports.rushlight.core.tensor import Tensor\n"
        "from . import optim\n"
        "def late():\n    from rushlight.autograd.graph import hooks\n"
        "    return find('rushlight.operators.elementwise.unary'), f'rushlight.codegen.{late}'\n"
    )
    found = {
        (u.imported.removeprefix("rushlight"), u.form)
        for u in reader._of_source(source, "rushlight.sample")
    }
    assert found == {
        *((".nn", "top"), ("", "top"), (".core.tensor", "cimport"), (".optim", "top")),
        *((".autograd.graph", "function"), (".operators.elementwise.unary", "string")),
        (".codegen", "string"),
    }
    assert resolve("rushlight.no_such_module") == ("rushlight.no_such_module", False)


def test_nothing_imports_the_oracle_or_a_peer():
    for path in MODULES:
        for node in nodes(path):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not any(n.split(".")[0] == "torch" for n in names), path


# Kernels that are prepared for one call, in C: the structure that a launch hands to the
# kernel is the host's, and calling through an object would cost what the call does.
COMPILED_WITH_THE_HOST = {"copying"}


def test_operators_name_no_backend():
    found = {}
    for path in sorted((ROOT / "operators").rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = line.strip()
            named = text.startswith(("from ", "import ")) and "runtime." in text
            if named:
                found.setdefault(path.stem, []).append(f"{path.name}:{number}: {text}")
    allowed = {
        name: lines
        for name, lines in found.items()
        if name in COMPILED_WITH_THE_HOST
        and all("cimports.rushlight.runtime.cpu." in line for line in lines)
        and all(
            line.split("cpu.")[1].split()[0] in ("launch", "grain") for line in lines
        )
    }
    assert found == allowed
    assert set(allowed) == COMPILED_WITH_THE_HOST

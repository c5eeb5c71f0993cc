"""Every import in the package, however it is written, as arrows between modules."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.repo.trees import nodes
from tools.modules import module_name

ROOT = Path(__file__).parents[2]
PACKAGE = "rushlight"
CYTHON = "cython.cimports."


class Import(NamedTuple):
    """One module's use of another.

    Args:
        importer: the module that imports, as ``rushlight.operators.elementwise.unary``.
        imported: the module that is imported; ``rushlight`` is the package's root.
        line: where, in the importer's file.
        form: ``top``, ``function``, ``string``, ``type`` or ``cimport``.
        known: whether there is such a module.
    """

    importer: str
    imported: str
    line: int
    form: str
    known: bool = True


@cache
def sources():
    """Each module of the package, and its files: the source, declarations, the stub."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.p*")):
        if path.suffix in (".py", ".pxd", ".pyi"):
            found.setdefault(module_name(path), []).append(path)
    return found


def resolve(module, name=None):
    """The module that ``from module import name`` needs, and whether there is one."""
    if name is not None and f"{module}.{name}" in sources():
        return f"{module}.{name}", True
    return module, module in sources()


def _absolute(node, importer, is_package):
    """The module that a ``from`` import names, relative ones spelled out."""
    module = (node.module or "").removeprefix(CYTHON)
    if not node.level:
        return module
    parts = importer.split(".") + ([""] if is_package else [])
    home = parts[: len(parts) - node.level]
    return ".".join([*home, module] if module else home)


def _is_ours(module):
    return module == PACKAGE or module.startswith(PACKAGE + ".")


def _statement(node, importer, is_package):
    """Modules that one import statement names, and whether they exist."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if _is_ours(alias.name):
                yield resolve(alias.name)
                if alias.asname is None and "." in alias.name:
                    yield PACKAGE, True  # binds the root
        return
    module = _absolute(node, importer, is_package)
    if module in ("cython.cimports", ""):
        return
    if _is_ours(module):
        for alias in node.names:
            yield resolve(module, alias.name)


_DOTTED = re.compile(rf"{PACKAGE}(\.\w+)+\.?")


def _string(text):
    """The module whose name a string is, or begins with; None for other texts."""
    if not _DOTTED.fullmatch(text):
        return None
    parts = text.rstrip(".").split(".")
    while len(parts) > 1 and ".".join(parts) not in sources():
        parts.pop()
    if len(parts) > 1:
        return ".".join(parts)
    return PACKAGE if text.endswith(".") else None  # no module: the name of a type


def _not_imports(node):
    """Strings of a node that name no module: texts, and where users find a class."""
    body = getattr(node, "body", None)
    if isinstance(body, list):
        for statement in body:
            if isinstance(statement, ast.Expr):
                yield id(statement.value)
    if isinstance(node, ast.Assign) and _has(node.targets[0], "__module__"):
        yield id(node.value)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and key.value == "__module__":
                yield id(value)


def _has(expression, name):
    """Whether a name stands in an expression: alone, as an attribute or as a key."""
    return any(
        name in (getattr(part, key, None) for key in ("id", "attr", "value"))
        for part in ast.walk(expression)
    )


def _form_inside(node):
    """The form of imports inside a node; None where it is that of the node itself."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "function"
    if isinstance(node, ast.If) and _has(node.test, "TYPE_CHECKING"):
        return "type"
    return None


def _form(line, spans):
    """The form of an import at a line: that of the innermost span around it."""
    around = [span for span in spans if span[0] < line <= span[1]]
    return max(around, default=(0, 0, "top"))[2]


def _of_source(path, importer):
    is_package = path.name == "__init__.py"
    others, spans, statements, strings = set(), [], [], []
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            statements.append(node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.startswith(PACKAGE):
                strings.append(node)
        elif isinstance(node, ast.stmt | ast.Module | ast.Dict):
            others.update(_not_imports(node))
            form = _form_inside(node)
            if form is not None:
                spans.append((node.lineno, node.end_lineno, form))
    for node in statements:
        compiled = (getattr(node, "module", None) or "").startswith(CYTHON)
        for imported, known in _statement(node, importer, is_package):
            form = "cimport" if compiled else _form(node.lineno, spans)
            yield Import(importer, imported, node.lineno, form, known)
    for node in strings:
        imported = None if id(node) in others else _string(node.value)
        if imported is not None:
            yield Import(importer, imported, node.lineno, "string")


_CIMPORT = re.compile(r"(?:from\s+([\w.]+)\s+)?cimport\s+(.+)")


def _of_declarations(path, importer):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = _CIMPORT.match(line.strip())
        if found is None:
            continue
        module, names = found.groups()
        for name in re.findall(r"[\w.]+", names):
            imported, known = resolve(module, name) if module else resolve(name)
            if _is_ours(imported):
                yield Import(importer, imported, number, "cimport", known)


@cache
def imports():
    """All imports of the package's modules by one another."""
    found = []
    for name, paths in sources().items():
        for path in paths:
            read = _of_source if path.suffix == ".py" else _of_declarations
            found += [use for use in read(path, name) if use.imported != name]
    return found

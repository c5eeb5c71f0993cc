"""Which names the Python files define, read from their text without importing them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Where views' ways back are: `inverse:` names them.
INVERSES = "rushlight.autograd.levels.view_inverse"


def locate(reference, family):
    """The module and attribute of an implementation written in a declaration.

    ``mul`` is in the family's own file, ``pooling.max_pool2d`` in another of
    ``rushlight/operators``, ``core.views.select`` anywhere below ``rushlight``.
    """
    path, _, attribute = reference.rpartition(".")
    if "." in path:
        return f"rushlight.{path}", attribute
    return module_of(path or family), attribute


@cache
def module_of(family):
    """The module of that name, whichever group of operators it is in.

    >>> module_of("softmax")
    'rushlight.operators.normalization.softmax'
    """
    for home in ("operators", "kernels"):
        for path in sorted((ROOT / "rushlight" / home).rglob(f"{family}.py")):
            return ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return f"rushlight.operators.{family}"


@cache
def locate_batching(reference):
    """The module and attribute of a rule for batches, whose names are all different."""
    package = "rushlight.autograd.levels.rules"
    for path in sorted(ROOT.joinpath(*package.split(".")).glob("[a-z]*.py")):
        made = (
            name
            for statement in ast.parse(path.read_text()).body
            if not isinstance(statement, (ast.Import, ast.ImportFrom))
            for name in _bound(statement)
        )
        if reference in made:
            return f"{package}.{path.stem}", reference
    return package, reference


@cache
def parameter_defaults(module, function):
    """How many parameters of a module's function have a default."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return 0
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == function:
            return len(statement.args.defaults)
    return 0


@cache
def defined_names(module):
    """The names that a module's top level binds, with the line of each.

    None if there is no such file.
    """
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    names = {}
    for statement in ast.parse(path.read_text()).body:
        for name in _bound(statement):
            names[name] = statement.lineno
    return names


def _bound(statement):
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0]
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = getattr(statement, "targets", None) or [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id

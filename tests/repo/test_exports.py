"""What a module says that it exports is what is there, and nothing else is."""

import ast
import importlib
import types
from pathlib import Path

import pytest

from tests.repo.trees import nodes, tree
from tools.modules import module_name

ROOT = Path(__file__).parents[2]


def declares_exports(path):
    return any(
        isinstance(node, ast.Assign)
        and any(getattr(target, "id", None) == "__all__" for target in node.targets)
        for node in tree(path).body
    )


DECLARING = [
    path
    for path in sorted((ROOT / "rushlight").rglob("*.py"))
    if "_generated" not in path.parts and declares_exports(path)
]
PACKAGES = [path for path in DECLARING if path.name == "__init__.py"]


def is_star(node):
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def names_made(path):
    """Public names that a file defines, or imports from Rushlight, at its top."""
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "rush"
        ):
            if is_star(node):
                yield from importlib.import_module(node.module).__all__
            else:
                yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("path", DECLARING, ids=module_name)
def test_every_declared_name_exists_once(path):
    module = importlib.import_module(module_name(path))
    assert len(set(module.__all__)) == len(module.__all__)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing


@pytest.mark.parametrize("path", PACKAGES, ids=module_name)
def test_a_package_exports_what_it_imports(path):
    module = importlib.import_module(module_name(path))
    made = {name for name in names_made(path) if not name.startswith("_")}
    made = {n for n in made if not isinstance(getattr(module, n), types.ModuleType)}
    assert made <= set(module.__all__)


def test_the_package_shows_nothing_that_is_not_its_own():
    rushlight = importlib.import_module("rushlight")
    foreign = []
    for name, value in vars(rushlight).items():
        home = value.__name__ if isinstance(value, types.ModuleType) else None
        home = home or str(getattr(value, "__module__", None) or "rushlight")
        known = home.startswith("rushlight") or name in ("e", "inf", "nan", "pi")
        if not name.startswith("_") and name != "annotations" and not known:
            foreign.append(name)
    assert not foreign


def test_lazy_names_of_the_package_can_be_had():
    rushlight = importlib.import_module("rushlight")
    for name in (*rushlight._ON_DEMAND, "explain", "load", "save"):
        assert getattr(rushlight, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    rushlight = importlib.import_module("rushlight")
    with pytest.raises(
        AttributeError, match="module 'rushlight' has no attribute 'nope'"
    ):
        _ = rushlight.nope


def test_a_star_brings_what_a_module_declares():
    for path in sorted((ROOT / "rushlight").rglob("*.py")):
        for node in filter(is_star, nodes(path)):
            stub = ROOT.joinpath(*node.module.split(".")).with_suffix(".pyi")
            generated = "_generated" in node.module and stub.exists()
            declared = not generated and importlib.import_module(node.module)
            assert generated or hasattr(declared, "__all__"), f"{path}:{node.lineno}"

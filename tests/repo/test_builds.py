"""The build knows what each compiled module is made from."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("Cython", reason="the build's tools are not installed")

from Cython.Build.Dependencies import create_dependency_tree

from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2]
PREFIX = "cython.cimports."


def cimported(path):
    """The declarations that a module takes in, whatever way it says so."""
    for node in nodes(path):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        for name in names:
            if name.startswith(PREFIX):
                parts = name.removeprefix(PREFIX).split(".")
                found = ROOT.joinpath(*parts).with_suffix(".pxd")
                if found.exists():
                    yield found.relative_to(ROOT)


def test_a_changed_declaration_rebuilds_every_module_that_takes_it_in(monkeypatch):
    monkeypatch.chdir(ROOT)
    tree = create_dependency_tree(quiet=True)
    seen = 0
    for path in sorted(ROOT.glob("rushlight/**/*.py")):
        wanted = set(cimported(path))
        if not wanted:
            continue
        known = {Path(p) for p in tree.all_dependencies(str(path.relative_to(ROOT)))}
        assert wanted <= known, f"{path}: write `import {PREFIX}...`"
        seen += len(wanted)
    assert seen > 100


def test_folders_of_tests_that_are_named_exist():
    text = (Path(__file__).parents[2] / "tools" / "test").read_text()
    parts = text.partition("parts=(")[2].partition("\n)")[0]
    named = parts.replace('"', " ").split()
    assert len(named) > 30
    assert not [
        name for name in named if not (Path(__file__).parents[1] / name).is_dir()
    ]

"""What is true of an operator stands in its family's files, and ``tools/where`` shows it.

Asked of an elementwise operator, a scan, a scatter and a decomposition: no room that runs
operators names them, so that another of their kind is written without touching any.
"""

import ast
import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from tests.repo.test_operator_tables import ROOMS, ROOT, docstrings
from tests.repo.trees import nodes

FAMILIES = {
    "gelu": "operators/elementwise/activation",
    "cumsum": "operators/scan/cumulative",
    "scatter_reduce": "operators/indexing/indexing",
    "linalg_qr": "operators/linalg/decomposition",
}
# cuBLAS and its callers call what it applies to a product's sums by that name.
OTHERS = {
    "gelu": {
        "operators/matmul/grouped.py",
        "operators/matmul/matmul_cuda.py",
        "runtime/cuda/cublas.py",
    }
}


def naming(name):
    """The files of rooms that run operators, in which a text is an operator's name."""
    names = {name, f"{name}_", f"aten::{name}", f"aten.{name}", f"aten.{name}.default"}
    for path in sorted(one for room in ROOMS for one in (ROOT / room).rglob("*.py")):
        if name not in path.read_text():
            continue
        passed = docstrings(path)
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in passed and names & {node.value, *node.value.split()}:
                    yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", FAMILIES)
def test_no_room_names_an_operator_outside_of_its_family(name):
    group = FAMILIES[name].rpartition("/")[0]
    found = {one for one in naming(name) if not one.startswith(f"{group}/")}
    assert found == OTHERS.get(name, set()), "declare it in the operator's entry"


@pytest.mark.parametrize("name", FAMILIES)
def test_where_shows_a_familys_declaration_kernel_and_derivative(name, capsys):
    path = str(Path(__file__).parents[2] / "tools" / "where")
    loader = SourceFileLoader("where", path)
    where = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("where", loader)
    )
    loader.exec_module(where)
    where.main([name])
    lines = capsys.readouterr().out.splitlines()
    shown = {kind: [one for one in lines if one.startswith(kind)] for kind in
             ("declared", "kernel", "derivative")}  # fmt: skip
    assert all(shown.values()), lines
    assert f"rushlight/{FAMILIES[name]}.yaml:" in shown["declared"][0]

"""A role has one file name in every backend's folder, and there what is asked of it."""

import ast
from pathlib import Path

from opgen.sources import defined_names
from rushlight.backends import Backend, backend_for
from rushlight.core import device_roles
from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2] / "rushlight"
ROLES = ("memory", "streams", "launch", "libraries", "graphs")
# Other words that a file of a role might have had.
SYNONYMS = {
    "launch": ("launcher", "launches", "run"),
    "code_cache": ("cache", "kernel_cache", "machine_code"),
    "allocator": ("alloc", "memory", "allocation"),
    "streams": ("stream", "queues", "events"),
    "libraries": ("library", "lib"),
    "graphs": ("graph", "capture"),
    "lapack": ("linalg", "solver", "cusolver"),
    "matmul": ("products", "gemm", "mm"),
}


def folders():
    return [
        path for path in (ROOT / "runtime").iterdir() if (path / "__init__.py").exists()
    ]


def asked_of(name, where):
    """Attributes that are read of a name, or of what it gives, in files with some text."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if where not in path.read_text():
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute):
                owner = (
                    node.value.func if isinstance(node.value, ast.Call) else node.value
                )
                if getattr(owner, "id", None) == name:
                    found.add(node.attr)
    return found


def test_a_role_has_one_file_name():
    for folder in folders():
        names = {path.stem for path in folder.glob("*.py")}
        for role, others in SYNONYMS.items():
            assert not names & set(others), (folder.name, role)


def test_modules_that_are_asked_of_the_host_are_in_its_folder():
    names = {path.stem for path in (ROOT / "runtime" / "cpu").glob("*.py")}
    asked = asked_of("host", "core.roles import host") - {"package"}
    assert {"launch", "code_cache", "matmul"} <= asked and not asked - names


def test_every_backend_has_each_role():
    for device in ("cpu", "meta"):
        backend = backend_for(device)
        for role in ROLES:
            base = getattr(device_roles, role.title())
            assert isinstance(getattr(backend, role), base), (device, role)
    roles = {n for n, one in vars(Backend).items() if not callable(one)} - {"name"}
    assert {name for name in roles if not name.startswith("_")} == set(ROLES)


def test_factorizations_asked_of_a_device_are_those_of_each():
    asked = asked_of("lapack_of", "lapack_of(") - {"__name__"}
    assert len(asked) > 10
    for folder in folders():
        module = f"rushlight.runtime.{folder.name}.lapack"
        assert not asked - set(defined_names(module)), folder.name

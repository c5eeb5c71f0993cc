"""Calls go down: a module imports its own layer or lower ones, at module level."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "rushlight"
# Lowest first. A module belongs to the layer with the longest matching prefix.
LAYERS = (
    ("core", "return_types"),
    ("backends", "cpu"),
    ("codegen", "te"),
    ("dispatch", "library", "overrides"),
    ("ops", "_generated"),
    ("autograd",),
    (
        "random",
        "_bindings",
        "_helpers",
        "functional",
        "legacy",
        "lowrank",
        "removed",
        "_storages",
    ),
    (
        "__future__",
        "nn",
        "optim",
        "utils",
        "serialization",
        "linalg",
        "special",
        "fft",
        "signal",
        "hub",
        "masked",
        "sparse",
        "quasirandom",
        "monitor",
        "package",
    ),
    ("_subclasses", "distributions"),
    ("datasets", "transforms", "testing", "func"),
    # what programs ask about the place they run in, and PyTorch's other names
    (
        "torch_version",
        "version",
        "types",
        "storage",
        "_utils",
        "_C",
        "__config__",
        "_ops",
        "_functorch",
        "_tensor_str",
    ),
    ("_absent", "accelerator", "mps", "xpu", "mtia", "_facts", "amp", "cuda"),
    ("_higher_order_ops",),
    (
        *("futures", "fx", "jit", "onnx", "profiler", "ao"),
        "export",
        *("programs", "_dynamo", "_inductor", "_logging", "compiler"),
    ),
    ("distributed", "multiprocessing", "functorch"),
    ("_explain", "_missing", "_on_demand", "_as_torch", "run", "__main__", "__init__"),
)
NUMBERS = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in ROOT.rglob("*.py") if "_generated" not in path.parts)


def layer_of(parts):
    return NUMBERS.get(parts[0] if parts else "__init__")


def imports(path):
    """Modules of the package imported when ``path`` is: no lazy ones in functions."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace("cython.cimports.", "")
            if module.startswith("rushlight."):
                yield tuple(module.split(".")[1:])
            elif module == "rushlight":
                yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("rushlight."):
                    yield tuple(alias.name.split(".")[1:])


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_imports_nothing_upward(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    own = layer_of(parts)
    assert own is not None, f"{parts[0]} has no layer: add it to LAYERS"
    upward = [
        ".".join(found) for found in imports(path) if (layer_of(found) or 0) > own
    ]
    assert not upward, f"imports upward: {upward}"


def test_nothing_imports_the_oracle_or_a_peer():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not any(n.split(".")[0] == "torch" for n in names), path


# Kernels that are prepared for one call, in C: the structure that a launch hands to the
# kernel is the host's, and calling through an object would cost what the call does.
COMPILED_WITH_THE_HOST = {"copying", "native", "picking", "rows", "scan"}


def test_operators_name_no_backend():
    found = {}
    for path in sorted((ROOT / "ops").glob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = line.strip()
            named = text.startswith(("from ", "import ")) and "backends." in text
            if named and "backends.roles" not in text:
                found.setdefault(path.stem, []).append(f"{path.name}:{number}: {text}")
    allowed = {
        name: lines
        for name, lines in found.items()
        if name in COMPILED_WITH_THE_HOST
        and all("cimports.rushlight.backends.cpu." in line for line in lines)
        and all(
            line.split("cpu.")[1].split()[0] in ("launch", "grain") for line in lines
        )
    }
    assert found == allowed
    assert set(allowed) == COMPILED_WITH_THE_HOST

"""Modules that PyTorch has too are found under its name; others are not."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight._as_torch import names

ROOT = Path(__file__).parents[2] / "rushlight"


def module_names():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            yield ".".join(("rushlight", *parts))


def test_modules_under_pytorch_s_name_exist_in_pytorch():
    pytest.importorskip("torch")
    public = [names.theirs(name) for name in module_names()]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError: print(name)\n"
    )
    wanted = [name for name in public if name and name != "torch.return_types"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *wanted],
        capture_output=True,
        text=True,
    )
    assert not done.stdout.split(), "add them to OWN"


def test_every_module_can_be_imported_under_pytorch_s_name(printed):
    public = [name for name in map(names.theirs, module_names()) if name]
    lines = printed(
        "import importlib, sys, warnings\n"
        f"for name in {public!r}:\n"
        "    module = importlib.import_module(name)\n"
        "    if module.__name__ != name or sys.modules[name] is not module: print(name)\n"
        "copies = {}\n"
        "for name, module in list(sys.modules.items()):\n"
        "    file = getattr(module, '__file__', None)\n"
        "    if file and 'rushlight' in file: copies.setdefault(file, set()).add(id(module))\n"
        "print([file for file, ids in copies.items() if len(ids) > 1])\n"
    )
    assert lines == ["[]"]


def test_own_modules_are_not_found_under_pytorch_s_name():
    assert names.theirs("rushlight.core.tensor") is None
    assert names.ours("torch.datasets") is None
    assert importlib.util.find_spec("rushlight.core.tensor") is not None

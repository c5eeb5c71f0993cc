"""Modules that PyTorch has too are found under its name; others are not."""

import importlib
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight.torch_compat import names
from tools.modules import module_name, source_of

ROOT = Path(__file__).parents[2] / "rushlight"


def module_names():
    for path in sorted(ROOT.rglob("*.py")):
        name = module_name(path)
        if name != "rushlight":
            yield name


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


def test_private_modules_shared_with_pytorch_are_listed():
    pytest.importorskip("torch")
    paths = [name.removeprefix("rushlight.") for name in module_names()]
    own = [path for path in paths if "._" in path and names.is_own(path)]
    shared = {path for path in own if is_in_pytorch(path)}
    assert shared == KEPT_APART, "add them to SHARED_PRIVATE"


# Modules that PyTorch has as well, for other things than Rushlight's.
KEPT_APART = {"optim._functional"}


def is_in_pytorch(path):
    root = Path(importlib.util.find_spec("torch").origin).parent
    file = root.joinpath(*path.split("."))
    return file.is_dir() or file.with_suffix(".py").exists()


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


def test_no_module_that_programs_import_goes_away():
    listed = Path(__file__).with_name("module_names.txt").read_text().split()
    lost = [name for name in listed if source_of(names.ours(name) or name) is None]
    assert not lost, "what can be imported stays importable, wherever its file moves"


def test_a_module_is_there_under_its_public_name_alone():
    for name in ("front.linalg", "front.cuda", "torch_compat.mirrors.types"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"rushlight.{name}")


def test_pickles_from_before_modules_moved_are_read():
    text = b"crushlight.core.random\nrestore\n."
    assert pickle.loads(text) is rushlight.random.generator.restore
    text = b"crushlight.core.pickling\nrebuild\n."
    assert pickle.loads(text) is rushlight.io.pickling.rebuild
    text = b"crushlight.ops.return_types\n_rebuild\n."
    assert pickle.loads(text) is rushlight.operators.return_types._rebuild


def test_own_modules_are_not_found_under_pytorch_s_name():
    assert names.theirs("rushlight.core.tensor") is None
    assert names.ours("torch.datasets") is None
    assert importlib.util.find_spec("rushlight.core.tensor") is not None


def test_import_torch_alone_brings_what_it_brings_with_pytorch(printed):
    pytest.importorskip("torch")
    walk = (
        "import sys, torch\n"
        "def reached(name):\n"
        "    held = torch\n"
        "    for part in name.split('.')[1:]:\n"
        "        held = getattr(held, part, None)\n"
        "    return held\n"
    )
    loaded = (
        "for name in sorted(sys.modules):\n"
        "    if name.startswith('torch.'):\n"
        "        if reached(name) is sys.modules[name]: print(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", walk + loaded],
        capture_output=True,
        text=True,
    )
    wanted = done.stdout.split()
    assert len(wanted) > 700
    assert {"torch.cpu.amp", "torch.utils._python_dispatch"} <= {*wanted}
    missing = printed(
        f"{walk}from importlib import import_module\n"
        f"away = [name for name in {wanted!r} if reached(name) is None]\n"
        "for name in away:\n"
        "    try: print(import_module(name).__name__)\n"
        "    except ModuleNotFoundError: pass\n"
    )
    assert missing == [], "reached only by importing them"

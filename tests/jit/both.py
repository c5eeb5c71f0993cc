"""Programs of ``programs/`` as modules of either library, and results to compare."""

import copy
import functools
import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"


@functools.cache
def loaded(name, library, folder):
    """The module of a file of programs, with its imports of one library.

    The text is written to a file, for programs are translated from their source.
    """
    text = (FOLDER / f"{name}.py").read_text()
    if library == "rushlight":
        text = text.replace(
            "import torch.nn.functional", "import rushlight.nn.functional"
        )
        text = text.replace("import torch\n", "import rushlight as torch\n")
        text = text.replace("from torch import", "from rushlight import")
    path = Path(folder) / f"{name}_{library}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def made(thing):
    """The function, or a module of the class."""
    return thing() if isinstance(thing, type) else thing


def called(function, operands):
    """What a function gives for copies of operands."""
    return function(*copy.deepcopy(operands))


def plain(value):
    """A value that values of the other library can be compared with."""
    if hasattr(value, "detach"):
        return (
            "tensor",
            str(value.dtype).split(".")[-1],
            _rounded(value.detach().tolist()),
        )
    if hasattr(value, "_asdict"):
        return ("named", {k: plain(v) for k, v in value._asdict().items()})
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain(item) for item in value])
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return (type(value).__name__, value)


def _rounded(value):
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) + 0.0 if isinstance(value, float) else value

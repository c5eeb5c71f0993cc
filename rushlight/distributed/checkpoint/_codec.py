"""Plans and metadata as octets: pickles in PyTorch's names, read without a program.

A metadata file of PyTorch's is such a pickle. So is what ranks send each other while they
agree on a plan: the reader makes the classes below and nothing else.
"""

import collections
import io
import pathlib
import pickle

import rushlight as rl
from rushlight.distributed.checkpoint import filesystem_records as records
from rushlight.distributed.checkpoint import metadata, planner, storage
from rushlight.io.unpickler import Reader
from rushlight.serialization._names import Globals
from rushlight.serialization._write import _Foreign, _Pickler

PREFIX = "torch.distributed.checkpoint."
# The module that PyTorch has a class in -> ours.
MODULES = {
    "metadata": metadata,
    "planner": planner,
    "storage": storage,
    "filesystem": records,
}
CLASSES = {
    PREFIX + f"{name}.{kind.__name__}": kind
    for name, module in MODULES.items()
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__
}
NAMES = {kind: _Foreign(*name.rsplit(".", 1)) for name, kind in CLASSES.items()}
PATHS = ["PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]


def _path(*parts):
    """A path of its parts; those of another system become text that has them."""
    if not all(type(part) is str for part in parts):
        raise pickle.UnpicklingError("a path is made of text")
    return pathlib.Path(*parts)


class _MetadataPickler(_Pickler):
    """Writes the classes of checkpoints under PyTorch's names."""

    def save_global(self, obj, name=None):
        if isinstance(obj, type) and obj in NAMES:
            self.save(NAMES[obj])
        else:
            super().save_global(obj, name)

    def reducer_override(self, value):
        if isinstance(value, pathlib.PurePath):
            return _Foreign("pathlib", type(value).__name__), value.parts
        if isinstance(value, rl.Tensor):
            raise pickle.PicklingError(
                "a plan holds no tensors: they are written apart"
            )
        return super().reducer_override(value)


def dumps(value):
    """A value as octets.

    Args:
        value: plans, metadata, numbers, text and containers of them.
    """
    stream = io.BytesIO()
    _MetadataPickler(stream, 2).dump(value)
    return stream.getvalue()


def _refuse(persistent):
    raise pickle.UnpicklingError("a plan holds no tensors")


def loads(octets):
    """The value of octets; no program is run.

    Args:
        octets: what ``dumps``, or PyTorch, made.

    Raises:
        UnpicklingError: they are no such value.
    """
    known = Globals()
    callables = dict(CLASSES)
    for module in "pathlib", "pathlib._local":
        callables.update((f"{module}.{name}", _path) for name in PATHS)
    callables["collections.ChainMap"] = collections.ChainMap
    known.names.update(callables)
    # PyTorch's older plans name these, and nothing calls them.
    known.names["torch.memory_format"] = rl.memory_format
    known.callable.update(id(value) for value in callables.values())
    return Reader(memoryview(octets), known.find, known.may_call, _refuse).load()

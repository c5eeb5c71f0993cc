"""``load``: checkpoints of every format, read without running a program."""

import io
import mmap as maps
import os
import pickle
import pickletools
import reprlib
import sys
import warnings

from rushlight._typed_storage import TypedStorage
from rushlight.core import naming
from rushlight.core.storage import Storage
from rushlight.io import interop
from rushlight.io.old_files import OldFile
from rushlight.io.serialization import Archive
from rushlight.io.unpickler import Reader
from rushlight.serialization._locations import restorer
from rushlight.serialization._names import Globals, Placed, StorageName, plain
from rushlight.serialization._settings import LoadEndianness, choices

TRUE = ("1", "y", "yes", "true")


class _Storages:
    """The storages of one file, each read once and put where the caller wants it.

    Attributes:
        fault: the exception of a caller's ``map_location``; None where there was none.
    """

    fault = None

    def __init__(self, archive, map_location):
        self.archive = archive
        self.restore = restorer(map_location)
        self.found: dict[str, object] = {}
        self.swapped = _order_of(archive) != sys.byteorder

    def __call__(self, persistent):
        kind, key, location, count = _check_persistent(persistent)
        if key not in self.found:
            n_bytes = count * kind.dtype.itemsize
            made = self.archive.storage(f"data/{key}", n_bytes, choices.skips)
            if self.swapped and not choices.skips:
                interop.swap_bytes(made, kind.dtype)
            self.found[key] = self.put(made, location)
        return Placed(self.found[key], kind.dtype)

    def put(self, storage, location):
        """The storage where the caller wants it."""
        try:
            moved = self.restore(storage, location)
            if isinstance(moved, TypedStorage):
                return moved._untyped_storage
            if not isinstance(moved, Storage):
                raise TypeError(
                    "map_location must return a storage or None, not "
                    f"{type(moved).__name__}"
                )
        except Exception as error:
            self.fault = error
            raise
        return moved


def _order_of(archive):
    """The order of bytes of an archive's numbers."""
    order = archive.byteorder
    if order is None:
        chosen = choices.endianness
        if chosen in (None, LoadEndianness.NATIVE):
            return sys.byteorder
        return chosen.name.lower()
    if order not in ("little", "big"):
        raise ValueError(f"Unknown endianness type: {order}")
    return order


def _check_persistent(persistent):
    """The kind, key, device and length of a storage that a file names."""
    if not isinstance(persistent, tuple) or len(persistent) < 5:
        raise _unknown(persistent)
    tag, kind, key, location, count = persistent[:5]
    proper = isinstance(kind, StorageName) and isinstance(key, str)
    proper = proper and isinstance(location, str) and isinstance(tag, str)
    if not proper or tag != "storage" or type(count) is not int or count < 0:
        raise _unknown(persistent)
    return kind, key, location, count


def _unknown(persistent):
    return pickle.UnpicklingError(f"unknown persistent id {reprlib.repr(persistent)}")


class _OldStorages(_Storages):
    """The storages of a file from before 1.6; its bytes come after the value."""

    def __init__(self, file, map_location):
        self.archive = file
        self.restore = restorer(map_location)

    def __call__(self, persistent):
        kind, key, location, count = _check_persistent(persistent)
        storage = self.archive.storage(
            key, count, kind.dtype.itemsize, lambda made: self.put(made, location)
        )
        part = persistent[5] if len(persistent) > 5 else None
        start = 0
        if part is not None:
            if (
                not isinstance(part, tuple)
                or len(part) != 3
                or type(part[1]) is not int
            ):
                raise _unknown(persistent)
            start = part[1]
        return Placed(storage, kind.dtype, start)


def _trusting(pickle_module, file, persistent, options, names=None):
    """A pickle module's own unpickler, with PyTorch's names standing for ours."""
    names = Globals().names if names is None else names

    class Unpickler(pickle_module.Unpickler):
        def persistent_load(self, value):
            return persistent(value)

        def find_class(self, module, name):
            known = names.get(f"{module}.{name}")
            if known is not None:
                return known
            if module == "torch" or module.startswith("torch."):
                module = "rushlight" + module[len("torch") :]
            return super().find_class(module, name)

    return Unpickler(file, **options)


def load(
    f,
    map_location=None,
    pickle_module=None,
    *,
    weights_only=None,
    mmap=None,
    **pickle_load_args,
):
    """Reads what ``save``, or PyTorch's, has written; safetensors files as well.

    Args:
        f: a path, or a seekable file open for reading in binary mode.
        map_location: a device for the tensors, a dict from the file's device names,
            or a function of a storage and its device name.
        pickle_module: what reads a file that is trusted, in place of ``pickle``.
        weights_only: read containers and tensors only, which is the default; with False
            the file may hold, and run, any program. ``TORCH_FORCE_WEIGHTS_ONLY_LOAD``
            and ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` in the environment choose too.
        mmap: map the file in place of reading it; pages come as they are used, and
            checksums are not verified.
        pickle_load_args: arguments for the reader of a file that is trusted.

    Raises:
        RuntimeError: the file is damaged or cut short.
        TypeError: the reader of containers and tensors has no such argument.
        UnpicklingError: its contents are damaged, or more than containers and tensors.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.])}
    """
    weights_only = _trust(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "Can not safely load weights when explicit pickle_module is specified"
        )
    if pickle_load_args and weights_only:
        _check_options(pickle_load_args)
    trusted = None if weights_only else (pickle_module or pickle, pickle_load_args)
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if os.fsdecode(path).endswith(".safetensors"):
            return _load_safetensors(path, map_location, bool(mmap))
        shared = bool(mmap) and choices.mmap_flags == maps.MAP_SHARED
        with open(f, "r+b" if shared else "rb") as file:
            return _read(file, path, map_location, trusted, bool(mmap), shared)
    _require_seekable(f)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    title, start = getattr(f, "name", "file object"), f.tell()
    copy = io.BytesIO(f.read())
    value = _read(copy, title, map_location, trusted, False, False)
    f.seek(start + copy.tell())  # what was saved behind it can be read next
    return value


def _check_options(options):
    """Says that arguments have no use; refuses those that the reader does not have."""
    message = "pickle_load_args only works if `weights_only=False`."
    warnings.warn(message, stacklevel=3)
    for name in options.keys() - {"encoding"}:
        raise TypeError(f"load() got an unexpected keyword argument {name!r}")


def _require_seekable(f):
    """Refuses what is no file that can be read from any place."""
    missing = [name for name in ("read", "seek", "tell") if not hasattr(f, name)]
    if missing:
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{missing[0]}'. You can "
            "only load from a file that is seekable. Please pre-load the data into a "
            "buffer like io.BytesIO and try to load from it instead."
        )


def _trust(weights_only, pickle_module):
    """Whether containers and tensors are all that a file may hold."""
    force = os.getenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in TRUE
    force_not = os.getenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in TRUE
    if force and force_not:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or "
            "`TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    if force:
        return True
    if weights_only is not None:
        return bool(weights_only)
    if force_not:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the "
            f"`weights_only` argument was not explicitly passed to "
            f"`{naming.package}.load`, forcing weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return pickle_module is None


def _load_safetensors(path, map_location, mapped):
    from rushlight.serialization.safetensors import load_file

    if isinstance(map_location, dict) or callable(map_location):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(
            f"Loading safetensors file with {kind} map_location is not supported. Use "
            f"a device string or {naming.package}.device instead."
        )
    return load_file(path, "cpu" if map_location is None else map_location, mapped)


def _read(file, title, map_location, trusted, mapped, shared):
    start = file.read(4)
    if not start:
        raise EOFError(f"Ran out of input: {title} is empty")
    if start[:1] == b"\x80":
        if mapped:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                f"`{naming.package}.save({title}, _use_new_zipfile_serialization=True), "
                f"please {naming.package}.save your checkpoint with this option in "
                "order to use mmap."
            )
        old = OldFile(start + file.read(), title)
        value = _read_old(old, map_location, trusted)
        file.seek(old.at)
        return value
    archive = Archive(file, title, mapped, shared)
    storages = _Storages(archive, map_location)
    program = archive.read("data.pkl")
    if trusted is None:
        names = Globals()
        return plain(Reader(program, names.find, names.may_call, storages).load())
    module, options = trusted
    return plain(_trusting(module, io.BytesIO(program), storages, options).load())


def _read_old(file, map_location, trusted):
    """A file from before PyTorch 1.6."""
    storages = _OldStorages(file, map_location)
    start, names, early = file.at, Globals(), []
    names.put_off(early)
    if trusted is None:
        value = file.value(names.find, names.may_call, storages)
        file.fill_storages()
        if early:  # again, now that there are elements to look at
            file.at, names = start, Globals()
            value = file.value(names.find, names.may_call, storages)
    else:
        module, options = trusted

        def read(known):
            return file.trusted_value(
                lambda part: _trusting(module, part, storages, options, known)
            )

        value = read(names.names)
        file.fill_storages()
        if early:
            file.at = start
            value = read(Globals().names)
    return plain(value)


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """The names in a checkpoint that ``load`` would refuse; nothing of it is run.

    Args:
        f: a path, or a file open for reading in binary mode.

    Raises:
        RuntimeError: the file is damaged.
        UnpicklingError: what it holds is no pickled value.

    >>> import collections, io
    >>> file = io.BytesIO()
    >>> torch.save(torch.ones(2), file)
    >>> _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    []
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            data, title = file.read(), os.fspath(f)
    else:
        data, title = f.read(), "file object"
    allowed = Globals().names
    if data[:1] == b"\x80":
        at = OldFile(data, title).at
        found = _named(data[at:])
    else:
        found = _named(Archive(io.BytesIO(data), title).read("data.pkl"))
    return [name for name in found if name not in allowed]


def _named(program):
    """What a pickled value names, each once, by reading on without understanding it."""
    found: dict[str, None] = {}
    texts: list = []  # those that a name may be made of, and what was kept of them
    kept: dict = {}
    try:
        for code, argument, _ in pickletools.genops(program):
            if code.name == "GLOBAL":
                found[argument.replace(" ", ".")] = None
            elif code.name == "STACK_GLOBAL":
                found[".".join(map(str, texts[-2:]))] = None
            elif isinstance(argument, str):
                texts.append(argument)
            elif code.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
                place = len(kept) if argument is None else argument
                kept[place] = texts[-1] if texts else None
            elif code.name in ("GET", "BINGET", "LONG_BINGET"):
                texts.append(kept.get(argument))
    except Exception as error:
        raise pickle.UnpicklingError(f"malformed pickle data: {error}") from error
    return list(found)

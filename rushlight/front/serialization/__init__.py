"""``save`` and ``load``: PyTorch's checkpoint files, read without running a program.

A checkpoint is a pickled value in which every storage is a persistent id, beside the
storages' bytes. ``load`` reads the pickled part with a parser that knows containers and
tensors; only ``weights_only=False`` hands it to Python's pickle.
"""

import contextlib
import os
from collections.abc import Callable
from typing import IO, Any

import rushlight as rl
from rushlight.serialization._names import (
    _get_layout,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from rushlight.serialization._locations import (
    _package_registry,
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
)
from rushlight.serialization._read import get_unsafe_globals_in_checkpoint, load
from rushlight.serialization._settings import (
    LoadEndianness,
    SourceChangeWarning,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from rushlight.serialization._write import save

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
]

DEFAULT_PROTOCOL = 2  # of the pickle inside of a file
# What annotations of other programs call the arguments of save and load.
FILE_LIKE = str | os.PathLike | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | rl.device | str | dict[str, str] | None


@contextlib.contextmanager
def mkdtemp():
    """A folder that is there for the length of a ``with`` block."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        yield folder


def normalize_storage_type(storage_type):
    """The package's own class for a kind of storage, by its name.

    Args:
        storage_type: the class, this package's or another's of the same name.

    >>> torch.serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    True
    """
    return getattr(rl, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The old tensor type for a typed storage.

    Args:
        storage: the storage.

    >>> storage = torch.FloatStorage([1.0, 2.0])
    >>> torch.serialization.storage_to_tensor_type(storage) is torch.FloatTensor
    True
    """
    name = type(storage).__name__
    if isinstance(storage, rl.TypedStorage):
        name = storage.pickle_storage_type()
    return getattr(rl, name.replace("Storage", "Tensor"))


def check_module_version_greater_or_equal(
    module, req_version_tuple, error_if_malformed=True
) -> bool:
    """Whether a module's ``__version__`` is at least the one that is wanted.

    Args:
        module: the module.
        req_version_tuple: numbers and words, the first ones of the version.
        error_if_malformed: otherwise a version that cannot be read is only warned of.

    Raises:
        RuntimeError: the version cannot be read.

    >>> import types
    >>> other = types.ModuleType("other")
    >>> other.__version__ = "1.4.2"
    >>> torch.serialization.check_module_version_greater_or_equal(other, (1, 3))
    True
    """
    import warnings

    try:
        parts = module.__version__.split(".")
        found = tuple(
            type(wanted)(part) for wanted, part in zip(req_version_tuple, parts)
        )
        return found >= tuple(req_version_tuple)
    except Exception as error:
        words = (
            f"'{module.__name__}' module version string is malformed "
            f"'{getattr(module, '__version__', None)}' and cannot be compared with "
            f"tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(words) from error
        warnings.warn(f"{words}, but continuing assuming that it is", stacklevel=2)
        return True

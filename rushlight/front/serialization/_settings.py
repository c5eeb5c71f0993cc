"""What a program chooses once for all saving and loading that follows."""

import enum
import mmap
import threading


class SourceChangeWarning(Warning):
    """A class in a file from before PyTorch 1.6 had another source than it has now."""


class LoadEndianness(enum.Enum):
    """The order of bytes of files that do not say theirs.

    Args:
        value: the order's number.

    >>> torch.serialization.LoadEndianness.LITTLE.name
    'LITTLE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Choices:
    """The choices themselves; those of a ``with`` block are the thread's own."""

    def __init__(self):
        self.endianness: LoadEndianness | None = None
        self.mmap_flags: int = mmap.MAP_PRIVATE
        self.checksums = True
        self.thread = threading.local()

    @property
    def skips(self) -> bool:
        return getattr(self.thread, "skips", False)


choices = _Choices()


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that ``load`` takes a file to have that does not say."""
    return choices.endianness


def set_default_load_endianness(endianness) -> None:
    """Chooses the order of bytes of files that do not say theirs.

    Args:
        endianness: a ``LoadEndianness``, or None for this machine's.

    Raises:
        TypeError: it is something else.

    >>> torch.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    choices.endianness = endianness


def get_default_mmap_options() -> int | None:
    """How ``load(mmap=True)`` maps a file: ``mmap.MAP_PRIVATE`` or ``MAP_SHARED``."""
    return choices.mmap_flags


class set_default_mmap_options:
    """Chooses how ``load(mmap=True)`` maps files; a ``with`` block chooses for itself.

    Args:
        flags: ``mmap.MAP_PRIVATE``: changes stay with the program; or
            ``mmap.MAP_SHARED``: changes of the tensors go to the file.

    Raises:
        ValueError: the flags are something else.

    >>> import mmap
    >>> with rl.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     rl.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self.before = choices.mmap_flags
        choices.mmap_flags = flags

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        choices.mmap_flags = self.before


def get_crc32_options() -> bool:
    """Whether ``save`` writes a checksum with every record."""
    return choices.checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Chooses whether ``save`` writes a checksum with every record.

    Without one, damage to the numbers goes unseen, and other programs for archives
    complain of the file.

    Args:
        compute_crc32: whether it does.

    >>> torch.serialization.set_crc32_options(True)
    >>> torch.serialization.get_crc32_options()
    True
    """
    choices.checksums = bool(compute_crc32)


class skip_data:
    """Saves and loads everything but the tensors' numbers, for a ``with`` block.

    What is saved has room for them, to be filled in later; what is loaded has zeros.

    Args:
        materialize_fake_tensors: kept for programs that pass it; all tensors have
            memory here.

    >>> import io
    >>> file = io.BytesIO()
    >>> with rl.serialization.skip_data():
    ...     rl.save(rl.ones(2), file)
    >>> _ = file.seek(0)
    >>> rl.load(file)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.before = choices.skips
        choices.thread.skips = True

    def __exit__(self, *raised):
        choices.thread.skips = self.before

"""The host: its memory pool, and the little there is to say of the device."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight.core import storage
from rushlight.cpu._capabilities import get_capabilities
from rushlight.cpu._capabilities import has as _has

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_memory_limit",
    "stream",
    "synchronize",
]

# PyTorch's statistic -> the pool's counter.
_FAMILIES = {
    "allocation": "live",
    "allocated_bytes": "allocated",
    "requested_bytes": "requested",
    "reserved_bytes": "reserved",
}


def is_available() -> bool:
    """Whether the host can compute: yes."""
    return True


def device_count() -> int:
    """The number of hosts: 1."""
    return 1


def current_device() -> str:
    """The name of the current device."""
    return "cpu"


def synchronize(device=None) -> None:
    """Returns at once: nothing on the host runs behind the caller's back."""


def memory_stats(device=None) -> dict:
    """The pool's counters under PyTorch's names.

    For each of ``allocation``, ``allocated_bytes``, ``requested_bytes`` and
    ``reserved_bytes``: ``.all.current``, ``.all.peak``, ``.all.allocated`` and
    ``.all.freed``; then ``segment.all.current`` (blocks taken from the system),
    ``num_alloc_retries`` and ``num_ooms``.

    >>> memory_stats()["allocated_bytes.all.peak"] >= 0
    True
    """
    counts = storage.memory_counts()
    stats = {}
    for family, counter in _FAMILIES.items():
        stats[f"{family}.all.current"] = counts[counter]
        stats[f"{family}.all.peak"] = counts[f"{counter}_peak"]
        stats[f"{family}.all.allocated"] = counts[f"{counter}_total"]
        stats[f"{family}.all.freed"] = counts[f"{counter}_freed"]
    stats["segment.all.current"] = counts["segments"]
    stats["num_alloc_retries"] = counts["retries"]
    stats["num_ooms"] = counts["failures"]
    return stats


def memory_allocated(device=None) -> int:
    """Bytes of the blocks that storages hold now."""
    return storage.memory_counts()["allocated"]


def max_memory_allocated(device=None) -> int:
    """The most bytes that storages held at once since the last reset."""
    return storage.memory_counts()["allocated_peak"]


def memory_reserved(device=None) -> int:
    """Bytes taken from the system: those in use and those idle in the pool."""
    return storage.memory_counts()["reserved"]


def max_memory_reserved(device=None) -> int:
    """The most bytes taken from the system at once since the last reset."""
    return storage.memory_counts()["reserved_peak"]


def reset_peak_memory_stats(device=None) -> None:
    """Starts the peaks again from what is in use now."""
    storage.reset_peaks()


def reset_accumulated_memory_stats(device=None) -> None:
    """Starts the running totals again from zero."""
    storage.reset_totals()


def empty_cache() -> None:
    """Gives the pool's idle blocks back to the system."""
    storage.empty_cache()


def set_memory_limit(limit=None):
    """Caps the bytes taken from the system; returns the earlier cap.

    An allocation that would pass the cap, even with the pool's idle blocks given back,
    raises the error of an allocation that the system refuses.

    Args:
        limit: the cap in bytes; None for no cap.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"set_memory_limit: limit must be non-negative, got {limit}")
    previous = storage.set_limit(-1 if limit is None else limit)
    return None if previous < 0 else previous


def memory_summary(device=None) -> str:
    """The statistics as a table to read."""
    stats = memory_stats()
    lines = [f"{'':18}{'now':>15}{'peak':>15}{'allocated':>18}{'freed':>18}"]
    for family in _FAMILIES:
        now, peak, total, freed = (
            stats[f"{family}.all.{kind}"]
            for kind in ("current", "peak", "allocated", "freed")
        )
        lines.append(f"{family:18}{now:>15,}{peak:>15,}{total:>18,}{freed:>18,}")
    return "\n".join(lines)


def is_initialized():
    """Whether the host can be used: always."""
    return True


def set_device(device):
    """Chooses the current host: there is one."""


def current_stream(device=None):
    """The host's queue, in which nothing waits."""
    return _only_stream


class Stream:
    """The queue of the host: each call is run at once, so that it is empty."""

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        """Has later calls wait for another queue's: they have run."""

    def record_event(self):
        """Marks this moment: nothing needs to know it."""

    def wait_event(self, event):
        """Has later calls wait for a moment: it is past."""


class Event:
    """A moment in the queue of the host, which is always past."""

    def query(self):
        """Whether the moment is past: always.

        >>> Event().query()
        True
        """
        return True

    def record(self, stream=None):
        """Marks this moment."""

    def synchronize(self):
        """Waits for the moment: it is past."""

    def wait(self, stream=None):
        """Has later calls wait: none needs to."""


_only_stream = Stream()


class StreamContext:
    """Sends the calls of a block to a queue: the host has one."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *raised):
        return False


def stream(stream):
    """A block whose calls go to a queue of the host's."""
    return StreamContext(stream)


__getattr__ = _lazy_getattr(__name__, ("amp",))


def _is_avx2_supported():
    """Whether the processor has AVX2."""
    return _has("avx2")


def _is_avx512_supported():
    """Whether it has the part of AVX-512 that all such processors have."""
    return _has("avx512_f")


def _is_avx512_bf16_supported():
    """Whether it multiplies bfloat16."""
    return _has("avx512_bf16")


def _is_vnni_supported():
    """Whether it sums products of bytes."""
    return _has("avx512_vnni")


def _is_amx_tile_supported():
    """Whether it has tiles."""
    return _has("amx_tile")


def _is_amx_fp16_supported():
    """Whether its tiles multiply float16."""
    return _has("amx_fp16")

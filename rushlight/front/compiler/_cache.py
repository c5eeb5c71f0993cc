"""What compiling has left on the disk, as bytes for another process or machine."""

from rushlight.runtime.cpu.cache_artifacts import packed_kernels, take_kernels

__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]


class CacheInfo:
    """Which artifacts were saved or loaded, by their kind.

    Attributes:
        artifacts: kind -> keys. Here all are kernels, of kind ``"inductor"``.
    """

    def __init__(self, artifacts=None):
        self.artifacts: dict = artifacts or {}

    @property
    def inductor_artifacts(self):
        """The keys of kernels."""
        return self.artifacts.get("inductor", [])

    @property
    def autotune_artifacts(self):
        """None: nothing is tuned by trying."""
        return []

    @property
    def aot_autograd_artifacts(self):
        """None: paths are noted in each process."""
        return []

    @property
    def pgo_artifacts(self):
        """None: which sizes change is found in each process."""
        return []

    @property
    def precompile_artifacts(self):
        """None: paths are noted in each process."""
        return []

    def empty(self):
        """Whether there are none."""
        return not any(self.artifacts.values())

    def clear(self):
        """Forgets them."""
        self.artifacts.clear()


def save_cache_artifacts():
    """The machine code that this process has used, and what it is.

    Returns:
        Bytes and a `CacheInfo`; None where nothing was compiled.

    >>> import rushlight as rl
    >>> _ = rl.ones(3) + 1
    >>> found = save_cache_artifacts()
    >>> found is None or isinstance(found[0], bytes)
    True
    """
    data = packed_kernels()
    if data is None:
        return None
    return data, CacheInfo({"inductor": take_kernels(data)})


def load_cache_artifacts(serialized_artifacts):
    """Takes machine code into the cache of this machine's kernels.

    Code runs with this process's rights: load what you would run.

    Args:
        serialized_artifacts: of `save_cache_artifacts`.

    Returns:
        A `CacheInfo` of what was taken; None where the bytes are none of ours.

    >>> load_cache_artifacts(b"others'") is None
    True
    """
    taken = take_kernels(serialized_artifacts)
    return CacheInfo({"inductor": taken}) if taken else None

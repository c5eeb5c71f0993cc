"""The kept machine code of compiled programs, by the names that programs clear it by."""

from rushlight._dynamo.decorators import reset
from rushlight.runtime.cpu import code_cache

__all__ = ["FxGraphCache", "PyCodeCache", "cache_dir"]


def cache_dir():
    """The folder where machine code is kept; None where there can be none."""
    return code_cache.directory()


class FxGraphCache:
    """Programs that are known: they are kept in each process alone."""

    @staticmethod
    def clear():
        """Forgets all."""
        reset()


class PyCodeCache:
    """Kernels that are known in this process."""

    @staticmethod
    def cache_clear(purge=False):
        """Forgets them; the next call asks the folder again.

        Args:
            purge: whether the folder's files are deleted, too.
        """
        if purge:
            code_cache.clear()
        code_cache.forget()

"""Blocks in which neither modes nor types take operators."""

from rushlight.dispatch.guard import Guard
from rushlight.dispatch.keys import DispatchKey, KeySet


def no_dispatch():
    """A block whose operators go to no ``__torch_dispatch__``."""
    return Guard(exclude=KeySet.of(DispatchKey.Python, DispatchKey.Decompose))


def all_same_mode(modes):
    """Whether all are one and the same mode."""
    return all(mode == modes[0] for mode in modes)


__all__ = ["all_same_mode", "no_dispatch"]

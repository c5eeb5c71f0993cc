"""Numbers that stand for one value in each dimension."""

from __future__ import annotations

from collections.abc import Iterable


def _ntuple(count, name="parse"):
    """A function that turns a number, or an iterable, into a tuple."""

    def parse(value):
        if isinstance(value, Iterable):
            return tuple(value)
        return (value,) * count

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values, times):
    """The values from last to first, each one ``times`` times."""
    return tuple(value for value in reversed(values) for _ in range(times))

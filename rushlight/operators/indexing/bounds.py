"""Indices looked at by kernels: what lies outside is noted, and 0 is taken for it."""

from __future__ import annotations

from rushlight.codegen.loops import i64, loops_inline


@loops_inline
def checked(place, size, fault):
    """The index, or 0 with the fault reported where it lies outside ``[0, size)``."""
    good = place
    if place < 0 or place >= size:
        fault[0] = place
        good = i64(0)
    return good


@loops_inline
def wrapped(place, size, fault):
    """The same for indices that may count from the end."""
    good = place
    if place < 0:
        good = place + size
    if good < 0 or good >= size:
        fault[0] = place
        good = i64(0)
    return good

"""What an allocator counts, under the names that PyTorch gives the figures."""

from __future__ import annotations

import collections

import cython
from cython.cimports.libc.stdint import int64_t

POOLS = ("all", "small_pool", "large_pool")
COUNTS = ("allocation", "segment", "active", "inactive_split")
BYTES = (
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
ALONE = ("oversize_allocations", "oversize_segments")
EVENTS = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
)
FIGURES = ("current", "peak", "allocated", "freed")


@cython.cclass
class Figure:
    """An amount, its highest value, and what was ever added and taken away."""

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def change(self, amount: int64_t) -> cython.int:
        """Adds to it, or takes away."""
        self.current += amount
        if amount > 0:
            self.allocated += amount
            if self.current > self.peak:
                self.peak = self.current
        else:
            self.freed -= amount
        return 0

    def forget_peak(self):
        """Counts the highest value from here."""
        self.peak = self.current

    def forget_sums(self):
        """Counts what is added and taken away from here."""
        self.allocated = self.freed = 0


@cython.cclass
class Statistics:
    """The figures of one device's memory."""

    def __init__(self):
        self.pools = {
            name: {pool: Figure() for pool in POOLS} for name in (*COUNTS, *BYTES)
        }
        self.rows = [row[pool] for row in self.pools.values() for pool in POOLS]
        self.alone = {name: Figure() for name in ALONE}
        self.events = dict.fromkeys(EVENTS, 0)

    @cython.cfunc
    @cython.exceptval(check=False)
    def change(
        self, which: cython.int, small: cython.bint, amount: int64_t
    ) -> cython.void:
        """Changes a figure, given by its place among all, in all and for its kind of pool."""
        at: cython.int = 3 * which
        cython.cast(Figure, self.rows[at]).change(amount)
        cython.cast(Figure, self.rows[at + (1 if small else 2)]).change(amount)

    def current(self, name):
        """What a figure is now, in all."""
        return self.pools[name]["all"].current

    def peak(self, name):
        """What a figure was at most, in all."""
        return self.pools[name]["all"].peak

    def every(self):
        """All figures."""
        for figures in self.pools.values():
            yield from figures.values()
        yield from self.alone.values()

    def forget_peaks(self):
        """Counts the highest values from here."""
        for figure in self.every():
            figure.forget_peak()

    def forget_sums(self):
        """Counts what is added, taken away and tried again from here."""
        for figure in self.every():
            figure.forget_sums()
        self.events = dict.fromkeys(EVENTS, 0)

    def nested(self):
        """The figures as a dictionary of dictionaries."""
        found = {
            name: {pool: figures_of(figure) for pool, figure in figures.items()}
            for name, figures in self.pools.items()
        }
        found |= {name: figures_of(figure) for name, figure in self.alone.items()}
        return found | self.events


def figures_of(figure):
    """A figure as a dictionary."""
    return {name: getattr(figure, name) for name in FIGURES}


def flat(nested):
    """One sorted dictionary of ``a.b.c`` names out of one of dictionaries."""
    found = []

    def walk(prefix, value):
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{prefix}.{name}" if prefix else name, inner)
        else:
            found.append((prefix, value))

    walk("", nested)
    return collections.OrderedDict(sorted(found))

"""What an allocator counts, under the names that PyTorch gives the figures."""

from __future__ import annotations

import collections

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


class Figure:
    """An amount, its highest value, and what was ever added and taken away."""

    __slots__ = FIGURES

    def __init__(self):
        self.current = self.peak = self.allocated = self.freed = 0

    def change(self, amount):
        """Adds to it, or takes away."""
        self.current += amount
        if amount > 0:
            self.allocated += amount
            if self.current > self.peak:
                self.peak = self.current
        else:
            self.freed -= amount

    def forget_peak(self):
        """Counts the highest value from here."""
        self.peak = self.current

    def forget_sums(self):
        """Counts what is added and taken away from here."""
        self.allocated = self.freed = 0


class Statistics:
    """The figures of one card's memory."""

    def __init__(self):
        self.pools = {
            name: {pool: Figure() for pool in POOLS} for name in (*COUNTS, *BYTES)
        }
        self.alone = {name: Figure() for name in ALONE}
        self.events = dict.fromkeys(EVENTS, 0)

    def change(self, name, small, amount):
        """Changes a figure, in all and for its kind of pool."""
        figures = self.pools[name]
        figures["all"].change(amount)
        figures["small_pool" if small else "large_pool"].change(amount)

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
        told = {
            name: {pool: told_of(figure) for pool, figure in figures.items()}
            for name, figures in self.pools.items()
        }
        told |= {name: told_of(figure) for name, figure in self.alone.items()}
        return told | self.events


def told_of(figure):
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

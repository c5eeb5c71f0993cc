"""How far something long has come: one line that is rewritten, on a terminal only."""

import sys
import time

PAUSE = 0.1  # seconds between two looks of the line


class Progress:
    """A line on a terminal that tells how far something has come; in a log it is silent.

    Args:
        title: what it is that takes so long.
        total: how much there is, if known.
        done: how much of it is done.
        unit: ``"B"`` for bytes; any other stands behind the numbers.
        after: seconds before the line is shown at all.

    >>> with Progress("files", total=2) as line:
    ...     line.add(1)
    ...     str(line)
    'files: 1 of 2, 50%'
    """

    def __init__(self, title, total=None, done=0, unit="", after=0.0):
        self.title, self.total, self.done, self.unit = title, total, done, unit
        self.live = bool(getattr(sys.stderr, "isatty", lambda: False)())
        self.begun = time.monotonic()
        self.shown = self.begun + after - PAUSE
        self._drawn = 0

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()
        return False

    def add(self, count=1, title=None):
        """Counts something that is done.

        Args:
            count: how much.
            title: what comes next, if the line is to say so.
        """
        self.done += count
        self.title = self.title if title is None else title
        now = time.monotonic()
        if self.live and now - self.shown >= PAUSE:
            self.shown = now
            self._draw()

    def _draw(self):
        text = str(self)
        sys.stderr.write(f"\r{text.ljust(self._drawn)}")
        sys.stderr.flush()
        self._drawn = len(text)

    def close(self):
        """Ends the line, if there is one."""
        if self._drawn:
            self._draw()
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._drawn = 0

    def erase(self):
        """Takes the line away: something else may be written there."""
        if self._drawn:
            sys.stderr.write(f"\r{' ' * self._drawn}\r")
            sys.stderr.flush()
            self._drawn = 0
            self.shown -= PAUSE

    def _amount(self, count):
        if self.unit == "B":
            return f"{count / 1e6:.1f}"
        return str(count)

    def __str__(self):
        unit = " MB" if self.unit == "B" else f" {self.unit}" if self.unit else ""
        if not self.total:
            return f"{self.title}: {self._amount(self.done)}{unit}"
        share = 100 * self.done // self.total
        done, total = self._amount(self.done), self._amount(self.total)
        return f"{self.title}: {done} of {total}{unit}, {share}%"


def progress(items, title="", total=None):
    """The items of an iterable, with a line that tells how far it has come.

    Args:
        items: a `DataLoader`, a list, or anything else that can be gone through.
        title: what the line says.
        total: how many there are; by default their length, where they have one.

    >>> sum(progress([1, 2, 3], "numbers"))
    6
    """
    if total is None:
        try:
            total = len(items)
        except TypeError:
            total = None
    with Progress(title or type(items).__name__, total) as line:
        for item in items:
            yield item
            line.add()

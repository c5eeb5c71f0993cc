"""Measurements beside each other, in a table of text."""

import enum
import math

from rushlight.utils.benchmark.utils.common import (
    _UNSTEADY,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

_BOLD, _END = "\033[1m", "\033[0m"
# How much slower than the best, from the slowest on, and its colour.
_COLOURS = ((5, "\033[31m" + _BOLD), (2, "\033[2m\033[91m"))
_BEST, _GOOD = "\033[92m" + _BOLD, "\033[34m" + _BOLD


class Colorize(enum.Enum):
    """Which times are compared by colours."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class _Column:
    """The times under one description, printed with one number of digits."""

    def __init__(self, name, cells, scale, trimmed, warned):
        self.name, self.scale, self.trimmed = name or "", scale, trimmed
        present = [one for one in cells if one is not None]
        digits = [math.ceil(math.log10(one.median / scale)) for one in present]
        self.decimals = 1
        if trimmed:
            kept = zip(present, digits, strict=True)
            self.decimals = min(max(m.significant_figures - d, 0) for m, d in kept)
        whole = max(max(digits), 1)
        self.width = whole + self.decimals + (self.decimals > 0)
        unsteady = [one for one in present if _spread(one) > _UNSTEADY]
        self.marked = 7 if warned and unsteady else 0
        self.cells = [self.text(one).ljust(self.width + self.marked) for one in cells]
        self.full = max(len(self.name), self.width, *map(len, self.cells))

    def text(self, one):
        if one is None:
            return ""
        value = one.median / self.scale
        if self.trimmed:
            value = trim_sigfig(value, one.significant_figures)
        shown = f"{value:>{self.width}.{self.decimals}f}"
        if self.marked and _spread(one) > _UNSTEADY:
            shown += f" (! {_spread(one) * 100:.0f}%)"
        return shown


def _spread(one):
    return one.iqr / one.median


def _coloured(text, value, best):
    if value <= best * 1.01 or value <= best + 100e-9:
        return f"{_BEST}{text}{_END}{_END}"
    if value <= best * 1.1:
        return f"{_GOOD}{text}{_END}{_END}"
    for factor, colour in _COLOURS:
        if value >= best * factor:
            return f"{colour}{text}{_END}{_END}"
    return text


class Compare:
    """A table of measurements: a column for each description, a row for each name.

    Rows are by threads and environments, and one table is made for each label.

    Args:
        results: measurements, as `Timer` makes them.

    >>> from rushlight.utils.benchmark import Measurement, TaskSpec
    >>> task = TaskSpec("f()", "pass", label="calls", sub_label="f", description="now")
    >>> print(Compare([Measurement(1, [0.002], task)]))
    [--- calls ---]
             |  now
    1 threads: ----
          f  |  2.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results):
        from rushlight.utils.benchmark.utils.common import Measurement

        self._results = Measurement.merge(results)
        self._trimmed = False
        self._colours = Colorize.NONE
        self._warned = False

    def extend_results(self, results):
        """Adds measurements.

        Raises:
            ValueError: something else is among them.
        """
        from rushlight.utils.benchmark.utils.common import Measurement

        for one in results:
            if not isinstance(one, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(one)} instead."
                )
        self._results = Measurement.merge([*self._results, *results])

    def trim_significant_figures(self):
        """Prints only digits that the measurements are sure of."""
        self._trimmed = True

    def colorize(self, rowwise=False):
        """Tells good times from bad ones by colours, in each column or each row."""
        self._colours = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self):
        """Marks measurements that spread far."""
        self._warned = True

    def print(self):
        """Prints the tables."""
        print(str(self))

    def __str__(self):
        groups: dict = {}
        for one in self._results:
            groups.setdefault(one.label or one.stmt, []).append(one)
        unit = select_unit(min(one.median for one in self._results))
        return "\n".join(
            self._table(label, group, unit) for label, group in groups.items()
        )

    def _table(self, label, group, unit):
        rows = ordered_unique(
            (one.num_threads, one.task_spec.env or "", one.stmt, one.as_row_name)
            for one in group
        )
        rows.sort(key=lambda row: row[:2])
        positions = {
            (one.num_threads, one.task_spec.env or "", one.stmt, one.as_row_name,
             one.description): one
            for one in group
        }  # fmt: skip
        names = ordered_unique(one.description for one in group)
        grid = [[positions.get((*row, name)) for name in names] for row in rows]
        columns = [
            _Column(
                name, [line[i] for line in grid], unit[1], self._trimmed, self._warned
            )
            for i, name in enumerate(names)
        ]
        headers = [self._row_name(row) for row in rows]
        start = max(map(len, headers))
        first = "  |  ".join((" " * start, *(c.name.center(c.full) for c in columns)))
        width = len(first)
        lines = [f"[{f' {label} '.center(width - 2, '-')}]", first]
        threads = None
        for r, (row, line) in enumerate(zip(rows, grid, strict=True)):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(width, "-"))
            cells = [
                self._cell(column, r, one, self._best(rows, grid, r, i))
                for i, (column, one) in enumerate(zip(columns, line, strict=True))
            ]
            lines.append("  |  ".join((headers[r].ljust(start), *cells)))
        lines += ["", f"Times are in {unit_to_english(unit[0])}s ({unit[0]})."]
        if self._warned:
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return "\n".join(lines) + "\n"

    @staticmethod
    def _row_name(row):
        environment = f"  ({row[1]})  " if row[1] else " " * 6
        return environment + row[3]

    def _best(self, rows, grid, r, i):
        """The shortest time that a cell's colour compares it with."""
        if self._colours is Colorize.ROWWISE:
            found = grid[r]
        else:
            alike = zip(rows, grid, strict=True)
            found = [line[i] for row, line in alike if row[0] == rows[r][0]]
        return min((one.median for one in found if one is not None), default=0.0)

    def _cell(self, column, r, one, best):
        text = column.cells[r].center(column.full)
        if one is None or self._colours is Colorize.NONE:
            return text
        return _coloured(text, one.median, best)

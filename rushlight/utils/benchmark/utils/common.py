"""What was measured, how often, and how sure it is."""

import contextlib
import dataclasses
import math
import textwrap

import rushlight

_MOST_FIGURES = 4
_RESOLUTION = 25e-9  # seconds: what a clock and a call around it cannot tell apart
_UNSTEADY, _VERY_UNSTEADY = 0.1, 0.25  # interquartile ranges beside the median
_UNITS = (
    ("ns", "nanosecond", 1e-9),
    ("us", "microsecond", 1e-6),
    ("ms", "millisecond", 1e-3),
    ("s", "second", 1),
)


def select_unit(t):
    """The unit of time that a duration in seconds reads well in, and its length.

    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    power = math.log10(t) // 3 if t > 0 else 0
    for power_of_unit, (name, _, scale) in zip((-3, -2, -1, 0), _UNITS, strict=True):
        if power == power_of_unit:
            return name, scale
    return "s", 1


def unit_to_english(u):
    """A unit of time in a word.

    >>> unit_to_english("us")
    'microsecond'
    """
    return {name: word for name, word, _ in _UNITS}[u]


def trim_sigfig(x, n):
    """A number rounded to its first ``n`` digits.

    >>> trim_sigfig(123.456, 2)
    120.0
    """
    if x == 0:
        return 0.0
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements):
    """The different elements, in the order in which they come."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n):
    """Runs a block on ``n`` threads."""
    before = rushlight.get_num_threads()
    try:
        rushlight.set_num_threads(n)
        yield
    finally:
        rushlight.set_num_threads(before)


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured: a statement, what goes before it, and what they are called."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """The label and the one below it, or else the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt
        where = f": {self.sub_label}" if self.sub_label else ""
        return f"stmt:{where}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self):
        """What goes before the statement, as text."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self):
        """All that is known of the task, a line for each part."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(part + "\n" * ("\n" in part) for part in parts if part)


def _quantile(ordered, q):
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a task, in seconds, each of so many runs.

    >>> m = Measurement(2, [2.0, 4.0, 6.0], TaskSpec("f()", "pass"))
    >>> m.times, m.median
    ([1.0, 2.0, 3.0], 2.0)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict | None = None

    def __getattr__(self, name):
        # what the task is called is asked of the measurement too
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self):
        """Seconds of one run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _ordered(self):
        if not self.raw_times:
            raise RuntimeError("there are no times in this measurement")
        return sorted(self.times)

    @property
    def median(self):
        """The middle of the times."""
        return _quantile(self._ordered(), 0.5)

    @property
    def mean(self):
        """The mean of the times."""
        times = self._ordered()
        return sum(times) / len(times)

    @property
    def iqr(self):
        """How far the middle half of the times spreads."""
        times = self._ordered()
        return _quantile(times, 0.75) - _quantile(times, 0.25)

    @property
    def significant_figures(self):
        """How many digits of the median can be believed, for tables.

        The middle half of the times stands for all of them, so that a few slow runs do
        not count; their mean is taken to be normal.
        """
        times = self._ordered()
        count = len(times)
        inner = times[count // 4 : math.ceil(3 * count / 4)]
        mean = sum(inner) / len(inner)
        spread = math.sqrt(sum((t - mean) ** 2 for t in inner) / len(inner))
        interval = max(1.645 * spread / math.sqrt(len(inner)), _RESOLUTION)
        figures = math.floor(-math.log10(interval / self.median))
        return min(max(figures, 1), _MOST_FIGURES)

    @property
    def has_warnings(self):
        """Whether the times spread so far that something else must have run."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold=_UNSTEADY):
        """Whether the middle half of the times lies close around the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self):
        """The task's."""
        return self.task_spec.title

    @property
    def env(self):
        """Where it was measured."""
        return self.task_spec.env

    @property
    def as_row_name(self):
        """What a row of a table is called."""
        return self.sub_label or self.stmt or "[Unknown]"

    def _warning(self):
        relative = self.iqr / self.median
        if relative < _UNSTEADY:
            return ""
        which = "suggests significant environmental influence"
        if relative < _VERY_UNSTEADY:
            which = "could indicate system fluctuation"
        return (
            f"  WARNING: Interquartile range is {relative * 100:.1f}% of the median "
            f"measurement.\n           This {which}.\n"
        )

    def __repr__(self):
        """The task, the median and how far the times spread."""
        lines = [object.__repr__(self), self.task_spec.summarize()]
        unit, scale = select_unit(self.median)
        count, runs = len(self.raw_times), self.number_per_run
        per = "per measurement" if count > 1 else ""
        shown = f"{self.median / scale:.2f} {unit}"
        if count > 1:
            shown = f"Median: {shown}"
        lines.append(f"  {shown}")
        if count > 3:
            low, high = (_quantile(self._ordered(), q) / scale for q in (0.25, 0.75))
            lines.append(
                f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})"
            )
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {runs} runs {per}, {threads}"
        )
        lines.append(self._warning() if count > 1 else "")
        return "\n".join(lines).rstrip("\n")

    @staticmethod
    def merge(measurements):
        """One measurement for each task: all of its times, as if of single runs."""
        groups: dict = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [
            Measurement(1, [t for m in group for t in m.times], task)
            for task, group in groups.items()
        ]

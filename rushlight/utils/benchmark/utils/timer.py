"""Runs a statement often enough for a clock to tell."""

import enum
import textwrap
import time
import timeit

import rushlight
from rushlight.utils.benchmark.utils.common import (
    Measurement,
    TaskSpec,
    set_torch_threads,
)
from rushlight.utils.benchmark.utils.valgrind_wrapper.timer_interface import (
    CopyIfCallgrind,
    collect,
)

_MOST_RUNS = 2**31 - 1


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def timer():
    """Seconds of a clock that only goes forward."""
    return time.perf_counter()


class Timer:
    """Measures a statement in Python, on one thread unless it is told otherwise.

    Args:
        stmt: what is measured.
        setup: runs once before each measurement; both see ``torch``.
        global_setup: of statements in C++, of which there are none.
        timer: the clock.
        globals: the names that the statement sees.
        label, sub_label, description, env: what tables call the measurement.
        num_threads: how many threads the operators may use.
        language: Python.

    Raises:
        NotImplementedError: the statement is in C++.
        SyntaxError: the statement is no Python.
        ValueError: it is not text, or in a language that is not known.

    >>> Timer("x + 1", "x = 1").timeit(10).task_spec.stmt
    'x + 1'
    """

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language=Language.PYTHON,
    ):
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            if language in (Language.CPP, "cpp", "c++"):
                raise NotImplementedError(
                    "Timer: statements in C++ need a compiler of it, which Rushlight "
                    "does without\n  remedy: measure the operators from Python"
                )
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code "
                "can simply be moved to `setup`."
            )
        self._globals = dict(globals or {})
        names = {"torch": rushlight, **CopyIfCallgrind.unwrap_all(self._globals)}
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = timeit.Timer(stmt, setup or "pass", timer, names)
        self._task_spec = TaskSpec(
            stmt=stmt,
            setup=setup,
            global_setup="",
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number=1000000):
        """One measurement of ``number`` runs, after a hundredth of that as exercise."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        """Not there: how often is what the other methods find out."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        """Not there: how often is what the other methods find out."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, least):
        """How many runs make a block that the clock's own time does not blur."""
        with set_torch_threads(self._task_spec.num_threads):
            own = sorted(self._timeit(0) for _ in range(5))[2]
            number = 1
            while True:
                taken = self._timeit(number)
                if own / taken <= 1e-4 and taken >= least / 1000:
                    break
                if taken > least or number * 10 > _MOST_RUNS:
                    break
                number *= 10
        return number

    def _measure(self, number, enough, least, most, callback):
        total, times = 0.0, []
        with set_torch_threads(self._task_spec.num_threads):
            while total < least or not enough(times):
                times.append(self._timeit(number))
                total += times[-1]
                if callback:
                    callback(number, times[-1])
                if most is not None and total > most:
                    break
        return Measurement(number, times, self._task_spec)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Blocks of as many runs as the clock needs, for some time in all.

        Args:
            callback: called with the number of runs and the time of each block.
            min_run_time: seconds in all.
        """
        number = self._block(min_run_time)
        return self._measure(number, lambda times: True, min_run_time, None, callback)

    def adaptive_autorange(
        self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None
    ):
        """Blocks of runs until their times lie close together.

        Args:
            threshold: how far the middle half may spread, beside the median.
            min_run_time: seconds that it takes at least.
            max_run_time: seconds after which it ends whatever the times are.
            callback: called with the number of runs and the time of each block.
        """
        number = self._block(0.05)

        def enough(times):
            if len(times) <= 3:
                return False
            return Measurement(number, times, self._task_spec).meets_confidence(
                threshold
            )

        return self._measure(number, enough, min_run_time, max_run_time, callback)

    def collect_callgrind(
        self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False
    ):
        """Counts the statement's instructions: Valgrind runs it in another process.

        Args:
            number: how often the statement runs.
            repeats: how often all this is done; None: once, for one result.
            collect_baseline: whether an empty statement is counted beside it.
            retain_out_file: whether what Callgrind wrote is kept.

        Returns:
            A `CallgrindStats`, or as many as there are repetitions.

        Raises:
            OSError: there is no Valgrind, or the program fails under it.
            ValueError: the statement sees names that are not in `CopyIfCallgrind`.
        """
        if repeats is not None and repeats < 1:
            raise ValueError("If specified, `repeats` must be >= 1")
        self._timeit(1)  # what is wrong is said here, not by another process
        found = collect(
            self._task_spec,
            self._globals,
            number=number,
            repeats=repeats or 1,
            collect_baseline=bool(collect_baseline),
            retain_out_file=retain_out_file,
        )
        return found[0] if repeats is None else found

"""Lists of functions over modules, in an order that keeps rules."""

import logging
from functools import wraps

from rushlight.fx.passes.infra.pass_manager import (
    Ordered,
    this_before_that_pass_constraint,
)

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)


def inplace_wrapper(fn):
    """Makes a function that changes a module in place give the module."""

    @wraps(fn)
    def run(gm):
        fn(gm)
        return gm

    return run


def log_hook(fn, level=logging.INFO):
    """Logs what a function gives."""

    @wraps(fn)
    def run(gm):
        result = fn(gm)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return run


def loop_pass(base_pass, n_iter=None, predicate=None):
    """A pass that runs another several times.

    Args:
        base_pass: the other.
        n_iter: how often.
        predicate: in place of that, says of what the pass gave whether it goes on.

    Raises:
        AssertionError: both are given, or neither.
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def run(source):
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
            return output
        while predicate(output):
            output = base_pass(output)
        return output

    return run


def these_before_those_pass_constraint(these, those):
    """As ``this_before_that_pass_constraint``, for passes that are wrapped anew."""

    def unwrapped(fn):
        return getattr(fn, "__wrapped__", fn)

    def depends_on(a, b):
        return unwrapped(a) != those or unwrapped(b) != these

    return depends_on


class PassManager(Ordered):
    """Runs functions over a module, each on what the one before gave.

    Args:
        passes: the functions.
        constraints: rules for pairs of them.
    """

    def __init__(self, passes=None, constraints=None):
        self.passes = passes or []
        self.constraints = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes):
        """A manager of given passes."""
        return cls(passes)

    def remove_pass(self, _passes):
        """Takes out the passes of given names."""
        self.passes = [each for each in self.passes if each.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement):
        """Puts a pass in the place of that of the same name."""
        self.passes = [
            _replacement if each.__name__ == _target.__name__ else each
            for each in self.passes
        ]
        self._validated = False

    def validate(self):
        """Checks the order by the rules.

        Raises:
            RuntimeError: it breaks one.
        """
        self._check_order()

    def __call__(self, source):
        self.validate()
        for each in self.passes:
            source = each(source)
        return source

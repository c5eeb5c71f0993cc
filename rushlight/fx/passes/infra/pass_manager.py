"""Lists of passes: in the right order, and again until nothing changes."""

import inspect
from functools import wraps
from queue import Queue

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn):
    """Makes a pass of a function that changes a module in place.

    Args:
        fn: the function; None stays None.
    """
    if fn is None:
        return None

    @wraps(fn)
    def run(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        return PassResult(result, True)

    if not inspect.isfunction(fn):
        run.__name__ = type(fn).__name__
    return run


def this_before_that_pass_constraint(this, that):
    """A rule for two passes: where the second comes first, the order is refused."""

    def depends_on(a, b):
        return a != that or b != this

    return depends_on


def _validate_pass_schedule_constraint(constraint, passes):
    for place, first in enumerate(passes):
        for second in passes[place + 1 :]:
            if not constraint(first, second):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {first} before {second} "
                    f"but found {first} at index {place} and {second} at index "
                    f"{passes.index(second)} in pass list."
                )


def _topological_sort_passes(passes, constraints):
    if not constraints:
        return passes
    after: dict = {each: [] for each in passes}
    count = dict.fromkeys(passes, 0)
    for first in passes:
        for second in passes:
            if first is second:
                continue
            for constraint in constraints:
                if not constraint(first, second):
                    after[second].append(first)
                    count[first] += 1
    ready: Queue = Queue()
    for each in passes:
        if not count[each]:
            ready.put(each)
    done = []
    while not ready.empty():
        each = ready.get()
        done.append(each)
        for other in after[each]:
            count[other] -= 1
            if not count[other]:
                ready.put(other)
    waiting = [each for each in passes if count[each]]
    if waiting:
        raise RuntimeError(
            f"Circular dependency detected within the following: {waiting}"
        )
    return done


class Ordered:
    """Passes that are to keep to rules of their order."""

    passes: list
    constraints: list
    _validated = False

    def add_pass(self, _pass):
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        """Adds a rule."""
        self.constraints.append(constraint)
        self._validated = False

    def _check_order(self):
        """Refuses an order that breaks a rule, with a RuntimeError."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True


class PassManager(Ordered):
    """Runs passes over a module.

    Args:
        passes: the passes, in order.
        constraints: rules for pairs of them.
        steps: how often all of them run, at most.
        run_checks_after_each_pass: whether ``check`` runs after each.
        suppress_check_failures: whether the order is taken as it is.

    >>> from rushlight import fx
    >>> from rushlight.fx.passes.infra.pass_base import PassResult
    >>> def nothing(gm):
    ...     return PassResult(gm, False)
    >>> PassManager([nothing])(fx.symbolic_trace(lambda x: x)).modified
    False
    """

    def __init__(
        self, passes=None, constraints=None, steps=None,
        run_checks_after_each_pass=False, suppress_check_failures=False,
    ):  # fmt: skip
        self.passes = passes or []
        self.constraints = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def validate_constraints(self):
        """Checks the order by the rules.

        Raises:
            RuntimeError: it breaks one.
        """
        self._check_order()

    def solve_constraints(self):
        """Brings the passes into an order that keeps the rules.

        Raises:
            RuntimeError: there is none.
        """
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check):
        """Adds a check of the module.

        Raises:
            ValueError: it takes more than the module.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError(
                "PassManager check function should only take in one variable, a module"
            )
        self.check = check  # type: ignore[method-assign]

    def check(self, module):
        """Called after passes, where that is asked for."""

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            once = False
            for place, fn in enumerate(self.passes):
                module, did = self._run_one(module, place, fn)
                once = once or did
            changed = changed or once
            if not once:
                break
        return PassResult(module, changed)

    def _run_one(self, module, place, fn):
        name = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
        try:
            result = fn(module)
            if not isinstance(result, PassResult) and not hasattr(
                result, "graph_module"
            ):
                raise TypeError(
                    f"The result of the pass {name} should be type PassResult. Please "
                    "wrap it with pass_result_wrapper()"
                )
            module = result.graph_module
            if isinstance(module, GraphModule):
                module.recompile()
            if self.run_checks_after_each_pass:
                self.check(module)
        except Exception as error:
            before = [
                each.__name__ if inspect.isfunction(each) else type(each).__name__
                for each in self.passes[:place]
            ]
            raise Exception(
                f"An error occurred when running the '{name}' pass after the following "
                f"passes: {before}"
            ) from error
        return module, result.modified

"""L-BFGS: curvature guessed from the last steps."""

from collections import namedtuple

import rushlight as rl
from rushlight.optim._rules import check_lr, number, scalar
from rushlight.optim.optimizer import Optimizer

__all__ = ["LBFGS"]


class _Point(namedtuple("_Point", "at loss grad slope")):
    """What is known at one place along the line of a search.

    ``at`` says how many times the direction the place is away, ``slope`` is that of
    the loss along the direction.
    """

    __slots__ = ()


def _cubic_minimum(a, b, lowest=None, highest=None):
    """Where the cubic through two points with their slopes is smallest.

    Args:
        a, b: the points, in any order.
        lowest, highest: what the result is kept between; the points themselves where
            they are left out.
    """
    left, right = (a, b) if a.at <= b.at else (b, a)
    if lowest is None:
        lowest, highest = left.at, right.at
    width = right.at - left.at
    bend = left.slope + right.slope - 3 * (left.loss - right.loss) / -width
    square = bend**2 - left.slope * right.slope
    if not square >= 0:  # no minimum, or numbers that are none
        return (lowest + highest) / 2.0
    root = square.sqrt()
    share = (right.slope + root - bend) / (right.slope - left.slope + 2 * root)
    return min(max(right.at - width * share, lowest), highest)


def _lower_of(ends):
    return 0 if ends[0].loss <= ends[1].loss else 1


class _LineSearch:
    """Looks for a step that meets the strong Wolfe conditions.

    Args:
        evaluate: the point at a number of times the direction.
        start: the point at zero.
        size: the direction's largest element.
        budget: how often ``evaluate`` may be called after the first time.
    """

    falls_enough = 1e-4
    flattens_enough = 0.9
    shortest = 1e-9

    def __init__(self, evaluate, start, size, budget):
        self.evaluate = evaluate
        self.start = start
        self.size = size
        self.budget = budget
        self.used = 0

    def run(self, at):
        """The best point found, beginning with a first guess of the step."""
        ends = self._bracket(at)
        return ends[0] if len(ends) == 1 else self._zoom(ends)

    def _too_high(self, point):
        start = self.start
        return point.loss > start.loss + self.falls_enough * point.at * start.slope

    def _flat(self, point):
        return abs(point.slope) <= -self.flattens_enough * self.start.slope

    def _bracket(self, at):
        """Two points with a good one between them, or a good one."""
        before, point = self.start, self.evaluate(at)
        while self.used < self.budget:
            risen = self.used > 1 and point.loss >= before.loss
            if self._too_high(point) or risen:
                return [before, point]
            if self._flat(point):
                return [point]
            if point.slope >= 0:
                return [before, point]
            nearest = point.at + 0.01 * (point.at - before.at)
            at = _cubic_minimum(before, point, nearest, point.at * 10)
            before, point = point, self.evaluate(at)
            self.used += 1
        return [self.start, point]

    def _zoom(self, ends):
        """Narrow a bracket until its lower end is good, and give that one.

        Of ends that are equally low the first is taken, whichever came later.
        """
        low = _lower_of(ends)
        stuck = False
        while self.used < self.budget:
            if abs(ends[1].at - ends[0].at) * self.size < self.shortest:
                break
            at, stuck = self._next_place(*ends, stuck)
            point = self.evaluate(at)
            self.used += 1
            if self._too_high(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = _lower_of(ends)
                continue
            if self._flat(point):
                return point
            if point.slope * (ends[1 - low].at - ends[low].at) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
        return ends[low]

    @staticmethod
    def _next_place(one, other, stuck):
        """Where to look next, and whether that was close to an end of the bracket."""
        at = _cubic_minimum(one, other)
        left, right = min(one.at, other.at), max(one.at, other.at)
        margin = 0.1 * (right - left)
        if not min(right - at, at - left) < margin:
            return at, False
        if not (stuck or at >= right or at <= left):
            return at, True
        closer_to_right = abs(at - right) < abs(at - left)
        return (right - margin if closer_to_right else left + margin), False


class LBFGS(Optimizer):
    """Newton's method with a curvature that the last steps and gradients tell.

    All parameters are one vector, so there is one group of them; each ``step``
    evaluates the closure several times.

    Args:
        params: tensors.
        lr: the step's length along the direction, or the first guess of it.
        max_iter: the most directions in one ``step``.
        max_eval: the most evaluations in one ``step``; 1.25 times as many as
            directions where it is left out.
        tolerance_grad: gradients smaller than this end a ``step``.
        tolerance_change: changes smaller than this end a ``step``.
        history_size: how many steps are remembered.
        line_search_fn: ``"strong_wolfe"`` to look for a good length, or None.

    Raises:
        ValueError: there are several groups, or the learning rate is negative.

    >>> x = rl.tensor([3.0], requires_grad=True)
    >>> optimizer = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (x - 1).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    4.0
    >>> round(x.item(), 4)
    1.0
    """

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        check_lr(lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS doesn't support per-parameter options (parameter groups)"
            )
        self._params = self.param_groups[0]["params"]

    def step(self, closure):
        """Follow directions until one of the limits is reached.

        Args:
            closure: computes the loss and its gradients anew, and returns the loss.

        Returns:
            What the closure returned first.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        with rl.no_grad():
            return _Step(self, closure).run()

    def _flat_grad(self):
        """All gradients as one vector; complex ones as pairs of numbers."""
        parts = []
        for parameter in self._params:
            grad = parameter.grad
            if grad is None:
                grad = rl.zeros_like(parameter)
            elif grad.is_sparse:
                grad = grad.to_dense()
            if grad.is_complex():
                grad = rl.view_as_real(grad)
            parts.append(grad.reshape(-1))
        return rl.cat(parts, 0)

    def _move(self, length, direction):
        """Add a part of the direction to the parameters."""
        offset = 0
        for parameter in self._params:
            if parameter.is_complex():
                parameter = rl.view_as_real(parameter)
            count = parameter.numel()
            part = direction[offset : offset + count]
            parameter.add_(part.view_as(parameter), alpha=number(length))
            offset += count


class _Step:
    """One ``step`` of L-BFGS, with what it shares between its directions."""

    def __init__(self, optimizer, closure):
        self.optimizer = optimizer
        self.closure = closure
        self.options = optimizer.param_groups[0]
        # All state is the first parameter's: loading casts it to that one's dtype.
        self.state = optimizer.state[optimizer._params[0]]

    def _evaluate(self):
        with rl.enable_grad():
            return self.closure()

    def _is_flat(self, grad):
        return grad.abs().max() <= self.options["tolerance_grad"]

    def run(self):
        """Follow directions; the loss before the first."""
        state, options = self.state, self.options
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = self._evaluate()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self.optimizer._flat_grad()
        if self._is_flat(grad):
            return first_loss
        found = {
            key: state.get(key)
            for key in (
                "d",
                "t",
                "old_dirs",
                "old_stps",
                "ro",
                "H_diag",
                "prev_flat_grad",
                "prev_loss",
            )
        }
        lr = scalar(options["lr"])
        for count in range(1, options["max_iter"] + 1):
            state["n_iter"] += 1
            self._update_direction(found, grad)
            found["prev_flat_grad"] = grad.clone()
            found["prev_loss"] = before = loss
            if state["n_iter"] == 1:
                found["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr
            else:
                found["t"] = lr
            slope = grad.dot(found["d"])
            if slope > -options["tolerance_change"]:
                break
            is_last = count == options["max_iter"]
            left = options["max_eval"] - evaluations
            loss, grad, used = self._go(found, loss, grad, slope, left, is_last)
            evaluations += used
            state["func_evals"] += used
            if is_last or evaluations >= options["max_eval"] or self._is_flat(grad):
                break
            change = options["tolerance_change"]
            moved = found["d"].mul(found["t"]).abs().max()
            if moved <= change or abs(loss - before) < change:
                break
        state.update(found)
        return first_loss

    def _update_direction(self, found, grad):
        """Find the direction: the gradient through the guessed inverse curvature."""
        if self.state["n_iter"] == 1:
            found.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        size = self.options["history_size"]
        changes, steps, inverses = found["old_dirs"], found["old_stps"], found["ro"]
        change = grad.sub(found["prev_flat_grad"])
        step = found["d"].mul(found["t"])
        product = change.dot(step)
        if product > 1e-10:
            if len(changes) == size:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / product)
            found["H_diag"] = product / change.dot(change)
        shares = self.state.setdefault("al", [None] * size)
        direction = grad.neg()
        for i in reversed(range(len(changes))):
            shares[i] = steps[i].dot(direction) * inverses[i]
            direction.add_(changes[i], alpha=-number(shares[i]))
        direction = direction.mul(found["H_diag"])
        for i in range(len(changes)):
            back = changes[i].dot(direction) * inverses[i]
            direction.add_(steps[i], alpha=number(shares[i] - back))
        found["d"] = direction

    def _go(self, found, loss, grad, slope, left, is_last):
        """Move along the direction: the new loss and gradient, and evaluations used."""
        name = self.options["line_search_fn"]
        if name is not None:
            if name != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            return self._search(found, _Point(0, loss, grad, slope), left)
        self.optimizer._move(found["t"], found["d"])
        if is_last:  # nobody would look at the loss
            return loss, grad, 0
        return float(self._evaluate()), self.optimizer._flat_grad(), 1

    def _search(self, found, start, left):
        optimizer, direction = self.optimizer, found["d"]
        values = [each.clone() for each in optimizer._params]

        def evaluate(at):
            optimizer._move(at, direction)
            loss = float(self._evaluate())
            grad = optimizer._flat_grad()
            for parameter, value in zip(optimizer._params, values):
                parameter.copy_(value)
            return _Point(at, loss, grad, grad.dot(direction))

        search = _LineSearch(evaluate, start, direction.abs().max(), left)
        best = search.run(found["t"])
        found["t"] = best.at
        optimizer._move(best.at, direction)
        return best.loss, best.grad, search.used + 1

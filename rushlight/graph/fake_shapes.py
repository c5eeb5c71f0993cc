"""Sizes of fake results: what an operator gives at sample points, as expressions."""

from rushlight.graph.derived_sizes import derived_size
from rushlight.graph.fake_conversion import Geometry, dense_strides, geometry_of
from rushlight.ir.sizes import EXPRESSIONS
from rushlight.ir.symbolic import LASTING, NATIVE, SMALL


class DerivedShapes:
    """The geometries of what one call of an operator gives, or writes to.

    Args:
        env: the `ShapeEnv`.
        run: runs the operator at a sample point; gives the geometries of its results and
            of its arguments.
        given: the arguments: geometries, expressions and what else.
    """

    def __init__(self, env, run, given):
        self.env, self.run, self.given = env, run, given
        self.found: dict = {}  # by point
        self.positions: dict = {}  # id of a result -> which one it is

    def sample(self, made, twins):
        """Runs the operator at all sample points at which the program runs.

        Args:
            made: what it has given by itself.
            twins: what it was called with.

        Raises:
            RuntimeError: there are no such results at a lasting point.
        """
        env = self.env
        self.found[NATIVE] = [list(map(geometry_of, part)) for part in (made, twins)]
        self.positions = {id(one): at for at, one in enumerate(made)}
        for point in env.points[1:]:
            try:
                found = self.run(point)
                if len(found[0]) != len(made):
                    raise RuntimeError("results differ in number")
            except Exception:  # whatever is wrong: no program has such sizes
                if point < LASTING:
                    raise
                env.pass_by(point)
            else:
                self.found[point] = found

    def require_parts(self):
        """Notes that results are not empty, where there would be fewer of them else."""
        count = len(self.found[NATIVE][0])
        for point in SMALL:
            found = self._again(point)
            if found is not None and len(found[0]) < count:
                last = self._of(0, count - 1)
                for size in () if last is None else last.sizes:
                    self.env.require(size, 1)
                return

    def changed(self, at):
        """Whether an argument has another geometry than before."""
        return not self.found[NATIVE][1][at].is_like(self.given[at].at(NATIVE))

    def _again(self, point):
        """What the operator gives at a point that no formula was to need; or None."""
        if point not in self.found:
            self.found[point] = None
            if self.env.runs_at(point):
                try:
                    self.found[point] = self.run(point)
                except Exception:  # whatever is wrong: no program has such sizes
                    return None
        return self.found[point]

    def of_result(self, meta):
        """The geometry of a result, by its ``meta`` tensor; None for a plain one."""
        return self._of(0, self.positions[id(meta)])

    def of_argument(self, at):
        """The geometry that an argument has now; None for a plain one."""
        return self._of(1, at)

    def _of(self, part, at):
        values = {k: self.found[k][part][at] for k in self.env.points}
        first = values[NATIVE]
        if first is None or all(one.is_like(first) for one in values.values()):
            return None
        candidates, strides = self._candidates()

        def derived(read, among):
            def again(point):
                found = self._again(point)
                return None if found is None else read(found[part][at])

            numbers = {point: read(one) for point, one in values.items()}
            return derived_size(self.env, numbers, among, again)

        dims = range(len(first.sizes))
        sizes = [derived(lambda g, dim=d: g.sizes[dim], candidates) for d in dims]
        for size in sizes:  # what would be below zero is nothing, and no formula
            self.env.require(size, 0)
        order = sorted(dims, key=lambda dim: (first.strides[dim], -dim))
        dense = dense_strides(sizes, [dim for dim in order if first.strides[dim]])
        among = [one for one in (*dense, *strides) if isinstance(one, EXPRESSIONS)]
        among += candidates
        steps = [derived(lambda g, dim=d: g.strides[dim], among) for d in dims]
        offset = derived(lambda g: g.offset, among)
        return Geometry(sizes, steps, offset, first.dtype)

    def _candidates(self):
        """The expressions that the operator was called with, plain ones first."""
        found: list = []
        strides: list = []
        for one in self.given:
            if isinstance(one, Geometry):
                found += [*one.sizes, one.numel()]
                strides += [*one.strides, one.offset]
            else:
                found.append(one)
        found, strides = (
            list(dict.fromkeys(one for one in some if isinstance(one, EXPRESSIONS)))
            for some in (found, strides)
        )
        return sorted(found, key=lambda one: len(str(one))), strides

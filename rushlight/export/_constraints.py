"""What a program's inputs have to be, whether or not its guards are asked."""

from rushlight.core import naming
from rushlight.core.tensor import Tensor
from rushlight.export._roots import roots_of
from rushlight.ir.formulas import evaluated, symbols_of
from rushlight.ir.symbolic import SymInt
from rushlight.utils._pytree import keystr


class InputConstraints:
    """Compares the leaves of a call's arguments with those of the recording.

    Args:
        paths: where each leaf is among the arguments.
        values: what the recording knows of each.
        ranges: the bounds of named sizes, by name.
    """

    def __init__(self, paths, values, ranges):
        self.leaves = [(_named(path), value) for path, value in zip(paths, values)]
        self.roots = roots_of(values)
        self.ranges = ranges

    def __call__(self, args):
        """Raises RuntimeError at the first input that is another than was recorded."""
        for given, (name, value) in zip(args, self.leaves):
            if isinstance(value, Tensor):
                self._check_rank(given, name, value)
        numbers = {name: root.solved(args) for name, root in self.roots.items()}
        for given, (name, value) in zip(args, self.leaves):
            if isinstance(value, Tensor):
                for dim, size in enumerate(value.shape):
                    where = f"{name}.shape[{dim}]"
                    self._check_size(given.shape[dim], where, size, numbers)
            elif isinstance(value, SymInt):
                self._check_size(given, name, value, numbers)
            elif type(given) is not type(value) or given != value:
                raise _other(name, value, given)

    @staticmethod
    def _check_rank(given, name, value):
        if not isinstance(given, Tensor):
            raise RuntimeError(
                f"Expected input at {name} to be a tensor, but got {type(given)}"
            )
        if given.dim() != value.dim():
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {name}.shape (expected "
                f"{_shown(value.shape)}, got {_shown(given.shape)})"
            )

    def _check_size(self, actual, where, size, numbers):
        if not isinstance(size, SymInt):
            if actual != size:
                raise _other(
                    where, size, actual,
                    ". If you meant for this dimension to be dynamic, please re-export "
                    "and specify dynamic_shapes (e.g. with Dim.DYNAMIC)",
                )  # fmt: skip
            return
        wanted = evaluated(size.expr, numbers)
        names = symbols_of(size.expr)
        if wanted is None or len(names) != 1:
            return
        if actual != wanted:
            raise _other(where, wanted, actual)
        bounds = self.ranges.get(names[0].name)
        if bounds is not None:
            self._check_bounds(actual, where, size.expr, names[0].name, bounds)

    @staticmethod
    def _check_bounds(actual, where, expr, name, bounds):
        low, high = bounds
        least = evaluated(expr, {name: low})
        if least > 2 and actual < least:  # 0 and 1 pass, as in PyTorch
            raise RuntimeError(
                f"Expected input at {where} to be >= {least}, but got {actual}"
            )
        if high != float("inf") and actual > (most := evaluated(expr, {name: high})):
            raise RuntimeError(
                f"Expected input at {where} to be <= {most}, but got {actual}"
            )


def _named(path):
    """A leaf of the arguments, as messages name it."""
    part, key, *rest = path
    if part.idx == 0:
        return f"*args{keystr((key, *rest))}"
    return f"{keystr((key,))[1:-1]}{keystr(tuple(rest))}"


def _shown(sizes):
    """Sizes as they print; those of a recording may be names."""
    return f"{naming.package}.Size([{', '.join(map(str, sizes))}])"


def _other(where, wanted, given, more=""):
    return RuntimeError(
        f"Expected input at {where} to be equal to {wanted}, but got {given}{more}"
    )

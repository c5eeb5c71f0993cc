"""Numbers that a graph for somebody's backend has for arguments, in place of constants.

The graph of a path has whole numbers and floats wherever its calls have them: sizes of views,
starts of slices, factors. Where two paths differ in these alone, those that differ are
arguments of one graph. A path knows its own numbers, so that nothing is derived of one from
another: where two are equal in all calls that were met, they are one argument.
"""

from rushlight.dispatch.schema import STATIC_INTEGERS
from rushlight.ir.symbolic import ShapeEnv


def is_same(one, other):
    """Whether two numbers are of one type and one value, signs of zeros included."""
    return type(one) is type(other) and (one == other and str(one) == str(other))


def groups_of(found, before, known):
    """Which argument each place of a graph is: its number, or None for a constant.

    Args:
        found: the numbers at all places.
        before: those of other calls.
        known: numbers that are arguments of the program, or sizes that stay open.
    """
    keys: dict = {}
    groups = []
    for at, number in enumerate(found):
        row = [number, *[one[at] for one in before]]
        varies = any(not is_same(number, one) for one in row)
        if varies or any(is_same(number, one) for one in known):
            key = tuple([(type(one), str(one)) for one in row])
            groups.append(keys.setdefault(key, len(keys)))
        else:
            groups.append(None)
    return groups


class LiftedNumbers:
    """Where a graph's calls have numbers, in order, and what becomes of them.

    Args:
        groups: which argument each is; None for a constant. Without it all are constants.
        everywhere: whether each is an argument of its own.
        sizes: how many open sizes are arguments besides, which no call has as a number.

    Attributes:
        found: the numbers.
    """

    def __init__(self, groups=(), everywhere=False, sizes=0):
        self.groups, self.everywhere, self.sizes = groups, everywhere, sizes
        self.found: list = []
        self.nodes: list = []

    def begin(self, graph):
        """Gives a graph its arguments that are numbers, before the tensors."""
        self.graph = graph
        count = len({one for one in self.groups if one is not None}) + self.sizes
        self.nodes = [graph.placeholder(f"s{at}") for at in range(count)]

    def arguments(self, op, values):
        """The arguments of a call, with nodes for numbers that are arguments."""
        if not (self.groups or self.everywhere):
            return values
        names = op.signature.names
        return [
            value if name in STATIC_INTEGERS else self._placed(value)
            for name, value in zip(names, values, strict=False)
        ]

    def _placed(self, value):
        if type(value) in (int, float):
            return self._number(value)
        if isinstance(value, (list, tuple)):
            made = [self._placed(one) for one in value]
            return made if isinstance(value, list) else tuple(made)
        return value

    def _number(self, value):
        at = len(self.found)
        self.found.append(value)
        if self.everywhere:
            return self.graph.placeholder(f"n{at}")
        group = self.groups[at]
        return value if group is None else self.nodes[group]

    @staticmethod
    def examples(numbers):
        """Example inputs for numbers: named integers, which compute as what they are."""
        env = ShapeEnv()
        return [
            env.example(one, f"s{at}") if type(one) is int else one
            for at, one in enumerate(numbers)
        ]

"""Which open sizes have to be equal for a call to be right: no more of them than need be.

cat(x: (a, b), y: (c, d))    ->  b and d: a and c may differ, though they are the same
                                 in the recording
"""

import contextlib
from itertools import chain, combinations, islice

from rushlight.ir.formulas import symbols_of

_MOST = 300  # choices that are tried


def equal_pairs(run, exprs, points):
    """The fewest pairs of symbols by whose equality a call is right.

    Args:
        run: ``run(point)`` does the call with the sizes of a sample point, or raises.
        exprs: the sizes that it is called with.
        points: where it has to be right.

    Returns:
        pairs of symbols; none where no choice of a few pairs will do.
    """
    symbols = dict.fromkeys(one for expr in exprs for one in symbols_of(expr))
    pairs = [
        (one, other)
        for one, other in combinations(symbols, 2)
        if one.actual == other.actual and None not in (one.least, other.least)
    ]
    choices = (combinations(pairs, count) for count in range(1, len(pairs) + 1))
    for chosen in islice(chain.from_iterable(choices), _MOST):
        with _alike(chosen):
            if _is_right(run, points):
                return chosen
    return ()


@contextlib.contextmanager
def _alike(pairs):
    """A block in which the second symbol of each pair has the values of the first."""
    kept = [(other, other.base, other.factors, other.rests) for _, other in pairs]
    try:
        for one, other in pairs:
            other.base, other.factors, other.rests = one.base, one.factors, one.rests
        yield
    finally:
        for other, *values in reversed(kept):
            other.base, other.factors, other.rests = values


def _is_right(run, points):
    try:
        for point in points:
            run(point)
    except Exception:  # of any kind: that is what is asked
        return False
    return True

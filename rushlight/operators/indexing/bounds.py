"""What reading and writing at indexed places is made of: bounds, and what elements make.

An index that lies outside is noted, and 0 is taken for it.
"""

from rushlight.codegen.language import select
from rushlight.codegen.loops import A, Integers, T, i64, loops_inline

# A tensor seen around the indexed dimension, and how many indices there are.
SLICES = Integers("outer count size inner")
# How an index names elements of one, or ``slices``; ``wrap``: also from the end.
NAMES = Integers("count size inner slices wrap")


@loops_inline
def checked(place, size, fault):
    """The index, or 0 with the fault reported where it lies outside ``[0, size)``."""
    good = place
    if place < 0 or place >= size:
        fault[0] = place
        good = i64(0)
    return good


@loops_inline
def wrapped(place, size, fault):
    """The same for indices that may count from the end."""
    good = place
    if place < 0:
        good = place + size
    if good < 0 or good >= size:
        fault[0] = place
        good = i64(0)
    return good


@loops_inline
def any_outside(index, start, stop, size, fault):
    """Whether an index of a span lies outside ``[0, size)``; it is then reported."""
    wrong = False
    for k in range(start, stop):
        wrong = wrong | (index[k] < 0) | (index[k] >= size)
    if wrong:
        for k in range(start, stop):
            checked(index[k], size, fault)
    return wrong


@loops_inline
def indexed_offset(index, at, names, fault):
    """Where element ``at`` of ``(outer, count, inner)`` is in ``(outer, size, inner)``."""
    row = at // names.inner
    place = i64(index[row % names.count if names.slices else at])
    if names.wrap:
        place = wrapped(place, names.size, fault)
    else:
        place = checked(place, names.size, fault)
    return (row // names.count * names.size + place) * names.inner + at % names.inner


@loops_inline
def joined(w, v, mode, share):
    """What an element and a new one make, for the modes of `scatter`.

    The new one, their sum with a share of it, their product, the smaller or the larger one,
    or NaN.
    """
    both = v
    if mode == 1:
        both = T(A(w) + A(v) * share)
    elif mode == 2:
        both = T(A(w) * A(v))
    elif mode == 3:
        both = select(v < w or v != v, v, w)
    elif mode == 4:
        both = select(v > w or v != v, v, w)
    return both

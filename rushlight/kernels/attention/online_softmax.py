"""The online softmax: weights of scores that come in parts, relative to the largest so far.

    top    = max(best, scores)
    factor = exp(best - top)                        what there was, relative to the new one
    mass   = mass factor + sum exp(scores - top)

One definition of the step serves columns of vectors on the host, whose scores are in a
cache, and rows that four lanes of a GPU's warp share, whose scores are in registers.

Follows Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), which
Rabe and Staats (2021) and Dao et al., "FlashAttention" (2022), made attention of.
"""

from rushlight.ir import expr as ir

LOWEST = float("-inf")


def larger(x, y):
    """The larger of two numbers; a first one without a value is passed over."""
    return ir.select(x > y, x, y)


def soften(b, each, best, mass, exp, joined=None, larger=larger):
    """Makes weights of the next scores, relative to the largest so far.

    Args:
        each: gives pairs of a score and what stores its weight, whenever it is called.
        best, mass: the largest score before, and the sum of weights.
        exp: the exponential of what is not positive.
        joined: makes one largest score of those that lanes have which share a row.
        larger: of two numbers, a first one without a value passed over.

    Returns:
        The largest score, the sum of weights, and what sums of weighted values before
        are multiplied by.
    """
    top = b.declare("top", best)
    for score, _ in each():
        b.assign(top, larger(score, top))
    if joined is not None:
        top = joined(top)
    base = b.let("base", ir.select(top == LOWEST, 0.0, top))
    factor = b.let("factor", exp(best - base))
    total = b.declare("mass", mass * factor)
    for score, store in each():
        weight = b.let("weight", exp(score - base))
        store(weight)
        b.assign(total, total + weight)
    return top, total, factor

"""Errors that point one way: a factor of 1.01 hides within the steps of half precision.

Rounding errs up as often as down, so that the mean of relative errors shrinks with the
number of elements; a lost or changed factor stays. Both answers are measured against
the result in double precision, and PyTorch's own bias is allowed.
"""

from __future__ import annotations

import numpy as np

HALF = ("float16", "bfloat16")
ENOUGH = 8  # elements below which chance looks like a bias
OF_A_STEP = 1 / 4  # a mean error of so much of a step is rounding's
SPREAD = 2.0  # steps, times deviations: what the mean of so few errors may be off
SOUND = 2.0  # steps that PyTorch's error may have where an element counts
AS_PYTORCH = 3.0


def biased(dtype, step, theirs, ours, reference):
    """How far and which way all elements are off, or None.

    Args:
        dtype: the name of the results' type.
        step: its relative step between neighbours.
        theirs, ours: the elements on both sides, one-dimensional arrays.
        reference: a function that gives PyTorch's elements in double precision.
    """
    if dtype not in HALF or theirs.size < ENOUGH or reference.shakes:
        return None
    exact = reference()
    if exact is None or exact.size != theirs.size or exact.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        off = (theirs.astype(np.float64) - exact) / exact
        own = (ours.astype(np.float64) - exact) / exact
        # numbers below the normals have steps of their own, and zeros have none
        large = (np.abs(exact) > 2.0**-13) & np.isfinite(own)
        counted = large & (np.abs(off) <= SOUND * step)
    count = int(counted.sum())
    if count < max(ENOUGH, large.sum() / 2):
        return None
    chance = step * (OF_A_STEP + SPREAD / np.sqrt(count))
    # a factor is off the same way in numbers of both signs, a term is not
    for signs in (1.0, np.sign(exact[counted])):
        mean = float(np.mean(own[counted] * signs))
        allowed = AS_PYTORCH * abs(float(np.mean(off[counted] * signs)))
        if abs(mean) > allowed + chance:
            return f"all {count} elements are off by {mean:+.2%} on average"
    return None

"""Whether a refusal tells one of several faults of a call.

Of two faults PyTorch tells the one that it happens to look at first: by its parser, by a
check of the wrapper, by the kernel. Another order is as right, if what is told is a fault.
That is asked of PyTorch itself: the call is repaired in one respect, or in two, and once
the fault that PyTorch told is gone, PyTorch has to tell the other in nearly the same words.
"""

from __future__ import annotations

import re
from itertools import islice

import torch

from tests.fuzz import draw, judge
from tests.fuzz.specs import TensorSpec

WORD = re.compile(r"[A-Za-z_]{3,}")
ALIKE = 0.5  # of the words of the shorter message
MOST = 400  # calls with two faults less that are tried


def tells_another_fault(case):
    """Whether our refusal is PyTorch's, once the call has one fault less."""
    error = judge.call(judge.rushlight, case).error
    if error is None:
        return False
    left = list(repairs(case))
    if any(refused_alike(repaired, error) for repaired in left):
        return True
    pairs = (again for once in left for again in repairs(once))
    return any(refused_alike(repaired, error) for repaired in islice(pairs, MOST))


def refused_alike(case, error):
    """Whether PyTorch refuses a call for what an exception of ours says."""
    theirs = judge.call(torch, case).error
    return theirs is not None and alike(theirs, error)


def alike(theirs, ours):
    """Whether two exceptions are of one kind and of nearly the same words."""
    if judge.kind_of(theirs) != judge.kind_of(ours):
        return False
    mine, other = words(ours), words(theirs)
    least = min(len(mine), len(other))
    return least > 0 and len(mine & other) >= max(1, ALIKE * least)


def words(error):
    return {word.lower() for word in WORD.findall(str(error).split("\n")[0])}


def repairs(case):
    """The call with one thing less that may be wrong about it, in every way."""
    yield from draw.without_one_change(case)
    found = list(dict.fromkeys(draw.tensors_in([case.args, case.kwargs])))
    for dtype in ("float32", "int64", "complex64"):
        yield replaced(case, {spec: recast(spec, dtype) for spec in found})
        for spec in found if len(found) > 1 else ():
            yield replaced(case, {spec: recast(spec, dtype)})
    yield replaced(case, {spec: separate(spec) for spec in found})
    yield replaced(case, {spec: without_gradient(spec) for spec in found})
    for key in case.kwargs:
        rest = {name: item for name, item in case.kwargs.items() if name != key}
        yield draw.Case(case.path, case.args, rest, [f"no {key}"])


def replaced(case, specs):
    args, kwargs = case.args, case.kwargs
    for old, new in specs.items():
        args, kwargs = draw.swap(args, old, new), draw.swap(kwargs, old, new)
    return draw.Case(case.path, args, kwargs, ["repaired"])


def recast(spec, dtype):
    """Memory of another type; tensors of one type that share it do so no more."""
    grad = spec.grad and dtype != "int64"
    return TensorSpec.dense(spec.values(), dtype, spec.sizes, grad)


def separate(spec):
    return TensorSpec.dense(spec.values(), spec.dtype, spec.sizes, spec.grad)


def without_gradient(spec):
    return TensorSpec(spec.buffer, spec.dtype, spec.sizes, spec.strides, spec.offset)

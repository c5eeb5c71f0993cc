"""Every operator of PyTorch's database, exported on both sides: the same steps.

``python -m tests.export`` goes through all of them; the suite takes a part. A call is a
program whose tensors are its arguments. Its steps are compared by name; it is run on the
tensors that it was recorded with, and on others of the same sizes.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings

import numpy as np
import torch

import rushlight as rl
from tests.export.steps import our_steps, their_steps
from tests.fuzz import draw, judge
from tests.fuzz.specs import Buffer, Side, TensorSpec
from tests.graph.sweep import near

# What these give is whatever was in memory, or hangs on an address.
SKIPPED = ("data_ptr", "numpy", "tolist", "pin_memory")
UNDEFINED = ("empty", "resize")
DTYPES = ("float32", "complex64", "int64", "bool")

# What is to be known, or mended.
BAD = ("differs", "refused", "wrong")


class Outcome:
    """What one library makes of a program: its steps, or why there are none."""

    def __init__(self, steps=None, error=None, program=None):
        self.steps, self.error, self.program = steps, error, program


def names():
    """The operators' numbers and names."""
    return [(at, info.name) for at, (info, _) in enumerate(draw.operators())]


def case_of(at):
    """The call that stands for an operator: the first that the database has."""
    info, public = draw.operators()[at]
    if info.name in SKIPPED or info.name in draw.UNSAFE:
        return None
    name = info.name.rpartition(".")[2]
    path = ("function", info.name) if public else ("method", name)
    for dtype in DTYPES:
        for args, kwargs in draw.samples(at, dtype)[:1]:
            case = draw.Case(path, args, kwargs, [dtype])
            if judge.present(case):
                return case
    return None


def turned(spec):
    """The tensor with its elements in another order."""
    raw = np.roll(spec.buffer.raw, 1)
    made = TensorSpec(Buffer(raw), spec.dtype, spec.sizes, spec.strides, spec.offset)
    made.conjugate = spec.conjugate
    return made


def specs_in(value, found):
    """The tensors of a nest of arguments, each once, in order."""
    if isinstance(value, TensorSpec):
        if all(one is not value for one in found):
            found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            specs_in(item, found)
    elif isinstance(value, dict):
        specs_in(list(value.values()), found)
    return found


def program_of(lib, case):
    """A module that makes the call, of the call's tensors; and the tensors' specs."""
    function = judge.lookup(lib, case.path)
    found = specs_in([case.args, case.kwargs], [])
    side = Side(lib)

    def filled(value, tensors):
        if isinstance(value, TensorSpec):
            return next(t for t, one in zip(tensors, found) if one is value)
        if isinstance(value, (list, tuple)):
            return type(value)([filled(item, tensors) for item in value])
        if isinstance(value, dict):
            return {key: filled(item, tensors) for key, item in value.items()}
        return side.build(value)

    class Program(lib.nn.Module):
        def forward(self, *tensors):
            return function(*filled(case.args, tensors), **filled(case.kwargs, tensors))

    return Program(), found


def tensors_of(lib, specs):
    """Fresh tensors without gradients."""
    return tuple(one.detach() for one in Side(lib).build(list(specs)))


@contextlib.contextmanager
def quietly():
    """A block that says nothing."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def outcome(lib, case):
    """The program of a call."""
    module, specs = program_of(lib, case)
    with quietly():
        try:
            module(*tensors_of(lib, specs))
        except Exception as error:
            return Outcome(error=("eager", error))
        lib.manual_seed(7)
        try:
            program = lib.export.export(module, tensors_of(lib, specs))
        except Exception as error:  # every kind is an outcome
            return Outcome(error=("export", error))
    steps = our_steps if lib is rl else their_steps
    return Outcome(steps(program.graph), None, program)


def run(call, tensors):
    """What a call gives, or the kind of its refusal; then its arguments."""
    rl.manual_seed(7)
    with quietly():
        try:
            result = call(*tensors)
        except Exception as error:
            return type(error).__name__, tensors
    return result, tensors


def difference_of_results(case, program):
    """What the program does otherwise than the call, as text; None for nothing."""
    module, specs = program_of(rl, case)
    if any(word in case.path[1] for word in UNDEFINED):
        return None
    graph = program.module()
    for given in (specs, [turned(one) for one in specs]):
        expected, left = run(module, tensors_of(rl, given))
        found, right = run(graph, tensors_of(rl, given))
        if isinstance(expected, str) and given is not specs:
            continue  # what the other elements are refused for is no matter of programs
        if not near(as_lists(found), as_lists(expected)):
            return f"gives {found!r}, not {expected!r}"
        if not near(left, right):
            return f"leaves {right!r}, not {left!r}"
    return None


def as_lists(value):
    """A result with tuples of any class as lists; programs forget ``requires_grad=``."""
    if isinstance(value, (list, tuple)):
        return [as_lists(item) for item in value]
    return value.detach() if isinstance(value, rl.Tensor) else value


def compare(at):
    """What becomes of an operator: ``(verdict, detail)``."""
    case = case_of(at)
    if case is None:
        return "no sample", ""
    theirs = outcome(torch, case)
    ours = outcome(rl, case)
    if theirs.error is not None:
        where, error = theirs.error
        if ours.error is not None:
            return "refused by both", f"{type(error).__name__}: {first_line(error)}"
        wrong = difference_of_results(case, ours.program)
        return ("wrong", wrong) if wrong else ("only here", where)
    if ours.error is not None:
        where, error = ours.error
        return "refused", f"{type(error).__name__} ({where}): {first_line(error)}"
    wrong = difference_of_results(case, ours.program)
    if wrong:
        return "wrong", wrong
    if ours.steps != theirs.steps:
        return "differs", f"{' '.join(ours.steps)} | {' '.join(theirs.steps)}"
    return "same", ""


def first_line(error):
    """The beginning of what an error says."""
    return str(error).strip().split("\n")[0][:160]

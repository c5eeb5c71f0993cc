"""The passes that take loops to the form that emitters render, top to bottom.

Each pass is a function from program to program in a module of `passes` of the same
name; the program is verified against `spec` after each.
"""

from rushlight.codegen.passes.fold_indices import fold_indices
from rushlight.codegen.passes.mask_branches import mask_branches
from rushlight.codegen.passes.prune_branches import prune_branches
from rushlight.codegen.passes.remove_unused import remove_unused
from rushlight.codegen.passes.vectorize_loops import vectorize_loops
from rushlight.ir import spec

PASSES = (
    vectorize_loops,  # loops over elements become loops over vectors
    mask_branches,  # elements that loop as long as they like become lanes that wait
    fold_indices,  # integer arithmetic by the rules of `simplify`
    prune_branches,  # tests that are known, loops that run never or once
    remove_unused,  # names that nothing reads
)


def lower_in_steps(function):
    """Yields pairs of pass name and program, beginning with the program as built."""
    spec.verify(function)
    yield "built", function
    for step in PASSES:
        function = step(function)
        spec.verify(function, after=step.__name__)
        yield step.__name__, function


def lower(function):
    """The program after every pass."""
    for step in PASSES:
        function = step(function)
    spec.verify(function, after="lower")
    return function

"""What a loop kernel calls vectorized becomes vectors by our passes, not by chance.

LLVM's vectoriser stands in where the pass finds more than values named once and stores side
by side: it gives up on one level of a processor what it does on another.
"""

import importlib
import inspect
import pkgutil
import re

import rushlight.kernels
import rushlight.operators
from rushlight.codegen.loops import Loops
from rushlight.codegen.passes.vectorize_loops import vectorize_loops
from rushlight.codegen.target import named, using

# Kernels some of whose loops choose inside, or have a known count: LLVM's.
LEFT = set(
    """
    avg_pool_tiles combine_kernel join_slices pull_rows
    quantize_kernel rnn_kernel row_distances sum_bags sum_bags_by_blocks
    """.split()
)


def kernels():
    """Loop kernels with such loops, by name."""
    found = {}
    for package in (rushlight.operators, rushlight.kernels):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Loops):
                    found[value.name] = value
    return {
        name: kernel
        for name, kernel in found.items()
        if "vectorized(" in inspect.getsource(kernel.function)
    }


def types_of(kernel):
    """A type for each letter of a kernel: sums are wider."""
    source = inspect.getsource(kernel.function)
    letters = re.findall(r'"([A-Z])\*?"|\b([A-Z])\(', source)
    names = {"A": "float64", "I": "int64", "S": "float32"}
    return {
        letter: names.get(letter, "float32")
        for pair in letters
        for letter in pair
        if letter
    }


def test_loops_called_vectorized_are_vectors_or_named_here():
    found = kernels()
    assert set(found) > LEFT
    left = []
    with using(named("x86-64-v3")):
        for name in sorted(set(found) - LEFT):
            program = vectorize_loops(found[name].trace(**types_of(found[name]))[1])
            if " in vectorized(" in str(program):
                left.append(name)
    assert left == []

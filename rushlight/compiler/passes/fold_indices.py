"""Simplifies integer arithmetic by the rules of `simplify`.

Law: every expression keeps its value.

    x[(i * 4 + 8) // 4]   ->   x[i + 2]
"""

from __future__ import annotations

from rushlight.compiler.rewrite import map_program
from rushlight.compiler.simplify import simplify_node


def fold_indices(function):
    """The program with simpler integer expressions."""
    return map_program(function, simplify_node)

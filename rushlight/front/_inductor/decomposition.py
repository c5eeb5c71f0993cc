"""The compiler's table of decompositions, and what adds to it."""

from rushlight._decomp import decomposition_table
from rushlight._decomp import register_decomposition as _register

__all__ = ["decompositions", "register_decomposition", "select_decomp_table"]

decompositions = dict(decomposition_table)


def register_decomposition(ops):
    """Makes a function what is recorded in place of operators, instead of what was.

    Args:
        ops: an operator, a packet of overloads, or a list of such.
    """

    def register(function):
        found = {}
        _register(ops, found)(function)
        decompositions.update(found)
        return function

    return register


def select_decomp_table():
    """The table by operator."""
    return decompositions

"""Tables of what is recorded in place of operators, for ``make_fx`` and for backends."""

from __future__ import annotations

from rushlight._decomp import decompositions
from rushlight._decomp.registry import (
    decomposition_table,
    get_decompositions,
    global_decomposition_table,
    meta_table,
    pre_autograd_decomposition_table,
    register_decomposition,
    remove_decompositions,
)

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "decompositions",
    "get_decompositions",
    "global_decomposition_table",
    "meta_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]


def core_aten_decompositions():
    """The table that leads to PyTorch's core set of operators."""
    from rushlight.export import CustomDecompTable

    kept = get_decompositions(decompositions.CORE)
    return CustomDecompTable(
        {op: made for op, made in decomposition_table.items() if op not in kept}
    )

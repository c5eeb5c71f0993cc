"""Tables of what is recorded in place of operators, for ``make_fx`` and for backends."""

from rushlight._decomp import decompositions
from rushlight._decomp import registry
from rushlight._decomp.registry import *

__all__ = ["core_aten_decompositions", "decompositions"]
__all__ += registry.__all__


def core_aten_decompositions():
    """The table that leads to PyTorch's core set of operators."""
    from rushlight.export import CustomDecompTable

    kept = get_decompositions(decompositions.CORE)
    return CustomDecompTable(
        {op: made for op, made in decomposition_table.items() if op not in kept}
    )

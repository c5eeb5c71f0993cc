"""Examples of each size that a program's open dimension may have, for its library."""

from functools import partial

from rushlight.core.tensor import Tensor
from rushlight.export._unlift import checked_leaves
from rushlight.export.graph_signature import InputKind
from rushlight.ir.formulas import evaluated, symbols_of
from rushlight.ir.symbolic import SymInt
from rushlight.operators import call
from rushlight.utils._pytree import tree_unflatten

__all__ = ["MOST_SIZES", "examples_of"]

MOST_SIZES = 256  # with more than that a library has its example's alone


def examples_of(program):
    """Functions that give arguments of each size that a program's symbol stands for.

    Which kernels run, in what blocks and how often hangs on a batch's size, so that no size
    is derived from others: each is recorded.

    Args:
        program: an `ExportedProgram` with an example.

    Returns:
        a function for each size, from the least on; none where sizes have no symbol or
        several, or one that may have more than `MOST_SIZES` values.
    """
    nodes = {one.name: one for one in program.graph.nodes if one.op == "placeholder"}
    given = [
        s.arg
        for s in program.graph_signature.input_specs
        if s.kind is InputKind.USER_INPUT
    ]
    values = [nodes[one.name].meta.get("val") for one in given]
    tensors = [one for one in values if isinstance(one, Tensor)]
    sizes = [size for one in tensors for size in one.shape if isinstance(size, SymInt)]
    names = {symbol.name for size in sizes for symbol in symbols_of(size.expr)}
    if len(names) != 1 or any(isinstance(one, SymInt) for one in values):
        return []
    (name,) = names
    ranges = {str(symbol): one for symbol, one in program.range_constraints.items()}
    low, high = ranges[name].lower, ranges[name].upper
    if high - low >= MOST_SIZES:
        return []
    spec = program.call_spec.in_spec
    leaves = checked_leaves(spec, *program.example_inputs)
    pairs = list(zip(leaves, values, strict=True))
    return [
        partial(_resized, spec, pairs, name, n) for n in range(int(low), int(high) + 1)
    ]


def _resized(spec, pairs, name, number):
    """Arguments of one size: the example's rows again and again."""
    leaves = []
    for leaf, value in pairs:
        if isinstance(value, Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, SymInt):
                    rows = call.arange(evaluated(size.expr, {name: number}))
                    leaf = leaf.index_select(dim, rows % max(leaf.shape[dim], 1))
        leaves.append(leaf)
    return tree_unflatten(leaves, spec)

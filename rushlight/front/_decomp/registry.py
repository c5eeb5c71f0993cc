"""The tables of decompositions, and what adds to them."""

from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.packet import OperatorPacket
from rushlight.utils._pytree import tree_leaves

__all__ = [
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "meta_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]

# Operator -> the function, for each of the places where one may stand.
global_decomposition_table = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def _overloads(op):
    """The operators that an operator, a packet of overloads or a list of them names."""
    for one in tree_leaves(op):
        if isinstance(one, OperatorPacket):
            yield from (getattr(one, name) for name in one.overloads())
        elif isinstance(one, Operator):
            yield one
        else:
            raise TypeError(
                f"Expected an operator or a packet of them, as torch.ops.aten.add, "
                f"not {type(one).__name__}"
            )


def register_decomposition(
    aten_op, registry=None, *, type="post_autograd", unsafe=False
):
    """Makes a function what is recorded in place of operators.

    Args:
        aten_op: an operator, a packet of overloads, or a list of such.
        registry: the table that it joins; that of ``type`` where it is left out.
        type: ``post_autograd``, ``pre_autograd`` or ``meta``.
        unsafe: taken, and changes nothing.

    Raises:
        RuntimeError: an operator has a function in that table already.

    >>> import rushlight as rl
    >>> table = {}
    >>> @register_decomposition(rl.ops.aten.square, table)
    ... def square(x):
    ...     return x * x
    >>> list(table)
    [<OpOverload(op='aten.square', overload='default')>]
    """
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be in {set(global_decomposition_table)}")
    table = global_decomposition_table[type] if registry is None else registry

    def register(function):
        for op in _overloads(aten_op):
            if op in table:
                raise RuntimeError(f"duplicate registrations for {op}")
            table[op] = function
        return function

    return register


def get_decompositions(aten_ops, type="post_autograd"):
    """The table of those of some operators that have a function.

    Args:
        aten_ops: operators and packets of overloads.
        type: ``post_autograd``, ``pre_autograd`` or ``meta``.

    >>> import rushlight as rl
    >>> len(get_decompositions([rl.ops.aten.tanh_backward, rl.ops.aten.mm]))
    1
    """
    table = global_decomposition_table[type]
    return {op: table[op] for op in _overloads(list(aten_ops)) if op in table}


def remove_decompositions(decompositions, aten_ops):
    """Takes operators out of a table.

    Args:
        decompositions: the table.
        aten_ops: operators and packets of overloads.
    """
    for op in _overloads(list(aten_ops)):
        decompositions.pop(op, None)

"""What may change about spread tensors: blocks, functions of parts, rules from outside."""

import functools

import rushlight as rl
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor._dispatch import implicit_replication, register_rule
from rushlight.distributed.tensor._op_call import Strategy
from rushlight.distributed.tensor.placement_types import Placement
from rushlight.utils import _pytree as pytree

__all__ = ["implicit_replication", "local_map", "register_sharding"]


def local_map(
    func=None,
    out_placements=None,
    in_placements=None,
    in_grad_placements=None,
    device_mesh=None,
    *,
    redistribute_inputs=False,
):
    """A function of plain tensors as one of spread ones: it works on the parts.

    Args:
        func: the function.
        out_placements: how its result is placed; of several results, one for each.
        in_placements: how each input must be placed; None for any way.
        in_grad_placements: how the gradient of each is placed.
        device_mesh: the processes; those of the first spread input without it.
        redistribute_inputs: whether inputs are placed so, where they are not.

    Raises:
        ValueError: an input is placed in another way.
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        leaves, structure = pytree.tree_flatten(args)
        mesh, found = device_mesh, []
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, DTensor):
                mesh = leaf.device_mesh if mesh is None else mesh
                leaf = _local(
                    leaf,
                    None if in_placements is None else in_placements[index],
                    None if in_grad_placements is None else in_grad_placements[index],
                    redistribute_inputs,
                )
            found.append(leaf)
        result = func(*pytree.tree_unflatten(found, structure), **kwargs)
        if not any(isinstance(leaf, DTensor) for leaf in leaves):
            return result
        return _spread(result, mesh, out_placements)

    return wrapped


def _local(leaf, wanted, grad_placements, redistribute_inputs):
    if wanted is not None and tuple(wanted) != leaf.placements:
        if not redistribute_inputs:
            raise ValueError(
                f"arg {leaf} in local_map has a mismatched placements: arg placements "
                f"is {leaf.placements} but the input placements is {wanted}! If "
                "redistribute_inputs is wanted, set redistribute_inputs=True to "
                "local_map."
            )
        leaf = leaf.redistribute(placements=wanted)
    return leaf.to_local(grad_placements=grad_placements)


def _spread(result, mesh, out_placements):
    outputs, structure = pytree.tree_flatten(result)
    single = out_placements is None or all(
        isinstance(each, Placement) for each in out_placements
    )
    placements = (out_placements,) * len(outputs) if single else out_placements
    made = []
    for output, placed in zip(outputs, placements):
        if isinstance(output, rl.Tensor) and not isinstance(output, DTensor):
            output = DTensor.from_local(output, mesh, placed, run_check=False)
        made.append(output)
    return pytree.tree_unflatten(made, structure)


def register_sharding(op):
    """Say how an operator may be computed from parts.

    The function that is decorated gets the operator's arguments, tensors as what they
    are, and lists pairs: placements of the results, and of the arguments (None for those
    that are no tensors).

    Args:
        op: an operator, or a list of them.
    """

    def decorate(function):
        def rule(call):
            specs = [
                pytree.tree_map(lambda each: getattr(each, "spec", each), value)
                for value in call.arguments.values()
            ]
            return [
                Strategy(
                    tuple(outputs), tuple(each for each in inputs if each is not None)
                )
                for outputs, inputs in function(*specs)
            ]

        for each in op if isinstance(op, (list, tuple)) else [op]:
            register_rule(each, rule)
        return function

    return decorate

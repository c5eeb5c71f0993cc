"""Exported programs on another device."""

import copy

from rushlight.core.device import Device
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import Parameter
from rushlight.utils._pytree import tree_map


def move_to_device_pass(ep, location):
    """A program for another device: its tensors lie there, and its steps make others there.

    Args:
        ep: the `ExportedProgram`.
        location: the device; or a dict from devices to those that take their place.

    >>> import rushlight as rl
    >>> program = rl.export.export(rl.nn.Linear(2, 1), (rl.ones(3, 2),))
    >>> moved = move_to_device_pass(program, "meta")
    >>> moved.state_dict["weight"].device
    device(type='meta')
    """

    def place(now):
        if isinstance(location, dict):
            return Device(location.get(str(now), location.get(now.type, now)))
        return Device(location)

    def moved(one):
        if not isinstance(one, Tensor):
            return one
        made = one.to(place(one.device))
        if isinstance(one, Parameter):
            return Parameter(made.detach(), one.requires_grad)
        return made.detach().requires_grad_(one.requires_grad)

    module = copy.deepcopy(ep.graph_module)
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if _takes_device(node) and ("device" in node.kwargs or _makes_of_nothing(node)):
            now = Device(node.kwargs.get("device") or value.device)
            node.kwargs = {**node.kwargs, "device": place(now)}
        node.args = tree_map(lambda one: _at(one, place), node.args)
        node.meta["val"] = tree_map(moved, value)
    module.recompile()
    state = {name: moved(one) for name, one in ep.state_dict.items()}
    constants = {name: moved(one) for name, one in ep.constants.items()}
    made = ep._update(module, ep.graph_signature, state_dict=state, constants=constants)
    if ep.example_inputs is not None:
        made._example_inputs = tree_map(moved, ep.example_inputs)
    return made


def _takes_device(node):
    rows = getattr(getattr(node.target, "signature", None), "rows", ())
    return any(row[0] == "device" for row in rows)


def _makes_of_nothing(node):
    """Whether a step makes a tensor without one that it is made of."""
    inputs = [one.meta.get("val") for one in node.all_input_nodes]
    made = node.meta.get("val")
    return isinstance(made, Tensor) and not any(isinstance(v, Tensor) for v in inputs)


def _at(value, place):
    return place(value) if isinstance(value, Device) else value

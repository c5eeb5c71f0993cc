"""The mean of parameters over processes."""

import rushlight as rl
from rushlight.distributed.collective_functions import all_reduce
from rushlight.distributed.world import GroupMember, get_world_size

__all__ = [
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
]


def average_parameters(params, process_group):
    """Put the mean over processes into parameters; one collective for each type.

    Args:
        params: the parameters.
        process_group: the processes; all without it.
    """
    if process_group is GroupMember.NON_GROUP_MEMBER:
        return
    params = list(params)
    for dtype in dict.fromkeys(each.dtype for each in params):
        chosen = [each for each in params if each.dtype is dtype]
        with rl.no_grad():
            flat = rl.cat([each.reshape(-1) for each in chosen])
            flat /= get_world_size(process_group)
            all_reduce(flat, group=process_group)
            parts = flat.split([each.numel() for each in chosen])
            for each, part in zip(chosen, parts):
                each.data.copy_(part.view_as(each))


def get_params_to_average(params):
    """The parameters that have gradients, of parameters or an optimizer's groups.

    Args:
        params: parameters, or dicts with a list of them.

    Raises:
        NotImplementedError: something else is among them.
    """
    found = []
    for each in params:
        if isinstance(each, rl.nn.Parameter):
            found += [each] if each.grad is not None else []
        elif isinstance(each, dict):
            found += [p for p in each["params"] if p.grad is not None]
        else:
            raise NotImplementedError(
                f"Parameter input of type {type(each)} is not supported"
            )
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """The same of those that have gradients.

    Args:
        params: parameters, or an optimizer's groups.
        process_group: the processes; all without it.
    """
    average_parameters(get_params_to_average(params), process_group)

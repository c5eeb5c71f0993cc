"""Running an optimizer on other parameters and another state."""

import contextlib
from collections import defaultdict
from itertools import islice

from rushlight.core.tensor import Tensor

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


def _checked_state(state):
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed "
            f"parameter ids to per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed "
            "parameter ids."
        )
    for key, value in state.items():
        if isinstance(key, int) and not isinstance(value, dict):
            raise RuntimeError(
                f"{_NAME} requires per-parameter optimizer state entries to be "
                "dictionaries."
            )
    return state


def _checked_groups(optimizer, groups):
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of "
            f"param-group dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the "
            "live optimizer."
        )
    for index, (live, group) in enumerate(zip(optimizer.param_groups, groups)):
        _check_group(index, live, group)
    return groups


def _check_group(index, live, group):
    """Refuse a group that is no counterpart of the optimizer's own."""
    if not isinstance(group, dict):
        raise RuntimeError(
            f"{_NAME} requires each optimizer param group to be a dictionary."
        )
    ids = group.get("params")
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] "
            "entries keyed by packed parameter ids."
        )
    if len(live["params"]) != len(ids):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has a different number of params "
            "than the live optimizer param group."
        )
    new = [key for key in group if key not in live]
    missing = [key for key in live if key not in group]
    if new or missing:
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly "
            f"match the live optimizer group keys for group {index}. Keys only in "
            f"swap-in: {new}. Keys only in live: {missing}."
        )


def _prepared(optimizer, parameters, state_dict):
    """The state by parameter, and the options of each group, checked."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(state_dict, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    packed = _checked_state(state_dict.get("state"))
    groups = _checked_groups(optimizer, state_dict.get("param_groups"))
    if sum(len(group["params"]) for group in groups) > len(parameters):
        raise RuntimeError(
            f"{_NAME} requires the explicit parameter state to match "
            "optimizer.param_groups ordering."
        )
    known = {number for group in groups for number in group["params"]}
    if extra := [key for key in packed if key not in known]:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed "
            f"parameter ids from param_groups[*]['params']; got extra keys {extra!r}."
        )
    rest = iter(parameters.values())
    state = defaultdict(dict)
    options = []
    for group in groups:
        members = list(islice(rest, len(group["params"])))
        options.append({**group, "params": members})
        for parameter, number in zip(members, group["params"]):
            # The optimizer may add keys; only what it writes into tensors goes out.
            state[parameter] = dict(packed.get(number, {}))
    return state, options


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer, swapin_parameters, swapin_optim_state
):
    """Let an optimizer work on other parameters with another state for a while.

    Args:
        optimizer: has taken a step, so that it has a state.
        swapin_parameters: tensors by name, in the order of the optimizer's own.
        swapin_optim_state: what ``optimizer.state_dict()`` returned, or the like;
            changes of its tensors stay when the optimizer has its own back.

    Raises:
        RuntimeError: the parameters or the state don't fit the optimizer.

    >>> weight = rl.nn.Parameter(rl.ones(1))
    >>> optimizer = rl.optim.SGD([weight], lr=0.5, momentum=0.9)
    >>> weight.grad = rl.ones(1)
    >>> optimizer.step()
    >>> other = {"weight": rl.zeros(1, requires_grad=True)}
    >>> with swap_in_optimizer_params_and_state(optimizer, other, optimizer.state_dict()):
    ...     other["weight"].grad = rl.ones(1)
    ...     optimizer.step()
    >>> weight.detach(), other["weight"].detach()
    (tensor([0.5000]), tensor([-0.9500]))
    """
    state, options = _prepared(optimizer, swapin_parameters, swapin_optim_state)
    own_state = optimizer.state
    own_options = [dict(group) for group in optimizer.param_groups]
    try:
        for group, other in zip(optimizer.param_groups, options):
            group.update(other)
        optimizer.state = state
        yield
    finally:
        for group, own in zip(optimizer.param_groups, own_options):
            group.clear()
            group.update(own)
        optimizer.state = own_state

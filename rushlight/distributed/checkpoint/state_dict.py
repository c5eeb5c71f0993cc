"""States of models and optimizers by the parameters' own names, however they are spread."""

import io
from dataclasses import dataclass
from typing import Any

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.octet_collectives import broadcast_octets
from rushlight.distributed.tensor import DTensor, distribute_tensor
from rushlight.distributed.world import default_group, get_rank, is_initialized

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

# What wrappers put into the names of what they wrap.
WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
STATE, GROUPS, PARAMS = "state", "param_groups", "params"


@dataclass
class StateDictOptions:
    """How states are made and taken.

    Args:
        full_state_dict: whether tensors are whole, not spread.
        cpu_offload: whether they are on the host; of whole ones only the first rank has
            any then.
        ignore_frozen_params: whether parameters without gradients are left out.
        keep_submodule_prefixes: without effect but with ``submodules``: whether names
            have those of the submodule in front.
        strict: whether ``load_state_dict`` of the model is.
        broadcast_from_rank0: whether the first rank's whole state counts for all.
        flatten_optimizer_state_dict: whether an optimizer's state is one level of names.
        dsd_fqn_modifiers: without effect here.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self):
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError(
                "full_state_dict must be True when broadcast_from_rank0 is True."
            )


def _names(model):
    """The name of each entry of the model's state -> the same without wrappers' words."""
    data_parallel = rl.nn.parallel.DistributedDataParallel
    inside = {
        path
        for path, module in model.named_modules()
        if isinstance(module, (data_parallel, rl.nn.DataParallel))
    }

    def cleaned(name):
        words, path = [], ""
        for word in name.split("."):
            gone = word in WRAPPED or (word == "module" and path in inside)
            if not gone:
                words.append(word)
            path = f"{path}.{word}" if path else word
        return ".".join(words)

    return cleaned


def _placed(value, options):
    """A value of a state as the options want it."""
    if isinstance(value, dict):
        return {key: _placed(inner, options) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_placed(inner, options) for inner in value)
    if not isinstance(value, rl.Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.detach().full_tensor()
    if not options.cpu_offload or value.device.type == "cpu":
        return value
    if isinstance(value, DTensor):
        return DTensor.from_local(
            value.to_local().cpu(),
            value.device_mesh,
            value.placements,
            shape=value.shape,
            stride=value.stride(),
        )
    return value.cpu()


def _given(state, options):
    """The state as this rank gets it."""
    state = _placed(state, options)
    alone = options.full_state_dict and options.cpu_offload
    if alone and is_initialized() and get_rank() != 0:
        return {}
    return state


def _prefixes(model, submodules):
    if not submodules:
        return None
    cleaned = _names(model)
    return [
        cleaned(name) + "."
        for name, module in model.named_modules()
        if module in set(submodules)
    ]


def _model_state(model, options):
    cleaned = _names(model)
    state = {cleaned(name): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                state.pop(cleaned(name), None)
    return state


def get_model_state_dict(model, *, submodules=None, options=None):
    """A model's state by the parameters' own names, without those of wrappers.

    Args:
        model: the module; spread or wrapped in any way.
        submodules: those whose state is wanted; all without it.
    """
    options = options or StateDictOptions()
    state = _model_state(model, options)
    prefixes = _prefixes(model, submodules)
    if prefixes is not None:
        keep = options.keep_submodule_prefixes
        state = {
            name if keep else name[len(prefix) :]: value
            for name, value in state.items()
            for prefix in prefixes
            if name.startswith(prefix)
        }
    return _given(state, options)


def _spread_as(value, like):
    """A whole tensor, spread as another is."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor):
        return value
    value = value.to(like.to_local().device)
    return distribute_tensor(
        value.detach(), like.device_mesh, like.placements, src_data_rank=None
    )


def _from_first(value, like):
    """The first rank's value, on every rank, spread as this rank's is."""
    if isinstance(like, rl.Tensor):
        is_first = get_rank() == 0
        whole = rl.empty(like.shape, dtype=like.dtype, device=like.device)
        if is_first:
            whole.copy_(value.full_tensor() if isinstance(value, DTensor) else value)
        collectives.broadcast(whole, 0)
        return _spread_as(whole, like)
    if isinstance(like, dict):
        given = value or {}
        return {key: _from_first(given.get(key), own) for key, own in like.items()}
    octets = None
    if get_rank() == 0:
        stream = io.BytesIO()
        rl.save(value, stream)
        octets = stream.getvalue()
    return rl.load(io.BytesIO(broadcast_octets(octets, 0)))


def _taken(state, own, options):
    """A state that is loaded, as this rank needs it."""
    if options.broadcast_from_rank0:
        return {
            name: _from_first(state.get(name), like)
            for name, like in own.items()
            if _first_has(name in state)
        }
    if options.full_state_dict:
        return {name: _like(value, own.get(name)) for name, value in state.items()}
    return dict(state)


def _first_has(value):
    """What the first rank says."""
    flag = rl.tensor(int(value), device=default_group()._coordination_device())
    collectives.broadcast(flag, 0)
    return bool(flag)


def _like(value, own):
    if isinstance(value, dict):
        own = own if isinstance(own, dict) else {}
        return {key: _like(inner, own.get(key)) for key, inner in value.items()}
    return _spread_as(value, own) if isinstance(value, rl.Tensor) else value


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Load a model's state by the parameters' own names.

    Args:
        model: the module; spread or wrapped in any way.
        model_state_dict: values by name.

    Returns:
        The names that are missing and those that are not expected, as
        ``load_state_dict`` gives them.
    """
    options = options or StateDictOptions()
    cleaned = _names(model)
    own = {cleaned(name): (name, value) for name, value in model.state_dict().items()}
    given = model_state_dict
    if given and all(isinstance(key, rl.nn.Module) for key in given):
        paths = {module: cleaned(path) for path, module in model.named_modules()}
        given = {
            f"{paths[module]}.{name}" if paths[module] else name: value
            for module, values in given.items()
            for name, value in values.items()
        }
    likes = {name: value for name, (_, value) in own.items()}
    with rl.no_grad():
        state = _taken(given, likes, options)
    state = {own[name][0] if name in own else name: v for name, v in state.items()}
    assign = any(value.is_meta for value in likes.values())
    return model.load_state_dict(state, strict=options.strict, assign=assign)


# -- optimizers ----------------------------------------------------------------------


def _parameter_names(model):
    cleaned = _names(model)
    return {
        id(parameter): cleaned(name)
        for name, parameter in model.named_parameters(remove_duplicate=True)
    }


def _init_state(optimizer):
    """Have an optimizer make its state, by a step that changes nothing."""
    groups = optimizer.param_groups
    parameters = [each for group in groups for each in group[PARAMS]]
    if optimizer.state or any(each.grad is not None for each in parameters):
        return
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = rl.zeros_like(parameter)
    rates = [group["lr"] for group in groups if "lr" in group]
    for group in groups:
        if "lr" in group:
            is_tensor = isinstance(group["lr"], rl.Tensor)
            group["lr"] = rl.tensor(0.0) if is_tensor else 0.0
    optimizer.step(closure=None)
    for group in groups:
        if "lr" in group:
            group["lr"] = rates.pop(0)
    optimizer.zero_grad(set_to_none=True)


def _named_state(optimizer, names):
    """An optimizer's state by the names of its parameters."""
    state = optimizer.state_dict()
    ordered = [each for group in optimizer.param_groups for each in group[PARAMS]]
    found = {names[id(each)]: number for number, each in enumerate(ordered)}
    numbers = {number: name for name, number in found.items()}
    values = {numbers[number]: value for number, value in state[STATE].items()}
    groups = [
        {**group, PARAMS: [numbers[number] for number in group[PARAMS]]}
        for group in state[GROUPS]
    ]
    return {STATE: values, GROUPS: groups}


def _flat(named):
    """One level of names: ``state.NAME.KEY`` and ``param_groups.NAME.KEY``."""
    found: dict[str, Any] = {}

    def put(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                put(f"{prefix}.{key}", inner)
        elif isinstance(value, (rl.Tensor, int, float)):
            found[prefix] = value
        else:
            raise NotImplementedError(
                "Flattening optimizer state_dict only supports tensor, int, float, dict "
                f"states now. Type is {type(value)}."
            )

    for name, values in named[STATE].items():
        put(f"{STATE}.{name}", values)
    for group in named[GROUPS]:
        for name in group[PARAMS]:
            for key, value in group.items():
                if key != PARAMS:
                    found[f"{GROUPS}.{name}.{key}"] = value
    return found


def _unflat(flat, named):
    """What was made flat, in the form that an optimizer's own state has."""

    def take(prefix, like):
        if not isinstance(like, dict):
            return flat[prefix]
        return {key: take(f"{prefix}.{key}", inner) for key, inner in like.items()}

    values = {
        name: take(f"{STATE}.{name}", like) for name, like in named[STATE].items()
    }
    groups = []
    for group in named[GROUPS]:
        made = {PARAMS: list(group[PARAMS])}
        for key, value in group.items():
            if key != PARAMS:
                name = f"{GROUPS}.{group[PARAMS][0]}.{key}"
                made[key] = flat.get(name, value)
        groups.append(made)
    return {STATE: values, GROUPS: groups}


def _as_tuple(optimizers):
    one = isinstance(optimizers, rl.optim.Optimizer)
    return (optimizers,) if one else tuple(optimizers)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The state of a model's optimizers by the names of its parameters.

    Args:
        submodules: those whose parameters' state is wanted; all without it.
    """
    options = options or StateDictOptions()
    names, prefixes = _parameter_names(model), _prefixes(model, submodules)
    merged: dict[str, Any] = {STATE: {}, GROUPS: []}
    for optimizer in _as_tuple(optimizers):
        _init_state(optimizer)
        named = _named_state(optimizer, names)
        merged[STATE].update(named[STATE])
        merged[GROUPS] += named[GROUPS]
    if prefixes is not None:
        merged[STATE] = {
            name: value
            for name, value in merged[STATE].items()
            if any(name.startswith(prefix) for prefix in prefixes)
        }
        for group in merged[GROUPS]:
            group[PARAMS] = [
                name
                for name in group[PARAMS]
                if any(name.startswith(prefix) for prefix in prefixes)
            ]
    made = _flat(merged) if options.flatten_optimizer_state_dict else merged
    return _given(made, options)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Load the state of a model's optimizers by the names of its parameters.

    Args:
        optim_state_dict: as ``get_optimizer_state_dict`` gives it.

    Raises:
        KeyError: the state of a parameter is missing.
    """
    options = options or StateDictOptions()
    names = _parameter_names(model)
    for optimizer in _as_tuple(optimizers):
        _init_state(optimizer)
        own = _named_state(optimizer, names)
        flat_own = _flat(own) if options.flatten_optimizer_state_dict else None
        with rl.no_grad():
            given = _optimizer_given(optim_state_dict, own, flat_own, options)
        _load_named(optimizer, given, own)


def _optimizer_given(given, own, flat_own, options):
    if flat_own is not None:
        return _unflat({**flat_own, **_taken(given, flat_own, options)}, own)
    if options.broadcast_from_rank0:
        values = _taken(given.get(STATE, {}), own[STATE], options)
        octets = None
        if get_rank() == 0:
            stream = io.BytesIO()
            rl.save(given[GROUPS], stream)
            octets = stream.getvalue()
        groups = rl.load(io.BytesIO(broadcast_octets(octets, 0)))
        return {STATE: values, GROUPS: groups}
    return {STATE: _taken(given[STATE], own[STATE], options), GROUPS: given[GROUPS]}


def _load_named(optimizer, given, own):
    """Load a state by names into an optimizer, which has numbers."""
    settings = {name: group for group in given[GROUPS] for name in group[PARAMS]}
    values, groups, number = {}, [], 0
    for group in own[GROUPS]:
        numbers = []
        for name in group[PARAMS]:
            if name in given[STATE]:
                values[number] = given[STATE][name]
            elif name in own[STATE]:
                raise KeyError(f"the state of parameter {name} is missing")
            numbers.append(number)
            number += 1
        found = settings.get(group[PARAMS][0], group) if group[PARAMS] else group
        groups.append({**group, **found, PARAMS: numbers})
    optimizer.load_state_dict({STATE: values, GROUPS: groups})


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """The states of a model and of its optimizers, by the parameters' own names.

    Args:
        submodules: those whose state is wanted; all without it.
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(
            model, optimizers, submodules=submodules, options=options
        ),
    )


def set_state_dict(
    model, optimizers, *, model_state_dict, optim_state_dict, options=None
):
    """Load the states of a model and of its optimizers.

    Args:
        model_state_dict: the model's.
        optim_state_dict: the optimizers'.

    Returns:
        What ``set_model_state_dict`` gives.
    """
    if optim_state_dict or (options and options.broadcast_from_rank0):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


describe_arguments(
    globals(),
    options="a ``StateDictOptions``.",
    model="the module.",
    optimizers="one, or several.",
)

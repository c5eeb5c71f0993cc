"""Modules as functions of their parameters."""

import rushlight
from rushlight.nn.utils.stateless import _functional_call

__all__ = [
    "debug_unwrap",
    "functional_call",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
]


def functional_call(
    module,
    parameter_and_buffer_dicts,
    args=None,
    kwargs=None,
    *,
    tie_weights=True,
    strict=False,
):
    """Calls a module with other tensors in the place of its parameters and buffers.

    Args:
        module: the module; it is left as it was.
        parameter_and_buffer_dicts: names with their tensors, or several such. What the
            module puts in the place of one is put into the dictionary.
        args: the positional arguments, as a tuple; one that is none stands for itself.
        kwargs: the keyword arguments.
        tie_weights: a tensor given for one name counts for all names of the same one.
        strict: every parameter and buffer must be given.

    Raises:
        RuntimeError: with ``strict``, names are missing or unknown; or the module is a
            translated program, or one for several devices.
        TypeError: a value is no tensor, or stands for what is none.
        ValueError: a name is given twice, or there are no dictionaries.

    >>> layer = rl.nn.Linear(1, 1)
    >>> functional_call(
    ...     layer, {"weight": rl.ones(1, 1), "bias": rl.zeros(1)}, rl.ones(2, 1)
    ... )
    tensor([[1.],
            [1.]])
    """
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        given = _joined(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, "
            f"but got {type(parameter_and_buffer_dicts)}"
        )
    return _functional_call(
        module, given, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _joined(parts):
    """Several dictionaries as one.

    Raises:
        ValueError: one is none, or a name is in two of them.
    """
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(
            "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
        )
    given: dict = {}
    for part in parts:
        twice = given.keys() & part.keys()
        if twice:
            raise ValueError(
                f"{sorted(twice)} appeared in multiple dictionaries; behavior of "
                "functional call is ambiguous"
            )
        given.update(part)
    return given


def stack_module_state(models):
    """Parameters and buffers of equal models, stacked for `vmap`.

    Args:
        models: modules of one class, all in the same mode.

    Raises:
        RuntimeError: there is none, or they differ in class or mode.

    >>> params, buffers = stack_module_state([rl.nn.Linear(2, 3) for _ in range(5)])
    >>> params["weight"].shape
    rushlight.Size([5, 3, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class."
        )
    params = {
        name: _stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stacked([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return params, buffers


def _stacked(tensors):
    stacked = rushlight.stack([t.detach() for t in tensors])
    return stacked.requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root):
    """Has all batch normalisations of a module use the batch's statistics only.

    Running statistics are written to in training, which a function of the parameters
    must not do. The module is changed and given back.

    Args:
        root: the module, which is changed.

    >>> norm = replace_all_batch_norm_modules_(rl.nn.BatchNorm1d(2))
    >>> norm.running_mean is None, norm.track_running_stats
    (True, False)
    """
    from rushlight.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor of a transformation stands for, to look at in a debugger.

    Args:
        tensor: the tensor; one that stands for nothing is given back.
        recurse: whether what it stands for is looked into, too.

    >>> seen = []
    >>> _ = torch.func.vmap(lambda x: seen.append(torch.func.debug_unwrap(x).shape) or x)(
    ...     torch.ones(3, 2)
    ... )
    >>> seen
    [rushlight.Size([3, 2])]
    """
    while tensor._stand is not None:
        tensor = tensor._stand.value
        if not recurse:
            break
    return tensor

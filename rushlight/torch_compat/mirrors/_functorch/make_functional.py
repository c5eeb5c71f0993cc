"""Modules as functions of their parameters and buffers, each a tuple."""

import copy

import rushlight
from rushlight import nn
from rushlight.func import functional_call

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


def _names(pairs):
    """The first name of each tensor, and all names that it has."""
    first, every = {}, {}
    for name, tensor in pairs:
        first.setdefault(id(tensor), name)
        every.setdefault(first[id(tensor)], []).append(name)
    return tuple(every), every


class FunctionalModuleWithBuffers(nn.Module):
    """A module that is given its parameters and buffers with each call.

    Args:
        stateless_model: what computes; its own tensors are not looked at.
    """

    def __init__(self, stateless_model):
        super().__init__()
        self.stateless_model = stateless_model
        named = stateless_model.named_parameters(remove_duplicate=False)
        self.param_names, shared = _names(named)
        named = stateless_model.named_buffers(remove_duplicate=False)
        self.buffer_names, more = _names(named)
        self.names_map = {**shared, **more}

    def _call(self, named, args, kwargs):
        tensors = {
            name: tensor
            for first, tensor in named.items()
            for name in self.names_map[first]
        }
        return functional_call(self.stateless_model, tensors, args, kwargs)

    def forward(self, params, buffers, *args, **kwargs):
        """The module's output for these parameters and buffers."""
        named = dict(zip(self.param_names, params))
        named.update(zip(self.buffer_names, buffers))
        return self._call(named, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers that is given its parameters with each call."""

    def forward(self, params, *args, **kwargs):
        """The module's output for these parameters."""
        return self._call(dict(zip(self.param_names, params)), args, kwargs)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """A module as a function, its parameters, and its buffers.

    Args:
        model: stays as it is; the function holds a copy.
        disable_autograd_tracking: whether the parameters come without gradients.

    Returns:
        ``(function, params, buffers)``; the function takes the latter two first.

    >>> import rushlight as rl
    >>> function, params, buffers = make_functional_with_buffers(rl.nn.BatchNorm1d(2))
    >>> len(params), len(buffers), function(params, buffers, rl.ones(3, 2)).shape
    (2, 3, rushlight.Size([3, 2]))
    """
    return _made(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def make_functional(model, disable_autograd_tracking=False):
    """A module without buffers as a function, and its parameters.

    Args:
        model: stays as it is; the function holds a copy.
        disable_autograd_tracking: whether the parameters come without gradients.

    Raises:
        RuntimeError: the module has buffers.

    >>> import rushlight as rl
    >>> function, params = make_functional(rl.nn.Linear(2, 3))
    >>> function(params, rl.ones(2)).shape
    rushlight.Size([3])
    """
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return _made(FunctionalModule, model, disable_autograd_tracking)[:2]


def _made(kind, model, untracked):
    function = kind(copy.deepcopy(model))
    params = tuple(function.stateless_model.parameters())
    buffers = tuple(function.stateless_model.buffers())
    for param in params if untracked else ():
        param.requires_grad_(False)
    function.stateless_model = function.stateless_model.to("meta")
    return function, params, buffers


def combine_state_for_ensemble(models):
    """Models of one kind as one function, with parameters and buffers in stacks.

    Args:
        models: modules of one class, all training or all evaluating.

    Returns:
        ``(function, params, buffers)``, for `vmap` over the first dimension.

    Raises:
        RuntimeError: there are none, or they differ in class or mode.

    >>> import rushlight as rl
    >>> models = [rl.nn.Linear(2, 3) for _ in range(4)]
    >>> combine_state_for_ensemble(models)[1][0].shape
    rushlight.Size([4, 3, 2])
    """
    if not models:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected at least one model, got 0."
        )
    if any(model.training != models[0].training for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same "
            "training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    made = [make_functional_with_buffers(model) for model in models]
    stacks = [
        tuple(
            rushlight.stack([tensor.detach() for tensor in tensors])
            for tensors in zip(*state)
        )
        for state in ([one[1] for one in made], [one[2] for one in made])
    ]
    return made[0][0], *stacks

"""What programs import as ``functorch``: transformations, and modules as functions.

PyTorch keeps the package for programs written before ``torch.func``.
"""

from __future__ import annotations

import copy

from rushlight import func, nn
from rushlight.func import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


class FunctionalModule(nn.Module):
    """A module whose parameters are the first argument of its call.

    Args:
        stateless_model: a module that is its own; its parameters are not used.
        param_names: the parameters' paths, in the order that calls give them in.
    """

    def __init__(self, stateless_model, param_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)

    def forward(self, params, *args, **kwargs):
        """What the module gives with these parameters."""
        state = dict(zip(self.param_names, params, strict=True))
        return func.functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(nn.Module):
    """A module whose parameters and buffers are the first arguments of its call."""

    def __init__(self, stateless_model, param_names, buffer_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params, buffers, *args, **kwargs):
        """What the module gives with these parameters and buffers."""
        state = dict(zip(self.param_names, params, strict=True))
        state.update(zip(self.buffer_names, buffers, strict=True))
        return func.functional_call(self.stateless_model, state, args, kwargs)


def _parts(model, disable_autograd_tracking):
    """A copy of the model, and names and values of what it holds."""
    held = copy.deepcopy(model)
    names, values = [], []
    for name, value in model.named_parameters():
        names.append(name)
        value = value.detach().clone()
        values.append(value if disable_autograd_tracking else value.requires_grad_())
    buffers = [(name, value.clone()) for name, value in model.named_buffers()]
    return held, names, tuple(values), buffers


def make_functional(model, disable_autograd_tracking=False):
    """A module as a function of its parameters, and the parameters.

    Args:
        model: a module without buffers.
        disable_autograd_tracking: whether the parameters are to need no gradients.

    Raises:
        RuntimeError: the module has buffers.
    """
    held, names, values, buffers = _parts(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(held, names), values


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """A module as a function of its parameters and buffers, and both of them."""
    held, names, values, buffers = _parts(model, disable_autograd_tracking)
    made = FunctionalModuleWithBuffers(held, names, [name for name, _ in buffers])
    return made, values, tuple(value for _, value in buffers)


def combine_state_for_ensemble(models):
    """One function for modules of one kind, and their states stacked for ``vmap``.

    Raises:
        RuntimeError: there are none, or they differ in kind or mode.
    """
    if not models:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected at least one model, got 0."
        )
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same "
            "training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    made, _, _ = make_functional_with_buffers(models[0])
    parameters, buffers = func.stack_module_state(models)
    return (
        made,
        tuple(parameters[name] for name in made.param_names),
        tuple(buffers[name] for name in made.buffer_names),
    )


def __getattr__(name):
    if name in ("make_fx", "functionalize"):
        if name == "make_fx":
            from rushlight.fx.experimental.proxy_tensor import make_fx

            return make_fx
        return getattr(func, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

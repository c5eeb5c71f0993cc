"""Modules around modules, whose forward is computed again in backward.

States, parameters and attributes are those of the module inside, so that a model may be
wrapped after it was saved and loaded before it is wrapped.
"""

import enum
import functools

import rushlight as rl
from rushlight.autograd.graph import save_on_cpu
from rushlight.utils import checkpoint as _checkpoint

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """How the forward is computed again.

    Args:
        value: the number.
    """

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(rl.nn.Module):
    """A module that stands for another one in states and attributes.

    Args:
        mod: the module inside.
    """

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self._register_load_state_dict_pre_hook(
            self._pre_load_state_dict_hook, with_module=True
        )

    def forward(self, *args, **kwargs):
        """What subclasses compute.

        Raises:
            ValueError: the subclass has none.
        """
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module.__getitem__(key)

    def named_parameters(self, *args, **kwargs):
        """The parameters of the module inside, under their names there."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        """Takes the wrapper's name out of those of a state that was made."""
        _rename(state_dict, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        """Puts the wrapper's name into those of a state that is loaded."""
        _rename(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


def _rename(state, old, new):
    """Gives the entries whose names begin with one text another one in its place."""
    for name in [name for name in state if name.startswith(old)]:
        if new.startswith(old) and name.startswith(new):
            continue  # it has the longer name already
        state[new + name[len(old) :]] = state.pop(name)


class OffloadWrapper(ActivationWrapper):
    """What a module keeps for backward lies on the host meanwhile.

    Args:
        mod: the module inside.
    """

    def forward(self, *args, **kwargs):
        """The module's result."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module that keeps its arguments only, and runs once more in backward.

    Args:
        mod: the module inside.
        checkpoint_impl: how it runs again.
        checkpoint_fn: takes the place of ``utils.checkpoint.checkpoint``.
        checkpoint_fn_kwargs: what it is given beside the arguments.
    """

    def __init__(
        self,
        mod,
        checkpoint_impl=CheckpointImpl.NO_REENTRANT,
        checkpoint_fn=None,
        **checkpoint_fn_kwargs,
    ):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(
                _checkpoint.checkpoint, use_reentrant=reentrant
            )
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        """The module's result."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inside, *args, **kwargs)
        names, count = tuple(kwargs), len(args)  # that one takes positions alone

        def by_position(*values):
            named = dict(zip(names, values[count:], strict=True))
            return inside(*values[:count], **named)

        return self.checkpoint_fn(by_position, *args, *kwargs.values())


def offload_wrapper(module):
    """A module around one whose saved tensors lie on the host until backward.

    Args:
        module: the module inside.

    >>> offload_wrapper(rl.nn.Linear(2, 1))(rl.ones(1, 2)).shape
    rushlight.Size([1, 1])
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module,
    checkpoint_impl=CheckpointImpl.NO_REENTRANT,
    checkpoint_fn=None,
    **checkpoint_fn_kwargs,
):
    """A module around one that is computed again in backward.

    Args:
        module: the module inside.
        checkpoint_impl: how it runs again.
        checkpoint_fn: takes the place of ``utils.checkpoint.checkpoint``.
        checkpoint_fn_kwargs: what it is given beside the arguments.

    >>> wrapped = checkpoint_wrapper(rl.nn.Linear(2, 1))
    >>> list(wrapped.state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(
        module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs
    )


def apply_activation_checkpointing(
    model,
    checkpoint_wrapper_fn=checkpoint_wrapper,
    check_fn=lambda _: True,
    auto_wrap_policy=None,
):
    """Wraps modules inside of a model, those within others first; the model itself stays.

    Args:
        model: the model, which is changed.
        checkpoint_wrapper_fn: makes the wrapper of a module.
        check_fn: whether a module is to be wrapped.
        auto_wrap_policy: the same in the terms of FSDP, called with the module, whether it
            is about its children, and how many numbers are in parameters that no module
            inside has taken.

    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU())
    >>> apply_activation_checkpointing(
    ...     model, check_fn=lambda m: isinstance(m, rl.nn.Linear)
    ... )
    >>> [type(child).__name__ for child in model]
    ['CheckpointWrapper', 'ReLU']
    """
    if auto_wrap_policy is None:

        def auto_wrap_policy(module, recurse, nonwrapped_numel):
            return recurse or check_fn(module)

    _wrap_children(model, auto_wrap_policy, checkpoint_wrapper_fn)


def _wrap_children(module, policy, wrap):
    """Wraps what is inside of a module; how many numbers of its parameters that took."""
    taken = 0
    for name, child in list(module.named_children()):
        numbers = sum(parameter.numel() for parameter in child.parameters())
        inside = 0
        if policy(child, True, numbers):
            inside = _wrap_children(child, policy, wrap)
        if policy(child, False, numbers - inside):
            setattr(module, name, wrap(child))
            inside = numbers
        taken += inside
    return taken

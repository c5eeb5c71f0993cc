"""Tensors that a module owns: parameters, which are trained, and buffers."""

from __future__ import annotations

from collections import OrderedDict

import rushlight as rl
from rushlight.core.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class _FlaggedMeta(type(Tensor)):
    """Lets ``isinstance`` accept tensor subclasses that carry the class's flag."""

    def __instancecheck__(cls, instance):
        if super().__instancecheck__(instance):
            return True
        flag = cls.__dict__.get("_flag")
        return (
            flag is not None
            and isinstance(instance, Tensor)
            and getattr(instance, flag, False)
        )


class Parameter(Tensor, metaclass=_FlaggedMeta):
    """A tensor that becomes part of ``module.parameters()`` once it is assigned.

    It shares memory with ``data``.

    Args:
        data: the values; an empty tensor where it is left out.
        requires_grad: whether gradients are accumulated in ``.grad``.

    >>> Parameter(rl.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    _flag = "_is_param"

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = rl.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, Tensor):
            raise AttributeError(
                f"'{type(data).__name__}' object has no attribute 'detach': "
                "Parameter() takes a Tensor"
            )
        # A user's subclass keeps its type and is marked instead.
        tensor = data.detach().requires_grad_(requires_grad)
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            data = self.data.clone(memory_format=rl.preserve_format)
            found = memo[id(self)] = type(self)(data, self.requires_grad)
        return found

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        state = {key: value for key, value in self.__dict__.items()}
        if state:
            arguments = (self.data, self.requires_grad, OrderedDict(), state)
            return _rebuild_parameter_with_state, arguments
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class Buffer(Tensor, metaclass=_FlaggedMeta):
    """A tensor that is registered as a buffer once it is assigned to a module.

    Args:
        data: the values; an empty tensor where it is left out.
        persistent: whether the buffer is part of the module's ``state_dict``.
    """

    _flag = "_is_buffer"

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = rl.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter as ``pickle`` and checkpoints describe it."""
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """Like ``_rebuild_parameter``, with the attributes that users attached."""
    parameter = Parameter(data, requires_grad)
    parameter.__dict__.update(state)
    return parameter

"""Tensors that a module owns: parameters, which are trained, and buffers."""

from __future__ import annotations

from collections import OrderedDict

from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import preserve_format
from rushlight.core.tensor import Tensor
from rushlight.dispatch.disabled import (
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
)
from rushlight.operators import call

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _ParameterMeta(type(Tensor)):
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


class Parameter(Tensor, metaclass=_ParameterMeta):
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
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = call.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, Tensor):
            raise AttributeError(
                f"'{type(data).__name__}' object has no attribute 'detach': "
                "Parameter() takes a Tensor"
            )
        # A user's subclass keeps its type and is marked instead.
        tensor = with_requires_grad(data.detach(), requires_grad)
        if type(tensor) is not type(data):
            kind, other = type(data).__name__, type(tensor).__name__
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {kind} requires that "
                "detach() returns an instance of the same type, but return type "
                f"{other} was found instead. To use the type as a Parameter, please "
                "correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            data = self.data.clone(memory_format=preserve_format)
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


class Buffer(Tensor, metaclass=_ParameterMeta):
    """A tensor that is registered as a buffer once it is assigned to a module.

    Args:
        data: the values; an empty tensor where it is left out.
        persistent: whether the buffer is part of the module's ``state_dict``.
    """

    _flag = "_is_buffer"
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = call.empty(0)
        tensor = with_requires_grad(data.detach(), data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


class UninitializedTensorMixin:
    """What parameters and buffers share whose shape is not known yet."""

    # What can be asked of such a tensor, or done to it.
    _allowed_methods = frozenset(
        """__hash__ size copy_ is_complex is_floating_point half float double char short
        int long cuda cpu to get_device bfloat16 __get__ __set__""".split()
    )
    cls_to_become: type = Tensor

    def materialize(self, shape, device=None, dtype=None):
        """Become a plain parameter or tensor with memory for a shape.

        Args:
            shape: its sizes; the values are whatever the memory holds.
            device, dtype: those of this tensor where they are left out.
        """
        own = self.data
        self.data = call.empty(
            shape,
            device=own.device if device is None else device,
            dtype=own.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        """Not known yet.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error "
            "usually happens in `load_state_dict` when trying to load an uninitialized "
            "parameter into an initialized one. Call `forward` to initialize the "
            "parameters before accessing their attributes."
        )

    def share_memory_(self):
        """There is no memory yet.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` "
            "to initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            own = self.data
            found = type(self)(self.requires_grad, own.device, own.dtype)
            found.__dict__.update(self.__dict__)
            memo[id(self)] = found
        return found

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """Refuse all operations but changes of dtype and device."""
        name = getattr(func, "__name__", None)
        if name in cls._allowed_methods:
            with DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
            return result if name == "__get__" else cls._like(args[0], result)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens "
            "when you are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling "
            "torch functions"
        )

    @classmethod
    def _like(cls, own, result):
        """A converted tensor is one without a shape, as what it was made of."""
        if type(result) is not Tensor or not is_lazy(own):
            return result
        made = Tensor._make_subclass(cls, result, own.requires_grad)
        made.__dict__.update(own.__dict__)
        return made


def is_lazy(param):
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: whether gradients will be accumulated.
        device, dtype: those of the parameter to come.

    >>> parameter = UninitializedParameter()
    >>> parameter.materialize((2, 3))
    >>> type(parameter).__name__, parameter.shape
    ('Parameter', rushlight.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = call.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: whether gradients will be accumulated.
        device, dtype: those of the buffer to come.
        persistent: whether it is part of its module's ``state_dict``.
    """

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = call.empty(0, device=device, dtype=dtype)
        tensor = Tensor._make_subclass(cls, data, requires_grad)
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

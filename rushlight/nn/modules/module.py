"""The base class of all neural-network modules."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict

import rushlight as rl
from rushlight.autograd.hooks import RemovableHandle
from rushlight.autograd.methods import can_show
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.dtypes import bfloat16 as bfloat16_
from rushlight.core.dtypes import float16, float32, float64
from rushlight.core.tensor import Tensor
from rushlight.nn.modules import _state
from rushlight.nn.modules._calling import call, find_member, settle
from rushlight.nn.modules._hooks import (
    WrappedHook,
    call_with_hooks,
    keep_hooks_in,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.parameter import Buffer, Parameter, is_lazy
from rushlight.operators import call as ops

# PyTorch's names, which other programs import from here.
_IncompatibleKeys = _state._IncompatibleKeys
_WrappedHook = WrappedHook

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# PyTorch's names for them, which programs import.
_EXTRA_STATE_KEY_SUFFIX = _state.EXTRA_STATE_KEY_SUFFIX

# The hooks on all modules, by registration number; the functions above fill them.
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
# None until a global backward hook is registered; then whether those are full ones.
_global_is_full_backward_hook = None
keep_hooks_in(sys.modules[__name__])
settle(globals())

_HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _typename(value):
    """The name of a value's type, as messages print it."""
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def _addindent(text, spaces):
    """The text with all lines but the first moved to the right."""
    first, *rest = text.split("\n")
    pad = " " * spaces
    return "\n".join([first, *(pad + line if line.strip() else "" for line in rest)])


def _forward_unimplemented(self, *args):
    """Compute the output; every subclass defines it."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Module:
    """What all layers and models derive from: a tree of parameters and buffers.

    Parameters, buffers and modules that are assigned as attributes are found by
    ``parameters()``, ``state_dict()``, ``to()`` and the like.

    >>> class Doubled(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = Parameter(rl.tensor([2.0]))
    ...     def forward(self, input):
    ...         return input * self.scale
    >>> [name for name, _ in Doubled().named_parameters()]
    ['scale']
    """

    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None
    dump_patches = False

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword "
                    f"argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but "
                    f"{len(args) + 1} were given"
                )
        fields = self.__dict__  # spares __setattr__ and its checks
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            fields[table] = OrderedDict()
        fields["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented
    __call__ = call

    def _watched_call(self, args, kwargs):
        compiled = self._compiled_call_impl
        if compiled is not None:
            return compiled(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def _call_impl(self, *args, **kwargs):
        return call_with_hooks(self, args, kwargs)

    def compile(self, *args, **kwargs):
        """Call the module through ``rushlight.compile`` from now on.

        Args:
            args, kwargs: what ``rushlight.compile`` takes beside the function.

        >>> layer = rl.nn.ReLU()
        >>> layer.compile(backend="eager")
        >>> layer(rl.tensor([-1.0]))
        tensor([0.])
        """
        self._compiled_call_impl = rl.compile(self._call_impl, *args, **kwargs)

    # -- what belongs to the module ------------------------------------------------

    def _check_name(self, kind, name, members):
        """Refuse a name that can't be an attribute holding a member of this kind."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in members and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True):
        """Make a tensor, or None, part of the module without being a parameter.

        Args:
            name: the attribute it is reached by.
            tensor: the buffer; None is kept out of ``state_dict``.
            persistent: whether ``state_dict`` has it.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            changed = hook(self, name, tensor)
            if changed is not None:
                tensor = changed
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Make a ``Parameter``, or None, part of the module.

        Raises:
            ValueError: the parameter was computed, so it is not a leaf.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                "cannot assign parameter before Module.__init__() call"
            )
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model "
                    f"parameters must be created explicitly. To express '{name}' as a "
                    "function of another Tensor, compute the value in the forward() "
                    "method."
                )
            for hook in _global_parameter_registration_hooks.values():
                changed = hook(self, name, param)
                if changed is not None:
                    param = changed
        self._parameters[name] = param

    def add_module(self, name, module):
        """Make another module, or None, a child of this one."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = self._announce_module(name, module)

    def register_module(self, name, module):
        """The same as ``add_module``."""
        self.add_module(name, module)

    def _announce_module(self, name, module):
        for hook in _global_module_registration_hooks.values():
            changed = hook(self, name, module)
            if changed is not None:
                module = changed
        return module

    __getattr__ = find_member

    def __setattr__(self, name, value):
        fields = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in fields:
                raise AttributeError(
                    "cannot assign parameters before Module.__init__() call"
                )
            self._forget(name, fields, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in fields.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in fields:
                raise AttributeError(
                    "cannot assign module before Module.__init__() call"
                )
            self._forget(name, fields, self._parameters, self._buffers)
            self._modules[name] = self._announce_module(name, value)
        elif name in fields.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._modules[name] = self._announce_module(name, value)
        elif name in fields.get("_buffers", ()) or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name, *tables):
        """Free a name of whatever else it stood for."""
        for table in tables:
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _set_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        if persistent:  # subclasses may define register_buffer(name, tensor) only
            self.register_buffer(name, value)
        else:
            self.register_buffer(name, value, persistent=False)

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)  # belongs to this object
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        for table in _HOOK_TABLES:  # pickles of older releases lack some
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def __dir__(self):
        keys = {
            *dir(type(self)),
            *self.__dict__,
            *self._parameters,
            *self._modules,
            *self._buffers,
        }
        return sorted(key for key in keys if not key[:1].isdigit())

    # -- walking the tree -----------------------------------------------------------

    def _named_members(
        self, get_members_fn, prefix="", recurse=True, remove_duplicate=True
    ):
        """Names and members of the modules, each member once unless asked."""
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{module_prefix}.{name}" if module_prefix else name), member

    def parameters(self, recurse=True):
        """Iterate over the parameters, of the children too unless told otherwise."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterate over ``(path, parameter)``, paths being such as ``0.weight``."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse=True):
        """Iterate over the buffers, of the children too unless told otherwise."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterate over ``(name, buffer)``."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self):
        """Iterate over the modules directly below."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """Iterate over ``(name, module)`` directly below, each module once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        """Iterate over this module and all below it, each once or wherever it lies."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Iterate over ``(path, module)``: this module, path ``""``, and all below."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def get_submodule(self, target):
        """The module at a path such as ``layers.0``; ``""`` is this module.

        Raises:
            AttributeError: there is nothing at the path, or no module.
        """
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Put a module at a path; with ``strict`` there must be one already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_member(self, target):
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        return parent, name, getattr(parent, name)

    def get_parameter(self, target):
        """The parameter at a path such as ``layers.0.weight``."""
        _, name, parameter = self._get_member(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target):
        """The buffer at a path such as ``norm.running_mean``."""
        parent, name, buffer = self._get_member(target)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # -- changing all of it -----------------------------------------------------------

    def apply(self, fn):
        """Call ``fn`` with every module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replace every parameter's and buffer's values by ``fn`` of them."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._convert_parameter(name, parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _convert_parameter(self, name, parameter, fn):
        from rushlight import __future__ as choices

        with rl.no_grad():
            converted = fn(parameter)
        if choices.get_swap_module_params_on_conversion():
            self._swap_parameter(name, parameter, converted, fn)
            return
        grad = parameter.grad
        keep = not choices.get_overwrite_module_params_on_conversion()
        if keep and can_show(parameter, converted):
            # The object stays, so optimizers that hold it see the new values.
            parameter.data = converted
            target = parameter
        else:
            target = converted
            if not is_lazy(converted):
                target = Parameter(converted, parameter.requires_grad)
            self._parameters[name] = target
        if grad is not None:
            with rl.no_grad():
                converted = fn(grad)
            same = keep and target is parameter
            if same and can_show(grad, converted):
                grad.data = converted
            else:
                target.grad = converted.requires_grad_(grad.requires_grad)

    def _swap_parameter(self, name, parameter, converted, fn):
        """Give a parameter, and its gradient, the contents of the converted ones."""
        grad, parameter.grad = parameter.grad, None
        new = Parameter(converted, requires_grad=parameter.requires_grad)
        try:
            rl.utils.swap_tensors(parameter, new)
        except Exception as error:
            parameter.grad = grad
            raise RuntimeError(
                f"_apply(): Couldn't swap {self._get_name()}.{name}"
            ) from error
        if grad is not None:
            with rl.no_grad():
                new = fn(grad).requires_grad_(grad.requires_grad)
            rl.utils.swap_tensors(grad, new)
            parameter.grad = grad

    def _replicate_for_data_parallel(self):
        """A module of the same attributes, without parameters."""
        twin = self.__new__(type(self))
        twin.__dict__ = self.__dict__.copy()
        # Names of tensors that are computed become plain attributes of the twin.
        twin._parameters = {}
        twin._buffers = self._buffers.copy()
        twin._modules = self._modules.copy()
        twin._is_replica = True
        return twin

    def to(self, *args, **kwargs):
        """Move and convert parameters and buffers in place.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` or
        ``to(memory_format=...)``; a dtype concerns floating-point tensors only.

        Raises:
            TypeError: the dtype is neither floating point nor complex.
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but "
                    f"got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose "
                    "design may change, and some modules might not work as expected "
                    "when using complex tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(tensor):
            numeric = tensor.is_floating_point() or tensor.is_complex()
            options = {
                "device": device or tensor.device,
                "non_blocking": non_blocking,
                "dtype": dtype if numeric and dtype else tensor.dtype,
            }
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return tensor.to(**options)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different "
                    "device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Move parameters and buffers to a device without copying their values."""
        return self._apply(
            lambda tensor: ops.empty_like(tensor, device=device), recurse=recurse
        )

    def cpu(self):
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device=None):
        """Move all parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self, device=None):
        """Move all parameters and buffers to an Intel GPU: there is none."""
        return self._apply(lambda tensor: tensor.xpu(device))

    def type(self, dst_type):
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _to_floating(self, dtype):
        return self._apply(
            lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor
        )

    def float(self):
        """Convert floating-point parameters and buffers to float32."""
        return self._to_floating(float32)

    def double(self):
        """Convert floating-point parameters and buffers to float64."""
        return self._to_floating(float64)

    def half(self):
        """Convert floating-point parameters and buffers to float16."""
        return self._to_floating(float16)

    def bfloat16(self):
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._to_floating(bfloat16_)

    def share_memory(self):
        """Move parameters and buffers to memory that other processes can map."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def train(self, mode=True):
        """Set training mode, which dropout and normalisation look at, in the tree.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Set whether autograd records operations on the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    # -- state -------------------------------------------------------------------------

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers, by path.

        Args:
            destination: the dictionary to fill; a new one where it is left out.
            prefix: put before every key.
            keep_vars: whether to hand out the tensors themselves, not detached.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn."
                "Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            if len(args) > 1 and prefix == "":
                prefix = args[1]
            if len(args) > 2 and keep_vars is False:
                keep_vars = args[2]
        return _state.save(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy a saved state into this module and its children.

        Args:
            state_dict: what ``state_dict()`` returned.
            strict: whether the keys must be exactly this module's.
            assign: take the tensors themselves instead of copying their values.

        Returns:
            The missing and the unexpected keys.

        Raises:
            RuntimeError: lists every key and shape that does not fit.
        """
        return _state.load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        _state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict,
        prefix,
        local_metadata,
        strict,
        missing_keys,
        unexpected_keys,
        error_msgs,
    ):
        _state.load_own(
            self,
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    @_state.by_default
    def get_extra_state(self):
        """What else ``state_dict`` keeps; overridden together with its setter."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be "
            "called."
        )

    @_state.by_default
    def set_extra_state(self, state):
        """Take back what ``get_extra_state`` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be "
            "called."
        )

    # -- hooks -------------------------------------------------------------------------

    def _add_hook(self, hooks, hook, prepend=False, flags=()):
        """Register a hook, and a mark in each table of ``flags`` that asks for it."""
        marked = [table for table, wanted in flags if wanted]
        handle = RemovableHandle(hooks, extra_dict=[table for table, _ in flags])
        hooks[handle.id] = hook
        for table in marked:
            table[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call ``hook(module, args)`` before ``forward``; it may return others."""
        flags = [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        return self._add_hook(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self, hook, *, prepend=False, with_kwargs=False, always_call=False
    ):
        """Call ``hook(module, args, output)`` after ``forward``; it may return another.

        Args:
            prepend: run it before the hooks that are there already.
            with_kwargs: call ``hook(module, args, kwargs, output)``.
            always_call: call it even if ``forward`` raised.
        """
        flags = [
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        ]
        return self._add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call ``hook(module, grad_output)`` once the outputs' gradients are known."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Call ``hook(module, grad_input, grad_output)`` in backward.

        What it returns, unless None, replaces the gradients of the inputs.
        """
        self._choose_hook_kind(True)
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """Call ``hook(module, grad_input, grad_output)`` at the last node of forward.

        ``register_full_backward_hook`` sees the gradients of the whole module.
        """
        self._choose_hook_kind(False)
        return self._add_hook(self._backward_hooks, hook)

    def _choose_hook_kind(self, full):
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _register_state_dict_hook(self, hook):
        """A post-hook whose result, at the root, replaces the whole dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that "
                "was previously registered via register_state_dict_post_hook"
            )
        return self._add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after saving."""
        hook._from_public_api = True
        return self._add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Call ``hook(module, prefix, keep_vars)`` before saving."""
        return self._add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        wrapped = WrappedHook(hook, self if with_module else None)
        return self._add_hook(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_pre_hook(self, hook):
        """Call ``hook(module, state_dict, prefix, ...)`` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Call ``hook(module, incompatible_keys)`` after loading; it may edit them."""
        return self._add_hook(self._load_state_dict_post_hooks, hook)

    # -- printing ----------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What is printed between the brackets of the module's name."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        alone = len(lines) == 1 and not self._modules
        for name, module in self._modules.items():
            lines.append(f"({name}): {_addindent(repr(module), 2)}")
        if alone:
            inside = lines[0]
        else:
            inside = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({inside})"


def _parse_to(args, kwargs):
    """Device, dtype, non_blocking and memory format out of the forms of ``to``."""
    values = dict(kwargs)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        values.update(device=other.device, dtype=other.dtype)
    elif rest and isinstance(rest[0], DType):
        values["dtype"] = rest.pop(0)
    elif rest:
        values["device"] = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], DType)):
            values["dtype"] = rest.pop(0)
    if "tensor" in values:
        other = values.pop("tensor")
        values.update(device=other.device, dtype=other.dtype)
    if rest:
        values["non_blocking"] = rest.pop(0)
    device = values.pop("device", None)
    if device is not None and not isinstance(device, Device):
        device = Device(device)
    found = (
        device,
        values.pop("dtype", None),
        values.pop("non_blocking", False),
        values.pop("memory_format", None),
    )
    values.pop("copy", None)
    if values or len(rest) > 1:
        raise TypeError(
            "to() received an invalid combination of arguments; expected (device, "
            "dtype, non_blocking), (dtype, non_blocking) or (tensor, non_blocking)"
        )
    return found

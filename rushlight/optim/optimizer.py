"""The base class of all optimizers: parameter groups, state, hooks."""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import rushlight as rl
from rushlight.autograd.hooks import registered
from rushlight.autograd.profiler import record_function
from rushlight.core import spans
from rushlight.core.tensor import Tensor
from rushlight.dispatch.python_key import listening

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


class _Required:
    """Stands in ``defaults`` for an option without a default."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook):
    """Call ``hook(optimizer, args, kwargs)`` before every optimizer's step."""
    return registered(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Call ``hook(optimizer, args, kwargs)`` after every optimizer's step."""
    return registered(_global_post_hooks, hook)


# For annotations: tensors, pairs of a name and a tensor, or groups of them.
StateDict = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[dict] | Iterable[tuple[str, Tensor]]


def _use_grad_for_differentiable(func):
    """A ``step`` that autograd records if the optimizer is differentiable."""

    @functools.wraps(func)
    def step(*args, **kwargs):
        with rl.set_grad_enabled(bool(args[0].defaults["differentiable"])):
            return func(*args, **kwargs)

    return step


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """Whether to step with one kernel, or by lists of tensors; on the CPU by neither."""
    fused = (
        not differentiable
        and use_fused
        and all(each is None or each.is_floating_point() for each in params)
    )
    return fused, False


def _get_capturable_supported_devices(supports_xla=True):
    """The devices whose steps can be recorded."""
    devices = ["cuda", "xpu", "hpu", "privateuseone"]
    return [*devices, "xla"] if supports_xla else devices


class Optimizer:
    """What all optimizers share.

    Args:
        params: tensors, ``(name, tensor)`` pairs, or a dict with options for each
            group of them.
        defaults: the options of groups that don't set them.

    A subclass defines ``step``.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        for table in _HOOK_TABLES:
            setattr(self, table, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of "
                f"Tensors or dicts, but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self):
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state):
        self.__dict__.update(state)
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines += [""] * (index > 0)
            lines.append(f"Parameter Group {index}")
            lines += [
                f"    {key}: {group[key]}" for key in sorted(group) if key != "params"
            ]
        return "\n".join(lines) + "\n)"

    @staticmethod
    def profile_hook_step(func):
        """``func``, a ``step``, with the registered hooks around it."""

        @functools.wraps(func)
        def step(*args, **kwargs):
            self = args[0]
            if spans.is_recording():
                return _step_as_span(func, self, args, kwargs)
            if listening():
                with _named_span(self, "step"):
                    return _step_with_hooks(func, self, args, kwargs)
            if not (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_pre_hooks
                or _global_post_hooks
            ):
                return func(*args, **kwargs)
            return _step_with_hooks(func, self, args, kwargs)

        return step

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        """Lists of tensors, split by device and dtype, and where they stood."""
        groups: dict = {}
        for index, row in enumerate(zip(*tensorlistlist)):
            head = next(each for each in row if each is not None)
            lists, element_indices = groups.setdefault(
                (head.device, head.dtype), ([[] for _ in row], [])
            )
            for target, each in zip(lists, row):
                target.append(each)
            if with_indices:
                element_indices.append(index)
        return groups

    def _patch_step_function(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def register_step_pre_hook(self, hook):
        """Call ``hook(optimizer, args, kwargs)`` before each step."""
        return registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Call ``hook(optimizer, state_dict)``; what it returns replaces the dict."""
        return registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Call ``hook(optimizer, state_dict)`` before loading; it may replace it."""
        return registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Call ``hook(optimizer)`` after loading."""
        return registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self):
        """The state and the options, with numbers in place of the parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            start = sum(len(each["params"]) for each in groups)
            for index, parameter in enumerate(group["params"], start):
                numbers.setdefault(id(parameter), index)
            packed["params"] = [numbers[id(each)] for each in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict):
        """Take over what ``state_dict`` returned.

        State tensors are cast to their parameter's dtype, but for ``step``.

        Raises:
            ValueError: groups differ in number or size.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        _check_groups(self.param_groups, saved)
        parameters = dict(
            zip(
                chain.from_iterable(group["params"] for group in saved),
                chain.from_iterable(group["params"] for group in self.param_groups),
            )
        )
        state = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in parameters:
                parameter = parameters[number]
                state[parameter] = _cast(
                    parameter, value, _is_fused(number, state_dict["param_groups"])
                )
            else:
                state[number] = value
        for group, new in zip(self.param_groups, saved):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none=True):
        """Forget the gradients of all parameters, or fill them with zeros."""
        if spans.is_recording() or listening():
            with _named_span(self, "zero_grad"):
                _forget_gradients(self, set_to_none)
        else:
            _forget_gradients(self, set_to_none)

    def step(self, closure=None):
        """Change the parameters once; every subclass defines it.

        Args:
            closure: computes the loss anew and returns it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no step()")

    def add_param_group(self, param_group):
        """Add a group of parameters, a dict with ``params`` and options.

        Raises:
            ValueError: a parameter is no leaf, or belongs to another group.
            TypeError: something in the group is no tensor, or has no order.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _list_params(param_group)
        for parameter in param_group["params"]:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + type(parameter).__name__
                )
            if not self.defaults.get("differentiable") and not (
                parameter.is_leaf or parameter.retains_grad
            ):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        self._check_unique(param_group)
        self.param_groups.append(param_group)

    def _check_unique(self, param_group):
        numbers = {id(each) for each in param_group["params"]}
        if len(numbers) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in "
                "future, this will cause an error; see "
                "github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot "
                    f"add param group {'with' if named else 'without'} names to the "
                    "optimizer"
                )
            if not numbers.isdisjoint(id(each) for each in group["params"]):
                raise ValueError(
                    "some parameters appear in more than one parameter group"
                )


def _named_span(optimizer, what):
    """A block under the name that profilers and handlers see."""
    return record_function(f"Optimizer.{what}#{type(optimizer).__name__}.{what}")


def _forget_gradients(optimizer, set_to_none):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if set_to_none:
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is not None:
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()


def _step_as_span(func, optimizer, args, kwargs):
    """A step under the name that profilers show, with its hooks."""
    with _named_span(optimizer, "step"):
        return _step_with_hooks(func, optimizer, args, kwargs)


def _step_with_hooks(func, optimizer, args, kwargs):
    pre_hooks = (
        *_global_pre_hooks.values(),
        *optimizer._optimizer_step_pre_hooks.values(),
    )
    for hook in pre_hooks:
        changed = hook(optimizer, args, kwargs)
        if changed is None:
            continue
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(
                f"{func} must return None or a tuple of (new_args, new_kwargs), but "
                f"got {changed}."
            )
        args, kwargs = changed
    result = func(*args, **kwargs)
    for hook in (
        *optimizer._optimizer_step_post_hooks.values(),
        *_global_post_hooks.values(),
    ):
        hook(optimizer, args, kwargs)
    return result


def _list_params(group):
    """Make ``params`` a list of tensors; names, if any, go to ``param_names``."""
    params = group["params"]
    if isinstance(params, Tensor):
        params = [params]
    elif isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the "
            "ordering of tensors in sets will change between runs. Please use a list "
            "instead."
        )
    params = list(params)
    names = [each[0] for each in params if isinstance(each, tuple)]
    group["params"] = [each[1] if isinstance(each, tuple) else each for each in params]
    if names:
        if len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names "
                "are missing"
            )
        group["param_names"] = names


def _check_groups(groups, saved):
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    for group, other in zip(groups, saved):
        if len(group["params"]) != len(other["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the "
                "size of optimizer's group"
            )


def _is_fused(number, groups):
    for group in groups:
        if number in group["params"]:
            return bool(group.get("fused") or group.get("capturable"))
    return False


def _cast(parameter, value, fused, key=None):
    """Saved state as this parameter's state: its dtype and device."""
    if isinstance(value, Tensor):
        if key == "step":
            if fused:
                return value.to(dtype=rl.float32, device=parameter.device)
            return value
        if parameter.is_floating_point():
            return value.to(dtype=parameter.dtype, device=parameter.device)
        return value.to(device=parameter.device)
    if isinstance(value, dict):
        return {
            name: _cast(parameter, each, fused, name) for name, each in value.items()
        }
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_cast(parameter, each, fused) for each in value)
    return value

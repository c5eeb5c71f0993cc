"""Running a module whose call is watched: forward hooks and backward hooks."""

import functools
import warnings
import weakref
from typing import Any

from rushlight.autograd.hooks import RemovableHandle, registered
from rushlight.core.tensor import Tensor
from rushlight.nn.modules._backward_hook import BackwardHook

_home: Any = None


def keep_hooks_in(module):
    """Names the module whose ``_global_…`` names hold the hooks; programs may replace them."""
    global _home
    _home = module


def register_module_buffer_registration_hook(hook):
    """Call ``hook(module, name, buffer)`` at every ``register_buffer``.

    What it returns, unless it is None, is registered instead.
    """
    return registered(_home._global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Call ``hook(module, name, submodule)`` at every ``register_module``."""
    return registered(_home._global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Call ``hook(module, name, parameter)`` at every ``register_parameter``."""
    return registered(_home._global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Call ``hook(module, args)`` before the forward of every module."""
    return registered(_home._global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call ``hook(module, args, output)`` after the forward of every module."""
    handle = RemovableHandle(
        _home._global_forward_hooks,
        extra_dict=[
            _home._global_forward_hooks_with_kwargs,
            _home._global_forward_hooks_always_called,
        ],
    )
    _home._global_forward_hooks[handle.id] = hook
    if with_kwargs:
        _home._global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _home._global_forward_hooks_always_called[handle.id] = True
    return handle


def _choose_global_kind(full):
    if _home._global_is_full_backward_hook not in (None, full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a "
            "global Module hook. Please use only one of them."
        )
    _home._global_is_full_backward_hook = full


def register_module_backward_hook(hook):
    """Call ``hook(module, grad_input, grad_output)`` at each module's last node.

    ``register_module_full_backward_hook`` sees the gradients of the whole module.
    """
    _choose_global_kind(False)
    return registered(_home._global_backward_hooks, hook)


def register_module_full_backward_hook(hook):
    """Call ``hook(module, grad_input, grad_output)`` in every module's backward."""
    _choose_global_kind(True)
    return registered(_home._global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """Call ``hook(module, grad_output)`` before every module's backward."""
    return registered(_home._global_backward_pre_hooks, hook)


class WrappedHook:
    """A hook that is handed the module it belongs to, held weakly."""

    def __init__(self, hook, module=None):
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError(
                    "You are trying to revive the hook of a dead Module!"
                )
            self.module = weakref.ref(state["module"])


def call_with_hooks(module, args, kwargs):
    """What ``module(*args, **kwargs)`` gives when any hook is registered."""
    called = set()
    partial = [args, kwargs, None]
    try:
        return _call(module, args, kwargs, called, partial)
    except Exception:
        _run_always_called(module, called, *partial)
        raise


def _call(module, args, kwargs, called, partial):
    """The watched call; ``partial`` keeps how far it came for always-called hooks."""
    pre_hooks = [
        *_home._global_backward_pre_hooks.values(),
        *module._backward_pre_hooks.values(),
    ]
    full_hooks, plain_hooks = _backward_hooks(module)
    if _home._global_forward_pre_hooks or module._forward_pre_hooks:
        args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
        partial[:2] = args, kwargs
    watch = None
    if full_hooks or pre_hooks:
        watch = BackwardHook(module, full_hooks, pre_hooks)
        args = partial[0] = watch.setup_input_hook(args)
    result = partial[2] = module.forward(*args, **kwargs)
    if _home._global_forward_hooks or module._forward_hooks:
        result = _run_forward_hooks(module, args, kwargs, result, called)
        partial[2] = result
    if watch is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or "
                f"a tuple of Tensors but received {type(result)}",
                stacklevel=4,
            )
        result = watch.setup_output_hook(result)
    if plain_hooks:
        _hook_last_node(module, args, result, plain_hooks)
    return result


def _backward_hooks(module):
    """The full and the older, node-bound backward hooks that apply to ``module``."""
    full, plain = [], []
    if _home._global_backward_hooks:
        target = full if _home._global_is_full_backward_hook else plain
        target.extend(_home._global_backward_hooks.values())
    if module._backward_hooks:
        target = full if module._is_full_backward_hook else plain
        target.extend(module._backward_hooks.values())
    return full, plain


def _run_forward_pre_hooks(module, args, kwargs):
    with_kwargs = module._forward_pre_hooks_with_kwargs
    hooks = (
        *_home._global_forward_pre_hooks.items(),
        *module._forward_pre_hooks.items(),
    )
    for number, hook in hooks:
        if number in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of "
                    f"(new_args, new_kwargs), but got {changed}."
                )
            args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _run_forward_hooks(module, args, kwargs, result, called):
    hooks = (*_home._global_forward_hooks.items(), *module._forward_hooks.items())
    for number, hook in hooks:
        if (
            number in module._forward_hooks_always_called
            or number in _home._global_forward_hooks_always_called
        ):
            called.add(number)
        if (
            number in module._forward_hooks_with_kwargs
            or number in _home._global_forward_hooks_with_kwargs
        ):
            changed = hook(module, args, kwargs, result)
        else:
            changed = hook(module, args, result)
        if changed is not None:
            result = changed
    return result


def _run_always_called(module, called, args, kwargs, result):
    """Run the hooks that asked for it although the forward failed."""
    rows = (
        (
            "global module",
            _home._global_forward_hooks,
            _home._global_forward_hooks_always_called,
            _home._global_forward_hooks_with_kwargs,
        ),
        (
            "module",
            module._forward_hooks,
            module._forward_hooks_always_called,
            module._forward_hooks_with_kwargs,
        ),
    )
    for owner, hooks, always, with_kwargs in rows:
        for number, hook in hooks.items():
            if number not in always or number in called:
                continue
            try:
                if number in with_kwargs:
                    changed = hook(module, args, kwargs, result)
                else:
                    changed = hook(module, args, result)
                if changed is not None:
                    result = changed
            except Exception as error:
                warnings.warn(
                    f"{owner} forward hook with ``always_call=True`` raised an "
                    "exception that was silenced as another error was raised in "
                    f"forward: {error}",
                    stacklevel=4,
                )


def _hook_last_node(module, args, result, hooks):
    """Attach the older kind of backward hooks to the node that made the output."""
    output = result
    while not isinstance(output, Tensor):
        if isinstance(output, dict):
            output = next(v for v in output.values() if isinstance(v, Tensor))
        else:
            output = output[0]
    node = output.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(WrappedHook(hook, module))
    _warn_about_partial_gradients(args, result, node)


def _warn_about_partial_gradients(args, result, node):
    """Say when a hook on the last node can't see the module's whole gradient."""
    outputs = result if isinstance(result, tuple) else (result,)
    advice = " Please use register_full_backward_hook to get the documented behavior."
    for values, verb, part in (
        (outputs, "return", "grad_output"),
        (args, "take as input", "grad_input"),
    ):
        if not all(isinstance(each, Tensor) for each in values):
            warnings.warn(
                f"Using non-full backward hooks on a Module that does not {verb} a "
                "single Tensor or a tuple of Tensors is deprecated and will be removed "
                f"in future versions. This hook will be missing some of the {part}."
                + advice,
                FutureWarning,
                stacklevel=6,
            )
            return
    made = {each.grad_fn for each in outputs if each.grad_fn is not None}
    given = {each.grad_fn for each in args if each.grad_fn is not None}
    if len(made) < 2 and node not in made:
        reason, part, advice = (
            "outputs are nested in python data structure",
            "output",
            "",
        )
    elif len(made) > 1:
        reason, part = "outputs are generated by different autograd Nodes", "output"
    elif given != {above for above, _ in node.next_functions}:
        reason, part = "the forward contains multiple autograd Nodes", "input"
    else:
        return
    warnings.warn(
        f"Using a non-full backward hook when {reason} is deprecated and will be removed "
        f"in future versions. This hook will be missing some grad_{part}.{advice}",
        FutureWarning,
        stacklevel=6,
    )

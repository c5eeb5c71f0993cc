"""Writing a module's state into a dictionary, and reading it back."""

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from rushlight.__future__ import get_swap_module_params_on_conversion
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.utils._swap import swap_tensors

EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(
    namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])
):
    """The keys that a model and a loaded state did not share."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def save(module, destination, prefix, keep_vars):
    """Add the module's and its children's tensors to ``destination``."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
    for hook in module._state_dict_hooks.values():
        changed = hook(module, destination, prefix, metadata)
        if changed is None:
            continue
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("state_dict post-hook must return None")
        destination = changed
    return destination


def save_own(module, destination, prefix, keep_vars):
    """Add the tensors that the module itself holds, not its children's."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            destination[prefix + name] = parameter if keep_vars else parameter.detach()
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            destination[prefix + name] = buffer if keep_vars else buffer.detach()
    if _overrides(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE_KEY_SUFFIX] = module.get_extra_state()


def by_default(method):
    """Marks a method of ``Module`` that there is nothing to save without overriding."""
    method.says_nothing = True
    return method


def _overrides(module, name):
    return not getattr(getattr(type(module), name), "says_nothing", False)


def load(module, state_dict, strict, assign):
    """Copy a saved state into the module; all faults are raised as one error."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)  # hooks may change the copy
    if metadata is not None:
        state_dict._metadata = metadata
    missing, unexpected, faults = [], [], []
    _load_tree(module, state_dict, "", metadata, assign, missing, unexpected, faults)
    if strict:
        if unexpected:
            names = ", ".join(f'"{key}"' for key in unexpected)
            faults.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
        if missing:
            names = ", ".join(f'"{key}"' for key in missing)
            faults.insert(0, f"Missing key(s) in state_dict: {names}. ")
    if faults:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t"
            + "\n\t".join(faults)
        )
    return _IncompatibleKeys(missing, unexpected)


def _load_tree(
    module, state_dict, prefix, metadata, assign, missing, unexpected, faults
):
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(
        state_dict, prefix, local_metadata, True, missing, unexpected, faults
    )
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {
                key: value for key, value in state_dict.items() if key.startswith(below)
            }
            _load_tree(
                child, part, below, metadata, assign, missing, unexpected, faults
            )
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                "expected to return new values, if incompatible_keys need to be "
                "modified, it should be done inplace."
            )


def load_own(
    module, state_dict, prefix, local_metadata, strict, missing, unexpected, faults
):
    """Copy the tensors that the module itself holds, and note what does not fit."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing, unexpected, faults)
    members = {name: each for name, each in _own_members(module) if each is not None}
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, current in members.items():
        key = prefix + name
        if key in state_dict:
            fault = _load_one(module, name, key, current, state_dict[key], assign)
            if fault:
                faults.append(fault)
        elif strict:
            missing.append(key)
    _load_extra_state(
        module, state_dict, prefix + EXTRA_STATE_KEY_SUFFIX, strict, missing, unexpected
    )
    if strict:
        _note_unexpected(module, state_dict, prefix, members, unexpected)


def _own_members(module):
    yield from module._parameters.items()
    for name, buffer in module._buffers.items():
        if name not in module._non_persistent_buffers_set:
            yield name, buffer


def _load_one(module, name, key, current, loaded, assign):
    """Copy or assign one tensor; what is wrong with it, or None."""
    if not isinstance(loaded, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or '
            f"Tensor-like object from checkpoint but received {type(loaded)}"
        )
    lazy = is_lazy(current)  # then both are without shapes
    if not lazy and current.ndim == 0 and tuple(loaded.shape) == (1,):
        loaded = loaded[0]  # files of very old releases hold scalars so
    if not lazy and loaded.shape != current.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {loaded.shape} "
            f"from checkpoint, the shape in current model is {current.shape}."
        )
    if current.is_meta and not loaded.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
            "parameter in the current model, which is a no-op. (Did you mean to pass "
            "`assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            stacklevel=6,
        )
    try:
        with no_grad():
            if get_swap_module_params_on_conversion():
                _swap_in(current, loaded, assign)
            elif assign:
                setattr(module, name, _as_member(loaded, current))
            else:
                current.copy_(loaded)
    except Exception as error:  # every fault belongs into the one report
        return (
            f'While copying the parameter named "{key}", whose dimensions in the '
            f"model are {current.size()} and whose dimensions in the checkpoint "
            f"are {loaded.size()}, an exception occurred : {error.args}."
        )
    return None


def _swap_in(current, loaded, assign):
    """Swap the current tensor with what it says that loading makes of it."""
    new = current.module_load(loaded, assign=assign)
    if new is loaded or new is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if "
            "returning one of the inputs in module_load"
        )
    if isinstance(current, Parameter):
        if not isinstance(new, Parameter):
            new = Parameter(new, requires_grad=current.requires_grad)
        else:
            new.requires_grad_(current.requires_grad)
    swap_tensors(current, new)


def _as_member(loaded, current):
    """The loaded tensor in the role of the current one, which lends requires_grad."""
    if not isinstance(current, Parameter):
        return loaded
    if isinstance(loaded, Parameter):
        return loaded.requires_grad_(current.requires_grad)
    return Parameter(loaded, requires_grad=current.requires_grad)


def _load_extra_state(module, state_dict, key, strict, missing, unexpected):
    if _overrides(module, "set_extra_state"):
        if key in state_dict:
            module.set_extra_state(state_dict[key])
        elif strict:
            missing.append(key)
    elif strict and key in state_dict:
        unexpected.append(key)


def _note_unexpected(module, state_dict, prefix, members, unexpected):
    extra_key = prefix + EXTRA_STATE_KEY_SUFFIX
    for key in state_dict:
        if not key.startswith(prefix) or key == extra_key:
            continue
        head, *rest = key[len(prefix) :].split(".", 1)
        if head not in (module._modules if rest else members):
            unexpected.append(key)

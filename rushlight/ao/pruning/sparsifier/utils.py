"""Modules and tensors of a model by name, and the parametrization that masks a tensor."""

from itertools import chain

from rushlight import nn
from rushlight.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_contains_param",
    "module_to_fqn",
    "swap_module",
]


def module_contains_param(module, parametrization):
    """Whether a tensor of a module goes through a parametrization of a type."""
    if not is_parametrized(module):
        return False
    found = chain.from_iterable(module.parametrizations.values())
    return any(isinstance(each, parametrization) for each in found)


def swap_module(mod, mapping):
    """What a mapping makes of a module by ``from_dense``, with its hooks, on its device.

    Args:
        mod: the module; it is returned where its type is not in the mapping.
        mapping: from types of modules to types that have ``from_dense``.
    """
    kind = type_before_parametrizations(mod)
    if kind not in mapping:
        return mod
    made = mapping[kind].from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        made.register_forward_hook(hook)
    devices = {each.device for each in chain(mod.parameters(), mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(
            "swap_module only works with cpu or single-device CUDA modules, but got "
            f"devices {devices}"
        )
    return made.to(*devices) if devices else made


def module_to_fqn(model, module, prefix=""):
    """The name of a module in a model, or None.

    >>> module_to_fqn(model := nn.Sequential(nn.Sequential(nn.ReLU())), model[0][0])
    '0.0'
    """
    if module is model:
        return ""
    for name, child in model.named_children():
        found = module_to_fqn(child, module, ".")
        if found is not None:
            return prefix + name + found
    return None


def fqn_to_module(model, path):
    """The module or tensor of a name, or None.

    >>> fqn_to_module(nn.Sequential(nn.Linear(2, 3)), "0.weight").shape
    rushlight.Size([3, 2])
    """
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model, tensor_fqn):
    """The module of a tensor, its name and the tensor's, by the name of both.

    >>> get_arg_info_from_tensor_fqn(nn.Sequential(nn.ReLU()), "0.weight")["tensor_name"]
    'weight'
    """
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }


class FakeSparsity(nn.Module):
    """A parametrization: a tensor times a mask, which states of the model leave out.

    Args:
        mask: of the tensor's shape. Its contents may change; the tensor stays the same.
    """

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape != x.shape:
            raise AssertionError(
                f"mask shape ({self.mask.shape}) must match x shape ({x.shape})"
            )
        return self.mask * x

    def state_dict(self, *args, **kwargs):
        """Nothing: the sparsifier's state has the mask."""
        return {}

"""Modules that follow one another made one, by their names in a model."""

import copy

from rushlight import nn
from rushlight.ao.quantization.fuser_method_mappings import (
    fuse_conv_bn,
    fuse_conv_bn_relu,
    get_fuser_method,
)
from rushlight.ao.quantization.utils import getattr_from_fqn
from rushlight.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "fuse_conv_bn",
    "fuse_conv_bn_relu",
    "fuse_known_modules",
    "fuse_modules",
    "fuse_modules_qat",
]


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """The module that some become, and what stands in the places of the others.

    Raises:
        AssertionError: nothing makes such modules one.
    """
    types = tuple(map(type_before_parametrizations, mod_list))
    fused = get_fuser_method(types, additional_fuser_method_mapping)(is_qat, *mod_list)
    first, last = mod_list[0], mod_list[-1]
    for hook in first._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    first._forward_pre_hooks.clear()
    for hook in last._forward_hooks.values():
        fused.register_forward_hook(hook)
    last._forward_hooks.clear()
    others = [nn.Identity() for _ in mod_list[1:]]
    for other in others:
        other.training = first.training
    return [fused, *others]


def _fuse(model, names, is_qat, fuser_func, settings):
    found = [getattr_from_fqn(model, name) for name in names]
    known = (settings or {}).get("additional_fuser_method_mapping", {})
    for name, module in zip(names, fuser_func(found, is_qat, known)):
        parent, _, last = name.rpartition(".")
        setattr(getattr_from_fqn(model, parent) if parent else model, last, module)


def _fuse_modules(model, modules_to_fuse, is_qat, inplace, fuser_func, settings):
    if not inplace:
        model = copy.deepcopy(model)
    groups = modules_to_fuse
    if all(isinstance(name, str) for name in groups):
        groups = [groups]
    for names in groups:
        _fuse(model, names, is_qat, fuser_func, settings)
    return model


def fuse_modules(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
    fuse_custom_config_dict=None,
):  # fmt: skip
    """A model with some modules made one: for inference.

    Args:
        model: the model.
        modules_to_fuse: names of modules that follow one another, or lists of such.
        inplace: whether the model itself is changed.
        fuser_func: makes them one.
        fuse_custom_config_dict: ``additional_fuser_method_mapping``.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    >>> type(fuse_modules(model, ["0", "1"])[0]).__name__
    'LinearReLU'
    """
    settings = fuser_func, fuse_custom_config_dict
    return _fuse_modules(model, modules_to_fuse, False, inplace, *settings)


def fuse_modules_qat(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
    fuse_custom_config_dict=None,
):  # fmt: skip
    """A model with some modules made one: for training.

    Args:
        model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict: as for
            `fuse_modules`.
    """
    settings = fuser_func, fuse_custom_config_dict
    return _fuse_modules(model, modules_to_fuse, True, inplace, *settings)

"""What all sparsifiers share: which tensors they mask, their state, and how masks go."""

import abc
import copy
from collections import defaultdict

import rushlight as rl
from rushlight import nn
from rushlight.ao.pruning.sparsifier.utils import (
    FakeSparsity,
    get_arg_info_from_tensor_fqn,
    module_contains_param,
    module_to_fqn,
    swap_module,
)
from rushlight.nn.utils import parametrize

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES = {nn.Linear}
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Masks tensors of a model; a subclass says by `update_mask` what they mask.

    Args:
        defaults: what tensors are masked by whose configuration does not say.

    Attributes:
        state: by the name of a tensor its mask.
        groups: the configuration of each tensor.
        enable_mask_update: whether `step` does anything.
    """

    def __init__(self, defaults=None):
        super().__init__()
        self.defaults = defaults or {}
        self.state = defaultdict(dict)
        self.groups = []
        self.enable_mask_update = True

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.groups):
            lines = [f"\tGroup {number}", f"\t    module: {group['module']}"]
            lines += [f"\t    {k}: {group[k]}" for k in sorted(group) if k != "module"]
            text += "".join(["\n", *(f"{line}\n" for line in lines)])
        return text + ")"

    def state_dict(self):
        """Masks, and configurations without modules."""
        groups = [
            {k: v for k, v in group.items() if k not in KEYS_NOT_IN_STATE_DICT}
            for group in self.groups
        ]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict, strict=True):
        """Takes masks and configurations, for the model that was prepared.

        Args:
            state_dict: as `state_dict` gives it; its masks are taken out.
            strict: whether a tensor that the model lacks is an error.

        Raises:
            RuntimeError: the model lacks a tensor.
        """
        groups, states = copy.deepcopy(state_dict["groups"]), state_dict["state"]
        for tensor_fqn, state in states.items():
            found = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            if strict and found["module"] is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model")
            mask = _mask_of(found["module"], found["tensor_name"])
            if state.get("mask") is not None:
                mask.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(found)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(self, model, SUPPORTED_MODULES=SUPPORTED_MODULES):
        """Configures the weights of all modules of some types."""
        self.config, stack = [], [model]
        while stack:
            for _, child in stack.pop().named_children():
                if type(child) in SUPPORTED_MODULES:
                    name = module_to_fqn(model, child)
                    self.config.append({"tensor_fqn": f"{name}.weight"})
                else:
                    stack.append(child)

    def prepare(self, model, config):
        """Has tensors of a model go through masks; the model is changed.

        Args:
            model: the model.
            config: a dict for each tensor, with its name as ``tensor_fqn`` and what is
                other than the defaults; None for the weights of all linear layers.
        """
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for given in self.config:
            if not isinstance(given, dict):
                raise AssertionError(
                    "config elements should be dicts not modules i.e.:"
                    "[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]"
                )
            group = {**copy.deepcopy(self.defaults), **given}
            if group.get("tensor_fqn") is None:
                raise AssertionError(
                    "tensor_fqn is a required argument in the sparsity config which "
                    "replaces previous `module` and [module]`fqn` arguments"
                )
            found = get_arg_info_from_tensor_fqn(model, group["tensor_fqn"])
            for key, value in found.items():
                if key in group and group[key] not in (value, f".{value}"):
                    raise AssertionError(
                        f"Given both `{key}` and `tensor_fqn` in the config, it is "
                        "expected them to agree!"
                    )
            self.groups.append({**group, **found})
        self._prepare()

    def _prepare(self, *args, **kwargs):
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask", rl.ones_like(getattr(module, name)))
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, name, kind(mask))

    def squash_mask(
        self, params_to_keep=None, params_to_keep_per_layer=None, *args, **kwargs
    ):
        """Writes masked tensors into the model, which then has no masks.

        Args:
            params_to_keep: keys of configurations that modules keep as ``sparse_params``.
            params_to_keep_per_layer: the same by the names of modules.
        """
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            of_layer = (params_to_keep_per_layer or {}).get(group["module_fqn"]) or ()
            kept = {key: group[key] for key in (*(params_to_keep or ()), *of_layer)}
            if kept:
                module.sparse_params = kept

    def convert(
        self, module, mapping=None, inplace=False, parameterization=FakeSparsity
    ):
        """Replaces modules with masks by those that a mapping makes ``from_dense``.

        Args:
            module: the model.
            mapping: from types of modules to types.
            inplace: whether the model itself is changed.
            parameterization: the type of masks.

        Raises:
            NotImplementedError: there is no mapping.
        """
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            known = type_of(child) in mapping
            if known and module_contains_param(child, parameterization):
                module._modules[name] = swap_module(child, mapping)
            else:
                module._modules[name] = self.convert(
                    child, mapping, True, parameterization
                )
        return module

    def step(self, use_path=True):
        """Finds all masks anew."""
        if not self.enable_mask_update:
            return
        with rl.no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module, tensor_name, **kwargs):
        """Finds the mask of a tensor of a module, by its configuration."""


type_of = parametrize.type_before_parametrizations


def _mask_of(module, name):
    """The mask that a tensor goes through; one that leaves all where there is none."""
    for found in module.parametrizations[name]:
        if isinstance(found, FakeSparsity):
            return found
    made = FakeSparsity(rl.ones(getattr(module, name).shape))
    parametrize.register_parametrization(module, name, made)
    return made

"""Weights as a length and a direction, by a hook: the older of the two ways."""

import warnings

from rushlight.nn.parameter import Parameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def _lengths(v, dim):
    """The norm over all dimensions but one; over all, where that is None."""
    if dim is None or dim == -1:
        return v.norm()
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v.norm(2, others, keepdim=True) if others else v.abs()


class WeightNorm:
    """Computes a weight before each call of its module.

    Args:
        name: the weight's.
        dim: the dimension along which there are several lengths; None for one.
    """

    def __init__(self, name, dim):
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module):
        """The weight of the length and the direction that the module has."""
        g = getattr(module, self.name + "_g")
        v = getattr(module, self.name + "_v")
        return v * (g / _lengths(v, self.dim))

    @staticmethod
    def apply(module, name, dim):
        """Puts the hook on a module.

        Raises:
            RuntimeError: the weight has one.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(
            name + "_g", Parameter(_lengths(weight, hook.dim).detach().clone())
        )
        module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module):
        """Gives the module a plain weight again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Learns a weight's length and direction apart.

    Args:
        module: the module that has the weight.
        name: the weight's name.
        dim: the dimension along which there are several lengths; None for one.

    >>> import rushlight as rl
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = weight_norm(rl.nn.Linear(4, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the weight a plain parameter again.

    Args:
        module: the module that has the weight.
        name: the weight's name.

    Returns:
        The module.

    Raises:
        ValueError: its length and direction are not learned apart.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = weight_norm(rl.nn.Linear(2, 2))
    >>> sorted(dict(remove_weight_norm(layer).named_parameters()))
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")

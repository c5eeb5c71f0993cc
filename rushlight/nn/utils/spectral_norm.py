"""Weights over their largest singular value, by a hook: the older of the two ways."""

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


class SpectralNorm:
    """Computes a weight before each call of its module.

    Args:
        name: the weight's.
        n_power_iterations: how far each training step follows the singular vectors.
        dim: the dimension that counts outputs.
        eps: the smallest length of a vector.

    Raises:
        ValueError: the number of iterations is not positive.
    """

    # Of the saved state: before version 1 there was no ``_v``.
    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight):
        """The weight with one row for each output."""
        if self.dim != 0:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module, do_power_iteration):
        """The weight over its norm.

        Args:
            module: has the weight and the vectors.
            do_power_iteration: whether the vectors are improved first.
        """
        weight, u, v = (
            getattr(module, self.name + end) for end in ("_orig", "_u", "_v")
        )
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with rl.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(rl.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(rl.mv(matrix, v), dim=0, eps=self.eps))
                # Copies: the next call changes the buffers, and backward reads these.
                u, v = u.clone(), v.clone()
        return weight / rl.dot(u, rl.mv(matrix, v))

    def remove(self, module):
        """Give the module a plain weight again."""
        with rl.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    def _solve_v_and_rescale(self, weight_mat, u, target_sigma):
        """The right vector that gives a known norm, for states without one."""
        inverse = weight_mat.t().mm(weight_mat).pinverse()
        v = inverse @ (weight_mat.t() @ u)
        return v.mul_(target_sigma / rl.dot(u, rl.mv(weight_mat, v)))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Put the hook on a module.

        Raises:
            RuntimeError: the weight has one.
            ValueError: there is no weight, or it has no shape yet.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    "Cannot register two spectral_norm hooks on the same parameter "
                    f"{name}"
                )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(
                f"`SpectralNorm` cannot be applied as parameter `{name}` is None"
            )
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized "
                "parameters. Make sure to run the dummy forward before applying "
                "spectral normalization"
            )
        with rl.no_grad():
            vectors = [
                F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps)
                for size in hook.reshape_weight_to_matrix(weight).shape
            ]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # Without a gradient of its own: the hook sets the real one before each call.
        setattr(module, name, weight.data)
        for end, vector in zip(("_u", "_v"), vectors):
            module.register_buffer(name + end, vector)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(
            SpectralNormLoadStateDictPreHook(hook)
        )
        return hook


class SpectralNormLoadStateDictPreHook:
    """Completes states that were saved before there was a right vector.

    Args:
        fn: the ``SpectralNorm``.
    """

    def __init__(self, fn):
        self.fn = fn

    def __call__(
        self,
        state_dict,
        prefix,
        local_metadata,
        strict,
        missing_keys,
        unexpected_keys,
        error_msgs,
    ):
        hook = self.fn
        versions = local_metadata.get("spectral_norm", {})
        version = versions.get(hook.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + hook.name
        complete = all(key + end in state_dict for end in ("_orig", "_u", "_v"))
        if version is None and complete and key not in state_dict:
            return  # new enough, only its metadata got lost
        missing = [key + e for e in ("_orig", "", "_u") if key + e not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with rl.no_grad():
            original = state_dict[key + "_orig"]
            norm = (original / state_dict.pop(key)).mean()
            matrix = hook.reshape_weight_to_matrix(original)
            u = state_dict[key + "_u"]
            state_dict[key + "_v"] = hook._solve_v_and_rescale(matrix, u, norm)


class SpectralNormStateDictHook:
    """Notes the version of the saved state.

    Args:
        fn: the ``SpectralNorm``.
    """

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value before each call.

    Args:
        module: the module that has the weight.
        name: the weight's name.
        n_power_iterations: how far each training step follows the singular vectors.
        eps: the smallest length of a vector.
        dim: the dimension that counts outputs: 1 for transposed convolutions, else 0,
            where it is left out.

    Returns:
        The module.

    >>> layer = spectral_norm(rl.nn.Linear(4, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        from rushlight.nn.utils.parametrizations import _default_dim

        dim = _default_dim(module)
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Make the weight a plain parameter again.

    Args:
        module: the module that has the weight.
        name: the weight's name.

    Returns:
        The module.

    Raises:
        ValueError: the weight is not divided by its norm.

    >>> layer = spectral_norm(rl.nn.Linear(2, 2))
    >>> sorted(dict(remove_spectral_norm(layer).named_parameters()))
    ['bias', 'weight']
    """

    def take(hooks, kind, name_of):
        for key, hook in hooks.items():
            if isinstance(hook, kind) and name_of(hook) == name:
                del hooks[key]
                return hook
        return None

    hook = take(module._forward_pre_hooks, SpectralNorm, lambda each: each.name)
    if hook is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook.remove(module)
    take(module._state_dict_hooks, SpectralNormStateDictHook, lambda each: each.fn.name)
    for key, wrapped in module._load_state_dict_pre_hooks.items():
        inner = getattr(wrapped, "hook", wrapped)
        if isinstance(inner, SpectralNormLoadStateDictPreHook) and inner.fn is hook:
            del module._load_state_dict_pre_hooks[key]
            break
    return module

"""Weights some of which are kept at zero."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """Multiplies a tensor by a mask before each call of its module.

    A subclass defines ``compute_mask`` and ``PRUNING_TYPE``: ``"unstructured"`` sees
    only elements that are not pruned yet, ``"structured"`` only such channels,
    ``"global"`` all of them.
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask, 1 where an element stays.

        Args:
            t: how important each element is.
            default_mask: the mask of what was pruned before.
        """

    def apply_mask(self, module):
        """The tensor with its pruned elements at zero."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune a module's tensor, further if it is pruned already.

        Args:
            module: the module.
            name: the tensor's name. The values are kept as ``name_orig``, the mask as
                ``name_mask``.
            args, kwargs: the method's arguments.
            importance_scores: how important each element is; by default its value.

        Returns:
            The method that is at work: a ``PruningContainer`` if there are several.
        """
        method = cls._joined(module, name, cls(*args, **kwargs))
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of "
                f"{module}, got {importance_scores.shape} vs {original.shape}"
            )
        further = isinstance(method, PruningContainer)
        if further:
            before = getattr(module, name + "_mask").detach().clone()
        else:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            before = rl.ones_like(original)
        try:
            mask = method.compute_mask(importance_scores, default_mask=before)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not further:  # leave the module as it was
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    @staticmethod
    def _joined(module, name, method):
        """The method together with the one that is at work on the tensor."""
        method._tensor_name = name
        hooks = module._forward_pre_hooks
        found = [
            key
            for key, hook in hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of "
                f"module {module}. Use a PruningContainer."
            )
        if not found:
            return method
        old = hooks.pop(found[0])
        container = old if isinstance(old, PruningContainer) else PruningContainer(old)
        container.add_pruning_method(method)
        return container

    def prune(self, t, default_mask=None, importance_scores=None):
        """A tensor with some elements at zero; no module is changed.

        Args:
            t: the tensor.
            default_mask: the mask of what was pruned before.
            importance_scores: how important each element is; by default its value.
        """
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        if default_mask is None:
            default_mask = rl.ones_like(t)
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module):
        """Make the pruned tensor a plain parameter, zeros included."""
        if self._tensor_name is None:
            raise AssertionError(
                f"Module {module} has to be pruned before pruning can be removed"
            )
        name = self._tensor_name
        value = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = value.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one tensor, each of which prunes what the last ones left.

    Args:
        args: the methods, the first one first.
    """

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Add a method.

        Raises:
            TypeError: it is none.
            ValueError: it prunes another tensor.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask of the last method, within what the others left.

        Args:
            t: how important each element is.
            default_mask: the others' mask.
        """
        method = self._pruning_methods[-1]
        place = _place(method, t, default_mask)
        part = method.compute_mask(t[place], default_mask=default_mask[place])
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[place] = part.to(dtype=mask.dtype)
        return mask


def _place(method, t, mask):
    """The index of what a method is to see."""
    everything = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return tuple(everything)
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute '
            "`dim` defined."
        )
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    others = [each for each in range(t.dim()) if each != dim]
    everything[dim] = mask.sum(dim=others) != 0
    return tuple(everything)


class Identity(BasePruningMethod):
    """Prunes nothing, but keeps the tensor and a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask as it is."""
        return default_mask

    @classmethod
    def apply(cls, module, name):
        """Put it on a module's tensor."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes elements, wherever they stand."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount


class RandomUnstructured(_Unstructured):
    """Prunes elements at random.

    Args:
        amount: how many, or, as a float, which share of them.
    """

    def compute_mask(self, t, default_mask):
        """The mask without as many elements as asked."""
        return _without(default_mask, self.amount, lambda: rl.rand_like(t), True)

    @classmethod
    def apply(cls, module, name, amount):
        """Prune a module's tensor."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements of the smallest size.

    Args:
        amount: how many, or, as a float, which share of them.
    """

    def compute_mask(self, t, default_mask):
        """The mask without as many elements as asked."""
        return _without(default_mask, self.amount, t.abs, False)

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        """Prune a module's tensor."""
        return super().apply(
            module, name, amount=amount, importance_scores=importance_scores
        )


def _without(default_mask, amount, scores, largest):
    """A mask without the elements of the largest or smallest scores."""
    total = default_mask.numel()
    count = _compute_nparams_toprune(amount, total)
    _validate_pruning_amount(count, total)
    mask = default_mask.clone(memory_format=rl.contiguous_format)
    if count != 0:
        chosen = rl.topk(scores().reshape(-1), k=count, largest=largest)
        mask.view(-1)[chosen.indices] = 0
    return mask


class _Structured(BasePruningMethod):
    """What the methods that prune channels share."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _kept(self, t, channels, count):
        """Which channels stay when ``count`` of them go."""
        raise NotImplementedError(f"{type(self).__name__} must define _kept")

    def compute_mask(self, t, default_mask):
        """The mask without as many channels as asked."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(count, channels)
        kept = self._kept(t, channels, count)
        if count == 0:
            return default_mask
        mask = rl.zeros_like(t)
        index = [slice(None)] * t.dim()
        index[self.dim] = kept
        mask[tuple(index)] = 1
        mask *= default_mask.to(dtype=mask.dtype)
        return mask


class RandomStructured(_Structured):
    """Prunes channels at random.

    Args:
        amount: how many, or, as a float, which share of them.
        dim: the dimension that counts channels.
    """

    def _kept(self, t, channels, count):
        if count == 0:
            return None
        chances = rl.rand(channels)
        return chances > rl.kthvalue(chances, k=count).values

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        """Prune a module's tensor."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the channels of the smallest norm.

    Args:
        amount: how many, or, as a float, which share of them.
        n: the norm's order.
        dim: the dimension that counts channels.
    """

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t, channels, count):
        norms = _compute_norm(t, self.n, self.dim)
        return rl.topk(norms, k=channels - count, largest=True).indices

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        """Prune a module's tensor."""
        return super().apply(
            module,
            name,
            amount=amount,
            n=n,
            dim=dim,
            importance_scores=importance_scores,
        )


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask leaves out.

    Args:
        mask: 1 where an element stays.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        """Prune a module's tensor."""
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Keep a tensor and a mask of ones: nothing is pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune elements at random.

    >>> layer = random_unstructured(rl.nn.Linear(2, 3), "weight", amount=1)
    >>> int((layer.weight_mask == 0).sum())
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of the smallest size.

    Args:
        importance_scores: what is looked at instead of the values.

    >>> layer = l1_unstructured(rl.nn.Linear(2, 3), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (3, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(
        module, name, amount=amount, importance_scores=importance_scores
    )
    return module


def random_structured(module, name, amount, dim):
    """Prune channels at random.

    Args:
        dim: the dimension that counts channels.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the channels of the smallest norm.

    Args:
        n: the norm's order.
        dim: the dimension that counts channels.
        importance_scores: what is looked at instead of the values.
    """
    LnStructured.apply(
        module, name, amount, n, dim, importance_scores=importance_scores
    )
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune several tensors as if they were one.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class of unstructured pruning.
        importance_scores: by such pairs, what is looked at instead of the values.
        kwargs: the method's arguments.

    Raises:
        TypeError: the method is structured, or an argument is of a wrong type.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    values = parameters_to_vector(
        [scores.get(pair, getattr(*pair)) for pair in parameters]
    )
    before = parameters_to_vector(
        [
            getattr(module, name + "_mask", rl.ones_like(getattr(module, name)))
            for module, name in parameters
        ]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    mask = container.compute_mask(values, before)
    start = 0
    for module, name in parameters:
        tensor = getattr(module, name)
        stop = start + tensor.numel()
        custom_from_mask(module, name, mask=mask[start:stop].view_as(tensor))
        start = stop


def custom_from_mask(module, name, mask):
    """Prune what a mask leaves out.

    Args:
        mask: 1 where an element stays.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Make a pruned tensor a plain parameter, zeros included.

    Raises:
        ValueError: the tensor is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be "
        "removed"
    )


def is_pruned(module):
    """Whether a tensor of a module, or of one below it, is pruned.

    >>> layer = rl.nn.Linear(2, 2)
    >>> is_pruned(layer), is_pruned(identity(layer, "weight"))
    (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount):
    """Refuse an amount that is no number, share or count."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and not float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a "
            "non-negative integer"
        )


def _validate_pruning_amount(amount, tensor_size):
    """Refuse to prune more than there is."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _validate_structured_pruning(t):
    """Refuse tensors without channels."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found "
            f"tensor of shape {t.shape} with {t.dim()} dims"
        )


def _compute_nparams_toprune(amount, tensor_size):
    """How many elements or channels an amount means."""
    if isinstance(amount, numbers.Integral):
        return amount
    return round(amount * tensor_size)


def _validate_pruning_dim(t, dim):
    """Refuse a dimension that a tensor has not."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t, n, dim):
    """The norm of each channel."""
    dims = list(range(t.dim()))
    dims.remove(dims[dim])
    return rl.norm(t, p=n, dim=dims)


describe_arguments(
    globals(),
    module="the module, which is changed and returned.",
    name="the tensor's name.",
    amount="how many, or, as a float, which share of them.",
)

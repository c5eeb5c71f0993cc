"""Parameters that are computed from others whenever they are looked at."""

import contextlib
import copyreg
from collections.abc import Sequence
from copy import deepcopy

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """Values computed within ``cached`` blocks, by module and name."""

    depth = 0
    values: dict = {}


@contextlib.contextmanager
def cached():
    """A block in which every parametrized tensor is computed once.

    The values are forgotten at the end of the outermost block.
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_same(new, old, attribute, fault, names):
    """Refuse a tensor whose dtype, shape or device is not the old one's."""
    found, wanted = getattr(new, attribute), getattr(old, attribute)
    if found != wanted:
        raise ValueError(f"{fault}\n{names[0]}: {wanted}\n{names[1]}: {found}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they compute it from.

    Args:
        modules: the parametrizations, the first one first.
        original: the tensor; its values are what the inverses, last one first, make of
            it. Inverses that return a sequence give ``original0``, ``original1``, ….
        unsafe: whether dtype and shape may change.

    Raises:
        ValueError: there is no parametrization, or one changes what it must not.
    """

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = rl.empty_like(original, device="meta")
        new = self._invert(original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                f"tuple...). Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check_result(before)

    def _invert(self, value):
        """What the inverses make of a value; those that cannot leave it as it is."""
        with rl.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        value = module.right_inverse(value)
        return value

    def _keep_one(self, original, new):
        for what in ("dtype", "device"):
            _check_same(
                new,
                original,
                what,
                "When `right_inverse` outputs one tensor, it may not change the "
                f"{what}.",
                (f"original.{what}", f"right_inverse(original).{what}"),
            )
        with rl.no_grad():
            original.set_(new)
        _register(self, "original", original)

    def _keep_several(self, original, new):
        for index, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors "
                    f"(list, tuple...). Got element {index} of the sequence with type "
                    f"{type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{index}", part)

    def _check_result(self, before):
        result = _expect_tensor(self())
        for what in ("dtype", "shape"):
            _check_same(
                result,
                before,
                what,
                f"Registering a parametrization may not change the {what} of the "
                "tensor, unless `unsafe` flag is enabled.",
                (f"unparametrized {what}", f"parametrized {what}"),
            )

    def right_inverse(self, value):
        """Set the originals so that the parametrized tensor becomes ``value``.

        Args:
            value: the tensor wanted.

        Raises:
            RuntimeError: a parametrization has no inverse.
            ValueError: an inverse returns what does not fit the originals.
        """
        with rl.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement "
                        "right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self._set_one(value)
            else:
                self._set_several(value)

    def _set_one(self, value):
        if not isinstance(value, Tensor):
            raise ValueError(
                f"`right_inverse` should return a tensor. Got {type(value).__name__}"
            )
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                f"`original` has dtype {self.original.dtype}"
            )
        self.original.set_(value)

    def _set_several(self, value):
        if not isinstance(value, Sequence):
            raise ValueError(
                "'right_inverse' must return a sequence of tensors. Got "
                f"{type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(value)}."
            )
        for index, part in enumerate(value):
            own = getattr(self, f"original{index}")
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got element "
                    f"{index} of type {type(part).__name__}."
                )
            if own.dtype != part.dtype:
                raise ValueError(
                    f"Tensor {index} returned by `right_inverse` has dtype {part.dtype} "
                    f"while `original{index}` has dtype {own.dtype}"
                )
            own.set_(part)

    def forward(self):
        """The parametrized tensor."""
        first, *others = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(
                *(getattr(self, f"original{i}") for i in range(self.ntensors))
            )
        for module in others:
            value = module(value)
        return value


def _copied(self, memo):
    """A deep copy, of the same class: the class of each parametrized module is its own."""
    found = memo.get(id(self))
    if found is None:
        found = memo[id(self)] = self.__new__(type(self))
        found.__dict__ = deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(type(self)):
            if hasattr(self, slot):
                setattr(found, slot, deepcopy(getattr(self, slot), memo))
    return found


def _refuse_pickling(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). "
        "See:\nhttps://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _give_class(module):
    """Make the module the only one of a class, which can then have properties."""
    cls = type(module)
    fields = {"__getstate__": _refuse_pickling}
    if not hasattr(cls, "__deepcopy__"):
        fields["__deepcopy__"] = _copied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), fields)


def _give_property(module, name):
    def get(self):
        parametrization = self.parametrizations[name]
        if not _Cache.depth:
            return parametrization()
        key = id(self), name
        if key not in _Cache.values:
            _Cache.values[key] = parametrization()
        return _Cache.values[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Compute a module's parameter or buffer from another tensor from now on.

    Args:
        module: the module; its class becomes one of its own.
        tensor_name: which tensor; what it was is found in
            ``module.parametrizations[tensor_name].original``.
        parametrization: a module whose result the tensor will be. Its method
            ``right_inverse``, if there is one, computes the original when the tensor is
            assigned to. Further parametrizations take the result of those before.
        unsafe: whether dtype and shape may change, and nothing is checked.

    Returns:
        The module.

    Raises:
        ValueError: there is no such tensor, or its dtype or shape would change.

    >>> class Symmetric(rl.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(rl.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        those = module.parametrizations[tensor_name]
        those.append(parametrization)
        those.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        # Fails, if it does, before the module has changed.
        those = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = those
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized "
            f"element with name '{tensor_name}'"
        )
    return module


def _expect_tensor(result):
    if not isinstance(result, Tensor):
        raise ValueError(
            f"A parametrization must return a tensor. Got {type(result).__name__}."
        )
    return result


def _check_further(module, name, parametrization):
    """Refuse one more parametrization that changes dtype or shape."""
    value = getattr(module, name)
    result = _expect_tensor(parametrization(value))
    for what in ("dtype", "shape"):
        _check_same(
            result,
            value,
            what,
            f"Registering a parametrization may not change the {what} of the tensor, "
            "unless the `unsafe` flag is enabled.",
            (f"module.{name}.{what}", f"parametrization(module.{name}).{what}"),
        )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            "parametrization.right_inverse must return a tensor. Got: "
            f"{type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        _check_same(
            back,
            value,
            what,
            f"The tensor returned by parametrization.right_inverse must have the same "
            f"{what} as module.{name}, unless the `unsafe` flag is enabled.",
            (f"module.{name}.{what}", f"returned {what}"),
        )


def is_parametrized(module, tensor_name=None):
    """Whether a tensor of a module, or any of them, is computed from another.

    Args:
        module: the module.
        tensor_name: which tensor; any where it is left out.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(2, 2))
    >>> is_parametrized(layer, "weight"), is_parametrized(layer, "bias")
    (True, False)
    """
    those = getattr(module, "parametrizations", None)
    if not isinstance(those, ModuleDict):
        return False
    return len(those) > 0 if tensor_name is None else tensor_name in those


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make a tensor a plain parameter or buffer again.

    Args:
        module: the module.
        tensor_name: which tensor.
        leave_parametrized: whether it keeps the value it has now; otherwise it gets the
            original's.

    Returns:
        The module.

    Raises:
        ValueError: the tensor is not parametrized, or has several originals and is to
            be left as one.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(2, 2))
    >>> is_parametrized(remove_parametrizations(layer, "weight"))
    False
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"Module {module} does not have a parametrization on {tensor_name}"
        )
    those = module.parametrizations[tensor_name]
    if those.is_tensor:
        original = those.original
        if leave_parametrized:
            with rl.no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """A module's class without its parametrizations.

    Args:
        module: the module.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(2, 2))
    >>> type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Give a module the parametrizations, and their originals, of another.

    Args:
        from_module: where they come from; it stays as it is.
        to_module: where they go.
        tensor_name: of which tensor; of all where it is left out.

    Returns:
        ``to_module``.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(2, 2))
    >>> other = transfer_parametrizations_and_params(layer, rl.nn.Linear(2, 2))
    >>> is_parametrized(other, "weight")
    True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        if source.is_tensor:
            target.original = source.original
        else:
            for index in range(source.ntensors):
                part = f"original{index}"
                setattr(target, part, getattr(source, part))
    return to_module

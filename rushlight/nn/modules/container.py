"""Modules that hold other modules or parameters."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from rushlight.core.tensor import Tensor
from rushlight.nn.modules.module import Module, _addindent, _typename
from rushlight.nn.parameter import Parameter

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


def _position(index, size):
    """The index counted from the front; ``IndexError`` where there is nothing."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class _Numbered(Module):
    """What ``Sequential`` and ``ModuleList`` share: children named 0, 1, 2, ..."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __setitem__(self, idx, module):
        keys = list(self._modules)
        setattr(self, keys[_position(idx, len(keys))], module)

    def __delitem__(self, idx):
        keys = list(self._modules)
        doomed = (
            keys[idx] if isinstance(idx, slice) else [keys[_position(idx, len(keys))]]
        )
        for key in doomed:
            delattr(self, key)
        self._modules = {str(i): m for i, m in enumerate(self._modules.values())}

    def pop(self, key):
        """Remove the module at an index and return it."""
        module = self[key]
        del self[key]
        return module

    def append(self, module):
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def _shift_in(self, index, module):
        for i in range(len(self._modules), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module


class Sequential(_Numbered):
    """Feeds each module's output to the next.

    Args:
        *args: the modules in order, or one ``OrderedDict`` of named modules.

    >>> import rushlight.nn as nn
    >>> nn.Sequential(nn.Flatten(), nn.ReLU())
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): ReLU()
    )
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(index), module) for index, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return list(self._modules.values())[_position(idx, len(self))]

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def _check_sequential(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def __add__(self, other):
        self._check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_sequential(other)
        return self.extend(list(other))

    def _check_times(self, times):
        if not isinstance(times, int):
            raise TypeError(
                f"unsupported operand type(s) for *: {type(self)} and {type(times)}"
            )
        if times <= 0:
            raise ValueError(
                f"Non-positive multiplication factor {times} for {type(self)}"
            )

    def __mul__(self, other):
        self._check_times(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other):
        self._check_times(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index, module):
        """Put a module before an index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self._modules)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        self._shift_in(index + size if index < 0 else index, module)
        return self

    def extend(self, sequential):
        """Add every module of an iterable at the end."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list whose modules belong to the module that holds it.

    Args:
        modules: an iterable of modules.
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[str(_position(idx, len(self)))]

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __iadd__(self, modules):
        return self.extend(modules)

    def insert(self, index, module):
        """Put a module before an index."""
        self._shift_in(index, module)

    def extend(self, modules):
        """Add every module of an iterable at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self):
        runs = []  # [first index, last index, text] of equal neighbours
        for index, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = index
            else:
                runs.append([index, index, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            head = (
                f"({first}): "
                if first == last
                else f"({first}-{last}): {last - first + 1} x "
            )
            lines.append(_addindent(head + text, 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _pairs(owner, prefix, pairs):
    """The key and value of each element, or an error that numbers the bad one."""
    if not isinstance(pairs, Iterable):
        raise TypeError(
            f"{prefix}.update should be called with an iterable of key/value pairs, "
            f"but got {type(pairs).__name__}"
        )
    for index, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{index} should be Iterable; is"
                + type(pair).__name__
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{index} has length {len(pair)}; "
                "2 is required"
            )
        yield pair


class ModuleDict(Module):
    """A dictionary whose modules belong to the module that holds it.

    Args:
        modules: a mapping, or an iterable of pairs, from names to modules.
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key):
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Add modules from a mapping or from pairs; equal names are replaced."""
        if isinstance(modules, (Mapping, ModuleDict)):
            modules = modules.items()
        for name, module in _pairs("ModuleDict", "ModuleDict", modules):
            self[name] = module


def _describe_value(key, value, describe_type):
    """A line of ``extra_repr`` for what a parameter container holds."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.size()))
    device = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    return (
        f"  ({key}): {kind} containing: [{describe_type(value)} of size {size}{device}]"
    )


class ParameterList(Module):
    """A list of parameters; tensors put in become parameters.

    Args:
        values: an iterable of tensors, parameters or other values.
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx, param):
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(idx, len(self))), param)

    def __len__(self):
        return self._size

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def append(self, value):
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add every value of an iterable at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(
            _describe_value(index, value, lambda tensor: tensor.dtype)
            for index, value in enumerate(self)
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put in become parameters.

    Args:
        parameters: a mapping, or an iterable of pairs, from names to values.
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _checked(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a "
                f"string (type is '{type(key).__name__}'). Open an issue on github if "
                "you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._checked(key))

    def __setitem__(self, key, value):
        self._keys[self._checked(key)] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._checked(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """A new ``ParameterDict`` with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key, default=None):
        """The value of ``key``, put there as ``default`` where it was missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Remove a value and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove the last pair and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key, default=None):
        """The value of ``key``, or ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new ``ParameterDict`` with one value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """Pairs of name and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters):
        """Add values from a mapping or from pairs; equal names are replaced."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in _pairs("ParameterDict", "ParametersDict", parameters):
            self[key] = value

    def extra_repr(self):
        return "\n".join(
            _describe_value(key, value, _typename) for key, value in self.items()
        )

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other):
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other):
        self.update(other)
        return self


class Container(Module):
    """Modules by their names; ``Module`` does all of it since long ago."""

    def __init__(self, **kwargs):
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)

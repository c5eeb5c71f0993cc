"""How things are called in the text of graphs: by PyTorch's names, as `torch.add`.

Generated code finds Rushlight under the name ``torch``, so that one text serves with and
without the launcher.
"""

from __future__ import annotations

import builtins
import enum
import functools
import keyword
import re
import sys
import types
import typing
from collections import defaultdict
from typing import Any

from rushlight.core import naming
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout, MemoryFormat
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.packet import OperatorPacket

ROOTS = ("rushlight", "torch")

# Where functions are looked for, first found first told: module, its name in text.
_POSITIONS = (
    ("functional", "torch.functional"),
    ("nn.functional", "torch.nn.functional"),
    ("nn.init", "torch.nn.init"),
    ("", "torch"),
    ("fft", "torch.fft"),
    ("linalg", "torch.linalg"),
    ("special", "torch.special"),
    ("signal.windows", "torch.signal.windows"),
    ("nn.utils.rnn", "torch.nn.utils.rnn"),
)
# A compiled function of these modules lives in PyTorch's core, under its whole name.
_COMPILED = {
    "torch.nn.functional": "torch._C._nn",
    "torch.fft": "torch._C._fft",
    "torch.linalg": "torch._C._linalg",
    "torch.special": "torch._C._special",
}


def is_from_package(value):
    """Whether a function, class or module is the package's own."""
    if isinstance(value, (OperatorPacket, Operator)):
        return True
    home = getattr(value, "__module__", None)
    if isinstance(value, types.ModuleType):
        home = value.__name__
    return naming.is_own(home)


def in_package(text):
    """A dotted path with the package's name in front written as ``torch``.

    >>> in_package("rushlight.nn.modules.linear")
    'torch.nn.modules.linear'
    """
    first, dot, rest = text.partition(".")
    return "torch" + dot + rest if first in ROOTS else text


@functools.cache
def _public_names():
    """The names of public functions: by their identity, as some cannot be hashed."""
    from importlib import import_module

    found: dict[int, tuple[Any, str]] = {}
    packets = []
    for path, shown in _POSITIONS:
        module = import_module(f"rushlight.{path}".rstrip("."))
        for name in sorted({*vars(module), *getattr(module, "__all__", ())}):
            value = vars(module).get(name)
            if isinstance(value, OperatorPacket):
                packets.append((value, shown, name))
            elif _is_function(value) and is_from_package(value):
                found.setdefault(id(value), (value, f"{shown}.{name}"))
    # What the package itself has under the same name is told before a submodule's.
    for value, shown, name in sorted(packets, key=lambda row: row[1] != "torch"):
        place = _COMPILED.get(shown, shown)
        if shown != "torch":
            name = value.__name__
        found.setdefault(id(value), (value, f"{place}.{name}"))
    return found


def noted():
    """Has functions be found by the names that they have now, whoever replaces them."""
    _public_names()


def _is_function(value):
    return callable(value) and not isinstance(value, (type, types.ModuleType))


def qualified_name(function):
    """The dotted name that generated code calls a function or class by.

    Args:
        function: something callable with a name.

    Raises:
        RuntimeError: it is not found in any module.

    >>> import operator, rushlight as rl
    >>> qualified_name(rl.cat), qualified_name(operator.add), qualified_name(len)
    ('torch.cat', '_operator.add', 'len')
    """
    name = getattr(function, "__name__", None)
    if isinstance(function, Operator):
        return f"torch.ops.{function.namespace}.{_overload_name(function)}"
    if name is not None and getattr(builtins, name, None) is function:
        return name
    known = _public_names().get(id(function))
    if known is not None and known[0] is function:
        return known[1]
    if isinstance(function, OperatorPacket) and getattr(function, "method", False):
        return f"torch.Tensor.{name}"
    if isinstance(function, OperatorPacket):
        namespace = function.overloads[0].namespace
        if function.__module__.endswith(f"._ops.{namespace}"):
            return f"torch.ops.{namespace}.{function.__name__}"
        # an operator of layers, with no public function of its name
        return f"torch._C._nn.{function.__name__}"
    owner = getattr(function, "__objclass__", None)
    if owner is not None and is_from_package(owner):
        return f"torch.Tensor.{name}"
    home = getattr(function, "__module__", None)
    if home is None or name is None:
        raise RuntimeError(f"cannot find module for {function}")
    if isinstance(function, types.FunctionType) and "<lambda>" not in name:
        # a method is found at its class
        path = function.__qualname__
        if "." in path and "<locals>" not in path:
            name = path
    return f"{in_package(home)}.{name}"


def _overload_name(op):
    name, dot, overload = op.name.partition(".")
    return f"{name}.{overload or 'default'}" if dot or overload else f"{name}.default"


def is_found(path, value):
    """Whether generated code finds a value at a path from ``torch``."""
    first, *items = path.split(".")
    held: Any = sys.modules["rushlight"]
    for item in items:
        held = getattr(held, item, None)
    return first == "torch" and (held is value or held == value)


def target_name(target):
    """How a step's target is told: a dotted name, without Python's private modules."""
    if isinstance(target, str):
        return target
    if getattr(target, "__module__", None) in ("_operator", "builtins"):
        module = "operator" if target.__module__ == "_operator" else "builtins"
        return f"{module}.{target.__name__}"
    if (
        getattr(target, "__name__", None)
        and getattr(builtins, target.__name__, None) is target
    ):
        return f"builtins.{target.__name__}"
    return qualified_name(target)


def type_name(kind):
    """How a type is told, ``typing``'s constructions included.

    >>> type_name(int), type_name(list[int])
    ('int', 'list[int]')
    """
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        return f"{in_package(kind.__module__)}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    return _as_torch(repr(kind))


def _as_torch(text):
    return re.sub(r"\brushlight\.", "torch.", text)


def value_text(value):
    """A constant as code: the package's own kinds of values by their ``torch`` names."""
    if isinstance(value, (DType, Layout, MemoryFormat)):
        return in_package(repr(value))
    return repr(value)


class CustomBuiltin(typing.NamedTuple):
    """A name that generated code always has, and the line that imports it elsewhere."""

    import_str: str
    obj: Any


@functools.cache
def custom_builtins():
    """The names that generated code has without asking."""
    from rushlight.fx import _pytree as fx_pytree
    from rushlight.utils import _pytree as pytree

    return {
        "inf": CustomBuiltin("from math import inf", float("inf")),
        "nan": CustomBuiltin("from math import nan", float("nan")),
        "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
        "torch": CustomBuiltin("import torch", sys.modules[ROOTS[0]]),
        "device": CustomBuiltin("from torch import device", Device),
        "fx_pytree": CustomBuiltin("import torch.fx._pytree as fx_pytree", fx_pytree),
        "pytree": CustomBuiltin("import torch.utils._pytree as pytree", pytree),
    }


_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(0|[1-9]\d*)\Z")
_HUMP = re.compile(r"(?<=[a-z])([A-Z])")


def snake_case(name):
    """``CamelCase`` as ``camel_case``.

    >>> snake_case("BatchNorm2d")
    'batch_norm2d'
    """
    return _HUMP.sub(r"_\1", name).lower()


def is_magic(name):
    """Whether a name is one of Python's own, between double underscores."""
    return name.startswith("__") and name.endswith("__")


class Namespace:
    """Hands out names: every one once, none that means something already.

    >>> names = Namespace()
    >>> [names.create_name("add", None) for _ in range(3)]
    ['add', 'add_1', 'add_2']
    """

    def __init__(self):
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = defaultdict(int)

    def create_name(self, candidate, obj):
        """A free name like ``candidate``.

        Args:
            candidate: what it should be; letters that names cannot have become ``_``.
            obj: what is named, or None: a thing asked for again gets its name again.
        """
        try:
            if obj is not None and obj in self._obj_to_name:
                return self._obj_to_name[obj]
        except TypeError:  # it cannot be hashed, and is not remembered
            obj = None
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        found = _NUMBERED.match(name)
        base, number = (found[1], int(found[2])) if found else (name, 0)
        if found:
            name = f"{base}_{number}"
        number = number or self._base_count[base]
        while name in self._used_names or self._is_illegal(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._used_names.add(name)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name, obj):
        """Notes what a name that was handed out stands for."""
        self._obj_to_name.setdefault(obj, name)

    def _is_illegal(self, name, obj):
        if keyword.iskeyword(name):
            return True
        known = getattr(builtins, name, builtins)
        if known is not builtins:
            return known is not obj
        custom = custom_builtins().get(name)
        return custom is not None and custom.obj is not obj

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


def enum_text(value: enum.Enum):
    """A member of an enumeration as code, and the class that the code needs."""
    return f"{type(value).__name__}.{value.name}", type(value)

"""Writes ``.pyi`` files, so that editors and type checkers know the operators."""

import keyword

_TYPES = {
    0: "Tensor", 1: "Tensor | None", 2: "Sequence[Tensor]",
    3: "Sequence[Tensor | None]", 4: "Tensor | Number", 5: "Number",
    6: "Number | None", 7: "int", 8: "int | None", 9: "Sequence[int]",
    10: "Sequence[int] | None", 11: "float", 12: "float | None", 13: "bool",
    14: "bool | None", 15: "str", 16: "str | None", 17: "dtype | None",
    18: "device | str | int | None", 19: "layout | None", 20: "memory_format | None",
    21: "Generator | None", 22: "Sequence[Number]", 23: "Any", 24: "Sequence[bool]",
    25: "Sequence[Number]",
}  # fmt: skip
_RESULTS = {2: "tuple[Tensor, ...]", 3: "tuple[Tensor, ...]"}

_HEAD = '''\
"""What the operators take and return; written by opgen."""

from collections.abc import Sequence
from typing import Any, overload

from rushlight.core.device import Device as device
from rushlight.core.dtype import DType as dtype
from rushlight.core.layout import Layout as layout
from rushlight.core.layout import MemoryFormat as memory_format
from rushlight.core.random import Generator
'''
_TENSOR = "from rushlight._generated.methods import Tensor\n"
_NUMBER = "\nNumber = bool | int | float | complex\n"


def write_functions(entries, namespace):
    """The stub of one Python namespace: a function for each of its operators."""
    chosen = [
        entry for entry in entries
        if entry.namespace == namespace and "function" in entry.variants
        and not entry.name.startswith("_")
    ]  # fmt: skip
    text = [_HEAD, _TENSOR, _NUMBER]
    for name, overloads in _by_name(chosen).items():
        signatures = [_function(entry, name) for entry in overloads]
        signatures += [
            _function(entry, name + "_") for entry in overloads
            if "inplace" in entry.variants
        ]  # fmt: skip
        text.append(_overloaded(signatures))
    return "\n".join(text)


def write_methods(entries):
    """The stub of the tensor's methods that are operators."""
    chosen = [
        entry for entry in entries
        if "method" in entry.variants or entry.operators
    ]  # fmt: skip
    text = [_HEAD, _NUMBER, "\nclass Tensor:"]
    text.append("    def __getattr__(self, name: str) -> Any: ...")
    for name, overloads in _by_name(chosen, public=False).items():
        methods = [entry for entry in overloads if "method" in entry.variants]
        for suffix, variant in (("", "method"), ("_", "inplace")):
            signatures = [
                _method(entry, name + suffix) for entry in methods
                if variant in entry.variants
            ]  # fmt: skip
            text.append(_overloaded(signatures, "    "))
        for dunder in dict.fromkeys(d for entry in overloads for d in entry.operators):
            text.append(_dunder(dunder))
    return "\n".join(line for line in text if line) + "\n"


def _by_name(entries, public=True):
    names = {}
    for entry in entries:
        names.setdefault(entry.python_name if public else entry.name, []).append(entry)
    return names


def _overloaded(signatures, indent=""):
    """Signatures of one or two names, marked as overloads where a name repeats."""
    names = [signature.partition("(")[0] for signature in signatures]
    lines = []
    for name, signature in sorted(zip(names, signatures), key=lambda p: p[0]):
        if names.count(name) > 1:
            lines.append(f"{indent}@overload")
        lines.append(indent + signature)
    return "\n".join(lines) + ("\n" if lines and not indent else "")


def _function(entry, name):
    args = [
        arg._replace(name="input") if arg.name == "self" else arg
        for arg in entry.schema.args
    ]
    out = "out" in entry.variants and not name.endswith("_")
    extra = ["out: Any = ..."] if out else []
    if "factory" in entry.tags:
        extra.append("requires_grad: bool = ...")
    return f"def {name}({_parameters(args, extra)}) -> {_result(entry)}: ..."


def _method(entry, name):
    args = [arg for arg in entry.schema.args if arg.name != "self"]
    rest = _parameters(args, [])
    return f"def {name}(self{', ' + rest if rest else ''}) -> {_result(entry)}: ..."


def _dunder(name):
    if name in ("__neg__", "__invert__", "__abs__", "__pos__"):
        return f"    def {name}(self) -> Tensor: ..."
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"    def {name}(self, other: Any) -> Tensor: ...{ignore}"


def _parameters(args, extra):
    parts, starred = [], False
    for arg in args:
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        name = arg.name + ("_" if keyword.iskeyword(arg.name) else "")
        kind = _TYPES[arg.kind]
        if arg.type.size:
            kind = f"int | {kind}" if arg.kind in (9, 10) else kind
        parts.append(f"{name}: {kind}" + ("" if arg.default is ... else " = ..."))
    if extra and not starred:
        parts.append("*")
    return ", ".join(parts + extra)


def _result(entry):
    kinds = [
        _RESULTS.get(r.type.kind, _TYPES[r.type.kind]) for r in entry.schema.returns
    ]
    if not kinds:
        return "None"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"

"""Writes ``.pyi`` files, so that editors and type checkers know the operators."""

import keyword
import re
import textwrap

from opgen.documents import docstrings, form
from opgen.schema import varargs_index

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
_INSIDE = {
    kind: re.sub(r"\b(int|float|bool)\b", r"_\1", text) for kind, text in _TYPES.items()
}
_RESULTS = {2: "tuple[Tensor, ...]", 3: "tuple[Tensor, ...]"}

_HEAD = '''\
"""What the operators take and return; written by opgen."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

from rushlight.core.device import Device as device
from rushlight.core.dtype import DType as dtype
from rushlight.core.layout import Layout as layout
from rushlight.core.layout import MemoryFormat as memory_format
from rushlight.random.generator import Generator
'''
_TENSOR = "from rushlight._generated.methods import Tensor\n"
# The methods `int`, `float` and `bool` hide the types within the class.
_BUILTINS = "\n_int = int\n_float = float\n_bool = bool\n"
# What Python asks of tensors beside the operators.
_ASKED = """\
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __complex__(self) -> complex: ..."""
_NUMBER = "\nNumber = bool | int | float | complex\n"


def write_functions(entries, namespace, records=()):
    """The stub of one Python namespace: a function for each of its operators.

    Args:
        entries: the declarations.
        namespace: the public one, or None.
        records: what docstrings say, by name; without it there are none.
    """
    chosen = [
        entry for entry in entries
        if entry.namespace == namespace and "function" in entry.variants
        and not entry.name.startswith("_")
    ]  # fmt: skip
    text = [_HEAD, _TENSOR, _NUMBER]
    for name, overloads in _by_name(chosen).items():
        for suffix, variant in (("", "function"), ("_", "inplace")):
            chosen = [entry for entry in overloads if variant in entry.variants]
            signatures = [_function(entry, name + suffix) for entry in chosen]
            text.append(_overloaded(signatures, _doc(chosen, records, suffix)))
    return "\n".join(text)


def write_methods(entries, records=()):
    """The stub of the tensor's methods that are operators.

    Args:
        entries: the declarations.
        records: what docstrings say, by name; without it there are none.
    """
    chosen = [
        entry for entry in entries
        if "method" in entry.variants or entry.operators
    ]  # fmt: skip
    text = [_HEAD, _NUMBER, _BUILTINS, "\nclass Tensor:"]
    text.append(_ASKED)
    for name, overloads in _by_name(chosen, public=False).items():
        methods = [entry for entry in overloads if "method" in entry.variants]
        for suffix, variant in (("", "method"), ("_", "inplace")):
            chosen = [entry for entry in methods if variant in entry.variants]
            signatures = [_method(entry, name + suffix) for entry in chosen]
            doc = _doc(chosen, records, suffix, method=True)
            text.append(_overloaded(signatures, doc, "    "))
        for dunder in dict.fromkeys(d for entry in overloads for d in entry.operators):
            text.append(_dunder(dunder))
    return "\n".join(line for line in text if line) + "\n"


def _by_name(entries, public=True):
    names = {}
    for entry in entries:
        names.setdefault(entry.python_name if public else entry.name, []).append(entry)
    return names


def _overloaded(signatures, doc, indent=""):
    """Signatures of one name, marked as overloads where there are several."""
    lines = []
    for signature in signatures:
        if len(signatures) > 1:
            lines.append(f"{indent}@overload")
        lines.append(indent + signature + ("" if doc else " ..."))
        if doc:
            lines.append(textwrap.indent(f'r"""{doc}"""', indent + "    ") + "\n")
            doc = ""
    return "\n".join(lines) + ("\n" if lines and not indent else "")


def _doc(entries, records, suffix, method=False):
    """The docstring of a name's function, method or in-place form."""
    if not entries or entries[0].name not in records:
        return ""
    record = docstrings.resolve(entries[0].name, records)
    name = (entries[0].name if method else entries[0].python_name) + suffix
    forms = [form(entry, out=not suffix) for entry in entries]
    return docstrings.compose(record, name, forms, method, bool(suffix))


def _function(entry, name):
    args = [
        arg._replace(name="input") if arg.name == "self" else arg
        for arg in entry.schema.args
    ]
    out = "out" in entry.variants and not name.endswith("_")
    extra = ["out: Any = ..."] if out else []
    if "factory" in entry.tags:
        extra.append("requires_grad: bool = ...")
    return f"def {name}({_parameters(args, extra)}) -> {_result(entry)}:"


def _method(entry, name):
    args = [arg for arg in entry.schema.args if arg.name != "self"]
    rest = _parameters(args, [], _INSIDE)
    result = _result(entry, _INSIDE)
    return f"def {name}(self{', ' + rest if rest else ''}) -> {result}:"


def _dunder(name):
    if name in ("__neg__", "__invert__", "__abs__", "__pos__"):
        return f"    def {name}(self) -> Tensor: ..."
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"    def {name}(self, other: Any) -> Tensor: ...{ignore}"


def _parameters(args, extra, types=_TYPES):
    parts, starred = [], False
    spread = varargs_index(args, False)
    for index, arg in enumerate(args):
        if index == spread and arg.default is ...:
            parts.append(f"*{arg.name}: {types[7]} | {types[arg.kind]}")
            starred = True
            continue
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        name = arg.name + ("_" if keyword.iskeyword(arg.name) else "")
        kind = types[arg.kind]
        if arg.type.size:
            kind = f"{types[7]} | {kind}" if arg.kind in (9, 10) else kind
        parts.append(f"{name}: {kind}" + ("" if arg.default is ... else " = ..."))
    if extra and not starred:
        parts.append("*")
    return ", ".join(parts + extra)


def _result(entry, types=_TYPES):
    kinds = [
        _RESULTS.get(r.type.kind, types[r.type.kind]) for r in entry.schema.returns
    ]
    if not kinds:
        return "None"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"

"""Operators as PyTorch's programs know them: names, overloads, schemas to read."""

import functools

from rushlight.core.tensor import install
from rushlight.dispatch.declared import INPLACE, OUT
from rushlight.dispatch.dispatcher import Operator, find_packet
from rushlight.dispatch.enums import ArgumentKind
from rushlight.dispatch.packet import OperatorPacket


@functools.cache
def _types():
    """Kinds of the tables -> the types that a schema is printed with."""
    from rushlight.dispatch.schema import KINDS  # its patterns take long to compile

    types = {number: name for name, number in reversed(KINDS.items())}
    types[ArgumentKind.TENSOR_OR_SCALAR] = "Tensor"
    return types


class OperatorName(str):
    """An operator's name without its namespace; called, the name with it.

    >>> import rushlight as rl
    >>> rl.ops.aten.add.Tensor.name()
    'aten::add.Tensor'
    """

    __slots__ = ("namespace",)

    def __new__(cls, text, namespace):
        name = super().__new__(cls, text)
        name.namespace = namespace
        return name

    def __call__(self):
        return f"{self.namespace}::{self}"


class AliasInfo:
    """Which memory an argument or a result shares, and whether it is written."""

    def __init__(self, letter, is_write):
        self.is_write = is_write
        self.before_set = {letter}
        self.after_set = {letter}

    def __repr__(self):
        return f"({min(self.before_set)}{'!' if self.is_write else ''})"


class ArgumentInfo:
    """One argument of an operator, or one of its results.

    Args:
        name: its name.
        kind: its type, as schemas write it.
        default: its default; ``...`` where there is none.
        kwarg_only: whether it is given by name alone.
        size: the length of a list that one value stands for, or None.
        alias_info: what it shares memory with, or None.
        is_out: whether results are written into it.

    >>> argument = torch.ops.aten.add.Tensor._schema.arguments[2]
    >>> argument.name, argument.default_value, argument.kwarg_only
    ('alpha', 1, True)
    """

    def __init__(self, name, kind, default, kwarg_only, size, alias_info, is_out):
        self.name = name
        self.type = kind
        self.kwarg_only = kwarg_only
        self.N = size
        self.alias_info = alias_info
        self.is_out = is_out
        self._default = default

    @property
    def real_type(self):
        """The type, as it was declared."""
        return self.type

    @property
    def is_write(self):
        """Whether the operator changes it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def default_value(self):
        """What it is where it is left out; None where it has to be given."""
        return None if self._default is ... else self._default

    def has_default_value(self):
        """Whether it may be left out."""
        return self._default is not ...

    def __str__(self):
        kind = str(self.type)
        if self.alias_info is not None:
            kind = kind.replace("Tensor", f"Tensor{self.alias_info!r}", 1)
        text = f"{kind} {self.name}" if self.name else kind
        return text if self._default is ... else f"{text}={self._default}"


class Schema:
    """An operator's signature: its arguments and results."""

    def __init__(self, op):
        self.name = f"{op.namespace}::{op._opname}"
        self.overload_name = "" if op._overloadname == "default" else op._overloadname
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        last = ArgumentKind.TENSOR_OR_SCALAR
        results = [flags for _, _, flags in op.returns]
        shared = [flags for flags in results if flags]
        self.arguments = []
        aliases = []
        for name, kind, default, keyword, size, flags in op.signature.rows:
            alias = None
            written = bool(flags & 1) or (op.form == INPLACE and not self.arguments)
            if written or flags & 2 or (shared and not aliases and kind <= last):
                alias = AliasInfo(next(letters), written or name == "out")
                aliases.append(alias)
            self.arguments.append(
                ArgumentInfo(
                    name,
                    _types().get(kind, "Any"),
                    default,
                    keyword,
                    size or None,
                    alias,
                    name == "out" and op.form == OUT,
                )
            )
        self.returns = []
        for at, (kind, name, flags) in enumerate(op.returns):
            follows = flags or op.form
            alias = aliases[min(at, len(aliases) - 1)] if follows and aliases else None
            self.returns.append(
                ArgumentInfo(
                    name or "",
                    _types().get(kind, "Any"),
                    ...,
                    False,
                    None,
                    alias,
                    False,
                )
            )

    @property
    def is_mutable(self):
        """Whether the operator changes one of its arguments."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self):
        parts = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {results}"

    __repr__ = __str__


def _schema(op):
    return Schema(op)


def _name(op):
    return OperatorName(op.full_name, op.namespace)


def _opname(op):
    return op.full_name.partition(".")[0]


def _overloadname(op):
    return op.full_name.partition(".")[2] or "default"


def _overloadpacket(op):
    return find_packet(op.namespace, _opname(op))


class OverloadList(list):
    """An operator's overloads; called, their names.

    >>> import rushlight as rl
    >>> rl.ops.aten.sum.overloads()
    ['default', 'dim_IntList']
    """

    def __call__(self):
        return [op._overloadname for op in self]


_overloads = OperatorPacket.__dict__["overloads"]
install(
    "overloads",
    property(lambda packet: OverloadList(_overloads.__get__(packet))),
    OperatorPacket,
)
install(
    "_qualified_op_name",
    property(lambda packet: packet.overloads[0].name().partition(".")[0]),
    OperatorPacket,
)
_ATTRIBUTES = {
    "name": _name,
    "_schema": _schema,
    "_opname": _opname,
    "_overloadname": _overloadname,
    "_overloadpacket": _overloadpacket,
    "overloadpacket": _overloadpacket,
    "_namespace": lambda op: op.namespace,
    "op": lambda op: op,
    "_op": lambda op: op,
}
for _attribute, _function in _ATTRIBUTES.items():
    install(_attribute, property(_function), Operator)

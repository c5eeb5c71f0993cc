"""Operator signatures, parsed and printed: strings, numbers and tuples only.

The grammar is ATen's::

    add.Tensor(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor
    copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
    max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
"""

import re
from collections import namedtuple

from rushlight.dispatch.enums import ArgumentKind

REQUIRED = ...

# How types are spelled, a kind after the other.
_SPELLINGS = (
    "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor|Scalar",
    "Scalar", "Scalar?", "int", "int?", "int[]", "int[]?",
    "float", "float?", "bool", "bool?", "str", "str?",
    "ScalarType ScalarType?", "Device Device?", "Layout Layout?",
    "MemoryFormat MemoryFormat?", "Generator Generator?", "float[] float[]?", "Any",
    "bool[]", "Scalar[] Scalar?[]",
)  # fmt: skip
KINDS = {
    spelling: int(kind)
    for kind, spellings in zip(ArgumentKind, _SPELLINGS, strict=True)
    for spelling in spellings.split()
}
TENSOR_KINDS = frozenset(
    kind for kind in ArgumentKind if kind <= ArgumentKind.TENSOR_OR_SCALAR
)
INTEGER_LISTS = frozenset({ArgumentKind.INTS, ArgumentKind.OPTIONAL_INTS})
LIST_KINDS = INTEGER_LISTS | {
    ArgumentKind.FLOATS,
    ArgumentKind.BOOLS,
    ArgumentKind.SCALARS,
}
NAMED_KINDS = frozenset(
    kind
    for kind in ArgumentKind
    if ArgumentKind.DTYPE <= kind <= ArgumentKind.MEMORY_FORMAT
)
SYNONYMS = {
    "SymInt": "int", "dtype": "ScalarType", "number": "Scalar", "device": "Device",
}  # fmt: skip

# Arguments that choose a dimension or a way to compute: PyTorch has ``int`` there, where
# what may stay open in a graph is ``SymInt``.
STATIC_INTEGERS = frozenset(
    "dim dim0 dim1 dim2 dims dims_self dims_other start_dim end_dim axis axis0 axis1 source "
    "destination reduction correction compute_mode interpolation_mode padding_mode "
    "normalization edge_order decimals blank num_groups group chunks "
    "divisor_override sparse_dim dense_dim contraction_dim physical_layout".split()
)

WRITTEN, ALIASED, VARARGS, NEEDED, CONSTANT = 1, 2, 4, 16, 64

_CLASSES = "__torch__."  # classes that TorchScript has, by PyTorch's names
_NAME = re.compile(r"\s*((?:\w+::)?)(\w+)(?:\.(\w+))?\s*\(")
_TYPE = re.compile(
    r"(?P<base>\w+(?:\|\w+)?)(?:\((?P<alias>[^)]*)\))?(?P<optional_item>\?)?"
    r"(?P<list>\[(?P<size>\d*)\])?(?P<optional>\?)?$"
)


class SchemaError(RuntimeError):
    """A signature that doesn't follow the grammar."""


class Type(namedtuple("Type", "base size optional alias")):
    """One type: its base with list brackets, the list's length, ``?``, alias set.

    >>> print(Type.parse("int[2]?"))
    int[2]?
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text):
        """The type that ``text`` spells."""
        if text.startswith(_CLASSES):  # an object that only its operators look into
            return cls(text, 0, False, "")
        match = _TYPE.match(text)
        if match is None:
            raise SchemaError(f"'{text}' is not a type")
        base = SYNONYMS.get(match["base"], match["base"])
        optional = bool(match["optional"])
        if match["list"]:
            base += ("?" if match["optional_item"] else "") + "[]"
        else:
            optional = optional or bool(match["optional_item"])
        result = cls(base, int(match["size"] or 0), optional, match["alias"] or "")
        if result.plain not in KINDS:
            raise SchemaError(f"'{text}' is not a type that an operator can take")
        return result

    @property
    def plain(self):
        """The spelling that ``KINDS`` knows, without length or alias."""
        if self.base.startswith(_CLASSES):
            return "Any"
        return self.base + ("?" if self.optional else "")

    @property
    def kind(self):
        """The type's code in the generated tables."""
        return KINDS[self.plain]

    @property
    def alias_flag(self):
        """0 for a fresh value, 1 for memory shared with it, 2 for memory written."""
        return 2 if "!" in self.alias else int(bool(self.alias))

    def __str__(self):
        base, brackets, _ = self.base.partition("[")
        item = "?" if base.endswith("?") else ""
        alias = f"({self.alias})" if self.alias else ""
        length = f"[{self.size or ''}]" if brackets else ""
        return base.rstrip("?") + alias + item + length + ("?" if self.optional else "")


class Constant(int):
    """A default that a schema gives by the name of a constant of PyTorch's."""


class Argument(namedtuple("Argument", "name type default kwarg_only")):
    """One parameter; ``default`` is ``REQUIRED`` where there is none."""

    __slots__ = ()

    @property
    def kind(self):
        """The type's code in the generated tables."""
        return self.type.kind

    @property
    def written(self):
        """Whether the operator changes this argument."""
        return self.type.alias_flag == 2

    def __str__(self):
        default = ""
        if self.default is not REQUIRED:
            default = f"={_print_default(self.default, self.type)}"
        return f"{self.type} {self.name}{default}"


class Return(namedtuple("Return", "type name")):
    """One result; ``name`` is None where it has none."""

    __slots__ = ()

    def __str__(self):
        return f"{self.type} {self.name}" if self.name else str(self.type)


class Schema(namedtuple("Schema", "namespace name overload args returns")):
    """An operator's signature.

    >>> print(parse("neg(Tensor self) -> Tensor"))
    neg(Tensor self) -> Tensor
    """

    __slots__ = ()

    @property
    def full_name(self):
        """``name.overload``, or the name alone."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    def __str__(self):
        parts = []
        for arg in self.args:
            if arg.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(arg))
        head = f"{self.namespace}::" if self.namespace else ""
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            returns = f"({returns})"
        return f"{head}{self.full_name}({', '.join(parts)}) -> {returns}"


def parse(text):
    """The schema that ``text`` spells.

    Raises:
        SchemaError: the text doesn't follow the grammar; the message quotes the part.
    """
    match = _NAME.match(text)
    if match is None:
        raise SchemaError(
            f"schema '{text}' must start with 'name(' or 'name.overload('"
        )
    closing = _closing(text, match.end() - 1)
    arrow = text[closing + 1 :].strip()
    if not arrow.startswith("->"):
        raise SchemaError(f"schema '{text}' has no '-> result'")
    args = _parse_arguments(text[match.end() : closing], text)
    returns = _parse_returns(arrow[2:].strip())
    return Schema(match[1].rstrip(":"), match[2], match[3] or "", args, returns)


def varargs_index(args, method):
    """The index of the int list that may be given as separate numbers, or None.

    It must be the only positional parameter besides a method's own tensor.
    """
    positional = [i for i, arg in enumerate(args) if not arg.kwarg_only]
    if method or (args and args[0].kind == ArgumentKind.TENSOR):
        positional = positional[1:]
    if positional and args[positional[0]].kind in INTEGER_LISTS:
        rest = positional[1:]
        if not rest:
            return positional[0]
    return None


def argument_rows(schema, method=False):
    """The arguments as the plain tuples of the generated tables."""
    varargs = varargs_index(schema.args, method)
    rows = []
    for index, arg in enumerate(schema.args):
        flags = (0, ALIASED, WRITTEN)[arg.type.alias_flag]
        if index == varargs:
            flags |= VARARGS
        if (
            arg.kind in NAMED_KINDS
            and arg.default is REQUIRED
            and not arg.type.optional
        ):
            flags |= NEEDED  # None is not taken for what the operator chooses
        if isinstance(arg.default, Constant):
            flags |= CONSTANT
        rows.append(
            (arg.name, arg.kind, arg.default, arg.kwarg_only, arg.type.size, flags)
        )
    return tuple(rows)


def return_rows(schema):
    """The results as the plain tuples of the generated tables."""
    return tuple((r.type.kind, r.name, r.type.alias_flag) for r in schema.returns)


def _closing(text, opening):
    """Where the bracket at ``opening`` closes."""
    depth = 0
    for index in range(opening, len(text)):
        if text[index] in "([":
            depth += 1
        elif text[index] in ")]":
            depth -= 1
            if depth == 0:
                return index
    raise SchemaError(f"schema '{text}' has an unclosed bracket")


def _split(text):
    """The parts between commas that no bracket or quote encloses."""
    parts, depth, quote, start = [], 0, "", 0
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _parse_arguments(text, schema):
    args, kwarg_only, defaulted = [], False, False
    for part in _split(text):
        if part == "*":
            kwarg_only = True
            continue
        arg = _parse_argument(part, kwarg_only)
        if any(arg.name == other.name for other in args):
            raise SchemaError(f"schema '{schema}' has two arguments named '{arg.name}'")
        if defaulted and not kwarg_only and arg.default is REQUIRED:
            raise SchemaError(
                f"argument '{part}' needs a default: one before it has one"
            )
        defaulted = defaulted or arg.default is not REQUIRED
        args.append(arg)
    return tuple(args)


def _parse_argument(text, kwarg_only):
    declaration, equals, default = text.partition("=")
    kind, _, name = declaration.strip().rpartition(" ")
    if not kind or not name.isidentifier():
        raise SchemaError(
            f"argument '{text}' is not 'Type name' or 'Type name=default'"
        )
    parsed = Type.parse(kind.strip())
    value = _parse_default(default.strip(), parsed) if equals else REQUIRED
    return Argument(name, parsed, value, kwarg_only)


def _parse_returns(text):
    if text == "()":
        return ()
    if text.startswith("("):
        text = text[1 : _closing(text, 0)]
    returns = []
    for part in _split(text):
        kind, _, name = part.rpartition(" ")
        if not kind:
            kind, name = name, None
        returns.append(Return(Type.parse(kind), name))
    return tuple(returns)


_WORDS = {
    "None": None, "True": True, "False": False, "Mean": Constant(1), "Sum": Constant(2),
    "inf": float("inf"), "-inf": float("-inf"),
}  # fmt: skip


def _parse_default(text, kind):
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] == "[":
        return tuple(_parse_default(part, kind) for part in _split(text[1:-1]))
    if text[:1] in "'\"":
        return text[1:-1]
    try:
        number = float(text)
    except ValueError:
        if text.isidentifier():
            return text
        raise SchemaError(f"'{text}' is not a default value") from None
    if kind.base.startswith("float") or not re.fullmatch(r"-?\d+", text):
        return number
    return int(text)


def _print_default(value, kind):
    if isinstance(value, tuple):
        return f"[{', '.join(_print_default(item, kind) for item in value)}]"
    if isinstance(value, str) and kind.base == "str":
        return f'"{value}"'
    return str(value)

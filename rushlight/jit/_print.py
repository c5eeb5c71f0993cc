"""Programs as text: the form of PyTorch's archives, which both libraries read again.

A value that is read once, by what comes next, stands in its place; others have a name.
"""

import keyword
import math
import re

import rushlight as torch
from rushlight.jit import _runtime, _types

_RESERVED = frozenset(keyword.kwlist) | {
    *"torch ops print int float bool str range CONSTANTS annotate getattr isinstance".split(),
    *"uninitialized unchecked_cast inf nan self Tensor List Dict Optional Tuple".split(),
}
_CASTS = {
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::Bool": "bool",
    "aten::Complex": "complex",
    "aten::str": "str",
    "aten::IntImplicit": "int",
    "aten::FloatImplicit": "float",
    "prim::Print": "print",
}

_SAID = "prim::Print", "aten::warn"  # what gives nothing, in PyTorch's texts, too


def code_of(function):
    """The text of a function, as ``code`` shows it."""
    return Printer(Tensors()).function(function, shown=True)


def code_and_constants(function):
    """The text, and the tensors that it names."""
    tensors = Tensors()
    text = Printer(tensors).function(function, shown=True)
    return text, {f"c{at}": value for at, value in enumerate(tensors.values)}


class Tensors:
    """The tensors that a program names: ``CONSTANTS.c0`` and so on."""

    def __init__(self):
        self.values: list = []

    def name(self, tensor):
        """The name of a tensor."""
        for at, known in enumerate(self.values):
            if known is tensor:
                return f"CONSTANTS.c{at}"
        self.values.append(tensor)
        return f"CONSTANTS.c{len(self.values) - 1}"


def quoted(text):
    """A text between quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return f'"{escaped}"'


def number(value):
    """A number as text."""
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if math.isnan(value):
            return "nan"
        text = f"{value:.17g}"
        return text if any(mark in text for mark in ".en") else text + "."
    return repr(value)


class Printer:
    """Prints functions; notes which classes and functions they need.

    Args:
        tensors: where constants that are tensors are kept.
        needs: called with each class type or function that a program uses.
    """

    def __init__(self, tensors, needs=lambda thing: None):
        self.tensors, self.needs = tensors, needs

    def function(self, function, depth=0, shown=False):
        """A function's text."""
        self.names, self.taken, self.count = {}, set(), 0
        self.lines, self.pending = [], []
        graph = function.graph
        params = self.parameters(function, shown)
        returns = [value.type for value in graph.returns.inputs_]
        declared = function.schema.returns
        kind = declared[0] if declared and declared[0] is not None else returns[0]
        pad = "  " * depth
        head = f"{pad}def {function.base_name}({params}) -> {self.type(kind)}:"
        self.block(graph, depth + 1)
        value = self.take([graph.returns.inputs_[0]])[0]
        self.flush(depth + 1)
        self.lines.append(f"{'  ' * (depth + 1)}return {value}")
        return "\n".join([head, *self.lines]) + "\n"

    def parameters(self, function, shown):
        shown_as = []
        for value, argument in zip(function.graph.params, function.schema.arguments):
            name = self.fixed(value, argument.name)
            text = (
                name
                if name == "self" and shown
                else f"{name}: {self.type(argument.type)}"
            )
            if argument.default is not ...:
                text += f"={self.literal(argument.default, argument.type)}"
            shown_as.append(text)
        return ",\n    ".join(shown_as)

    def type(self, kind):
        """A type's text."""
        self.note(kind)
        return kind.annotation_str

    def note(self, kind):
        """Notes the classes that a type names."""
        if isinstance(kind, (_types.ClassType, _types.InterfaceType, _types.EnumType)):
            self.needs(kind)
        elif isinstance(kind, _types.TupleType) and kind.name is not None:
            self.needs(kind)
        for part in kind.containedTypes():
            self.note(part)

    # -- names -------------------------------------------------------------------------

    def fixed(self, value, name):
        """Gives a value its own name."""
        self.names[value] = name
        self.taken.add(name)
        return name

    def fresh(self, value):
        """A name for a value that needs one."""
        base = re.sub(r"\.\d+$", "", value.name or "_")
        base = re.sub(r"\W", "_", base).strip("_") or "_"
        if value.name is None or base[0].isdigit() or base in ("_", "return_value"):
            name = f"_{self.count}"
            while name in self.taken:
                self.count += 1
                name = f"_{self.count}"
            return self.fixed(value, name)
        name, number = base, 0
        while name in self.taken or name in _RESERVED:
            name, number = f"{base}{number}", number + 1
        return self.fixed(value, name)

    # -- values ------------------------------------------------------------------------

    def take(self, values):
        """The texts of what a node reads; what was put off stands in its place."""
        texts = [None] * len(values)
        for at in range(len(values) - 1, -1, -1):
            value = values[at]
            if self.pending and self.pending[-1][0] is value:
                texts[at] = self.pending.pop()[1]
            else:
                texts[at] = self.read(value)
        return texts

    def read(self, value):
        """The text that reads a value that has a name or is a constant."""
        if value in self.names:
            return self.names[value]
        node = value.node
        if node is not None and node.kind_ == "prim::Constant":
            return self.literal(node.attributes["value"], value.type)
        for at, (own, _) in enumerate(self.pending):
            if own is value:  # something in between is needed later
                self.flush_to(at + 1)
                return self.names[value]
        raise RuntimeError(f"a value has no text: {value!r}")

    def literal(self, value, kind=None):
        """A constant's text."""
        if value is None:
            if isinstance(kind, _types.OptionalType):
                return f"annotate({self.type(kind)}, None)" if kind else "None"
            return "None"
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, (int, float)):
            return number(value)
        if isinstance(value, complex):
            return f"complex({number(value.real)}, {number(value.imag)})"
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if isinstance(value, torch.Tensor):
            return self.tensors.name(value)
        return self.composed(value, kind)

    def composed(self, value, kind):
        if isinstance(value, (list, torch.Size)):
            return f"[{', '.join(map(self.literal, value))}]"
        if isinstance(value, tuple):
            inner = ", ".join(map(self.literal, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, dict):
            pairs = ", ".join(
                f"{self.literal(k)}: {self.literal(v)}" for k, v in value.items()
            )
            return f"{{{pairs}}}"
        if hasattr(value, "name") and hasattr(value, "value"):
            if not isinstance(kind, _types.EnumType):
                kind = _runtime.handed.classes[type(value)]
            self.needs(kind)
            return f"{kind.name}.{value.name}"
        code = _runtime.code_of(value)
        if isinstance(code, int):
            return str(code)
        raise RuntimeError(f"a value of type {type(value).__name__} cannot be written")

    # -- statements --------------------------------------------------------------------

    def line(self, depth, text):
        """Adds a line, after what was put off."""
        self.flush(depth)
        self.lines.append("  " * depth + text)

    def flush(self, depth=None):
        """Gives names to what was put off."""
        self.flush_to(len(self.pending), depth)

    def flush_to(self, count, depth=None):
        depth = self.depth if depth is None else depth
        done, self.pending = self.pending[:count], self.pending[count:]
        for value, text in done:
            self.lines.append(f"{'  ' * depth}{self.fresh(value)} = {text}")

    def block(self, block, depth):
        """The lines of a block."""
        self.depth = depth
        for node in block.nodes_:
            self.node(node, depth)
            self.depth = depth

    def node(self, node, depth):
        """The lines of a node, or its text put off."""
        kind = node.kind_
        if kind == "prim::Constant":
            return
        if kind == "prim::If":
            self.branch(node, depth)
        elif kind == "prim::Loop":
            self.loop(node, depth)
        elif kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            self.unpack(node, depth)
        elif kind == "prim::SetAttr":
            owner, value = self.take(node.inputs_)
            self.line(depth, f"{self.member(owner, node.attributes['name'])} = {value}")
        elif kind == "prim::RaiseException":
            texts = self.take(node.inputs_)
            texts = texts[:1] if len(texts) > 1 and texts[1] == "None" else texts
            self.line(depth, f"ops.prim.RaiseException({', '.join(texts)})")
        else:
            self.expression(node, depth)

    def expression(self, node, depth):
        """A node that computes values."""
        text = self.text(node)
        if not node.outputs_:
            self.line(
                depth, text if node.kind_ in _SAID else f"_{self.skip()} = {text}"
            )
            return
        if len(node.outputs_) > 1:
            self.flush(depth)
            names = ", ".join(f"{self.fresh(value)}" for value in node.outputs_)
            self.lines.append(f"{'  ' * depth}{names}, = {text}")
            return
        (value,) = node.outputs_
        if self.is_put_off(node, value):
            self.pending.append((value, text))
            return
        self.flush(depth)
        self.lines.append(f"{'  ' * depth}{self.fresh(value)} = {text}")

    def skip(self):
        while f"_{self.count}" in self.taken:
            self.count += 1
        self.taken.add(f"_{self.count}")
        return self.count

    def is_put_off(self, node, value):
        """Whether a value is read once, in its own block."""
        if len(value.uses) != 1 or node.kind_ in (
            "prim::Uninitialized",
            "prim::CreateObject",
        ):
            return False
        return value.uses[0].owner is node.owner or value.uses[0] is node.owner.returns

    def branch(self, node, depth):
        (test,) = self.take(node.inputs_)
        names = [self.fresh(value) for value in node.outputs_]
        self.line(depth, f"if {test}:")
        for at, block in enumerate(node.blocks_):
            if at:
                self.lines.append("  " * depth + "else:")
            start = len(self.lines)
            self.block(block, depth + 1)
            values = self.take(list(block.returns.inputs_))
            self.flush(depth + 1)
            if names:
                self.lines.append(
                    f"{'  ' * (depth + 1)}{', '.join(names)} = {', '.join(values)}"
                )
            if len(self.lines) == start:
                self.lines.append("  " * (depth + 1) + "pass")

    def loop(self, node, depth):
        (block,) = node.blocks_
        texts = self.take(node.inputs_)
        self.flush(depth)
        count, first, *initial = texts
        at, *params = block.params
        names = [self.fresh(value) for value in params]
        pad = "  " * depth
        for name, text in zip(names, initial):
            self.lines.append(f"{pad}{name} = {text}")
        unbounded = count == "9223372036854775807"
        again = block.returns.inputs_[0]
        always = first == "True" and self.is_true(again)
        index, on = self.fresh(at), f"_{self.skip()}"
        if always and not unbounded:
            self.lines.append(f"{pad}for {index} in range({count}):")
        else:
            self.lines += [f"{pad}{index} = 0", f"{pad}{on} = {first}"]
            limit = (
                "" if unbounded else f"torch.__and__(torch.lt({index}, {count}), {on})"
            )
            self.lines.append(f"{pad}while {limit or on}:")
        start = len(self.lines)
        self.block(block, depth + 1)
        self.next_iteration(
            block, names, index, on, always and not unbounded, depth + 1
        )
        if len(self.lines) == start:
            self.lines.append("  " * (depth + 1) + "pass")
        for value, name in zip(node.outputs_, names):
            self.names[value] = name

    def next_iteration(self, block, names, index, on, counted, depth):
        """The end of a loop's body: what the next turn is given."""
        again, *after = block.returns.inputs_
        values = self.take([again, *after])
        self.flush(depth)
        left, right = list(names), values[1:]
        if not counted:
            left, right = (
                [*left, on, index],
                [*right, values[0], f"torch.add({index}, 1)"],
            )
        pairs = [(n, v) for n, v in zip(left, right) if n != v]
        if pairs:
            names, values = zip(*pairs)
            self.lines.append(f"{'  ' * depth}{', '.join(names)} = {', '.join(values)}")

    @staticmethod
    def is_true(value):
        node = value.node
        return (
            node is not None
            and node.kind_ == "prim::Constant"
            and node.attributes["value"] is True
        )

    def unpack(self, node, depth):
        (text,) = self.take(node.inputs_)
        self.flush(depth)
        names = "".join(f"{self.fresh(value)}, " for value in node.outputs_)
        if not names:
            return
        if node.kind_ == "prim::ListUnpack":
            names = f"{names.rstrip(', ')}, " if len(node.outputs_) == 1 else names
        self.lines.append(f"{'  ' * depth}{names}= {text}")

    # -- expressions -------------------------------------------------------------------

    @staticmethod
    def member(owner, name):
        if name.isidentifier() and not keyword.iskeyword(name):
            return f"{owner}.{name}"
        return f"getattr({owner}, {quoted(name)})"

    def text(self, node):
        """The text of a node that computes a value."""
        way = _TEXTS.get(node.kind_)
        texts = self.take(node.inputs_)
        if way is not None:
            return way(self, node, texts)
        return self.operator(node, texts)

    def operator(self, node, texts):
        """The text of an operator's call, without defaults at its end."""
        kind = node.kind_
        if kind in _CASTS:
            return f"{_CASTS[kind]}({', '.join(texts)})"
        namespace, _, name = kind.partition("::")
        path = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
        if node.schema is None:
            return f"{path}({', '.join(texts)})"
        rows = list(zip(node.schema.arguments, node.inputs_, texts))
        plain = [row for row in rows if not row[0].kwarg_only]
        while plain and self.is_default(*plain[-1][:2]):
            plain.pop()
        parts = [text for _, _, text in plain]
        parts += [
            f"{a.name}={text}"
            for a, v, text in rows
            if a.kwarg_only and not self.is_default(a, v)
        ]
        return f"{path}({', '.join(parts)})"

    @staticmethod
    def is_default(argument, value):
        if argument.default is ...:
            return False
        node = value.node
        default = argument.default
        if node is not None and node.kind_ == "prim::ListConstruct":
            known = [
                n.node.attributes.get("value") if n.node else ... for n in node.inputs_
            ]
            return isinstance(default, (list, tuple)) and known == list(default)
        if node is None or node.kind_ != "prim::Constant":
            return False
        if argument.decoded and isinstance(default, str):
            default = getattr(torch, default.removeprefix("torch."), default)
            default = _runtime.code_of(default)
        known = node.attributes["value"]
        return known == default and type(known) is type(default)


def _list(printer, node, texts):
    kind = node.outputs_[0].type
    text = f"[{', '.join(texts)}]"
    element = kind.getElementType()
    plain = texts and all(v.type == element for v in node.inputs_)
    return text if plain else f"annotate({printer.type(kind)}, {text})"


def _tuple(printer, node, texts):
    kind = node.outputs_[0].type
    if kind.name is not None:
        printer.needs(kind)
        return f"{kind.name}({', '.join(texts)})"
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _dict(printer, node, texts):
    pairs = ", ".join(f"{k}: {v}" for k, v in zip(texts[::2], texts[1::2]))
    text = f"{{{pairs}}}"
    return text if texts else f"annotate({printer.type(node.outputs_[0].type)}, {text})"


def _get(printer, node, texts):
    return printer.member(texts[0], node.attributes["name"])


def _method(printer, node, texts):
    printer.needs(node.inputs_[0].type)
    given = "".join(f"{text}, " for text in texts[1:])
    return f"({texts[0]}).{node.attributes['name']}({given})"


def _function(printer, node, texts):
    function = node.attributes["function"]
    printer.needs(function)
    return f"{function.name}({''.join(f'{text}, ' for text in texts)})"


def _create(printer, node, texts):
    kind = node.outputs_[0].type
    printer.needs(kind)
    return f"{kind.name}.__new__({kind.name})"


def _cast(printer, node, texts):
    return f"unchecked_cast({printer.type(node.outputs_[0].type)}, {texts[0]})"


def _uninitialized(printer, node, texts):
    return f"uninitialized({printer.type(node.outputs_[0].type)})"


def _isinstance(printer, node, texts):
    kinds = [
        k if isinstance(k, str) else printer.type(k) for k in node.attributes["types"]
    ]
    return (
        f"isinstance({texts[0]}, {kinds[0] if len(kinds) == 1 else kinds_text(kinds)})"
    )


def kinds_text(kinds):
    """Several types, as ``isinstance`` is told them."""
    return f"({', '.join(kinds)})"


def _tolist(printer, node, texts):
    return f"annotate({printer.type(node.outputs_[0].type)}, {texts[0]}.tolist())"


def _refused(printer, node, texts):
    name = getattr(node.attributes.get("python"), "__name__", node.kind_)
    raise RuntimeError(
        f"Could not export Python function call '{name}'. Remove calls to Python functions "
        "before export. Did you forget to add @script or @script_method annotation? If this "
        "is a nn.ModuleList, add it to __constants__"
    )


def _fork(printer, node, texts):
    printer.flush()
    (block,) = node.blocks_
    depth, name = printer.depth, "__forked_function"
    printer.lines.append(f"{'  ' * depth}def {name}():")
    printer.block(block, depth + 1)
    value = printer.take([block.returns.inputs_[0]])[0]
    printer.flush(depth + 1)
    printer.lines.append(f"{'  ' * (depth + 1)}return {value}")
    printer.depth = depth
    return f"fork({name})"


def _item(printer, node, texts):
    kind = node.inputs_[0].type
    if (
        isinstance(kind, (_types.ListType, _types.DictType))
        or kind == _types.StringType.get()
    ):
        return f"{texts[0]}[{texts[1]}]"
    return printer.operator(node, texts)


_TEXTS = {
    "prim::ListConstruct": _list,
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::TupleIndex": lambda p, n, t: f"({t[0]})[{t[1]}]",
    "prim::GetAttr": _get,
    "prim::CallMethod": _method,
    "prim::CallFunction": _function,
    "prim::CreateObject": _create,
    "prim::unchecked_cast": _cast,
    "prim::Uninitialized": _uninitialized,
    "prim::isinstance": _isinstance,
    "prim::tolist": _tolist,
    "prim::EnumName": lambda p, n, t: f"{t[0]}.name",
    "prim::EnumValue": lambda p, n, t: f"{t[0]}.value",
    "prim::PythonOp": _refused,
    "prim::fork": _fork,
    "aten::__getitem__": _item,
}

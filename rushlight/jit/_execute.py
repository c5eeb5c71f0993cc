"""Runs graphs: each becomes one Python function, made when it is first called.

A node is a line or two; ``prim::If`` and ``prim::Loop`` are Python's own. Operators of
the registry are called by their overload, those of the table by their expression.
"""

from __future__ import annotations

import keyword
import math
import warnings

import rushlight as torch
from rushlight.jit import _numbers, _runtime, _types
from rushlight.jit._scalars import compiled
from rushlight.jit._schemas import DECODED

_INLINE = (bool, int, str, type(None))
_DECODERS = {
    "ScalarType": "dtype",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Device": "device",
}


class Lines:
    """A Python function in the making."""

    def __init__(self, function):
        self.function = function
        self.lines: list = []
        self.ranges: list = []  # of each line
        self.place = None
        self.names: dict = {}
        self.scope = {
            "torch": torch,
            "run": _runtime,
            "num": _numbers,
            "math": math,
            "warnings": warnings,
            "ranges": self.ranges,
            "function": function,
        }
        self.taken = 0

    def line(self, depth, text):
        """Adds a line."""
        self.lines.append("    " * depth + text)
        self.ranges.append(self.place)

    def bound(self, thing, stem):
        """A name that the function finds an object under."""
        name = f"{stem}{len(self.scope)}"
        self.scope[name] = thing
        return name

    def name(self, value):
        """The variable of a value."""
        if value not in self.names:
            self.taken += 1
            self.names[value] = f"v{self.taken}"
        return self.names[value]

    def read(self, value):
        """The expression that reads a value."""
        if value in self.names:
            return self.names[value]
        node = value.node
        if node is not None and node.kind_ == "prim::Constant":
            self.names[value] = self.constant(node.attributes["value"])
            return self.names[value]
        return self.name(value)

    def constant(self, python):
        if type(python) in _INLINE:
            return repr(python)
        if type(python) is float and math.isfinite(python):
            return repr(python)
        return self.bound(python, "c")

    # -- nodes -------------------------------------------------------------------------

    def block(self, block, depth):
        """The lines of a block."""
        for node in block.nodes_:
            self.node(node, depth)

    def node(self, node, depth):
        """The lines of a node."""
        self.place = node.place
        way = _NODES.get(node.kind_)
        if way is not None:
            way(self, node, depth)
            return
        if node.kind_ in ("aten::eq", "aten::ne") and node.schema is None:
            sign = " == " if node.kind_ == "aten::eq" else " != "
            self.assign(node, sign.join(self.reads(node)), depth)
            return
        if node.schema is None:
            raise RuntimeError(f"{node.kind_}: nothing here runs this operator")
        call = self.operator(node)
        self.assign(node, call, depth)

    def assign(self, node, text, depth):
        """``names = text``."""
        names = [self.name(value) for value in node.outputs_]
        self.line(depth, f"{', '.join(names)} = {text}" if names else text)

    def operator(self, node):
        """The call of an operator."""
        schema = node.schema
        given = [self.argument(a, v) for a, v in zip(schema.arguments, node.inputs_)]
        if schema.template is not None:
            return schema.template.format(*(f"({g})" if " " in g else g for g in given))
        name = self.bound(schema.operator, "op")
        parts = [
            f"{a.name}={g}" if a.kwarg_only else g
            for a, g in zip(schema.arguments, given)
        ]
        return f"{name}({', '.join(parts)})"

    def argument(self, argument, value):
        """One operand; numbers of types become the types."""
        if argument.decoded not in DECODED:
            return self.read(value)
        node = value.node
        if node is not None and node.kind_ == "prim::Constant":
            decoded = node.attributes["value"]
            if argument.decoded == "Device":
                decoded = _runtime.device(decoded)
            elif decoded is not None:
                decoded = _runtime.decoded(argument.decoded, decoded)
            return "None" if decoded is None else self.bound(decoded, "d")
        return f"run.{_DECODERS[argument.decoded]}({self.read(value)})"

    def reads(self, node):
        """The operands of a node."""
        return [self.read(value) for value in node.inputs_]


def _constant(out, node, depth):
    return None


def _if(out, node, depth):
    names = [out.name(value) for value in node.outputs_]
    for word, block in zip((f"if {out.read(node.inputs_[0])}:", "else:"), node.blocks_):
        out.line(depth, word)
        out.block(block, depth + 1)
        values = [out.read(value) for value in block.returns.inputs_]
        for name, value in zip(names, values):
            out.line(depth + 1, f"{name} = {value}")
        if not names and not block.nodes_ or not names:
            out.line(depth + 1, "pass")


def _loop(out, node, depth):
    step = compiled(node)
    if step is not None:
        reads = [out.read(value) for value in step.inputs]
        out.assign(node, f"{out.bound(step, 'loop')}({', '.join(reads)})", depth)
        return
    count, first, *initial = node.inputs_
    (block,) = node.blocks_
    at, *params = block.params
    again, *after = block.returns.inputs_
    names = [out.name(param) for param in params]
    for name, value in zip(names, initial):
        out.line(depth, f"{name} = {out.read(value)}")
    always = _is_true(first) and _is_true(again)
    index = out.name(at)
    unbounded = (
        count.node is not None and count.node.attributes.get("value") == 2**63 - 1
    )
    if always and not unbounded:
        out.line(depth, f"for {index} in range({out.read(count)}):")
    else:
        _while(
            out, index, None if unbounded else out.read(count), out.read(first), depth
        )
    out.block(block, depth + 1)
    _rotate(out, names, [out.read(value) for value in after], depth + 1)
    if not always:
        out.line(depth + 1, f"{index}_on = {out.read(again)}")
        if not unbounded or at.uses:
            out.line(depth + 1, f"{index} += 1")
    out.line(depth + 1, "pass")
    for value, name in zip(node.outputs_, names):
        out.names[value] = name


def _while(out, index, count, first, depth):
    out.line(depth, f"{index} = 0")
    out.line(depth, f"{index}_on = {first}")
    bound = f"{index} < {count} and " if count is not None else ""
    out.line(depth, f"while {bound}{index}_on:")


def _rotate(out, names, values, depth):
    pairs = [(n, v) for n, v in zip(names, values) if n != v]
    if pairs:
        left = ", ".join(name for name, _ in pairs)
        out.line(depth, f"{left} = {', '.join(value for _, value in pairs)}")


def _is_true(value):
    node = value.node
    return (
        node is not None
        and node.kind_ == "prim::Constant"
        and node.attributes["value"] is True
    )


def _text(template):
    def way(out, node, depth):
        out.assign(
            node,
            template.format(*out.reads(node), all=", ".join(out.reads(node))),
            depth,
        )

    return way


def _tuple(out, node, depth):
    kind = node.outputs_[0].type
    reads = out.reads(node)
    if kind.name is not None and kind.python is not None:
        out.assign(node, f"{out.bound(kind.python, 'T')}({', '.join(reads)})", depth)
    else:
        out.assign(node, f"({', '.join(reads)}{',' if len(reads) == 1 else ''})", depth)


def _dict(out, node, depth):
    reads = out.reads(node)
    pairs = ", ".join(f"{k}: {v}" for k, v in zip(reads[::2], reads[1::2]))
    out.assign(node, f"{{{pairs}}}", depth)


def _unpack(out, node, depth):
    (value,) = out.reads(node)
    names = [out.name(v) for v in node.outputs_]
    if names:
        out.line(depth, f"{', '.join(names)}, = {value}")


def _unpack_list(out, node, depth):
    (value,) = out.reads(node)
    names = [out.name(v) for v in node.outputs_]
    out.line(depth, f"{', '.join(names)}, = run.unpacked({value}, {len(names)})")


def _get(out, node, depth):
    (owner,) = out.reads(node)
    name = node.attributes["name"]
    plain = name.isidentifier() and not keyword.iskeyword(name)
    access = f"{owner}.{name}" if plain else f"getattr({owner}, {name!r})"
    out.assign(node, access, depth)


def _set(out, node, depth):
    owner, value = out.reads(node)
    out.line(depth, f"run.set_attribute({owner}, {node.attributes['name']!r}, {value})")


def _call_method(out, node, depth):
    owner = node.inputs_[0].type
    name, reads = node.attributes["name"], out.reads(node)
    method = owner.methods.get(name) if isinstance(owner, _types.ClassType) else None
    if method is None:
        text = f"run.call_method({reads[0]}, {name!r}, {', '.join(reads[1:])})"
    elif owner.is_module and name == "forward" and not owner.has_hooks:
        text = f"{reads[0]}({', '.join(reads[1:])})"
    else:
        text = f"{out.bound(Runner(method), 'm')}({', '.join(reads)})"
    out.assign(node, text, depth)


def _call_function(out, node, depth):
    runner = out.bound(Runner(node.attributes["function"]), "f")
    out.assign(node, f"{runner}({', '.join(out.reads(node))})", depth)


def _python(out, node, depth):
    name = out.bound(node.attributes["python"], "py")
    out.assign(node, f"{name}({', '.join(out.reads(node))})", depth)


def _raise(out, node, depth):
    reads = out.reads(node)
    kind = reads[1] if len(reads) > 1 else "None"
    out.line(depth, f"raise run.exception({reads[0]}, {kind})")


def _create(out, node, depth):
    kind = out.bound(node.outputs_[0].type, "K")
    out.assign(node, f"run.created({kind})", depth)


def _isinstance(out, node, depth):
    kinds = out.bound(node.attributes["types"], "ks")
    out.assign(node, f"run.is_instance({out.read(node.inputs_[0])}, {kinds})", depth)


def _uninitialized(out, node, depth):
    out.assign(node, "None", depth)


def _alias(out, node, depth):
    out.assign(node, out.read(node.inputs_[0]), depth)


def _fork(out, node, depth):
    (block,) = node.blocks_
    name = f"task{len(out.lines)}"
    out.line(depth, f"def {name}():")
    out.block(block, depth + 1)
    out.line(depth + 1, f"return {out.read(block.returns.inputs_[0])}")
    out.assign(node, f"run.forked({name})", depth)


def _format(out, node, depth):
    template, *values = out.reads(node)
    out.assign(node, f"{template}.format({', '.join(values)})", depth)


_NODES = {
    "prim::Constant": _constant,
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::ListConstruct": _text("[{all}]"),
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack_list,
    "prim::TupleIndex": _text("{0}[{1}]"),
    "prim::GetAttr": _get,
    "prim::SetAttr": _set,
    "prim::CallMethod": _call_method,
    "prim::CallFunction": _call_function,
    "prim::PythonOp": _python,
    "prim::RaiseException": _raise,
    "prim::CreateObject": _create,
    "prim::isinstance": _isinstance,
    "prim::Uninitialized": _uninitialized,
    "prim::unchecked_cast": _alias,
    "prim::fork": _fork,
    "prim::Print": _text("print({all})"),
    "prim::tolist": _text("{0}.tolist()"),
    "prim::EnumName": _text("{0}.name"),
    "prim::EnumValue": _text("{0}.value"),
    "aten::format": _format,
    "aten::percentFormat": _text("run.percent({all})"),
    "aten::__is__": _text("{0} is {1}"),
    "aten::__isnot__": _text("{0} is not {1}"),
}


def python_of(function):
    """The Python function that computes a translated one, and its text."""
    out = Lines(function)
    graph = function.graph
    params = [out.name(value) for value in graph.params]
    out.line(0, f"def program({', '.join(params)}):")
    out.block(graph, 1)
    result = graph.returns.inputs_[0]
    out.line(1, f"return {out.read(result)}")
    text = "\n".join(out.lines) + "\n"
    code = compile(text, f"<torch_jit {function.base_name}>", "exec")
    exec(
        code, out.scope
    )  # lines made here, of a graph's nodes; no text of a file is in them
    return out.scope["program"], text


class Runner:
    """Runs a function of a program; made ready when it is first called."""

    __slots__ = ("function", "run")

    def __init__(self, function):
        self.function, self.run = function, None

    def __call__(self, *operands):
        run = self.run
        if run is None:
            run = self.run = ready(self.function)
        return run(*operands)


def ready(function):
    """The Python function of a translated one, made once."""
    if function._runs is None:
        function._runs, _ = python_of(function)
    return function._runs


_runtime.handed.ready = ready

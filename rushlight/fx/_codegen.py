"""Graphs written as Python: what each step looks like as a line."""

import enum
import keyword
import re
import types
import typing
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.core.device import Device
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.fx import _names
from rushlight.fx.node import Node, map_arg
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.operators.extensions import CustomClass

# Functions of Python's ``operator`` that are written as operators.
reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    f"i{name}".rstrip("_"): text.replace(" {}", "= {}", 1)
    for name, text in reflectable_magic_methods.items()
    if name not in ("div", "getitem")
}
inplace_methods["setitem"] = "{}[{}] = {}"

# ``typing``'s names of the plain containers that its constructions are made of.
_ORIGINS = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


@dataclass
class PythonCode:
    """A graph as Python: the text, the names it needs, and which line is which step."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How nests of arguments and results are taken apart."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _Names:
    """The names that one piece of code needs from outside."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.found: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        for name, entry in _names.custom_builtins().items():
            self.add(name, entry.obj)

    def add(self, hint, thing):
        """The name of a thing in the code; the thing is noted as needed."""
        if (
            _names.is_from_package(thing)
            and not isinstance(thing, types.ModuleType)
            and thing is not Device
            and not isinstance(thing, CustomClass)
        ):
            path = _names.qualified_name(thing)
            if _names.is_found(path, thing):  # from ``torch``, which the code has
                return path
        name = hint.replace(".", "_")
        if name in self.found and self.found[name] is thing:
            return name
        name = self.namespace.create_name(name, thing)
        self.found[name] = thing
        return name

    def type_text(self, kind):
        """A type as code."""
        if kind == ():
            return "()"
        typename = _names.type_name(kind)
        if kind is Any or kind is ...:
            return "..." if kind is ... else self.add("typing.Any", Any)
        if isinstance(kind, types.UnionType):
            return "|".join(self.type_text(each) for each in kind.__args__)
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add(typename, kind)
        plain = isinstance(kind, types.GenericAlias)
        origin = origin if plain else _ORIGINS.get(origin, origin)
        name = self.add(_names.type_name(origin), origin)
        inner = [self._argument_text(each) for each in typing.get_args(kind)]
        return f"{name}[{','.join(inner)}]" if inner else name

    def _argument_text(self, kind):
        if isinstance(kind, list):
            return f"[{','.join(self.type_text(each) for each in kind)}]"
        return "..." if kind is ... else self.type_text(kind)

    def text(self, value):
        """A constant, a node, or a nest of them, as code."""
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_make"):
            name = self.add(_names.type_name(type(value)), type(value))
            return f"{name}({', '.join(self.text(each) for each in value)})"
        if isinstance(value, tuple):
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(self.text(each) for each in value)}{comma})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(each) for each in value)}]"
        if isinstance(value, dict):
            rows = (f"{key!r}: {self.text(each)}" for key, each in value.items())
            return f"{{{', '.join(rows)}}}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(self.text(each) for each in parts)})"
        return self._constant(value)

    def _constant(self, value):
        if isinstance(value, Operator):
            return self.add(_names.qualified_name(value), value)
        if isinstance(value, enum.Enum):
            text, kind = _names.enum_text(value)
            name = self.add(kind.__name__, kind)
            return f"{name}.{text.partition('.')[2]}"
        if isinstance(value, Tensor):
            kind = _names.in_package(str(value.dtype)).partition(".")[2]
            return f"Tensor({kind}{list(value.shape)})"
        if isinstance(value, type):
            return self.type_text(value)
        if isinstance(value, CustomClass):
            return self.add("_torchbind_obj", value)
        if callable(value) and getattr(value, "__name__", None):
            return self.add(_names.qualified_name(value), value)
        return _names.value_text(value)

    def call_text(self, args, kwargs):
        """What stands between the parentheses of a call."""
        positional = [self.text(arg) for arg in args]
        named = [f"{key} = {self.text(arg)}" for key, arg in kwargs.items()]
        return ", ".join(positional + named)


def _format_target(base, target):
    """A path as code: ``getattr`` where an item is no name.

    >>> _format_target("self", "layers.0.weight")
    'getattr(self.layers, "0").weight'
    """
    text = base
    for item in target.split("."):
        plain = item.isidentifier()
        text = f"{text}.{item}" if plain else f'getattr({text}, "{item}")'
    return text


def _last_uses(nodes):
    """For each step the names whose last use it is, in the order of its arguments."""
    last: dict[Node, Node] = {}
    ended: dict[Node, list[Node]] = {}
    for node in reversed(nodes):

        def note(used, user=node):
            if used not in last:
                last[used] = user
                ended.setdefault(user, []).append(used)

        map_arg(node.args, note)
        map_arg(node.kwargs, note)
    return ended


@dataclass
class _Writing:
    """What is asked of one writing of code, and what has been written."""

    names: _Names
    root: str
    free: list[str]
    body: list[str]
    returns: str = ""
    verbose: bool = False


class CodeGen:
    """Writes a graph as Python; subclasses change the head and the ends of the function.

    >>> from rushlight import fx
    >>> print(fx.symbolic_trace(lambda x: x * 2).code.strip())
    def forward(self, x):
        mul = x * 2;  x = None
        return mul
    """

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The function's first line, and lines that must follow it at once.

        Args:
            free_vars: the arguments with their types and defaults.
            maybe_return_annotation: ``" -> type"``, or nothing.
            expanded_def: whether each argument gets a line of its own.
        """
        free_vars = list(free_vars)
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            listed = "".join(f"\n    {text}," for text in free_vars) + "\n"
        else:
            listed = ", ".join(free_vars)
        return f"def {self._func_name}({listed}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=repr):
        """The line that returns.

        Args:
            output_args: the nest that the graph returns.
            descs: comments for its items.
            repr_fn: what writes an item.
        """
        if descs is not None and isinstance(output_args, (list, tuple)):
            rows = "".join(
                f"    {repr_fn(item)},  # {desc}\n"
                for item, desc in zip(output_args, descs, strict=False)
            )
            opening, closing = "[]" if isinstance(output_args, list) else "()"
            return f"return {opening}\n{rows}{closing}"
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args):
        """The arguments of a call as the values of placeholders."""
        return args

    def process_outputs(self, outputs):
        """What the last step gives as what a call returns."""
        return outputs

    def additional_globals(self):
        """Names for the code beside those that its steps need: pairs of name and thing."""
        return []

    def _gen_python_code(
        self, nodes, root_module, namespace, *, verbose=False, include_stride=False,
        include_device=False, colored=False, expanded_def=False, record_func=False,
        additional_meta=None,
    ):  # fmt: skip
        names = _Names(namespace)
        for name, thing in self.additional_globals():
            names.add(name, thing)
        work = _Writing(names, root_module, [], [], verbose=verbose)
        shown = _Notes(
            verbose, include_stride, include_device, additional_meta or (), colored
        )
        ended = _last_uses(nodes)
        starts = {}
        for number, node in enumerate(nodes):
            shown.before(node, work.body)
            starts[node] = number
            # Which line a step is on is told from these marks.
            work.body.append(f"# COUNTER: {number}\n")
            self._emit(node, work)
            shown.after(node, work.body)
            if verbose and node.op == "placeholder" and node.type is None:
                shown.argument(node, work.free)
            if record_func and node.op.startswith("call"):
                _record(node, work)
            self._forget(node, ended, work)
        if not any(not line.startswith("# COUNTER") for line in work.body):
            work.body.append("pass\n")
        wraps = "\n".join(
            f'torch.fx._symbolic_trace.wrap("{name}")' for name in names.wrapped
        )
        if self._body_transformer:
            work.body = self._body_transformer(work.body)
        # a subclass's own may not know of lines for each argument
        layout = {"expanded_def": True} if expanded_def else {}
        head = self.gen_fn_def(work.free, work.returns, **layout)
        return self._assemble(wraps, head, work)

    def _assemble(self, wraps, head, work):
        text = f"\n{wraps}\n\n{head}\n"
        line_of: dict[int, int | None] = {}
        current: int | None = None
        lines: list[str] = []
        for line in "".join(work.body).lstrip("\n").split("\n"):
            mark = re.match(r"# COUNTER: (\d+)", line)
            if mark:
                current = int(mark[1])
                continue
            lines.append(line)
            line_of[len(lines)] = current
        while (
            lines and not lines[0]
        ):  # a comment starts with a line between, but not here
            del lines[0]
            line_of = {
                number - 1: step for number, step in line_of.items() if number > 1
            }
        first = text.count("\n")
        body = "\n".join(f"    {line}" if line else line for line in lines[:-1])
        code = f"{text}{body}\n    "
        return PythonCode(code, work.names.found, line_of, first)

    def _emit(self, node, work):
        """Writes the line of one step."""
        if node.op == "placeholder":
            self._emit_placeholder(node, work)
            return
        if node.op == "output":
            if node.type is not None:
                work.returns = f" -> {work.names.type_text(node.type)}"
            descs = node.meta.get("desc") if work.verbose else None
            work.body.append(
                self.generate_output(node.args[0], descs=descs, repr_fn=work.names.text)
            )
            return
        names = work.names
        kind = "" if node.type is None else f" : {names.type_text(node.type)}"
        left = f"{node!r}{kind} = "
        if node.op == "get_attr":
            line = left + _format_target(work.root, node.target)
        elif node.op == "call_module":
            path = _format_target(work.root, node.target)
            line = f"{left}{path}({names.call_text(node.args, node.kwargs)})"
        elif node.op == "call_method":
            called = names.call_text(node.args[1:], node.kwargs)
            line = f"{left}{_format_target(names.text(node.args[0]), node.target)}({called})"
        elif node.op == "call_function":
            line = self._call(node, left, kind, work)
        else:
            raise NotImplementedError(f"node: {node.op} {node.target}")
        work.body.append(line)

    def _emit_placeholder(self, node, work):
        names = work.names
        kind = "" if node.type is None else f" : {names.type_text(node.type)}"
        default = f" = {names.text(node.args[0])}" if node.args else ""
        work.free.append(f"{node.target}{kind}{default}")
        raw = node.target.replace("*", "")
        if raw != repr(node):
            work.body.append(f"{node!r} = {raw}\n")

    def _call(self, node, left, kind, work):
        """The call of a function: as an operator where it is one."""
        names, target, args = work.names, node.target, node.args
        if getattr(target, "__module__", "") == "_operator" and not node.kwargs:
            name = target.__name__
            if name in magic_methods and len(args) == magic_methods[name].count("{}"):
                return left + magic_methods[name].format(*map(names.text, args))
            if name in inplace_methods and len(args) >= 2:
                changed = inplace_methods[name].format(*map(names.text, args))
                return f"{changed};  {node!r}{kind} = {names.text(args[0])}"
        name = names.add(_names.qualified_name(target), target)
        if node.meta.get("is_wrapped", False):
            names.wrapped.setdefault(name)
        if (
            name == "getattr"
            and len(args) == 2
            and isinstance(args[1], str)
            and args[1].isidentifier()
            and not keyword.iskeyword(args[1])
        ):
            return left + _format_target(names.text(args[0]), args[1])
        return f"{left}{name}({names.call_text(args, node.kwargs)})"

    def _forget(self, node, ended, work):
        """Ends a step's line: names that are not used any more let go of their values."""
        if node.op == "placeholder":
            return
        if node.op == "output":
            work.body.append("\n")
            return
        gone = ended.get(node, [])
        if not node.users:
            gone = [*gone, node]
        if gone:
            work.body.append(f";  {' = '.join(map(repr, gone))} = None\n")
        else:
            work.body.append("\n")


def _record(node, work):
    """Puts a step's line between the start and the end of an event of the profiler."""
    line = work.body.pop()
    mark = f"_rf_{node.name}"
    profiler = "torch.autograd.profiler.record_function"
    work.body.append(
        f"{mark} = {profiler}({node.name!r}); {mark}.__enter__()\n{line}\n"
        f"{mark}.__exit__(None, None, None)"
    )


class _Notes:
    """The comments of code for readers: where steps come from, what they give."""

    def __init__(self, verbose, strides, devices, fields, colored):
        self.verbose, self.strides, self.devices = verbose, strides, devices
        self.fields, self.colored = fields, colored
        self.last: Any = None

    def _comment(self, text):
        return f"\033[2m{text}\033[0m" if self.colored else text

    def before(self, node, body):
        """Says where a step comes from, once for steps of one place."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return
        trace = node.stack_trace
        if trace is None:
            if self.last != "":
                self.last = ""
                if "eager" not in str(node.meta.get("partitioner_tag", "")):
                    text = "# No stacktrace found for following nodes"
                    body.append(f"\n{self._comment(text)}\n")
        elif trace != self.last:
            self.last = trace
            summary = _summary_of_trace(trace)
            if summary is not None:
                body.append(f"\n{self._comment(summary)}\n")

    def after(self, node, body):
        """Says what a step gives, where that was noted."""
        if not self.verbose or node.op == "output":
            return
        value = node.meta.get("val", node.meta.get("tensor_meta"))
        note = self._tensor_note(value)
        extra = "".join(
            f" # {field}: {node.meta[field]}"
            for field in self.fields
            if field in node.meta
        )
        if note and node.op != "placeholder":
            name = f"{node!r}"
            line = body[-1]
            head = line.partition(f"{name} = ")
            if head[1] and not head[0].strip():
                body[-1] = f'{head[0]}{name}: "{note}" = {head[2]}'
        if extra:
            body[-1] += extra

    def argument(self, node, free):
        """Says what an argument is, where that was noted."""
        note = self._tensor_note(node.meta.get("val", node.meta.get("tensor_meta")))
        if note:
            name, assigned, default = free[-1].partition(" = ")
            free[-1] = f'{name}: "{note}"{assigned}{default}'

    def _tensor_note(self, value):
        if isinstance(value, (SymInt, SymFloat, SymBool)):
            return f"Sym({value})"
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return ""
        sizes = ", ".join(map(str, value.shape))
        text = f"{_short(value.dtype)}[{sizes}]"
        if self.strides:
            strides = value.stride
            strides = strides() if callable(strides) else strides
            text += f"[{', '.join(map(str, strides))}]"
        if self.devices and hasattr(value, "device"):
            text += str(value.device)
        return text


def _short(dtype):
    """A data type in three letters, as ``f32``."""
    name = str(dtype).partition(".")[2]
    if name == "bool":
        return "b8"
    first, digits = re.match(r"([a-z]+)(.*)", name).groups()
    if first == "bfloat":
        return "bf16"
    return {"float": "f", "complex": "c", "int": "i", "uint": "u"}.get(
        first, first
    ) + digits


def _summary_of_trace(trace):
    """The last place of the program in a stack trace, as a comment."""
    lines = trace.strip().split("\n")
    for place in range(len(lines) - 1, -1, -1):
        found = re.match(r'^File "(.+)", line (\d+), in (.+)$', lines[place].strip())
        if found:
            code = lines[place + 1].strip() if place + 1 < len(lines) else ""
            return f"# File: {found[1]}:{found[2]} in {found[3]}, code: {code}"
    return None


class _PyTreeCodeGen(CodeGen):
    """Writes functions whose arguments and results are nests."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        from rushlight.utils import _pytree

        return _pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out):
        from rushlight.utils import _pytree

        if not isinstance(out, (list, tuple)):
            out = [out]
        if self.pytree_info.out_spec is None:
            raise AssertionError("pytree_info.out_spec must not be None")
        return _pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        if self.pytree_info is None:
            return super().gen_fn_def(
                free_vars, maybe_return_annotation, expanded_def=expanded_def
            )
        arguments = list(self.pytree_info.orig_args)
        has_self = bool(arguments) and arguments[0] == "self"
        text = super().gen_fn_def(
            arguments, maybe_return_annotation, expanded_def=expanded_def
        )
        if free_vars:
            given = arguments[1:] if has_self else arguments
            plain = [name.partition(":")[0].partition("=")[0].strip() for name in given]
            leaves = [var.partition(":")[0].strip() for var in free_vars]
            leaves = [var.partition("=")[0].strip() for var in leaves]
            text += (
                f"\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec("
                f"[{', '.join(plain)}], self._in_spec)"
            )
        return text

    def generate_output(self, output_args, *, descs=None, repr_fn=repr):
        if self.pytree_info and self.pytree_info.out_spec:
            if not isinstance(output_args, (list, tuple)):
                return (
                    f"return pytree.tree_unflatten([{repr_fn(output_args)}], "
                    "self._out_spec)"
                )
            return (
                f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
            )
        return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)

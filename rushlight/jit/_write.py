"""Archives of translated programs: code as text, values as a pickle, tensors as records."""

import ast
import collections
import io
import os
import pickle
import sys

from rushlight.io.serialization import Writer, replacing
from rushlight.jit import _annotated, _types
from rushlight.jit._modules import UNIT
from rushlight.jit._print import Printer, Tensors, quoted
from rushlight.jit._runtime import ScriptObject
from rushlight.jit.ir import Function
from rushlight.serialization._locations import on_host
from rushlight.serialization._write import _contents, _Foreign, _Pickler


class Saved:
    """An object that is written with the name of its class in the program."""

    def __init__(self, name, state):
        self.name, self.state = name, state


class Member:
    """A member of an enumeration: the name of its class, and its value."""

    def __init__(self, name, value):
        self.name, self.value = name, value


class TypedList:
    """A list whose reader is told what its elements are."""

    def __init__(self, maker, values):
        self.maker, self.values = maker, values


_MAKERS = {
    "int": "build_intlist",
    "float": "build_doublelist",
    "bool": "build_boollist",
    "Tensor": "build_tensorlist",
}


class ScriptPickler(_Pickler):
    """Pickles values of programs: objects carry the qualified name of their class."""

    def save_object(self, saved):
        module, _, name = saved.name.rpartition(".")
        self.save_foreign(_Foreign(module, name))
        self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        self.memoize(saved)
        self.save(saved.state)
        self.write(pickle.BUILD)

    def save_member(self, member):
        """The value stands where a call's operands would: so PyTorch reads it."""
        module, _, name = member.name.rpartition(".")
        self.save_foreign(_Foreign(module, name))
        self.save(member.value)
        self.write(pickle.REDUCE)
        self.memoize(member)

    def save_list_of(self, typed):
        self.save_foreign(_Foreign("torch.jit._pickle", typed.maker))
        self.save((typed.values,))
        self.write(pickle.REDUCE)
        self.memoize(typed)

    dispatch = {
        **_Pickler.dispatch,
        Saved: save_object,
        Member: save_member,
        TypedList: save_list_of,
    }

    def memoize(self, obj):
        if id(obj) not in self.memo:
            super().memoize(obj)

    def reduce_tensor(self, tensor):
        """A plain tensor: parameters are told apart by their class's names."""
        plain = tensor.detach() if tensor.grad_fn is not None else tensor
        return super().reduce_plain(plain, collections.OrderedDict())


class Program:
    """The text of all classes and functions that something needs."""

    def __init__(self):
        self.tensors = Tensors()
        self.files: dict = {}
        self.known: set = set()
        self.order: list = []

    def need(self, thing):
        """Notes a class or function; its text is made, and that of what it needs."""
        if id(thing) in self.known:
            return
        self.known.add(id(thing))
        text = self.text(thing)
        path, _, _ = thing.name.rpartition(".")
        self.files.setdefault(path, []).append(text)
        self.order.append(thing)

    def text(self, thing):
        printer = Printer(self.tensors, self.need)
        if isinstance(thing, Function):
            return printer.function(thing)
        if isinstance(thing, _types.TupleType):
            return self.named_tuple(printer, thing)
        if isinstance(thing, _types.EnumType):
            return self.enumeration(printer, thing)
        if isinstance(thing, _types.InterfaceType):
            return self.interface(printer, thing)
        return self.of_class(printer, thing)

    @staticmethod
    def head(thing, base):
        name = thing.name.rpartition(".")[2]
        return f"class {name}({base}):\n" if base else f"class {name}:\n"

    def named_tuple(self, printer, kind):
        lines = [
            f"  {field} : {printer.type(part)}"
            for field, part in zip(kind.fields, kind.elements())
        ]
        return self.head(kind, "NamedTuple") + "\n".join(lines) + "\n"

    def enumeration(self, printer, kind):
        lines = [f"  {m.name} = {printer.literal(m.value)}" for m in kind.python]
        return self.head(kind, "Enum") + "\n".join(lines) + "\n"

    def interface(self, printer, kind):
        base = "ModuleInterface" if kind.is_module else "Interface"
        lines = []
        for name, schema in kind.methods.items():
            given = [f"{a.name}: {printer.type(a.type)}" for a in schema.arguments]
            result = printer.type(schema.returns[0])
            lines += [f"  def {name}({', '.join(given)}) -> {result}:", "    pass"]
        return self.head(kind, base) + "\n".join(lines) + "\n"

    def of_class(self, printer, kind):
        """A class: its attributes, constants and methods."""
        lines = []
        if kind.is_module:
            for word in ("parameters", "buffers"):
                names = "".join(f"{quoted(name)}, " for name in getattr(kind, word))
                lines.append(f"  __{word}__ = [{names}]")
            for word in ("pre_hooks", "hooks"):
                names = "".join(f"{quoted(name)}, " for name in getattr(kind, word))
                if names:
                    lines.append(f"  __forward_{word}__ = [{names}]")
        for name, part in kind.attributes.items():
            if name.isidentifier():
                lines.append(f"  {name} : {printer.type(part)}")
            else:
                lines.append(
                    f"  __annotations__[{quoted(name)}] = {printer.type(part)}"
                )
        for name, value in kind.constants.items():
            found = _annotated.of_value(value, UNIT)
            if found is not None and value is not None and name.isidentifier():
                text = printer.literal(value)
                lines.append(f"  {name} : Final[{printer.type(found)}] = {text}")
        text = self.head(kind, "Module" if kind.is_module else "") + "\n".join(lines)
        text += "\n" if lines else ""
        names: list = []
        while more := [name for name in kind.methods if name not in names]:
            names.append(more[0])  # its text may be the first that names others
            text += Printer(self.tensors, self.need).function(kind.methods[more[0]], 1)
        if not lines and not kind.methods:
            text += "  pass\n"
        return text


def value_of(value, kind, program):
    """A value as it is pickled: objects of the program's classes by name."""
    if isinstance(kind, _types.ClassType):
        program.need(kind)
        return state_of(value, kind, program)
    if value is None:
        return None
    if isinstance(kind, _types.CustomType):
        tree = ast.parse(value.state_type, mode="eval").body
        state = _annotated.of_tree(tree, _types.CustomType.named, None)
        return Saved(kind.name, value_of(value.stored(), state, program))
    if isinstance(kind, _types.OptionalType):
        return value_of(value, kind.getElementType(), program)
    if isinstance(kind, _types.ListType):
        element = kind.getElementType()
        values = [value_of(item, element, program) for item in value]
        maker = _MAKERS.get(element.annotation_str)
        return TypedList(maker, values) if maker else values
    if isinstance(kind, _types.DictType):
        key, part = kind.getKeyType(), kind.getValueType()
        return {
            value_of(k, key, program): value_of(v, part, program)
            for k, v in value.items()
        }
    if isinstance(kind, _types.TupleType):
        return tuple(value_of(v, k, program) for v, k in zip(value, kind.elements()))
    if isinstance(kind, _types.EnumType):
        program.need(kind)
        return Member(kind.name, value.value)
    if isinstance(value, ScriptObject):
        return value_of(value, value._script_type, program)
    return value


def state_of(value, kind, program):
    """An object with its attributes, in the class's order."""
    state = {}
    for name, part in kind.attributes.items():
        found = (
            value._modules[name]
            if name in getattr(value, "_modules", ())
            else getattr(value, name)
        )
        state[name] = value_of(found, part, program)
    return Saved(kind.name, state)


def save_module(module, target, extra):
    """Writes a translated module to a path or a file."""
    kind = module._script_type
    program = Program()
    program.need(kind)
    write(program, state_of(module, kind, program), target, extra)


def save_function(function, target, extra):
    """Writes a translated function to a path or a file."""
    program = Program()
    own = function.function
    holder = _types.ClassType("__torch__.PlaceholderModule", is_module=True)
    holder.attributes["training"] = _types.BoolType.get()
    program.known.add(id(holder))
    text = Printer(program.tensors, program.need).function(own, 1)
    text = text.replace(
        f"def {own.base_name}(",
        "def forward(self: __torch__.PlaceholderModule,\n    ",
        1,
    )
    if not own.schema.arguments:
        text = text.replace(",\n    )", ")", 1)
    head = "  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
    program.files.setdefault("__torch__", []).append(
        f"class PlaceholderModule(Module):\n{head}{text}"
    )
    write(program, Saved(holder.name, {"training": True}), target, extra)


def write(program, state, target, extra):
    """Puts an archive's records together; a path is replaced once it is complete."""
    if isinstance(target, (str, os.PathLike)):
        title = os.path.splitext(os.path.basename(os.fspath(target)))[0] or "archive"
        with replacing(target) as file:
            _records(program, state, file, title, extra)
        return
    whole = io.BytesIO()
    _records(program, state, whole, "archive", extra)
    target.write(whole.getbuffer())


def _records(program, state, file, title, extra):
    writer = Writer(file, title, True)
    try:
        _pickled(writer, "data", state)
        for path, texts in program.files.items():
            name = "code/" + path.replace(".", "/") + ".py"
            writer.record(name, "".join(texts).encode())
        _pickled(writer, "constants", tuple(program.tensors.values))
        for name, content in (extra or {}).items():
            content = content.encode() if isinstance(content, str) else content
            writer.record(f"extra/{name}", content)
        writer.record("byteorder", sys.byteorder.encode())
        writer.record("version", b"3\n")
        writer.close()
    except BaseException:
        writer.abandon()
        raise


def _pickled(writer, name, value):
    body = io.BytesIO()
    pickler = ScriptPickler(body, 2)
    pickler.dump(value)
    writer.record(f"{name}.pkl", body.getbuffer())
    for number, storage, _ in pickler.storages.values():
        writer.record(f"{name}/{number}", _contents(on_host(storage)))

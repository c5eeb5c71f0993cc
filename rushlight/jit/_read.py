"""Reads archives of translated programs, PyTorch's and ours.

The code is translated again, under the archive's own names; the values are read by the
reader that checkpoints are read by, which makes data and calls nothing of the file's.
"""

import ast
import io
import os
import pickle
import zipfile
import zlib

import rushlight as torch
from rushlight.io.serialization import Archive, fold
from rushlight.io.unpickler import Reader
from rushlight.jit import _annotated, _types
from rushlight.jit._modules import Modules, settle_result
from rushlight.jit._runtime import ScriptObject, call_method
from rushlight.jit._schemas import overloads
from rushlight.jit._script_modules import RecursiveScriptModule, add_hooks
from rushlight.jit._sources import Range, Source, error
from rushlight.jit._sugar import (
    Builtin,
    ClassValue,
    FunctionValue,
    Namespace,
    Special,
    Stored,
    TypeName,
)
from rushlight.jit._unit import signature
from rushlight.operators.extensions import CUSTOM, restored
from rushlight.serialization._names import Globals
from rushlight.serialization._read import _Storages

MOST_TEXT = 1 << 26  # bytes that one file of code may have
_TYPE_NAMES = ("int", "float", "bool", "complex", "str")
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_FORMS = (
    "annotate getattr unchecked_cast uninitialized print range isinstance hasattr list dict fork "
    "enumerate zip tuple len min max abs all any divmod ord chr bin pow hash hex oct round sorted "
    "sum"
).split()


# Lists of names in a class -> where its type keeps them.
_LISTS = {
    "__parameters__": "parameters",
    "__buffers__": "buffers",
    "__forward_pre_hooks__": "pre_hooks",
    "__forward_hooks__": "hooks",
}


class ScriptArchive(Archive):
    """An archive that holds a program."""

    def refuse_programs(self):
        """It is to hold one."""
        if self.folder + "constants.pkl" not in self.records:
            raise RuntimeError(
                f"torch.jit.load: {self.title} holds no program; it may be a checkpoint\n"
                "  remedy: read it with torch.load"
            )

    def read(self, name):
        """A record's bytes, unpacked where it is compressed.

        Raises:
            RuntimeError: there is none, it is damaged, or far larger than programs are.
        """
        info = self.records.get(self.folder + fold(name))
        if info is None or info.compress_type == zipfile.ZIP_STORED:
            return super().read(name)
        if info.file_size > MOST_TEXT:
            raise RuntimeError(
                self.unreadable(f"record {name} unpacks to {info.file_size} bytes")
            )
        try:
            with zipfile.ZipFile(self.file) as archive, archive.open(info) as record:
                return record.read(MOST_TEXT)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as fault:
            raise RuntimeError(self.unreadable(f"record {name}: {fault}")) from None


class Record:
    """An object as it was pickled: the name of its class, and its attributes."""

    def __init__(self, name):
        self.name, self.state = name, {}

    def __setstate__(self, state):
        if not isinstance(state, dict | tuple):
            raise pickle.UnpicklingError(f"the state of {self.name} is no dict")
        self.state = state


def _plain_list(values, tag=None):
    return values


class Values(Reader):
    """Reads the values of an archive."""

    def call(self, new):
        """Members of enumerations have their value where the operands would stand."""
        made = self.stack[-2] if len(self.stack) > 1 else None
        if not new and isinstance(made, type) and issubclass(made, Record):
            self.stack[-1] = (self.stack[-1],)
        super().call(new)


class Names(Globals):
    """What an archive's pickles may name: a program's classes, and checkpoints' names."""

    def __init__(self):
        super().__init__()
        for name in (
            "build_intlist",
            "build_tensorlist",
            "build_doublelist",
            "build_boollist",
            "restore_type_tag",
        ):
            self.names[f"torch.jit._pickle.{name}"] = _plain_list
        self.callable.add(id(_plain_list))
        self.kinds: dict = {}

    def find(self, module, name):
        """The object of a name."""
        if module.partition(".")[0] == "__torch__":
            full = f"{module}.{name}"
            if full not in self.kinds:
                kind = self.kinds[full] = _made(full)
                self.callable.add(id(kind))
            return self.kinds[full]
        return super().find(module, name)


def _made(full):
    class Of(Record):
        def __new__(cls, *parts):
            made = object.__new__(cls)
            made.name, made.state, made.parts = full, {}, parts
            return made

        def __init__(self, *parts):
            pass

    return Of


class ArchiveNames:
    """The names that a program's text uses, each under its dotted path."""

    def __init__(self, program):
        self.program, self.unit = program, program.unit

    def find(self, name):
        """What a name stands for, in a tuple of one."""
        if name in _TYPE_NAMES:
            return (TypeName(_annotated._NAMES[name].get()),)
        if name in _NUMBERS:
            return (_NUMBERS[name],)
        if name in _FORMS:
            return (Special(name),)
        if name in ("torch", "ops", "__torch__", "CONSTANTS"):
            return (Namespace(name),)
        return None

    def member(self, space, name):
        """What a dotted name stands for."""
        path = f"{space.path}.{name}"
        if space.path == "CONSTANTS":
            return Stored(self.program.constant(name))
        if space.path == "torch":
            own = (
                "prim"
                if overloads(f"prim::{name}") and not overloads(f"aten::{name}")
                else "aten"
            )
            return Builtin(f"{own}::{name}")
        if space.path == "ops":
            return Namespace(path)
        if space.path.startswith("ops."):
            return Builtin(f"{space.path[4:]}::{name}")
        found = self.program.named(path)
        return found if found is not None else Namespace(path)

    def evaluate(self, tree):
        """The value of a default."""
        if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "annotate":
            return self.evaluate(tree.args[1])
        if isinstance(tree, ast.Name) and tree.id in _NUMBERS:
            return _NUMBERS[tree.id]
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.operand, ast.Name):
            return -_NUMBERS[tree.operand.id]
        if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "torch.device":
            return torch.device(ast.literal_eval(tree.args[0]))
        if isinstance(tree, ast.Attribute):
            return self.evaluate_dotted(tree)
        return ast.literal_eval(tree)

    def evaluate_dotted(self, tree):
        name, _, member = ast.unparse(tree).rpartition(".")
        if name == "CONSTANTS":
            return self.program.constant(member)
        kind = self.program.class_named(name)
        return kind.python[member]

    def type_of(self, tree, place):
        """The type of an annotation."""
        return _annotated.of_tree(tree, self.program.class_named, place)


class Program:
    """The code of one archive: classes and functions, translated when they are named."""

    def __init__(self, archive):
        self.archive, self.unit = archive, Modules()
        self.names = ArchiveNames(self)
        self.files: dict = {}
        self.found: dict = {}
        self.constants: tuple | None = None
        self.storages = None

    # -- texts -------------------------------------------------------------------------

    def file(self, path):
        """The definitions of one file, by name."""
        if path not in self.files:
            self.files[path] = self.parse(path)
        return self.files[path]

    def parse(self, path):
        record = "code/" + path.replace(".", "/") + ".py"
        if not self.archive.has(record):
            return {}
        try:
            source = Source(self.archive.read(record).decode("utf-8"), record)
            tree = source.parse()
        except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
            raise RuntimeError(
                f"torch.jit.load: {record} is damaged: {fault}"
            ) from None
        return {
            node.name: (source, node) for node in tree.body if hasattr(node, "name")
        }

    def constant(self, name):
        """A tensor, or another value, that the code names."""
        if self.constants is None:
            self.constants = self.unpickled("constants")
        try:
            return self.constants[int(name.removeprefix("c"))]
        except (ValueError, IndexError, TypeError):
            raise RuntimeError(
                f"torch.jit.load: the archive has no constant {name}"
            ) from None

    def unpickled(self, name):
        """The value of one of the archive's pickles."""
        names = Names()
        storages = Storages(self.archive, self.map_location, name)
        program = self.archive.read(f"{name}.pkl")
        return Values(program, names.find, names.may_call, storages).load()

    # -- definitions -------------------------------------------------------------------

    def named(self, full):
        """What a qualified name stands for, or None."""
        if full not in self.found:
            path, _, name = full.rpartition(".")
            entry = self.file(path).get(name)
            if entry is None:
                return None
            source, node = entry
            if isinstance(node, ast.FunctionDef):
                function = self.unit.define(node, source, self.names, full)
                self.found[full] = FunctionValue(function)
            else:
                self.define_class(full, source, node)
        return self.found[full]

    def class_named(self, full):
        """The type of a qualified name, or None."""
        if full.startswith(CUSTOM):
            namespace = full.removeprefix(CUSTOM).partition(".")[0]
            dir(getattr(torch.ops, namespace))  # its operators bring its classes
            return _types.CustomType.named(full)
        found = self.named(full) if full.startswith("__torch__") else None
        return found.type if isinstance(found, ClassValue) else None

    def define_class(self, full, source, node):
        bases = [ast.unparse(base) for base in node.bases]
        base = bases[0] if bases else ""
        makers = {"NamedTuple": self.named_tuple, "Enum": self.enumeration}
        makers |= {"Interface": self.interface, "ModuleInterface": self.interface}
        if base in makers:
            makers[base](full, source, node, base)
            return
        kind = _types.ClassType(full, base == "Module")
        self.found[full] = ClassValue(kind)
        self.unit.classes[full] = kind
        kind.python = None
        for item in node.body:
            self.class_item(kind, source, item)

    def class_item(self, kind, source, item):
        """One line of a class: an attribute, a constant or a method."""
        if isinstance(item, ast.FunctionDef):
            full = f"{kind.name}.{item.name}"
            kind.methods[item.name] = self.unit.define(
                item, source, self.names, full, kind
            )
        elif isinstance(item, ast.AnnAssign):
            place = Range.of(source, item)
            if item.value is not None:
                kind.constants[item.target.id] = self.names.evaluate(item.value)
            else:
                kind.attributes[item.target.id] = self.names.type_of(
                    item.annotation, place
                )
        elif isinstance(item, ast.Assign):
            target = ast.unparse(item.targets[0])
            if target in _LISTS:
                setattr(kind, _LISTS[target], ast.literal_eval(item.value))
            elif target.startswith("__annotations__"):
                name = ast.literal_eval(item.targets[0].slice)
                kind.attributes[name] = self.names.type_of(
                    item.value, Range.of(source, item)
                )
        elif not isinstance(item, (ast.Pass, ast.Expr)):
            raise error("this is not part of a class", Range.of(source, item))

    def named_tuple(self, full, source, node, base):
        import collections

        fields = [
            item.target.id for item in node.body if isinstance(item, ast.AnnAssign)
        ]
        kinds = [
            self.names.type_of(item.annotation, Range.of(source, item))
            for item in node.body
            if isinstance(item, ast.AnnAssign)
        ]
        python = collections.namedtuple(node.name, fields)
        kind = _types.TupleType(kinds, full, fields, (), python)
        self.found[full] = ClassValue(kind)

    def enumeration(self, full, source, node, base):
        import enum

        members = {
            item.targets[0].id: self.names.evaluate(item.value)
            for item in node.body
            if isinstance(item, ast.Assign)
        }
        python = enum.Enum(node.name, members)
        value = _annotated.of_value(next(iter(members.values())), self.unit)
        kind = _types.EnumType(full, value, python)
        self.unit.of_python[python] = kind
        self.found[full] = ClassValue(kind)

    def interface(self, full, source, node, base):
        kind = _types.InterfaceType(full, base == "ModuleInterface")
        self.found[full] = ClassValue(kind)
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                name = f"{full}.{item.name}"
                kind.methods[item.name] = signature(
                    item, source, self.names, self.unit, name, kind, None
                )

    # -- objects -----------------------------------------------------------------------

    def object(self, record):
        """The object that a record of the archive's values stands for."""
        kind = self.class_named(record.name)
        if isinstance(kind, _types.CustomType):
            return restored(record.name, self.value(record.state))
        if kind is None:
            raise RuntimeError(
                f"torch.jit.load: the archive has no class {record.name}"
            )
        if isinstance(kind, _types.EnumType):
            return self.member(record, kind)
        if not isinstance(kind, _types.ClassType):
            raise RuntimeError(f"torch.jit.load: {record.name} is no class of objects")
        if not kind.is_module:
            made = ScriptObject(kind)
            for name, value in record.state.items():
                made.__dict__[name] = self.value(value, kind.attributes.get(name))
            return made
        return self.module(record, kind)

    @staticmethod
    def member(record, kind):
        try:
            (value,) = record.parts
            return kind.python(value)
        except ValueError:
            raise RuntimeError(
                f"torch.jit.load: {record.name} has no member of value {record.parts}"
            ) from None

    def module(self, record, kind):
        made = RecursiveScriptModule(kind)
        for name in (*kind.pre_hooks, *kind.hooks):
            if name not in kind.methods:
                raise RuntimeError(f"torch.jit.load: {kind.name} has no hook {name}")
        add_hooks(made)
        named = isinstance(record.state, dict) and record.state.keys() <= set(
            kind.attributes
        )
        if "__setstate__" in kind.methods and not named:
            call_method(made, "__setstate__", self.value(record.state))
            return made
        own = made.__dict__
        parameters, buffers = set(kind.parameters), set(kind.buffers)
        for name, value in record.state.items():
            value = self.value(value, kind.attributes.get(name))
            if isinstance(value, torch.nn.Module):
                made._modules[name] = value
            elif name in parameters:
                parameter = (
                    value
                    if value is None
                    else torch.nn.Parameter(value, value.requires_grad)
                )
                made._parameters[name] = parameter
            elif name in buffers:
                made._buffers[name] = value
            else:
                own[name] = value
        return made

    def value(self, value, kind=None):
        """A value of the archive, objects made."""
        if isinstance(value, Record):
            return self.object(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(k): self.value(v) for k, v in value.items()}
        if isinstance(value, tuple):
            made = tuple(self.value(item) for item in value)
            named = isinstance(kind, _types.TupleType) and kind.python is not None
            return kind.python(*made) if named else made
        return value


class Storages(_Storages):
    """The tensors' memory of one of the archive's pickles."""

    def __init__(self, archive, map_location, folder):
        super().__init__(archive, map_location)
        self.archive = _In(archive, folder)


class _In:
    def __init__(self, archive, folder):
        self.whole, self.folder = archive, folder

    def storage(self, name, n_bytes, skip):
        """A record's bytes as a storage."""
        return self.whole.storage(
            name.replace("data/", f"{self.folder}/", 1), n_bytes, skip
        )


def load(file, map_location, extra):
    """Reads a module; see :func:`rushlight.jit.load`."""
    if isinstance(file, (str, os.PathLike)):
        if not os.path.exists(file):
            raise ValueError(f"The provided filename {file} does not exist")
        if os.path.isdir(file):
            raise ValueError(f"The provided filename {file} is a directory")
        with open(file, "rb") as opened:
            return _load(opened, os.fspath(file), map_location, extra)
    return _load(
        io.BytesIO(file.read()),
        getattr(file, "name", "file object"),
        map_location,
        extra,
    )


def _load(file, title, map_location, extra):
    archive = ScriptArchive(
        file, title, needed=("version", "data.pkl", "constants.pkl")
    )
    program = Program(archive)
    program.map_location = map_location
    try:
        record = program.unpickled("data")
    except pickle.UnpicklingError as fault:
        raise RuntimeError(
            f"torch.jit.load: {title}: data.pkl is not read: {fault}"
        ) from None
    if not isinstance(record, Record):
        raise RuntimeError(f"torch.jit.load: {title} holds no object of a program")
    made = program.object(record)
    translate_all(program)
    for name in list(extra or {}):
        if archive.has(f"extra/{name}"):
            extra[name] = archive.read(f"extra/{name}").decode(
                "utf-8", "surrogateescape"
            )
    return made


def translate_all(program):
    """Translates all methods that the archive's values can call, while the file is open."""
    done = 0
    while done < len(program.unit.classes):
        kinds = list(program.unit.classes.values())
        for kind in kinds[done:]:
            for method in kind.methods.values():
                settle_result(method)
        done = len(kinds)

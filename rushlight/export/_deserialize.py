"""Exported programs out of files that a stranger may have written."""

from __future__ import annotations

import ast
import json
import keyword
import math
import operator
import re
import sys

from rushlight._subclasses.fake_tensor import FakeTensorMode
from rushlight.core import layout
from rushlight.core.device import Device
from rushlight.core.dtype import all_dtypes
from rushlight.core.layout import strided
from rushlight.dispatch.dispatcher import Operator
from rushlight.export import _names
from rushlight.export._guards import guard_from
from rushlight.export._serialize import FORMATS, SCHEMA, TYPES
from rushlight.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    SizeText,
    ValueRange,
)
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.fx.experimental.pre_dispatch import placeholder
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.ir.formulas import Formula
from rushlight.ir.sym_functions import sym_ite
from rushlight.ir.symbolic import ShapeEnv, SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import Elements
from rushlight.nn.modules.module import Module
from rushlight.operators import call
from rushlight.utils._pytree import is_namedtuple_class, treespec_loads

_TYPES = {number: all_dtypes()[name] for name, number in TYPES.items()}
_FORMATS = {number: getattr(layout, name) for name, number in FORMATS.items()}
_OPEN = re.compile(r"(zuf|z)?u?\d+")  # names of numbers that follow from elements
_EXPR = 4_000  # characters of an expression of sizes, at most
_PATH = re.compile(r"[^\s./\\]+(\.[^\s./\\]+)*")
_FACTORIES = ("list", "dict", "int", "float", "set", "str", "tuple", "bool")
_FLOATS = {"Infinity": float("inf"), "-Infinity": -float("inf"), "NaN": float("nan")}


_SYMBOLIC = {
    "as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument,
    "as_sym_bool": SymBoolArgument,
}  # fmt: skip
_NUMBERS = frozenset((call.item.overloads[0], call._local_scalar_dense.overloads[0]))
_SIZE = call.sym_size.overloads[0]


class SerializeError(RuntimeError):
    """A file that holds no program, or not a whole one."""


def checked_name(name):
    """A name that becomes one of generated code.

    Raises:
        SerializeError: it could not be.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise SerializeError(f"{name!r} is no name of a step")
    return name


def checked_path(path):
    """The path of a tensor in a module.

    Raises:
        SerializeError: it is none.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise SerializeError(f"{path!r} is no path of a tensor")
    return path


def dtype_of(number):
    """The type of a number in a file."""
    if number not in _TYPES:
        raise SerializeError(f"{number!r} is no type of elements")
    return _TYPES[number]


def whole(value, low=0):
    """An integer that is no less than a bound."""
    if type(value) is not int or not low <= value < 1 << 62:
        raise SerializeError(f"{value!r} is no size")
    return value


def _parsed(text):
    """The tree of an expression in a file.

    Raises:
        SerializeError: it is none, or too long.
    """
    if not isinstance(text, str) or len(text) > _EXPR:
        raise SerializeError("an expression of sizes is too long")
    return ast.parse(text, mode="eval").body


class _Sizes:
    """Sizes with symbols."""

    _CALLS = {
        "Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv,
        "Mod": operator.mod, "Pow": operator.pow, "PythonMod": operator.mod,
        "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv,
    }  # fmt: skip
    _EXTREMES = {"Max": "max", "Min": "min"}
    _TRUTHS = {
        "Equality": "eq", "Unequality": "ne", "GreaterThan": "ge", "LessThan": "le",
        "StrictGreaterThan": "gt", "StrictLessThan": "lt",
    }  # fmt: skip
    _BOTH = {"And": "and_", "Or": "or_"}

    def __init__(self, ranges, truths=()):
        self.env = ShapeEnv(duck_shape=False, specialize_zero_one=False)
        self.env.elements = Elements(self.env)
        self.symbols: dict = {}
        self.ranges, self.truths = ranges, truths
        self.same: dict = {}  # what a number is, if a check says so, by its name
        for text in truths:
            self._note_same(_parsed(text))

    def _note_same(self, tree):
        """Notes of an equation that is checked which number is which."""
        if not isinstance(tree, ast.Call) or getattr(tree.func, "id", "") != "Equality":
            return
        names = [
            one.args[0].value
            if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Symbol"
            else ""
            for one in tree.args
        ]
        for name, other in zip(names[::-1], tree.args):
            if _OPEN.fullmatch(str(name)) and name not in self.same:
                self.same[name] = other
                return

    def truth(self, given):
        """A truth: known, or a condition on numbers."""
        if "as_bool" in given:
            return bool(given["as_bool"])
        formula = self.condition(_parsed(given["as_expr"]["expr_str"]))
        return SymBool(self.env, formula)

    def condition(self, tree):
        """A condition on numbers, as a formula."""
        name = getattr(getattr(tree, "func", None), "id", None)
        if name in self._BOTH and len(tree.args) == 2:
            left, right = map(self.condition, tree.args)
            return Formula(self._BOTH[name], left, right)
        if name not in self._TRUTHS or len(tree.args) != 2:
            raise SerializeError("a condition on sizes has another form")
        sides = [self._value(one, 2) for one in tree.args]
        sides = [getattr(one, "expr", one) for one in sides]
        return Formula(self._TRUTHS[name], *sides)

    def float(self, given):
        """A float that follows from elements."""
        if "as_float" in given:
            return float(given["as_float"])
        return self._value(_parsed(given["as_expr"]["expr_str"]), 2)

    def size(self, given):
        """A size: an integer or a `SymInt`."""
        if "as_int" in given:
            return whole(given["as_int"], -(1 << 62))
        expr = given["as_expr"]
        text, hint = expr["expr_str"], (expr.get("hint") or {}).get("as_int", 2)
        return self._value(_parsed(text), hint)

    def _value(self, tree, hint):
        if isinstance(tree, ast.Constant) and type(tree.value) is int:
            return tree.value
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return -self._value(tree.operand, hint)
        if isinstance(tree, ast.Name):
            return self._symbol(tree.id, hint)
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise SerializeError("an expression of sizes has another form")
        name = tree.func.id
        if name == "Integer":
            return self._value(tree.args[0], hint)
        if name == "Symbol":
            return self._symbol(tree.args[0].value, hint)
        if name == "Float":
            return float(tree.args[0].value)
        if name not in self._CALLS and name not in self._EXTREMES:
            raise SerializeError("an expression of sizes has another form")
        values = [self._value(one, hint) for one in tree.args]
        if name == "Pow" and not all(
            isinstance(one, int) and 0 <= one < 64 for one in values[1:]
        ):
            raise SerializeError("an expression of sizes has a power that is too large")
        made = values[0]
        for value in values[1:]:
            try:
                if name in self._EXTREMES:
                    made = self.env.computed(self._EXTREMES[name], made, value)
                else:
                    made = self._CALLS[name](made, value)
            except ValueError as error:
                raise SerializeError(str(error)) from error
        return made

    def _symbol(self, name, hint):
        checked_name(name)
        if name not in self.symbols:
            if len(self.symbols) > 40:
                raise SerializeError("a program has too many open sizes")
            found = _OPEN.fullmatch(name)
            self.symbols[name] = (
                self._read(name, found)
                if found
                else self.env.symbol(max(whole(hint), 2), name)
            )
        return self.symbols[name]

    def _read(self, name, found):
        """A number that follows from elements."""
        low, high = self.ranges.get(name, (-math.inf, math.inf))
        if name in self.same:
            tree = self.same.pop(name)
            other = self._value(tree, 2)
            elements = self.env.elements
            elements.equal[len(elements.reads)] = getattr(other, "expr", other)
        kind = "float" if found[1] else "size"
        return self.env.elements.named(name, kind, low, high)


def _bounds_of(one):
    """The bounds of a number in a file."""
    low, high = one["min_val"], one["max_val"]
    return -math.inf if low is None else low, math.inf if high is None else high


def _checked(graph):
    """The texts of conditions that a graph of a file checks."""
    values = graph.get("sym_bool_values", {})
    for node in graph["nodes"]:
        if node["target"] == "torch.ops.aten._assert_scalar.default":
            name = node["inputs"][0]["arg"].get("as_sym_bool", {}).get("as_name")
            if "as_expr" in values.get(name, ()):
                yield values[name]["as_expr"]["expr_str"]


class Reader:
    """What is common to the graphs of one file.

    Args:
        plain: the file's JSON.
    """

    def __init__(self, plain):
        self.plain = plain
        ranges = {
            name: _bounds_of(one) for name, one in plain["range_constraints"].items()
        }
        self.sizes = _Sizes(ranges, _checked(plain["graph_module"]["graph"]))
        self.fake = FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=self.sizes.env, static_shapes=True
        )

    def program(self, state, constants, example_inputs):
        """The program.

        Args:
            state: parameters and buffers by path.
            constants: other tensors by name.
            example_inputs: the arguments of the recording, or None.

        Raises:
            SerializeError: the file is of another version, or not whole.
        """
        plain = self.plain
        version = plain["schema_version"]["major"]
        if version != SCHEMA["major"]:
            raise SerializeError(
                f"Serialized schema version {version} does not match our current schema "
                f"version {SCHEMA['major']}."
            )
        given = plain["graph_module"]
        signature = ExportGraphSignature(
            [self._input(one) for one in given["signature"]["input_specs"]],
            [self._output(one) for one in given["signature"]["output_specs"]],
        )
        names = [one.arg.name for one in signature.input_specs]
        module = _GraphReader(self, given["graph"], names).module()
        program = ExportedProgram(
            module,
            module.graph,
            signature,
            state,
            {
                SizeText(name): ValueRange(*_bounds_of(one))
                for name, one in plain["range_constraints"].items()
            },
            [self._entry(one) for one in given["module_call_graph"]],
            example_inputs,
            constants,
            dialect="TRAINING" if "TRAINING" in plain.get("verifiers", ()) else "ATEN",
        )
        program.validate()
        codes = [str(one) for one in plain.get("guards_code") or ()]
        found = [guard_from(code, program) for code in codes]
        program._guards = [guard for guard in found if guard is not None]
        for spec in signature.input_specs:
            program.tensor_of(spec)
        return program

    def _input(self, plain):
        ((kind, one),) = plain.items()
        if kind == "user_input":
            return InputSpec(InputKind.USER_INPUT, self.argument(one["arg"]), None)
        if kind == "constant_input":
            value = self.constant(one["value"])
            argument = ConstantArgument(checked_name(one["name"]), value)
            return InputSpec(InputKind.USER_INPUT, argument, None)
        name = TensorArgument(checked_name(one["arg"]["name"]))
        if kind == "parameter":
            path = checked_path(one["parameter_name"])
            return InputSpec(InputKind.PARAMETER, name, path)
        if kind == "buffer":
            path = checked_path(one["buffer_name"])
            return InputSpec(InputKind.BUFFER, name, path, bool(one["persistent"]))
        if kind == "tensor_constant":
            path = checked_path(one["tensor_constant_name"])
            return InputSpec(InputKind.CONSTANT_TENSOR, name, path)
        raise SerializeError(
            f"programs with arguments of the kind {kind!r} are not read"
        )

    def _output(self, plain):
        ((kind, one),) = plain.items()
        if kind == "user_output":
            return OutputSpec(OutputKind.USER_OUTPUT, self.argument(one["arg"]), None)
        names = {
            "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
            "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
            "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
        }
        if kind not in names:
            raise SerializeError(
                f"programs with results of the kind {kind!r} are not read"
            )
        number, target = names[kind]
        name = TensorArgument(checked_name(one["arg"]["name"]))
        return OutputSpec(number, name, checked_path(one[target]))

    def argument(self, plain):
        """An argument, or a result, as a signature has it."""
        ((kind, one),) = plain.items()
        if kind == "as_tensor":
            return TensorArgument(checked_name(one["name"]))
        for name, made in _SYMBOLIC.items():
            if kind == name and "as_name" in one:
                return made(checked_name(one["as_name"]))
        return ConstantArgument("", self.constant(plain))

    def _entry(self, plain):
        signature = plain["signature"]
        if signature is None:
            return ModuleCallEntry(str(plain["fqn"]))
        names = signature.get("forward_arg_names")
        return ModuleCallEntry(
            str(plain["fqn"]),
            ModuleCallSignature(
                [self.argument(one) for one in signature["inputs"]],
                [self.argument(one) for one in signature["outputs"]],
                checked_spec(signature["in_spec"]),
                checked_spec(signature["out_spec"]),
                None if names is None else [checked_name(one) for one in names],
            ),
        )

    def constant(self, plain):
        """A constant among arguments."""
        ((kind, value),) = plain.items()
        if kind == "as_none":
            return None
        if kind in ("as_int", "as_bool", "as_string"):
            wanted = {"as_int": int, "as_bool": bool, "as_string": str}[kind]
            if type(value) is not wanted:
                raise SerializeError(f"{value!r} is no {wanted.__name__}")
            return value
        if kind == "as_float":
            return self._float(value)
        if kind == "as_complex":
            return complex(self._float(value["real"]), self._float(value["imag"]))
        if kind == "as_scalar_type":
            return dtype_of(value)
        if kind == "as_memory_format":
            return _FORMATS[value]
        if kind == "as_layout":
            if value != 7:
                raise SerializeError("programs with sparse tensors are not read")
            return strided
        if kind == "as_device":
            return self._device(value)
        if kind in ("as_ints", "as_bools", "as_strings"):
            wanted = {"as_ints": int, "as_bools": bool, "as_strings": str}[kind]
            if any(type(one) is not wanted for one in value):
                raise SerializeError(f"{value!r} are no {wanted.__name__}")
            return list(value)
        if kind == "as_floats":
            return [self._float(one) for one in value]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            ((_, one),) = value.items()
            if isinstance(one, (int, float)):
                return one
        raise SerializeError(f"arguments of the kind {kind!r} are not read")

    @staticmethod
    def _device(value):
        return Device(
            *[one for one in (value["type"], value["index"]) if one is not None]
        )

    @staticmethod
    def _float(value):
        if isinstance(value, str):
            return _FLOATS[value]
        return float(value)

    def tensor(self, meta):
        """The fake tensor that a file describes."""
        sizes = [self.sizes.size(one) for one in meta["sizes"]]
        strides = [self.sizes.size(one) for one in meta["strides"]]
        if len(sizes) != len(strides) or len(sizes) > 64:
            raise SerializeError("a tensor has more strides than sizes")
        shown, steps = ([_hint(one) for one in many] for many in (sizes, strides))
        for one in (*shown, *steps):
            whole(one)
        device = self._device(meta["device"])
        with self.fake:
            made = call.empty_strided(
                shown, steps, dtype=dtype_of(meta["dtype"]), device=device
            )
        if any(isinstance(one, SymInt) for one in sizes):
            made = self.fake.symbolic(made, sizes)
        if meta["requires_grad"] and (made.is_floating_point() or made.is_complex()):
            made.requires_grad_()
        return made


def _hint(size):
    return size.hint if isinstance(size, SymInt) else size


class _GraphReader:
    """One graph of a file."""

    def __init__(self, reader, plain, names=None):
        self.reader, self.plain, self.names = reader, plain, names
        self.graph, self.root = Graph(), Module()
        self.nodes: dict = {}

    def module(self):
        """The graph as a module."""
        plain = self.plain
        for at, one in enumerate(plain["inputs"]):
            ((kind, value),) = one.items()
            if kind == "as_tensor":
                name = checked_name(value["name"])
                self._add(name, placeholder(self.graph, name))
            elif kind == "as_sym_int" and "as_name" in value:
                name = checked_name(value["as_name"])
                self._add(name, placeholder(self.graph, name))
            else:
                name = self.names[at] if self.names else f"arg{at}_1"
                node = placeholder(self.graph, checked_name(name))
                node.meta["val"] = self.reader.constant(one)
        for one in plain["nodes"]:
            self._step(one)
        results = [self.argument(one) for one in plain["outputs"]]
        single = plain.get("is_single_tensor_return") and len(results) == 1
        self.graph.output(results[0] if single else tuple(results))
        self.graph.lint()
        return GraphModule(self.root, self.graph)

    def _add(self, name, node):
        checked_name(name)
        if name in self.nodes or node.name != name:
            raise SerializeError(f"two steps are called {name!r}")
        self.nodes[name] = node
        metas, numbers = self.plain["tensor_values"], self.plain["sym_int_values"]
        if name in metas:
            node.meta["val"] = self.reader.tensor(metas[name])
        elif name in numbers:
            node.meta["val"] = self.reader.sizes.size(numbers[name])
        elif name in self.plain.get("sym_bool_values", ()):
            given = self.plain["sym_bool_values"][name]
            node.meta["val"] = self.reader.sizes.truth(given)
        elif name in self.plain.get("sym_float_values", ()):
            given = self.plain["sym_float_values"][name]
            node.meta["val"] = self.reader.sizes.float(given)
        self._tie(node)

    def _tie(self, node):
        """Ties a step to the number that it gives, and that to the step behind it."""
        value, first = node.meta.get("val"), node
        expr = getattr(value, "expr", None)
        if node.op != "call_function":
            return
        elements = self.reader.sizes.env.elements
        given = isinstance(value, int)
        if given and (node.target in _NUMBERS or node.target is _SIZE):
            elements.equal[len(elements.reads)] = int(value)
            elements.named(f"u{len(elements.reads)}", "int", value, value)
        for read in elements.reads:
            plain = (
                read.symbol is expr
                or read.number is value
                or (given and read is elements.reads[-1])
            )
            if read.node is not None or not plain or node.target in _names.COMPUTE:
                continue
            read.node = read.last = node
            read.graph = self.graph
            if node.target is _SIZE or node.target is sym_ite:
                first = node.args[0]
            while first.target is operator.getitem:
                first = first.args[0]
            first.meta.setdefault("reads", []).append(read)
            return

    def _step(self, plain):
        if plain["target"] in _names.CHECKS:
            return
        if plain["target"] == "torch.ops.aten._assert_scalar.default":
            self._note_check(plain)
        target = _names.function_named(plain["target"])
        args, kwargs = [], {}
        for one in plain["inputs"]:
            value = self.argument(one["arg"])
            if one.get("kind") == 2:
                kwargs[checked_name(one["name"])] = value
            else:
                args.append(value)
        if isinstance(target, Operator):
            args, kwargs = _fitted(target, args, kwargs, plain["inputs"])
        outputs = plain["outputs"]
        kinds = [next(iter(one)) for one in outputs]
        higher = not isinstance(target, Operator) and hasattr(target, "namespace")
        several = len(outputs) != 1 or kinds[0] == "as_tensors" or higher
        names = (
            [one["name"] for one in outputs[0]["as_tensors"]]
            if kinds == ["as_tensors"]
            else [_named(one) for one in outputs]
        )
        if several:
            name = plain.get("name") or f"{plain['target'].split('.')[-2]}"
        else:
            name = names[0]
        node = self.graph.create_node(
            "call_function", target, tuple(args), kwargs, name=checked_name(name)
        )
        for key in ("stack_trace", "nn_module_stack", "torch_fn"):
            self._note(node, key, plain.get("metadata", {}).get(key))
        if not several:
            self._add(names[0], node)
            return
        values = []
        for at, name in enumerate(names):
            if name is None:
                values.append(None)
                continue
            if "_unused_" in name:
                values.append(self.reader.tensor(self.plain["tensor_values"][name]))
                continue
            part = self.graph.create_node(
                "call_function", operator.getitem, (node, at), name=checked_name(name)
            )
            self._add(name, part)
            values.append(part.meta.get("val"))
        if names:
            node.meta["val"] = values if kinds == ["as_tensors"] else tuple(values)

    def _note_check(self, plain):
        """Notes what a step checks, for when the program is taken apart."""
        condition = self.argument(plain["inputs"][0]["arg"])
        value = condition.meta.get("val") if isinstance(condition, Node) else None
        if isinstance(value, SymBool):
            self.reader.sizes.env.elements.checks.append(value.expr)

    @staticmethod
    def _note(node, key, text):
        if not isinstance(text, str):
            return
        if key == "stack_trace":
            node.meta[key] = text + "\n"
        elif key == "torch_fn":
            node.meta[key] = tuple(text.split(";"))
        else:
            rows = [row.split(",") for row in text.split(";")]
            node.meta[key] = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}

    def argument(self, plain):
        """A step's argument: steps, constants and lists of them."""
        ((kind, value),) = plain.items()
        if kind == "as_tensor":
            return self._node(value["name"])
        if kind == "as_tensors":
            return [self._node(one["name"]) for one in value]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float") and "as_name" in value:
            return self._node(value["as_name"])
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return [
                self._node(one["as_name"])
                if "as_name" in one
                else next(iter(one.values()))
                for one in value
            ]
        if kind in ("as_optional_tensors", "as_optional_tensor"):
            many = value if isinstance(value, list) else [value]
            made = [
                None if "as_none" in one else self._node(one["as_tensor"]["name"])
                for one in many
            ]
            return made if isinstance(value, list) else made[0]
        if kind == "as_nested_tensors":
            return [[self._node(one["name"]) for one in row] for row in value]
        if kind == "as_operator":
            return _names.function_named(value)
        if kind == "as_graph":
            name = checked_name(value["name"])
            if hasattr(self.root, name):
                raise SerializeError(f"two graphs are called {name!r}")
            inner = _GraphReader(self.reader, value["graph"]).module()
            self.root.add_module(name, inner)
            return self.graph.get_attr(name)
        return self.reader.constant(plain)

    def _node(self, name):
        if name not in self.nodes:
            raise SerializeError(f"a step takes {name!r}, which no step gives")
        return self.nodes[name]


def _named(one):
    ((kind, value),) = one.items()
    if kind == "as_none":
        return None
    name = value.get("name", value.get("as_name"))
    if name is None:
        raise SerializeError(f"a step gives {kind!r}")
    return name


def _fitted(op, args, kwargs, inputs):
    """A step's arguments by this operator's own order and names."""
    rows = {row[0]: (at, row[3]) for at, row in enumerate(op.signature.rows)}
    given = [one["name"] for one in inputs if one.get("kind") != 2]
    if given == [row[0] for row in op.signature.rows[: len(given)]]:
        return args, kwargs
    found: list = []
    for name, value in zip(given, args):
        if name in rows and not rows[name][1] and rows[name][0] == len(found):
            found.append(value)
        elif name in rows:
            kwargs[name] = value
        else:  # another name for the same place
            found.append(value)
    return found, kwargs


def checked_spec(text):
    """How arguments are nested; classes are those that the program has by itself.

    Raises:
        SerializeError: it names a class that is not there.
    """
    plain = json.loads(text)

    def check(one):
        kind = one["type"]
        if kind is None:
            return
        if kind == "collections.namedtuple":
            home, _, name = str(one["context"]).rpartition(".")
            found = getattr(sys.modules.get(home), name, None)
            if not isinstance(found, type) or not is_namedtuple_class(found):
                raise SerializeError(f"there is no named tuple {one['context']}")
        elif kind == "collections.defaultdict":
            made_by = list(one["context"].values())[:2]
            if made_by not in [["builtins", name] for name in _FACTORIES]:
                raise SerializeError(f"a defaultdict of {made_by} is not read")
        for child in one["children_spec"]:
            check(child)

    check(plain[1])
    return treespec_loads(text)

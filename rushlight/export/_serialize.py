"""Exported programs as PyTorch's files have them: the graph in JSON."""

import math
from typing import Any

import rushlight as rl
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import strided
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.named_overload import written_arguments
from rushlight.export import _names
from rushlight.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from rushlight.fx.node import Node
from rushlight.ir.formulas import Formula, has_floats, integer_in, number_in, step_of
from rushlight.ir.sizes import Operation, Sum, Unbacked
from rushlight.ir.sym_functions import sym_ite
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.operators import call
from rushlight.utils._pytree import treespec_dumps

SCHEMA = {"major": 8, "minor": 20}
# Numbers of PyTorch's file format.
TYPES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6,
    "float32": 7, "float64": 8, "complex32": 9, "complex64": 10, "complex128": 11,
    "bool": 12, "bfloat16": 13, "uint16": 28, "float8_e4m3fn": 29, "float8_e5m2": 30,
    "float8_e4m3fnuz": 31, "float8_e5m2fnuz": 32, "uint32": 34, "uint64": 35,
}  # fmt: skip
FORMATS = {
    "contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3,
    "preserve_format": 4,
}  # fmt: skip
STRIDED = 7
_SIZE = call.sym_size.overloads[0]
_POSITIONAL, _KEYWORD = 1, 2
_OPERATORS = {
    "add": "Add({}, {})", "mul": "Mul({}, {})", "floordiv": "FloorDiv({}, {})",
    "mod": "Mod({}, {})", "pow": "Pow({}, {})", "sub": "Add({}, Mul(Integer(-1), {}))",
    "eq": "Equality({}, {})", "ne": "Unequality({}, {})", "ge": "GreaterThan({}, {})",
    "gt": "StrictGreaterThan({}, {})", "le": "LessThan({}, {})",
    "lt": "StrictLessThan({}, {})", "and_": "And({}, {})", "or_": "Or({}, {})",
}  # fmt: skip
_OPERATORS |= {"min": "Min({}, {})", "max": "Max({}, {})"}
# The same where numbers follow from elements, which may be below zero.
_OF_ANY = {"mod": "PythonMod({}, {})", "truediv": "IntTrueDiv({}, {})"}
_OF_FLOATS = {"truediv": "FloatTrueDiv({}, {})"}


def program_as_json(program):
    """A program without its tensors, as objects of JSON.

    Args:
        program: an `ExportedProgram`.

    Raises:
        NotImplementedError: it has a step, or a value, that files cannot have.
    """
    signature = program.graph_signature
    users = {
        one.arg.name: one.arg
        for one in signature.input_specs
        if isinstance(one.arg, ConstantArgument)
    }
    return {
        "graph_module": {
            "graph": _Graph(program.graph_module, users).json(),
            "signature": {
                "input_specs": [_input(one) for one in signature.input_specs],
                "output_specs": [_output(one) for one in signature.output_specs],
            },
            "module_call_graph": [_entry(one) for one in program.module_call_graph],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {
            name: {"min_val": _bound(low), "max_val": _bound(high)}
            for name, (low, high) in program.range_constraints.items()
        },
        "schema_version": SCHEMA,
        "verifiers": ["TRAINING" if program.dialect == "TRAINING" else "ATEN"],
        "torch_version": rl.__version__,
        "guards_code": [text for text, _ in program._guards],
    }


def _bound(value):
    return None if abs(value) == math.inf else value


def size_json(size):
    """A size: a number, or an expression of symbols."""
    if not isinstance(size, SymInt):
        return {"as_int": int(size)}
    if size.follows:
        return number_json(size)
    return {"as_expr": {"expr_str": _text(size.expr), "hint": {"as_int": size.hint}}}


def number_json(number):
    """A number that follows from elements: an expression without a value."""
    return {"as_expr": {"expr_str": _text(number.expr), "hint": None}}


def _text(expr):
    if isinstance(expr, int):
        return f"Integer({expr})"
    if isinstance(expr, float):
        return f"Float('{expr!r}', precision=53)"
    if isinstance(expr, (Sum, Operation)):
        expr = step_of(expr)
    if isinstance(expr, Formula):
        any_ = _OF_ANY if number_in(expr) or integer_in(expr) else {}
        any_ = _OF_FLOATS if has_floats(expr) else any_
        form = any_.get(expr.name) or _OPERATORS.get(expr.name)
        if form is None:
            raise NotImplementedError(f"files have no expressions like {expr}")
        return form.format(_text(expr.left), _text(expr.right))
    if isinstance(expr, Unbacked):
        return f"Symbol('{expr.name}'{'' if has_floats(expr) else ', integer=True'})"
    positive = "" if integer_in(expr) else ", positive=True"
    return f"Symbol('{expr.name}'{positive}, integer=True)"


def tensor_meta(tensor, strides=None):
    """What is known of a tensor without its numbers."""
    device = tensor.device
    number = TYPES.get(str(tensor.dtype).rpartition(".")[2])
    if number is None:
        raise NotImplementedError(f"files have no tensors of {tensor.dtype}")
    return {
        "dtype": number,
        "sizes": [size_json(one) for one in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "device": {"type": device.type, "index": device.index},
        "strides": [size_json(one) for one in strides or _strides(tensor)],
        "storage_offset": {"as_int": tensor.storage_offset()},
        "layout": STRIDED,
    }


def _strides(tensor):
    """Strides, as expressions where sizes are."""
    sizes = tensor.shape
    if not any(isinstance(one, SymInt) for one in sizes):
        return tensor.stride()
    made: list[Any] = [0] * len(sizes)
    step: Any = 1
    # those that change fastest last, as the memory has them
    order = sorted(range(len(sizes)), key=lambda dim: (tensor.stride(dim), -dim))
    for dim in order:
        if tensor.stride(dim):
            made[dim], step = step, step * sizes[dim]
    return made


class _Graph:
    """One graph, and those inside of it."""

    def __init__(self, module, constants=None):
        self.module, self.constants = module, constants or {}
        self.graph = module.graph
        self.own: dict = {}  # sizes that are taken for others, by tensor and dimension
        for node in self.graph.nodes:
            value = node.meta.get("val")
            if node.target is _SIZE and isinstance(value, SymInt) and value.follows:
                tensor, dim = node.args
                self.own.setdefault(tensor.name, {})[dim] = value
        self.tensors: dict = {}
        self.numbers: dict = {}
        self.truths: dict = {}
        self.floats: dict = {}

    def json(self):
        """The graph as objects of JSON."""
        inputs, steps = [], []
        single = False
        for node in self.graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._placeholder(node))
            elif node.op == "call_function" and not self._picks(node):
                steps += self._steps(node)
            elif node.op == "output":
                results = node.args[0]
                single = isinstance(results, Node)
                results = [results] if single else results
                outputs = [self.argument(one) for one in results]
            elif node.op not in ("get_attr", "call_function"):
                raise NotImplementedError(
                    f"files have no steps like {node.format_node()}"
                )
        return {
            "inputs": inputs,
            "outputs": outputs,
            "nodes": steps,
            "tensor_values": self.tensors,
            "sym_int_values": self.numbers,
            "sym_bool_values": self.truths,
            "is_single_tensor_return": single,
            "custom_obj_values": {},
            "sym_float_values": self.floats,
        }

    def _placeholder(self, node):
        constant = self.constants.get(node.name)
        if constant is not None:
            return self.argument(constant.value)
        return self.named(node)

    @staticmethod
    def _picks(node):
        """Whether a step picks one of another's results, which files do not write."""
        return _names._FUNCTIONS["_operator.getitem"] is node.target and isinstance(
            node.args[0].meta.get("val"), (tuple, list)
        )

    def named(self, node):
        """A value, by the name of its step."""
        value = node.meta.get("val")
        if isinstance(value, SymFloat):
            self.floats[node.name] = number_json(value)
            return {"as_sym_float": {"as_name": node.name}}
        if isinstance(value, SymBool):
            self.truths[node.name] = number_json(value)
            return {"as_sym_bool": {"as_name": node.name}}
        if isinstance(value, bool):
            self.truths[node.name] = {"as_bool": value}
            return {"as_sym_bool": {"as_name": node.name}}
        if isinstance(value, (SymInt, int)):
            self.numbers[node.name] = size_json(value)
            return {"as_sym_int": {"as_name": node.name}}
        self.tensor(node.name, value)
        return {"as_tensor": {"name": node.name}}

    def tensor(self, name, value):
        """Notes a tensor's sizes and type."""
        if isinstance(value, Tensor):
            self.tensors[name] = tensor_meta(value)
            for dim, own in self.own.get(name, {}).items():
                self.tensors[name]["sizes"][dim] = number_json(own)

    def _steps(self, node):
        """A step; one that writes to ``out=`` is one that makes a result, and a copy.

        PyTorch's names of overloads with ``out=`` follow no rule.
        """
        target, out = node.target, node.kwargs.get("out")
        if not isinstance(target, Operator) or not isinstance(out, Node):
            return [self._step(node, _names.name_of(node), self._inputs(node))]
        made = {"as_tensor": {"name": f"{node.name}_made"}}
        self.tensor(made["as_tensor"]["name"], node.meta["val"])
        shown = _names.overload_of(target.functional, node.args)
        first = self._step(node, _names.operator_name(shown), self._inputs(node, shown))
        first |= {"outputs": [made], "name": made["as_tensor"]["name"]}
        source = {"name": "src", "arg": made, "kind": _POSITIONAL}
        inputs = [self._given("self", out, _POSITIONAL), source]
        return [first, self._step(node, "torch.ops.aten.copy_.default", inputs)]

    def _step(self, node, name, inputs):
        higher = getattr(node.target, "namespace", None) == "higher_order"
        return {
            "target": name,
            "inputs": inputs,
            "outputs": self._results(node),
            "metadata": _notes(node),
            "is_hop_single_tensor_return": False if higher else None,
            "name": node.name,
        }

    def _inputs(self, node, op=None):
        """A step's arguments by their names: those of ``op``, which has no ``out=``."""
        target, args, kwargs = node.target, node.args, node.kwargs
        if isinstance(target, Operator):
            shown = op or _names.overload_of(target, args)
            names = [row[0] for row in shown.signature.rows]
            args = written_arguments(shown, args)
        elif getattr(target, "namespace", None) == "higher_order":
            names = [""] * len(args)
        else:
            names, kwargs = ["a", "b"] if target is not sym_ite else ["b", "t", "f"], {}
        return [
            *(self._given(name, one, _POSITIONAL) for name, one in zip(names, args)),
            *(
                self._given(name, one, _KEYWORD)
                for name, one in kwargs.items()
                if op is None or name != "out"
            ),
        ]

    def _results(self, node):
        value = node.meta.get("val")
        if not isinstance(value, (tuple, list)):
            returns = getattr(node.target, "returns", (0,))
            return [self.named(node)] if len(returns) else []
        picked = {user.args[1]: user for user in node.users if self._picks(user)}
        found = []
        for at, one in enumerate(value):
            if not isinstance(one, Tensor):
                found.append(self.argument(one))
                continue
            name = picked[at].name if at in picked else f"{node.name}_unused_{at}"
            self.tensor(name, one)
            found.append({"as_tensor": {"name": name}})
        returns = getattr(node.target, "returns", None)
        if returns is not None and len(returns) == 1:  # a list of tensors
            return [{"as_tensors": [one["as_tensor"] for one in found]}]
        return found

    def _given(self, name, value, kind):
        return {"name": name, "arg": self.argument(value), "kind": kind}

    def argument(self, value):
        """A step's argument."""
        if isinstance(value, Node):
            if value.op == "get_attr":
                inner = getattr(self.module, value.target)
                return {
                    "as_graph": {"name": value.target, "graph": _Graph(inner).json()}
                }
            return self.named(value)
        if isinstance(value, (list, tuple)):
            return self._several(list(value))
        if isinstance(value, Operator):
            return {"as_operator": _names.operator_name(value)}
        return constant_json(value)

    def _several(self, values):
        if not values:
            return {"as_ints": []}
        if any(isinstance(one, Node) for one in values):
            found = [self.argument(one) for one in values]
            if all("as_tensor" in one for one in found):
                return {"as_tensors": [one["as_tensor"] for one in found]}
            if all("as_sym_int" in one or "as_int" in one for one in found):
                return {"as_sym_ints": [one.get("as_sym_int", one) for one in found]}
            if all(isinstance(one, Node) for one in values):  # of a branch, say
                return {"as_tensors": [{"name": one.name} for one in values]}
            return {"as_optional_tensors": found}
        if all(type(one) is bool for one in values):
            return {"as_bools": values}
        if all(type(one) is int for one in values):
            return {"as_ints": values}
        if all(isinstance(one, (int, float)) for one in values):
            return {"as_floats": [_float(float(one)) for one in values]}
        if all(isinstance(one, str) for one in values):
            return {"as_strings": values}
        if all(one is None for one in values):
            return {"as_optional_tensors": [{"as_none": True} for _ in values]}
        raise NotImplementedError(f"files have no arguments like {values}")


def _float(value):
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def constant_json(value):
    """A constant among a step's arguments."""
    if value is None:
        return {"as_none": True}
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": _float(value)}
    if isinstance(value, complex):
        return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
    if isinstance(value, str):
        return {"as_string": value}
    if isinstance(value, DType):
        return {"as_scalar_type": TYPES[str(value).rpartition(".")[2]]}
    if isinstance(value, Device):
        return {"as_device": {"type": value.type, "index": value.index}}
    name = str(value).rpartition(".")[2]
    if name in FORMATS:
        return {"as_memory_format": FORMATS[name]}
    if value is strided:
        return {"as_layout": STRIDED}
    raise NotImplementedError(f"files have no arguments like {value!r}")


def _notes(node):
    found = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"].strip()
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(
            f"{key},{path},{kind}" for key, (path, kind) in stack.items()
        )
    if node.meta.get("torch_fn"):
        found["torch_fn"] = ";".join(node.meta["torch_fn"])
    return found


def _input(spec):
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            value = constant_json(spec.arg.value)
            return {"constant_input": {"name": spec.arg.name, "value": value}}
        return {"user_input": {"arg": _argument(spec.arg)}}
    arg = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": arg, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {
            "buffer": {
                "arg": arg, "buffer_name": spec.target, "persistent": spec.persistent,
            }
        }  # fmt: skip
    return {"tensor_constant": {"arg": arg, "tensor_constant_name": spec.target}}


def _argument(arg):
    if isinstance(arg, ConstantArgument):
        return constant_json(arg.value)
    if isinstance(arg, SymIntArgument):
        return {"as_sym_int": {"as_name": arg.name}}
    if isinstance(arg, SymFloatArgument):
        return {"as_sym_float": {"as_name": arg.name}}
    if isinstance(arg, SymBoolArgument):
        return {"as_sym_bool": {"as_name": arg.name}}
    return {"as_tensor": {"name": arg.name}}


_WRITTEN = {
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
}


def _output(spec):
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _argument(spec.arg)}}
    kind, name = _WRITTEN[spec.kind]
    return {kind: {"arg": {"name": spec.arg.name}, name: spec.target}}


def _entry(entry):
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {
        "fqn": entry.fqn,
        "signature": {
            "inputs": [_argument(one) for one in signature.inputs],
            "outputs": [_argument(one) for one in signature.outputs],
            "in_spec": treespec_dumps(signature.in_spec),
            "out_spec": treespec_dumps(signature.out_spec),
            "forward_arg_names": signature.forward_arg_names,
        },
    }

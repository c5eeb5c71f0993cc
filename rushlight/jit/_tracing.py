"""Recordings as programs: what a function or module does with examples.

The recorder is :mod:`rushlight.export`'s: a graph of operators, with the sizes that may
vary as values. Its steps become nodes of a :class:`~rushlight.jit.ir.Graph`.
"""

import inspect
import operator
import warnings

import rushlight as torch
from rushlight.jit import _annotated, _state, _types
from rushlight.jit._callables import ScriptFunction
from rushlight.jit._emitter import Emitter
from rushlight.jit._modules import UNIT
from rushlight.jit._passes import tidy
from rushlight.jit._schemas import Argument, Schema
from rushlight.jit._script_modules import (
    TopLevelTracedModule,
    TracedModule,
    build,
    fill,
)
from rushlight.jit._sources import (
    FrontendError,
    ScriptError,
    TracerWarning,
    Untranslatable,
)
from rushlight.jit._unit import qualified
from rushlight.jit.ir import Function, Graph
from rushlight.nn import Module
from rushlight.operators.extensions import CustomClass

_PYTHON = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "remainder",
    operator.truediv: "div",
    operator.pow: "pow",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
}


class _Called(Module):
    """A function as a module, for the recorder."""

    def __init__(self, function):
        super().__init__()
        self.__dict__["function"] = function

    def forward(self, *args, **kwargs):
        return self.__dict__["function"](*args, **kwargs)


class TracingCheckError(Exception):
    """What was recorded does not do what the original does."""


def _as_tuple(examples):
    if isinstance(examples, (torch.Tensor, dict)):
        return (examples,)
    return tuple(examples) if isinstance(examples, (tuple, list)) else (examples,)


_TRACE = {
    "optimize": None,
    "check_trace": True,
    "check_inputs": None,
    "check_tolerance": 1e-5,
    "strict": True,
    "_force_outplace": False,
    "_module_class": None,
    "_compilation_unit": None,
    "example_kwarg_inputs": None,
    "_store_inputs": True,
}


def _options(defaults, given, named):
    """A recorder's options by name, those left out as they are by default."""
    names = list(defaults)
    found = {**defaults, **dict(zip(names, given)), **named}
    unknown = set(found) - set(names)
    if unknown or len(given) > len(names):
        what = next(iter(unknown), "too many arguments")
        raise TypeError(f"trace() got an unexpected keyword argument '{what}'")
    return found


def trace(func, example_inputs=None, *given, **by_name):
    """Records a function or module; see :func:`rushlight.jit.trace`."""
    if isinstance(func, (TopLevelTracedModule, ScriptFunction)):
        return func
    if isinstance(func, torch.jit.ScriptModule):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning "
            "the object as is.",
            stacklevel=3,
        )
        return func
    options = _options(_TRACE, given, by_name)
    named, strict = options["example_kwarg_inputs"], options["strict"]
    if example_inputs is None and named is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    examples = _as_tuple(example_inputs) if example_inputs is not None else ()
    named = named or {}
    checks = [(examples, named)]
    checks += [(_as_tuple(more), {}) for more in options["check_inputs"] or ()]
    try:
        if isinstance(func, Module):
            made = trace_methods(func, {"forward": (examples, named)}, strict)
        else:
            made = _function(func, examples, named, strict)
    except Untranslatable as reason:
        made = _from_source(func)
        if made is not None:
            return made
        warnings.warn(
            f"torch.jit.trace: {getattr(func, '__name__', type(func).__name__)} stays Python, "
            f"{reason}",
            TracerWarning,
            stacklevel=3,
        )
        return func
    if options["check_trace"]:
        for operands, keywords in checks:
            _check(func, made, operands, keywords, options["check_tolerance"])
    return made


def _from_source(func):
    """A module of integers that is not recorded, as its source says; None: not so."""
    if not isinstance(func, Module) or not any(_objects_of(func)):
        return None
    with warnings.catch_warnings(action="ignore"):
        try:
            made = torch.jit.script(func)
        except (FrontendError, ScriptError):
            return None
    return made if isinstance(made, torch.jit.ScriptModule) else None


_TRACE_MODULE = {**_TRACE, "example_inputs_is_kwarg": False}
del _TRACE_MODULE["example_kwarg_inputs"]


def trace_module(mod, inputs, *given, **by_name):
    """Records methods of a module; see :func:`rushlight.jit.trace_module`."""
    options = _options(_TRACE_MODULE, given, by_name)
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    as_keywords = options["example_inputs_is_kwarg"]
    examples = {
        name: ((), example) if as_keywords else (_as_tuple(example), {})
        for name, example in inputs.items()
    }
    return trace_methods(mod, examples, options["strict"])


def _check(func, made, examples, named, tolerance):
    """Warns where the recording gives something else than the original."""
    with torch.random.fork_rng():
        state = torch.random.get_rng_state()
        expected = _leaves(func(*_copied(examples), **_copied(named)))
        torch.random.set_rng_state(state)
        found = _leaves(made(*_copied(examples), **_copied(named)))
    for at, (a, b) in enumerate(zip(expected, found)):
        close = not isinstance(a, torch.Tensor) or torch.allclose(
            a.double() if a.is_floating_point() else a,
            b.double() if b.is_floating_point() else b,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
        )
        if not close:
            warnings.warn(
                f"Output nr {at + 1}. of the traced function does not match the corresponding "
                "output of the Python function. Detailed error:\nTensor-likes are not close!",
                TracerWarning,
                stacklevel=4,
            )


def _copied(value):
    if isinstance(value, torch.Tensor):
        made = value.detach().clone()
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(_copied(item) for item in value)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return value


def _leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [value]


# -- recording -------------------------------------------------------------------------


def recorded(module, examples, named):
    """The exported program of a call, with open sizes where that can be.

    Raises:
        Untranslatable: the recorder refuses.
    """
    from rushlight.export import Dim, export

    def open_sizes(value, most):
        if isinstance(value, torch.Tensor):
            return {at: Dim.AUTO for at in range(min(most, value.dim()))} or None
        if isinstance(value, (tuple, list)):
            return type(value)(open_sizes(item, most) for item in value)
        if isinstance(value, dict):
            return {key: open_sizes(item, most) for key, item in value.items()}
        return None

    ways: list = [None]
    if examples and not named:  # all sizes open, else the first of each, else none
        ways = [
            tuple(open_sizes(value, most) for value in examples) for most in (64, 1)
        ]
        ways.append(None)
    faults = []
    for dynamic in ways:
        if isinstance(module, _Called) and dynamic is not None:
            dynamic = (dynamic,)
        _state.tracing += 1
        try:
            found = export(
                module,
                tuple(examples),
                dict(named),
                dynamic_shapes=dynamic,
                strict=False,
            )
        except Exception as fault:
            faults.append(fault)
        else:
            if dynamic is None or found.range_constraints:
                return found
        finally:
            _state.tracing -= 1
    with torch.random.fork_rng():
        module(
            *_copied(examples), **_copied(named)
        )  # an error of its own is told as it is
    raise Untranslatable(f"it is not recorded: {faults[-1]}") from faults[-1]


def _function(func, examples, named, strict):
    """The program of a function of tensors."""
    program = recorded(_Called(func), examples, named)
    name = UNIT.free(
        qualified(func) if hasattr(func, "__name__") else "__torch__.traced"
    )
    function = _translated(func, program, examples, named, name, None, strict)
    UNIT.functions[name] = function
    return ScriptFunction(function, func)


def trace_methods(module, inputs, strict):
    """A module whose methods are recordings."""
    scripted = {}
    for name, inner in module._modules.items():
        if inner is not None:
            scripted[name], _ = build(inner, {}, TracedModule)
    kind = UNIT.traced_type(module, scripted)
    made = TopLevelTracedModule(kind)
    fill(made, module, scripted)
    for name, (examples, named) in inputs.items():
        program = recorded(_renamed(module, name), examples, named)
        method = getattr(type(module), name)
        full = f"{kind.name}.{name}"
        kind.methods[name] = _translated(
            method, program, examples, named, full, kind, strict, module
        )
    return made


def _renamed(module, name):
    """A module whose ``forward`` is another of its methods."""
    if name == "forward":
        return module
    import copy

    other = copy.copy(module)
    other.__dict__["forward"] = getattr(module, name)
    return other


# -- from the recorder's graph ---------------------------------------------------------


def _translated(python, program, examples, named, name, kind, strict, module=None):
    """The function of a recorded program."""
    graph = Graph()
    emitter = Emitter(UNIT, None, graph)
    known: dict = {}
    arguments = []
    owner = None
    if kind is not None:
        owner = graph.param(kind, "self")
        arguments.append(Argument("self", kind))
        for path, found in _objects_of(module):
            known[id(found)] = _read_attribute(emitter, owner, path)
    given = _given(python, examples, named, kind is not None)
    leaves = []
    for label, value in given:
        part = _annotated.of_value(value, UNIT)
        if part is None:
            raise RuntimeError(
                f"Type '{type(value).__name__}' cannot be traced. Only Tensors and (possibly "
                "nested) Lists, Dicts, and Tuples of Tensors can be traced"
            )
        arguments.append(Argument(label, part))
        _spread(emitter, graph.param(part, label), value, leaves)
    try:
        _nodes(emitter, program, known, owner, iter(leaves))
        result = _result(emitter, program, known, strict)
    except (FrontendError, ScriptError, KeyError) as fault:
        raise Untranslatable(f"a step has no form here: {fault}") from fault
    graph.returns.add(result)
    tidy(graph)
    function = Function(name, Schema(name, "", arguments, [result.type]), None, kind)
    function._graph, function.infer = graph, False
    return function


def _objects_of(module):
    """Objects of custom classes that a module and those inside of it hold, by path."""
    for name, inner in module.named_modules():
        for label, value in vars(inner).items():
            if isinstance(value, CustomClass):
                yield f"{name}.{label}" if name else label, value


def _read_attribute(emitter, value, path):
    """What lies under a path of a module; None where the program has it not."""
    for part in path.split("."):
        attribute = value.type.attributes.get(part)
        if attribute is None:
            return None
        value = emitter.one("prim::GetAttr", [value], None, attribute, name=part).named(
            part
        )
    return value


def _given(python, examples, named, bound):
    """The names and values of what a call is given."""
    try:
        names = list(inspect.signature(python).parameters.values())[bound:]
    except (TypeError, ValueError):
        names = []
    rows = []
    for at, value in enumerate(examples):
        plain = at < len(names) and names[at].kind != inspect.Parameter.VAR_POSITIONAL
        rows.append((names[at].name if plain else f"argument_{at + 1}", value))
    return rows + list(named.items())


def _spread(emitter, value, python, leaves):
    """The values inside of an argument, in the recorder's order."""
    if isinstance(python, tuple):
        for part, item in zip(emitter.unpack(value, None), python):
            _spread(emitter, part, item, leaves)
    elif isinstance(python, list):
        node = emitter.add("prim::ListUnpack", [value], None)
        element = value.type.getElementType()
        parts = [node.makes(element) for _ in python]
        for part, item in zip(parts, python):
            _spread(emitter, part, item, leaves)
    elif isinstance(python, dict):
        for key in python:
            part = emitter.call(
                "aten::__getitem__", [value, emitter.constant(key)], None
            )
            _spread(emitter, part, python[key], leaves)
    else:
        leaves.append(value)


def _nodes(emitter, program, known, owner, leaves):
    specs = {
        spec.arg.name: spec
        for spec in program.graph_signature.input_specs
        if hasattr(spec.arg, "name")
    }
    for node in program.graph.nodes:
        if node.op == "placeholder":
            known[node] = _placeholder(
                emitter, program, node, specs.get(node.name), owner, leaves
            )
        elif node.op == "call_function":
            known[node] = _step(emitter, node, known)
        elif node.op != "output":
            raise Untranslatable(f"{node.op} {node.target}")


def _placeholder(emitter, program, node, spec, owner, leaves):
    kind = spec.kind.name if spec is not None else "USER_INPUT"
    if kind == "USER_INPUT":
        return next(leaves)
    target = spec.target
    tensor = program.state_dict.get(target, program.constants.get(target))
    found = None if owner is None else _read_attribute(emitter, owner, target)
    return emitter.constant(tensor) if found is None else found


def _step(emitter, node, known):
    """The value of one recorded call."""
    target = node.target
    if target is operator.getitem:
        owner, at = known[node.args[0]], node.args[1]
        if isinstance(owner.type, _types.TupleType):
            return emitter.unpack(owner, None)[at]
        return emitter.call("aten::__getitem__", [owner, emitter.constant(at)], None)
    operands = [_operand(emitter, value, known) for value in node.args]
    named = {
        name: _operand(emitter, value, known) for name, value in node.kwargs.items()
    }
    if target in _PYTHON:
        return emitter.call(f"aten::{_PYTHON[target]}", operands, None)
    name = getattr(target, "_qualified_op_name", None) or str(
        getattr(target, "_schema", target)
    )
    packet = (
        getattr(target, "_opname", None) or name.partition("(")[0].partition(".")[0]
    )
    space = getattr(target, "namespace", "aten")
    label = packet if "::" in str(packet) else f"{space}::{packet}"
    if label == "aten::sym_size":
        label = "aten::size"
    if not hasattr(target, "_schema"):
        raise Untranslatable(f"a call of {target}")
    return emitter.call(label, operands, None, **named)


def _operand(emitter, value, known):
    from rushlight.fx import Node

    if isinstance(value, Node):
        return known[value]
    if isinstance(value, CustomClass):
        return known[id(value)]
    if isinstance(value, (list, tuple)):
        items = [_operand(emitter, item, known) for item in value]
        none = any(isinstance(item.type, _types.NoneType) for item in items)
        if none:
            return emitter.list_of(items, None, _types.OptionalType.ofTensor())
        return emitter.list_of(items, None, None if items else _types.IntType.get())
    return emitter.constant(value)


def _result(emitter, program, known, strict):
    """The values that come back, put together as the original does."""
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    values = [_operand(emitter, value, known) for value in output.args[0]]
    found = program.graph_signature.output_specs
    values = [
        v for v, spec in zip(values, found) if spec.kind.name == "USER_OUTPUT"
    ] or values
    return _assembled(emitter, program.call_spec.out_spec, iter(values), strict)


def _assembled(emitter, spec, values, strict):
    if spec.is_leaf():
        return next(values)
    parts = [
        _assembled(emitter, child, values, strict) for child in spec.children_specs
    ]
    if spec.type is tuple:
        return emitter.tuple_of(parts, None)
    if spec.type is list:
        return emitter.list_of(parts, None)
    if issubclass(spec.type, dict):
        if strict:
            raise RuntimeError(
                "Encountering a dict at the output of the tracer might cause the trace to be "
                "incorrect, this is only valid if the container structure does not change "
                "based on the module's inputs. Consider using a constant container instead "
                "(e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` "
                "instead). If you absolutely need this and know the side effects, pass "
                "strict=False to trace() to allow this behavior."
            )
        flat = [
            v
            for key, part in zip(spec.context, parts)
            for v in (emitter.constant(key), part)
        ]
        return emitter.dict_of(flat, None)
    return emitter.tuple_of(parts, None)

"""What stands for values while a program is recorded, and what records."""

import copy
import dataclasses
import dis
import enum
import inspect
import operator
import os
import sys
import traceback
from collections import OrderedDict
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.dispatch.packet import OperatorPacket
from rushlight.dispatch.torch_function import is_tensor_method_or_property
from rushlight.fx import _names
from rushlight.fx import traceback as _fx_traceback
from rushlight.fx._codegen import magic_methods, reflectable_magic_methods
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, base_types, map_aggregate

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COPY_META_FIELDS = [
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute",
    "ac_graph_id", "has_backward_hook", "from_node", "quantization_tag",
    "_numeric_debug_handle", "custom", "partitioner_tag",
]  # fmt: skip


class TraceError(ValueError):
    """A program does with a value what cannot be recorded."""


@dataclasses.dataclass
class Scope:
    """The module that is being recorded: its path and its type."""

    module_path: str
    module_type: Any


class ScopeContextManager:
    """A block in which another module is the one that is recorded."""

    def __init__(self, scope, current_scope):
        self._before = copy.copy(scope)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type
        self._scope = scope

    def __enter__(self):
        return self._scope

    def __exit__(self, *raised):
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


class TracerBase:
    """Records steps in a graph. Subclasses say how values and modules are treated.

    ``record_stack_traces`` notes the program's line with each step, ``trace_asserts``
    records assertions about values, ``proxy_buffer_attributes`` has buffers read by steps.
    """

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a step to the graph, with notes of where it comes from.

        Args:
            kind: the kind of step; ``target``, ``args`` and ``kwargs`` are the step's.
            name: a name to try first.
            type_expr: the result's type, for readers.
        """
        if kind == "call_function" and self.check_mutable_operations:
            from rushlight.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (
            self.scope.module_path,
            self.scope.module_type,
        )
        if _fx_traceback.has_preserved_node_meta():
            current = _fx_traceback.get_current_meta()
            if current.get("stack_trace"):
                node.stack_trace = current["stack_trace"]
            for field in _COPY_META_FIELDS:
                if field in current:
                    node.meta[field] = copy.copy(current[field])
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            trace = self._program_trace()
            if trace:
                node.stack_trace = trace
        return node

    def _program_trace(self):
        """The program's own frames, from the outermost within the traced function."""
        frames = traceback.extract_stack()
        own = [f for f in frames if not f.filename.startswith(_PACKAGE)]
        # what called the tracer is no part of the traced program
        last = max(
            (n for n, f in enumerate(frames) if f.name == "trace" and _ours(f)),
            default=-1,
        )
        own = [f for f in frames[last + 1 :] if f in own]
        return "".join(traceback.format_list(own)).strip() or None

    def proxy(self, node):
        """What stands for a step's result."""
        return Proxy(node, self)

    def create_proxy(
        self, kind, target, args, kwargs, name=None, type_expr=None,
        proxy_factory_fn=None,
    ):  # fmt: skip
        """Adds a step, with values in its arguments made steps, and stands for it.

        Args:
            kind: the kind of step.
            target: what it calls; ``args`` and ``kwargs`` may hold proxies.
            name: a name to try first.
            type_expr: the result's type, for readers.
            proxy_factory_fn: makes what stands for the step.
        """
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs)
        if not isinstance(args_, tuple) or not isinstance(kwargs_, dict):
            raise AssertionError("the arguments of a step are a tuple and a dict")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def _find_user_frame(self):
        """The innermost frame that is not the package's own."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        return frame

    def create_arg(self, a):
        """A value as an argument of a step: proxies become nodes, nests are kept.

        Args:
            a: the value.

        Raises:
            RuntimeError: a dict has a proxy for a key.
            NotImplementedError: values of its type cannot be arguments.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            inner = [self.create_arg(each) for each in a]
            return type(a)(*inner) if hasattr(a, "_make") else tuple(inner)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return self._create_dict(a)
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, (Node, *base_types, OperatorPacket)) or a is None or a is ...:
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            kwargs = {
                field.name: self.create_arg(getattr(a, field.name))
                for field in dataclasses.fields(a)
            }
            return self.create_node("call_function", type(a), (), kwargs)
        if isinstance(a, enum.Enum):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_dict(self, a):
        made = {}
        for key, value in a.items():
            shown = self.create_arg(key)

            def refuse(leaf, shown=shown):
                if isinstance(leaf, Node):
                    raise RuntimeError(
                        "Keys for dictionaries used as an argument cannot contain a "
                        f"Node. Got key: {shown}"
                    )

            map_aggregate(shown, refuse)
            made[shown] = self.create_arg(value)
        return made

    def to_bool(self, obj):
        """The truth of a value that is not known.

        Raises:
            TraceError: always; subclasses may know better.
        """
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow"
        )

    def iter(self, obj):
        """The items of a value that is not known.

        Raises:
            TraceError: always; subclasses may know better.
        """
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is "
            "used in a loop or as a *args or **kwargs function argument. See the torch.fx "
            "docs on pytorch.org for a more detailed explanation of what types of control "
            "flow can be traced, and check out the Proxy docstring for help "
            "troubleshooting Proxy iteration errors"
        )

    def keys(self, obj):
        """The keys of a value that is not known, as of ``**obj``: a step of its own."""
        return Attribute(obj, "keys")()


def _ours(frame):
    return frame.filename.startswith(_PACKAGE)


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there: what proxies made by hand record with."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x):
    """Raises where a recorded assertion does not hold.

    Raises:
        AssertionError: it does not.
    """
    assert x


class Proxy:
    """Stands for a value while a program is recorded: what is done with it is a step.

    Operators, methods and attributes become steps, and so do the functions of the package
    that get one as an argument. What needs the value itself, such as ``if``, ``for`` or
    ``len``, is refused; unpacking into a known number of names works.

    Args:
        node: the step whose result it stands for.
        tracer: what records; by default steps are added to the node's graph.

    >>> from rushlight import fx
    >>> graph = fx.Graph()
    >>> x = fx.Proxy(graph.placeholder("x"))
    >>> (x + 1).relu()
    Proxy(relu)
    """

    def __init__(self, node, tracer=None):
        if tracer is None:
            tracer = GraphAppendingTracer(node.graph)
        self.tracer = tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        # reads of the type's own names while a copy is made are no steps
        if k in ("node", "tracer", "root"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, d):
        self.__dict__ = d

    def __deepcopy__(self, memo):
        made = Proxy.__new__(type(self))
        made.__dict__ = {
            key: copy.deepcopy(v, memo) for key, v in self.__dict__.items()
        }
        return made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy(
            "call_method", "__call__", (self, *args), kwargs
        )

    def __iter__(self):
        frame = inspect.currentframe().f_back
        count = _unpacked_into(frame)
        if count is not None:
            return (self[place] for place in range(count))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts and _is_asserted(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self):
        """The keys, as ``**`` asks for them."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call "
            "to be recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args = args or ()
        kwargs = kwargs or {}
        tracers: dict[Any, None] = {}

        def look(leaf):
            if isinstance(leaf, cls):
                tracers[leaf.tracer] = None
            return leaf

        map_aggregate(args, look)
        map_aggregate(kwargs, look)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        path = _names.qualified_name(orig_method)
        if path in _OPERATORS:
            orig_method = _underlying_operator(path)
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy(
                "call_method", orig_method.__name__, args, kwargs
            )
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs,
            name=tracer.graph._target_to_str(orig_method.__name__),
        )  # fmt: skip


# Functions of layers that PyTorch's graphs show as the operators behind them.
_OPERATORS = {
    f"torch.nn.functional.{name}": name
    for name in (
        "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear",
        "cosine_similarity", "pairwise_distance",
    )
}  # fmt: skip
_OPERATORS["torch.nn.functional.logsigmoid"] = "log_sigmoid"


def _underlying_operator(path):
    """The operator that a layer's function calls with what it got."""
    from rushlight.operators import call

    root = sys.modules[_names.ROOTS[0]]
    return getattr(root, _OPERATORS[path], None) or getattr(call, _OPERATORS[path])


def _instructions(frame):
    """A frame's instructions from the one that it stands at."""
    found = dis.get_instructions(frame.f_code)
    return [step for step in found if step.offset >= frame.f_lasti]


def _unpacked_into(frame):
    """How many names a frame is about to unpack a value into; None if it is not."""
    if frame is None:
        return None
    steps = _instructions(frame)
    if steps and steps[0].opname == "UNPACK_SEQUENCE":
        return steps[0].argval
    return None


def _is_asserted(frame):
    """Whether a frame asks for a value's truth in order to ``assert`` it."""
    if frame is None:
        return False
    steps = [
        s for s in _instructions(frame) if s.opname not in ("CACHE", "NOP", "TO_BOOL")
    ]
    if steps and not steps[0].opname.startswith(("POP_JUMP", "JUMP_IF")):
        steps = steps[1:]  # the ``not`` before it, or the call that asked
    return (
        len(steps) > 1
        and "JUMP" in steps[0].opname
        and "IF_TRUE" in steps[0].opname
        and steps[1].opname == "LOAD_ASSERTION_ERROR"
    )


class Attribute(Proxy):
    """Stands for an attribute: read when it is used, a method's call if it is called."""

    def __init__(self, root, attr):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self):
        # A method's name is no value that the graph needs, so that reading waits.
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy(
            "call_method", self.attr, (self.root, *args), kwargs
        )


class ParameterProxy(Proxy):
    """Stands for a parameter whose sizes are known while the program is recorded."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, Tensor):
            raise AssertionError(f"Expected a Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        """The sizes."""
        return self.param.shape

    def size(self):
        """The sizes."""
        return self.param.size()

    def dim(self):
        """The number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self):
        """The number of dimensions."""
        return self.param.ndim

    def numel(self):
        """The number of elements."""
        return self.param.numel()

    def nelement(self):
        """The number of elements."""
        return self.param.nelement()


def _operator_method(name):
    target = getattr(operator, name)

    def method(*args, **kwargs):
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    method.__name__ = method.__qualname__ = f"__{name.strip('_')}__"
    return method


def _reflected_method(name):
    target = getattr(operator, name)

    def method(self, rhs):
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    return method


def _define_operators():
    for name in magic_methods:
        if hasattr(operator, name):
            method = _operator_method(name)
            setattr(Proxy, method.__name__, method)
    for name in reflectable_magic_methods:
        if hasattr(operator, name) and name != "getitem":
            method = _reflected_method(name)
            setattr(Proxy, method.__name__, method)


_define_operators()

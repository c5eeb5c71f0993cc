"""Runs graphs step by step, and makes graphs of graphs."""

import inspect
from contextlib import contextmanager
from typing import Any

from rushlight.fx import traceback as _fx_traceback
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a module's graph step by step; each kind of step is a method to change.

    Args:
        module: the module whose paths the steps refer to.
        garbage_collect_values: whether values go after their last use.
        graph: the steps, by default the module's own.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> class Loud(fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         print(target.__name__)
    ...         return super().call_function(target, args, kwargs)
    >>> Loud(fx.symbolic_trace(lambda x: x * 2 + 1)).run(rl.ones(2))
    mul
    add
    tensor([3., 3.])
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(self.module.named_modules())
        self.graph = graph if graph is not None else self.module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses = _values_by_last_user(self.graph)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """Runs the graph.

        Args:
            args: its arguments.
            initial_env: values of steps that need not run.
            enable_io_processing: whether nests are taken apart and made again.

        Returns:
            What the graph returns.

        Raises:
            RuntimeError: an argument is missing; errors of steps name the step.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _name_step(error, node)
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
            if node.op == "output":
                value = self.env[node]
                if enable_io_processing:
                    return self.graph.process_outputs(value)
                return value
        return None

    def boxed_run(self, args_list):
        """Runs the graph with the arguments of a list, which is emptied.

        So that nobody else holds a value which the graph has used up.
        """
        given = iter(args_list)
        env = {}
        for node in self.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node):
        with _fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n):
        """Runs one step, by the method of its kind, with the values it takes."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if not isinstance(args, tuple) or not isinstance(kwargs, dict):
                raise AssertionError("a step takes a tuple and a dict")
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        """The next argument of the run; the rest of them for ``*args``.

        Raises:
            RuntimeError: there is none, and no default.
        """
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be a string, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not "
                "passed in!"
            ) from None

    def get_attr(self, target, args, kwargs):
        """What the module has at a path."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """Calls a function."""
        if isinstance(target, str):
            raise AssertionError(f"Expected a callable target, got {target!r}")
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """Calls a method of the first argument."""
        itself, *rest = args
        return getattr(itself, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """Calls the module at a path."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target):
        """What the module has at a path.

        Raises:
            RuntimeError: the path leads nowhere.
        """
        held = self.module
        items = target.split(".")
        for end, item in enumerate(items, 1):
            if not hasattr(held, item):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(items[:end])}"
                )
            held = getattr(held, item)
        return held

    def fetch_args_kwargs_from_env(self, n):
        """The values that a step takes: a tuple and a dict."""
        return (
            self.map_nodes_to_values(n.args, n),
            self.map_nodes_to_values(n.kwargs, n),
        )

    def map_nodes_to_values(self, args, n):
        """A nest with every node in it replaced by its value.

        Args:
            args: the nest.
            n: the step that it belongs to, for the error.

        Raises:
            RuntimeError: a node has no value yet.
        """

        def load(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to "
                    "diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, load)


def _values_by_last_user(graph):
    """The steps whose values a step is the last to take."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for used in node._input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
    return found


def _name_step(error, node):
    """Adds to an error which step was run, and where the program had it from."""
    note = f"While executing {node.format_node()}"
    first = error.args[0] if error.args else None
    text = f"{first}\n\n{note}" if first else str(note)
    text += f"\nOriginal traceback:\n{node.stack_trace}"
    if isinstance(error, KeyError):
        error.args = (_Located(text), *error.args[1:])
    else:
        error.args = (text, *error.args[1:])


class _Located(str):
    """A text that is its own ``repr``, as that is what a KeyError shows."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class Transformer(Interpreter):
    """Runs a graph with proxies, so that what its methods do becomes another graph.

    Args:
        module: the module to transform.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> class Swap(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = rl.cos if target is rl.sin else target
    ...         return super().call_function(target, args, kwargs)
    >>> print(*Swap(fx.symbolic_trace(lambda x: rl.sin(x))).transform().graph.nodes)
    x cos output
    """

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph = graph
                self.tensor_attrs = {}
                self._kept = []
                self.root = module

            def is_leaf_module(self, _, __):
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs):
        """Adds an argument to the new graph."""
        default = args[0] if args else inspect.Signature.empty
        given = () if default is inspect.Signature.empty else (default,)
        node = self.new_graph.create_node("placeholder", target, given)
        return Proxy(node, self.tracer)

    def get_attr(self, target, args, kwargs):
        """Adds the reading of a path to the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        """Calls the module at a path, which becomes a step."""
        return self.tracer.call_module(
            self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs
        )

    def call_function(self, target, args, kwargs):
        """Adds the call of a function to the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """The new module.

        >>> from rushlight import fx
        >>> fx.Transformer(fx.symbolic_trace(lambda x: x + 1)).transform()(1)
        2
        """
        with _fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(value):
                return value.node if isinstance(value, Proxy) else value

            node = self.new_graph.output(map_aggregate(result, strip))
            for old in reversed(self.graph.nodes):
                if old.op == "output":
                    node.type = old.type
                    node.meta.update(old.meta)
                    break
        return GraphModule(self.module, self.new_graph)

"""Programs as lists of steps, each of which says what it calls and with what."""

from __future__ import annotations

import contextlib
import copy
import inspect
import typing
import warnings
from typing import Any

from rushlight.fx import _codegen, _names
from rushlight.fx._codegen import CodeGen, PythonCode, _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx._names import Namespace as _Namespace
from rushlight.fx.node import Argument as Argument
from rushlight.fx.node import Node, _legal_ops, map_arg

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_custom_builtins = _names.custom_builtins
_is_from_torch = _names.is_from_package
_snake_case = _names.snake_case
inplace_methods = _codegen.inplace_methods
magic_methods = _codegen.magic_methods
reflectable_magic_methods = _codegen.reflectable_magic_methods
for _kind in (CodeGen, PythonCode, _PyTreeCodeGen, _PyTreeInfo):
    _kind.__module__ = __name__  # where programs find them


class _InsertPoint:
    """Where new steps go, until the ``with`` block ends."""

    def __init__(self, graph, insert):
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, insert

    def __enter__(self):
        return None

    def __exit__(self, kind, error, trace):
        self.graph._insert = self.orig_insert


class _node_list:
    """The steps of a graph, from the first to the last or the other way round."""

    def __init__(self, graph, direction="_next"):
        if direction not in ("_next", "_prev"):
            raise RuntimeError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root = self.graph._root
        # Steps may be taken out on the way: those that are gone are passed over.
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self):
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _FindNodesLookupTable:
    """The steps of a graph by what they do, and for functions by which one."""

    def __init__(self):
        self.table: dict[Any, dict[Node, None]] = {}

    def _key(self, node):
        target = id(node.target) if node.op == "call_function" else None
        return node.op, target

    def __contains__(self, node):
        return node in self.table.get(self._key(node), ())

    def insert(self, node):
        self.table.setdefault(self._key(node), {})[node] = None

    def remove(self, node):
        self.table.get(self._key(node), {}).pop(node, None)

    def find_nodes(self, *, op, target=None):
        if op == "call_function":
            if target is None:
                raise AssertionError("target must not be None for call_function op")
            return list(self.table.get((op, id(target)), ()))
        found = self.table.get((op, None), ())
        return [node for node in found if target is None or node.target == target]


class Graph:
    """A program as a list of steps.

    Steps are added where ``inserting_before`` or ``inserting_after`` say, else at the end;
    each takes the results of steps before it. A ``GraphModule`` makes a graph run.

    Args:
        owning_module: the module that the graph belongs to, if it does.
        tracer_cls: the kind of tracer that wrote it; ``tracer_extras`` are its notes.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(rl.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen: CodeGen = CodeGen()
        self._co_fields: dict[str, Any] = {}
        self._find_nodes_lookup_table = _FindNodesLookupTable()

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that the graph belongs to; None where it has none, or several."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod):
        self._owning_module = mod

    @property
    def nodes(self):
        """The steps in their order; ``reversed`` gives them backwards."""
        return _node_list(self)

    def _holds(self, node):
        return node in self._find_nodes_lookup_table

    def find_nodes(self, *, op, target=None, sort=True):
        """The steps that do a thing, looked up rather than searched for.

        Args:
            op: the kind of step.
            target: the function, method or path; for ``call_function`` it must be given.
            sort: whether they come in the graph's order.

        Raises:
            AssertionError: a function is sought without saying which.
        """
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    def output_node(self):
        """The last step, which returns.

        Raises:
            AssertionError: the last step does not return.
        """
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def create_node(
        self, op, target, args=None, kwargs=None, name=None, type_expr=None
    ):
        """Adds a step at the place of insertion.

        Args:
            op: the kind of step, a row of the table of ``Node``.
            target: what is called or read.
            args: what it is called with; ``kwargs`` too.
            name: a name to try first.
            type_expr: the result's type, for readers.

        Raises:
            AssertionError: ``op`` is no kind of step, or the arguments are no tuple
                and dict.
            ValueError: the target is not what this kind of step takes.
        """
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if op not in _legal_ops:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def _target_to_str(self, target):
        if callable(target):
            text = target.__name__
        else:
            if not isinstance(target, str):
                raise AssertionError(f"Expected target to be str, got {type(target)}")
            text = target
            if _names.is_magic(text):
                text = text[2:-2]
        if _names.is_magic(text):
            text = text[2:-2]
        return _names.snake_case(text)

    def erase_node(self, to_erase):
        """Takes a step out of the graph.

        Args:
            to_erase: the node; one that is out already is left, with a warning.

        Raises:
            RuntimeError: another step uses its result, or it is of another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had "
                f"{len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(
                f"erase_node({to_erase}) on an already erased node", stacklevel=2
            )
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        # Steps that it took are not used by it any more; constants can be read still.
        to_erase._update_args_kwargs(
            map_arg(to_erase._args, lambda taken: None),
            map_arg(to_erase._kwargs, lambda taken: None),
        )

    def inserting_before(self, n=None):
        """A block in which new steps go before a node.

        Args:
            n: the node; without it, new steps go before all others.

        Raises:
            AssertionError: it is not of this graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """A block in which new steps go after a node, the last made next to it.

        Args:
            n: the node; without it, new steps go after all others.

        Raises:
            AssertionError: it is not of this graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def placeholder(self, name, type_expr=None, default_value=inspect.Signature.empty):
        """Adds an argument of the program.

        Args:
            name: its name; ``*args`` and ``**kwargs`` are names too.
            type_expr: its type, for readers.
            default_value: what it is where nothing is given.
        """
        nothing = default_value is inspect.Signature.empty
        args = () if nothing else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """Adds the reading of a parameter, buffer or module.

        Args:
            qualified_name: its path from the module that owns the graph.
        """
        if self.owning_module is not None and not _refers(
            self.owning_module, qualified_name
        ):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the "
                "owning GraphModule! Call GraphModule.add_submodule to add the necessary "
                "submodule, GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """Adds the call of a module.

        Args:
            module_name: its path from the module that owns the graph.
            args: what it is called with; ``kwargs`` too.
        """
        module = self.owning_module
        if module is not None and module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in "
                "the owning GraphModule! Call GraphModule.add_submodule to add the "
                "necessary submodule",
                stacklevel=2,
            )
        return self.create_node(
            "call_module", module_name, args, kwargs, type_expr=type_expr
        )

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """Adds the call of a method; the object is the first argument."""
        return self.create_node(
            "call_method", method_name, args, kwargs, type_expr=type_expr
        )

    def call_function(
        self, the_function, args=None, kwargs=None, type_expr=None, name=None
    ):
        """Adds the call of a function.

        Args:
            the_function: anything that can be called and has a name.
            args: what it is called with; ``kwargs`` too.
            name: a name for the step to try first.
        """
        return self.create_node(
            "call_function", the_function, args, kwargs, name=name, type_expr=type_expr
        )

    def output(self, result, type_expr=None):
        """Adds the return of a result, which may be a nest of nodes and constants."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda node: node):
        """Adds a copy of a step of another graph.

        Args:
            node: the step.
            arg_transform: gives this graph's node for each that the step takes.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected args to be tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"Expected kwargs to be dict, got {type(kwargs)}")
        made = self.create_node(
            node.op, node.target, args, kwargs, node.name, node.type
        )
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Adds copies of all steps of another graph, up to its return.

        Args:
            g: the other graph.
            val_map: from its nodes to this graph's; entries made already are kept, and
                those of the copies are added.
            return_output_node: whether the other graph's last node is given as well.

        Returns:
            What the other graph returns, in this graph's nodes.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo=None):
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        values: dict[Node, Node] = {}
        result = made.graph_copy(self, values, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen, memo)
        if result is not None:
            value, old = result
            node = made.output(value, type_expr=old.type)
            node.meta = copy.copy(old.meta)
        return made

    def lint(self):
        """Checks that the graph can run: order, names, owners, and what is referred to.

        Raises:
            RuntimeError: a step takes a result that comes later or from another graph,
                a name is there twice, or a path leads nowhere.
        """
        seen_names: set[str] = set()
        seen: set[Node] = set()

        def check(arg, user):
            fault = None
            if arg.graph is not self:
                fault = (
                    "does not belong to this Graph, but was used as an argument! If you "
                    "are copying nodes from another graph, make sure to use "
                    "``arg_transform`` on node_copy() to remap values"
                )
            elif arg not in seen:
                fault = (
                    "was used before it has been defined! Please check that Nodes in the "
                    "graph are topologically ordered"
                )
            if fault:
                raise RuntimeError(f"Argument '{arg}' of Node '{user}' {fault}\n{self}")

        for node in self.nodes:
            if node.op not in _legal_ops or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for each in node._input_nodes:
                check(each, node)
            seen.add(node)
            if node.name in seen_names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen_names.add(node.name)
        self._lint_targets()

    def _lint_targets(self):
        module = self.owning_module
        for node in self.nodes:
            if node.op == "call_function":
                if not callable(node.target):
                    raise ValueError(
                        f"Node {node} target {node.target} has type "
                        f"{_names.type_name(type(node.target))} but a Callable is expected"
                    )
                continue
            if not isinstance(node.target, str):
                raise ValueError(
                    f"Node {node} target {node.target} has type "
                    f"{_names.type_name(type(node.target))} but a str is expected"
                )
            if module is not None and node.op in ("get_attr", "call_module"):
                _lint_path(module, node)

    def eliminate_dead_code(self, is_impure_node=None):
        """Takes out the steps whose results nobody uses.

        Steps that do more than give a result stay: arguments, returns, functions noted
        with ``has_side_effect``, modules that call themselves impure.

        Args:
            is_impure_node: called with a node, says whether it must stay.

        Returns:
            Whether any step went.
        """
        self.lint()
        impure: Callable = is_impure_node or Node.is_impure
        before = len(self.nodes)
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return len(self.nodes) < before

    def python_code(self, root_module, *, verbose=False, **options):
        """The graph as Python, a function ``forward``.

        Args:
            root_module: the name of the module that paths start from, as ``"self"``.
            verbose: whether comments say where steps come from.
            options: ``include_stride``, ``include_device``, ``colored``,
                ``expanded_def``, ``record_func`` and ``additional_meta``.
        """
        namespace = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        try:
            for node in before:
                node._repr_fn = lambda node: namespace.create_name(node.name, node)
            return self._python_code(root_module, namespace, verbose=verbose, **options)
        finally:
            for node, repr_fn in before.items():
                node._repr_fn = repr_fn

    def _python_code(self, root_module, namespace, **options):
        return self._codegen._gen_python_code(
            self.nodes, root_module, namespace, **options
        )

    def __str__(self):
        arguments: list[str] = []
        lines = [node.format_node(arguments) for node in self.nodes]
        head = f"graph({', '.join(arguments)}):"
        return "".join([head, *(f"\n    {line}" for line in lines if line)])

    def print_tabular(self):
        """Prints the steps as a table.

        >>> from rushlight import fx
        >>> fx.symbolic_trace(lambda x: x + 1).graph.print_tabular()
        opcode         name    target                   args    kwargs
        -------------  ------  -----------------------  ------  --------
        placeholder    x       x                        ()      {}
        call_function  add     <built-in function add>  (x, 1)  {}
        output         output  output                   (add,)  {}
        """
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        headers = ["opcode", "name", "target", "args", "kwargs"]
        print(_table(headers, [[str(cell) for cell in row] for row in rows]))

    def process_inputs(self, *args):
        """The arguments of a call as the values of the graph's placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """What the last step gives as what a call returns."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen):
        """Chooses what writes the graph as Python."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Lets a function change the lines of the body when code is written.

        Args:
            make_transformer: called with the function that is there already, or None;
                gives one from a list of lines to a list of lines.

        Returns:
            A block, at whose end the former function is back.
        """
        former = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(former)

        @contextlib.contextmanager
        def until_end():
            try:
                yield
            finally:
                self._codegen._body_transformer = former

        return until_end()

    def _clear_nodes(self):
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)


def _refers(module, path):
    """Whether a path leads to a parameter, buffer or module."""
    from rushlight.nn.modules.module import Module
    from rushlight.nn.parameter import Parameter

    *homes, last = path.split(".")
    for home in homes:
        if not hasattr(module, home):
            warnings.warn(f"Failed to fetch module {'.'.join(homes)}!", stacklevel=4)
            return False
        module = getattr(module, home)
    held = getattr(module, last, None)
    return isinstance(held, (Module, Parameter)) or last in module._buffers


def _lint_path(module, node):
    """Raises where a step's path leads nowhere, or call_module's to no module.

    Raises:
        RuntimeError: it does.
    """
    from rushlight.nn.modules.module import Module

    *homes, last = node.target.split(".")
    held: Any = module
    for place, atom in enumerate([*homes, last]):
        if not hasattr(held, atom):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute "
                f"{atom} of {'.'.join(homes[:place])}"
            )
        held = getattr(held, atom)
    if node.op == "call_module" and not isinstance(held, Module):
        raise RuntimeError(
            f"Node {node} target {node.target} {atom} of {'.'.join(homes)} does not "
            "reference an nn.Module"
        )


def _table(headers, rows):
    """Rows under their heads: columns two spaces apart, as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    widths = [
        max(width, len(head) + 2) for width, head in zip(widths, headers, strict=True)
    ]
    lines = [headers, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )

"""Steps of graphs: what is called, with what, and who uses the result."""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable
from typing import Any, TypeAlias, Union

from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout, MemoryFormat
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.fx import _names
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.operators.assertions import _assert, _assert_async

if typing.TYPE_CHECKING:
    from rushlight.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

# What a step calls, and what it may be given: for annotations.
Target: TypeAlias = Union[Callable[..., Any], str]  # noqa: UP007
Argument: TypeAlias = Any
BaseArgumentTypes: TypeAlias = Any

base_types = (
    str, int, float, bool, complex, DType, Tensor, Device, MemoryFormat, Layout, Operator,
)  # fmt: skip

_legal_ops = dict.fromkeys(
    (
        "placeholder", "call_method", "call_module", "call_function", "get_attr",
        "output", "root",
    )
)  # fmt: skip

# Functions whose calls stay though nobody uses their results.
_side_effectful_functions: set[Any] = {operator.setitem, _assert, _assert_async}
_get_qualified_name = _names.qualified_name
_type_repr = _names.type_name


def has_side_effect(fn):
    """Notes a function whose calls must stay in a graph though nobody uses the result.

    Args:
        fn: the function; it is given back, so that this may decorate it.

    >>> @has_side_effect
    ... def shout(x):
    ...     print(x)
    >>> shout in _side_effectful_functions
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """A nest of tuples, lists, dicts and slices with every leaf replaced.

    Lists and dicts come back as ones that cannot change.

    Args:
        a: the nest.
        fn: called with each leaf, gives what takes its place.

    >>> map_aggregate((1, [2, {"k": 3}]), lambda leaf: leaf * 10)
    (10, [20, {'k': 30}])
    """
    if isinstance(a, tuple):
        inner = (map_aggregate(each, fn) for each in a)
        return type(a)(*inner) if hasattr(a, "_make") else tuple(inner)
    if isinstance(a, list):
        return immutable_list([map_aggregate(each, fn) for each in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(a[key], fn) for key in a})
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """A nest with every step of a graph in it replaced, all else as it was.

    Args:
        a: the nest.
        fn: called with each node.

    Raises:
        AssertionError: ``fn`` cannot be called.

    >>> from rushlight import fx
    >>> graph = fx.Graph()
    >>> x, y = graph.placeholder("x"), graph.placeholder("y")
    >>> fx.node.map_arg((x, [x, 1]), lambda node: y)
    (y, [y, 1])
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _format_arg(arg, max_list_len=float("inf")):
    """An argument as the text of a graph shows it."""
    if isinstance(arg, (list, tuple)):
        opening, closing = "[]" if isinstance(arg, list) else "()"
        shown = [
            _format_arg(each) for place, each in enumerate(arg) if place < max_list_len
        ]
        if len(arg) > max_list_len:
            shown.append(f"...[total_len={len(arg)}]")
        comma = "," if opening == "(" and len(shown) == 1 else ""
        return opening + ", ".join(shown) + comma + closing
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    if isinstance(arg, Node):
        return f"%{arg}"
    if isinstance(arg, (DType, Layout, MemoryFormat)):
        return _names.value_text(arg)
    return str(arg)


def _key_between(before, after):
    """A tuple that sorts between two others."""
    if after[: len(before)] == before:
        return (*before, after[len(before)] - 1 if len(after) > len(before) else 0)
    next_key = (*before[:-1], before[-1] + 1)
    return next_key if next_key < after else (*before, 0)


class Node:
    """One step of a graph.

    ======================  ===========================================================
    ``op``                  ``target``, ``args`` and ``kwargs``
    ======================  ===========================================================
    ``placeholder``         the argument's name; its default, where it has one
    ``get_attr``            the path of a parameter, buffer or module
    ``call_function``       a function; what it is called with
    ``call_module``         the path of a module; what it is called with
    ``call_method``         a method's name; the object, then what it is called with
    ``output``              ``"output"``; what the graph returns, as one tuple
    ======================  ===========================================================

    ``users`` are the nodes that take this one's result, ``meta`` is for notes.

    Args:
        graph: the graph.
        name: its name there.
        op: one of the words above.
        target: what is called or read.
        args: the arguments by position.
        kwargs: the arguments by name.
        return_type: what it gives, where that is known.

    Raises:
        AssertionError: ``op`` is none of these.
        ValueError: the target is not of the kind that ``op`` asks for.

    >>> from rushlight import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> graph.call_method("relu", (x,)).format_node()
    '%relu : [num_users=0] = call_method[target=relu](args = (%x,), kwargs = {})'
    """

    graph: Graph
    name: str
    op: str
    target: Any
    users: dict[Node, None]
    meta: dict[str, Any]
    _next: Node
    _prev: Node

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = {name!r}] target {target} has type "
                    f"{_kind(target)} but a Callable is expected"
                )
        elif op not in _legal_ops:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = {name!r}] target {target} has type "
                f"{_kind(target)} but a str is expected"
            )
        place = self.__dict__
        place["graph"] = graph
        place["name"] = name
        place["op"] = op
        place["target"] = target
        place["type"] = return_type
        place["users"] = {}
        place["meta"] = {}
        place["_input_nodes"] = {}
        place["_next"] = place["_prev"] = self
        place["_erased"] = False
        place["_sort_key"] = ()
        place["_repr_fn"] = None
        place["_args"], place["_kwargs"] = (), immutable_dict()
        self._update_args_kwargs(args, kwargs)

    def __setattr__(self, name, value):
        if name == "target" or name == "op":
            # the graph's index of targets is told
            held = not self._erased and self.graph._holds(self)
            if held:
                self.graph._find_nodes_lookup_table.remove(self)
            object.__setattr__(self, name, value)
            if held:
                self.graph._find_nodes_lookup_table.insert(self)
        elif name == "name" and "name" in self.__dict__:
            self._notify_replacing(value)
            object.__setattr__(self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _notify_replacing(self, name):
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()):
            for user in self.users:
                hook(old=self, new=name, user=user)

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __lt__(self, other):
        return self._sort_key < other._sort_key

    def __gt__(self, other):
        return self._sort_key > other._sort_key

    def __le__(self, other):
        return self is other or self._sort_key < other._sort_key

    def __ge__(self, other):
        return self is other or self._sort_key > other._sort_key

    @property
    def next(self):
        """The step after this one."""
        return self._next

    @property
    def prev(self):
        """The step before this one."""
        return self._prev

    @property
    def args(self):
        """The positional arguments. They are replaced, never changed in place."""
        return self._args

    @args.setter
    def args(self, a):
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self):
        """The arguments by name. They are replaced, never changed in place."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k):
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self):
        """The steps whose results this one takes, each once."""
        return list(self._input_nodes)

    @property
    def stack_trace(self):
        """Where the program was when this step was recorded, if that was noted."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def _update_args_kwargs(self, args, kwargs):
        """Takes new arguments and tells the steps in them who uses them."""
        for old in self._input_nodes:
            old.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def note(node):
            inputs[node] = None
            node.users[self] = None
            return node

        place = self.__dict__
        place["_args"] = map_arg(args, note)
        place["_kwargs"] = map_arg(kwargs, note)
        place["_input_nodes"] = inputs

    def _remove_from_list(self):
        before, after = self._prev, self._next
        before.__dict__["_next"] = after
        after.__dict__["_prev"] = before

    def _put_between(self, before, after):
        self.__dict__.update(_prev=before, _next=after)
        before.__dict__["_next"] = after.__dict__["_prev"] = self
        last = after.op == "root"
        if last and before.op == "root":
            key = (0,)
        elif last:
            key = (before._sort_key[0] + 1,)
        else:
            key = _key_between(before._sort_key, after._sort_key)
        self.__dict__["_sort_key"] = key

    def prepend(self, x):
        """Puts a step before this one in the order of the graph.

        Args:
            x: a node of the same graph.

        Raises:
            AssertionError: it is of another graph.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        x._put_between(self._prev, self)

    def append(self, x):
        """Puts a step after this one in the order of the graph.

        Args:
            x: a node of the same graph.

        Raises:
            AssertionError: it is of another graph.
        """
        if self._next is not self:
            self._next.prepend(x)
        else:
            self.prepend(x)

    def update_arg(self, idx, arg):
        """Replaces the positional argument number ``idx``.

        Raises:
            IndexError: there is none of that number.
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Inserts a positional argument before the one of number ``idx``.

        Raises:
            AssertionError: there are fewer arguments.
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key, arg):
        """Replaces, or adds, an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Takes another step's result wherever this one takes ``old_input``'s."""
        hooks = getattr(self.graph.owning_module, "_replace_hooks", None)
        if hooks and isinstance(new_input, Node):
            for hook in hooks:
                hook(old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    def _replace_input_with(self, old, new):
        def swap(node):
            return new if node is old else node

        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with, delete_user_cb=None, *, propagate_meta=False
    ):
        """Gives this step's users the result of another.

        Args:
            replace_with: the node to use.
            delete_user_cb: called with each user, says whether it changes; all do.
            propagate_meta: also hands on the notes; the other may then have none.

        Returns:
            The users that changed.

        Raises:
            AssertionError: the other has notes already.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, "
                    "propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        hooks = getattr(self.graph.owning_module, "_replace_hooks", ())
        changed = []
        for user in list(self.users):
            if delete_user_cb is not None and not delete_user_cb(user):
                continue
            changed.append(user)
            for hook in hooks:
                hook(old=self, new=replace_with.name, user=user)
            user._replace_input_with(self, replace_with)
        return changed

    def is_impure(self, impure_random=True):
        """Whether the step does more than give a result, so that it must stay.

        Args:
            impure_random: whether drawing random numbers counts.

        Raises:
            AssertionError: a module is called that is not known.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            if schema is not None and getattr(schema, "is_mutable", False):
                return True
            if impure_random and getattr(
                self.target, "_nondeterministic_seeded", False
            ):
                return True
            return _in_set(self.target, _side_effectful_functions)
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError(
                    "self.graph.owning_module not set for purity check"
                )
            called = module.get_submodule(self.target)
            if called is None:
                raise AssertionError(
                    f"Did not find expected submodule target {self.target}"
                )
            return getattr(called, "_is_impure", False)
        return False

    def normalized_arguments(
        self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False
    ):
        """The arguments by the names of the called function's or module's signature.

        Args:
            root: the module that called modules are looked up in.
            arg_types: types that choose between signatures; ``kwarg_types`` too.
            normalize_to_only_use_kwargs: whether none stays positional.

        Returns:
            A pair of ``args`` and ``kwargs``, or None where it cannot be told.
        """
        from rushlight.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target,
                self.args,
                self.kwargs,
                arg_types,
                kwarg_types,
                normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def _pretty_print_target(self, target):
        return _names.target_name(target)

    def format_node(
        self, placeholder_names=None, maybe_return_typename=None, *,
        include_tensor_metadata=False,
    ):  # fmt: skip
        """This step as the line that the text of a graph has for it.

        Args:
            placeholder_names: a list that the line of an argument goes to instead.
            maybe_return_typename: a list whose first entry gets the result's type.
            include_tensor_metadata: whether notes of type and sizes are shown.
        """
        if self.op == "placeholder":
            return self._format_placeholder(placeholder_names)
        kind = f"{_type_repr(self.type)} " if self.type else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "get_attr":
            return f"{head}[target={self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        shown = _format_arg(self.args)
        noted = self._tensor_note() if include_tensor_metadata else ""
        return (
            f"%{self.name} : {kind}{noted}[num_users={len(self.users)}] = {self.op}"
            f"[target={self._pretty_print_target(self.target)}]"
            f"(args = {shown}, kwargs = {_format_arg(self.kwargs)})"
        )

    def _tensor_note(self):
        value = self.meta.get("val", self.meta.get("tensor_meta"))
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return ""
        sizes = ", ".join(map(str, value.shape))
        return f"{_names.in_package(str(value.dtype)).partition('.')[2]}[{sizes}] "

    def _format_placeholder(self, names):
        if not isinstance(self.target, str):
            raise AssertionError(f"Expected target to be str, got {type(self.target)}")
        text = self.target
        text += f": {_type_repr(self.type)}" if self.type else ""
        if names:
            names.append(text)
            return None
        kind = f"{_type_repr(self.type)} " if self.type else ""
        default = f"(default={self.args[0]})" if self.args else ""
        return (
            f"%{self.name} : {kind}[num_users={len(self.users)}] = "
            f"{self.op}[target={self.target}]{default}"
        )


def _kind(target):
    return _names.in_package(_names.type_name(type(target)))


def _in_set(value, values):
    try:
        return value in values
    except TypeError:
        return False

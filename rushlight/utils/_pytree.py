"""Nested containers taken apart into leaves and a description, and put together again.

Tuples, lists, dicts, named tuples, ordered dicts, default dicts and deques are containers;
``register_pytree_node`` adds others. A dict keeps the order of its keys.
"""

import functools
import json
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rushlight.core.layout import Size
from rushlight.core.warning import warn

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_constant",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_leaf",
    "treespec_loads",
    "treespec_pprint",
]

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = Callable[[Iterable, Context], PyTree]
FlattenWithKeysFn = Callable[[PyTree], tuple[list, Context]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
KeyPath = tuple

PROTOCOL = 1


# -- the ways into a container ----------------------------------------------------------


class SequenceKey(NamedTuple):
    """The place of a child in a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, parent):
        """The child."""
        return parent[self.idx]


class MappingKey(NamedTuple):
    """The key of a child in a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, parent):
        """The child."""
        return parent[self.key]


class GetAttrKey(NamedTuple):
    """The name of a child that is an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, parent):
        """The child."""
        return getattr(parent, self.name)


def keystr(kp):
    """A path as one would write it after the container.

    >>> keystr((MappingKey("a"), SequenceKey(0)))
    "['a'][0]"
    """
    return "".join(str(key) for key in kp)


def key_get(obj, kp):
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- kinds of containers ----------------------------------------------------------------


class NodeDef(NamedTuple):
    """How one kind of container is taken apart and put together."""

    type: type
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _Serial(NamedTuple):
    """How a container's description is written as text."""

    name: str
    to_dumpable: ToDumpableContextFn | None
    from_dumpable: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
_serial: dict[Any, _Serial] = {}
_by_serial_name: dict[str, Any] = {}
_lock = threading.Lock()


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Makes a class a container.

    Args:
        cls: the class; its subclasses stay leaves.
        flatten_fn: from an instance to its children and whatever else is needed.
        unflatten_fn: from children and that context to an instance.
        serialized_type_name: its name in text, by default its module and name.
        to_dumpable_context: from a context to what JSON can write.
        from_dumpable_context: back again.
        flatten_with_keys_fn: as ``flatten_fn``, each child paired with its key.

    Raises:
        ValueError: the class is a container already.
    """
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None "
            "or registered."
        )
    with _lock:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        _add(
            cls,
            flatten_fn,
            unflatten_fn,
            flatten_with_keys_fn,
            serialized_type_name,
            to_dumpable_context,
            from_dumpable_context,
        )


def _register_pytree_node(cls, flatten_fn, unflatten_fn, **options):
    """The older name of ``register_pytree_node``."""
    warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
    )
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _add(cls, flatten, unflatten, with_keys, name=None, dump=None, load=None):
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, with_keys)
    name = name or f"{getattr(cls, '__module__', None)}.{cls.__qualname__}"
    _serial[cls] = _Serial(name, dump, load)
    _by_serial_name[name] = cls


def _deregister_pytree_node(cls):
    """Makes a class a leaf again."""
    with _lock:
        del SUPPORTED_NODES[cls]
        del _by_serial_name[_serial.pop(cls).name]


def is_namedtuple_class(cls):
    """Whether a class was made by ``namedtuple``."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return type(fields) is tuple and all(type(field) is str for field in fields)


def is_namedtuple(obj):
    """Whether a value, or a class, is a named tuple."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj):
    """Whether a value is a named tuple."""
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls):
    """Whether a class is one of Python's records, or a named result of an operator."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and cls.__module__.endswith("return_types")
    ) or all(
        isinstance(getattr(cls, name, None), int)
        for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    )


def is_structseq(obj):
    """Whether a value, or a class, is such a record."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj):
    """Whether a value is such a record."""
    return is_structseq_class(type(obj))


def _sequence_keys(flatten):
    def with_keys(value):
        children, context = flatten(value)
        return [(SequenceKey(i), child) for i, child in enumerate(children)], context

    return with_keys


def _mapping_keys(flatten, keys_of):
    def with_keys(value):
        children, context = flatten(value)
        keys = map(MappingKey, keys_of(context))
        return list(zip(keys, children)), context

    return with_keys


def _flatten_sequence(value):
    return list(value), None


def _flatten_dict(value):
    return list(value.values()), list(value)


def _flatten_default(value):
    return list(value.values()), [value.default_factory, list(value)]


def _unflatten_default(children, context):
    factory, keys = context
    return defaultdict(factory, zip(keys, children))


def _flatten_named(value):
    return list(value), type(value)


def _unflatten_named(children, kind):
    # the named results of operators are made of one sequence, as in PyTorch
    return kind(children) if is_structseq_class(kind) else kind(*children)


def _named_keys(value):
    keys = map(GetAttrKey, type(value)._fields)
    return list(zip(keys, value)), type(value)


def _flatten_deque(value):
    return list(value), value.maxlen


def _whole_name(kind):
    return f"{kind.__module__}.{kind.__qualname__}" if kind is not None else None


def _named_class(name):
    import importlib

    if name is None:
        return None
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


_FACTORY = ("default_factory_module", "default_factory_name", "dict_context")


def _default_as_json(context):
    factory, keys = context
    return dict(zip(_FACTORY, (factory.__module__, factory.__qualname__, keys)))


def _default_of_json(given):
    module, name, keys = map(given.__getitem__, _FACTORY)
    return [_named_class(f"{module}.{name}"), keys]


def _register_own():
    own = _add
    keys = _sequence_keys(_flatten_sequence)
    own(tuple, _flatten_sequence, lambda c, _: tuple(c), keys, "builtins.tuple")
    own(list, _flatten_sequence, lambda c, _: list(c), keys, "builtins.list")
    own(Size, _flatten_sequence, lambda c, _: Size(c), keys, "torch.Size")
    own(
        dict,
        _flatten_dict,
        lambda c, keys: dict(zip(keys, c)),
        _mapping_keys(_flatten_dict, list),
        "builtins.dict",
    )
    own(
        OrderedDict,
        _flatten_dict,
        lambda c, keys: OrderedDict(zip(keys, c)),
        _mapping_keys(_flatten_dict, list),
        "collections.OrderedDict",
    )
    own(
        defaultdict,
        _flatten_default,
        _unflatten_default,
        _mapping_keys(_flatten_default, lambda context: context[1]),
        "collections.defaultdict",
        _default_as_json,
        _default_of_json,
    )
    own(
        deque,
        _flatten_deque,
        lambda c, limit: deque(c, maxlen=limit),
        _sequence_keys(_flatten_deque),
        "collections.deque",
    )
    own(
        namedtuple,
        _flatten_named,
        _unflatten_named,
        _named_keys,
        "collections.namedtuple",
        _whole_name,
        _named_class,
    )


_register_own()

# PyTorch's names for the functions, which packages register their own containers with:
# `_list_flatten`, `_list_unflatten`, `_list_flatten_with_keys`.
for _cls, _node in SUPPORTED_NODES.items():
    _name = _cls.__name__.lower()
    globals()[f"_{_name}_flatten"] = _node.flatten_fn
    globals()[f"_{_name}_unflatten"] = _node.unflatten_fn
    globals()[f"_{_name}_flatten_with_keys"] = _node.flatten_with_keys_fn


def _register_namedtuple(cls, *, serialized_type_name):
    """Says under which name a class of named tuples is written as text."""
    _serial[cls] = _Serial(serialized_type_name, None, None)
    _by_serial_name[serialized_type_name] = cls


def register_constant(cls):
    """Makes instances of a class part of the description, without leaves.

    Args:
        cls: a class whose instances compare by value and can be hashed.

    Raises:
        TypeError: instances compare by identity, or cannot be hashed.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Scale:
    ...     by: int
    >>> register_constant(Scale)
    >>> tree_leaves([Scale(2), 3])
    [3]
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            f"register_constant(cls) expects `cls` to have a non-default `__eq__`: "
            f"instances of {cls.__name__} would never equal those of another description"
        )
    if cls.__hash__ is None:
        raise TypeError(
            f"register_constant(cls) expects `cls` to have a `__hash__`: instances of "
            f"{cls.__name__} are part of a description that is hashed"
        )
    register_pytree_node(
        cls,
        lambda value: ([], value),
        lambda _, value: value,
        flatten_with_keys_fn=lambda value: ([], value),
    )


def _get_node_type(tree):
    """The class, or ``namedtuple``, that says how a value is taken apart."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and is_namedtuple_class(kind):
        return namedtuple
    return kind


def tree_is_leaf(tree, is_leaf=None):
    """Whether a value is no container.

    >>> tree_is_leaf(1), tree_is_leaf([1])
    (True, False)
    """
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


# -- descriptions -----------------------------------------------------------------------


class TreeSpec:
    """What a container is like without its leaves.

    Args:
        type: its class; None for a leaf.
        context: what else is needed to make one.
        children_specs: descriptions of its children.
    """

    __slots__ = (
        "_children",
        "_context",
        "num_children",
        "num_leaves",
        "num_nodes",
        "type",
    )

    def __init__(self, type, context, children_specs):
        self.type = type
        self._context = context
        self._children = children_specs = list(children_specs)
        self.num_children = len(children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves = (
            1 if type is None else sum(child.num_leaves for child in children_specs)
        )

    @property
    def context(self):
        """What else is needed to make the container."""
        return self._context

    @property
    def children_specs(self):
        """Descriptions of the children."""
        return self._children

    def children(self):
        """Descriptions of the children, in a list of their own."""
        return list(self._children)

    def child(self, index):
        """The description of one child."""
        return self._children[index]

    def is_leaf(self):
        """Whether it describes a leaf."""
        return self.type is None

    def flatten_up_to(self, tree):
        """The parts of a value that stand where this description has leaves.

        Raises:
            ValueError: the value is built otherwise.
        """
        parts: list = []
        self._gather(tree, parts)
        return parts

    def _gather(self, tree, parts):
        if self.is_leaf():
            parts.append(tree)
            return
        kind = _get_node_type(tree)
        if kind != self.type:
            both = (dict, OrderedDict, defaultdict)
            if kind not in both or self.type not in both:
                raise ValueError(
                    f"Type mismatch; expected {self.type!r}, but got {kind!r}."
                )
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got "
                f"{len(children)}."
            )
        keys = self._mapping_keys()
        if keys is not None:
            if set(keys) != set(tree):
                raise ValueError(
                    f"Node keys mismatch; missing key(s): {sorted_list(set(keys) - set(tree))}, "
                    f"extra key(s): {sorted_list(set(tree) - set(keys))}."
                )
            children = [tree[key] for key in keys]
        elif self.type is not deque and context != self._context:
            raise ValueError(
                f"Node context mismatch for custom node type {self.type!r}."
            )
        for spec, child in zip(self._children, children):
            spec._gather(child, parts)

    def _mapping_keys(self):
        if self.type is defaultdict:
            return self._context[1]
        return self._context if self.type in (dict, OrderedDict) else None

    def unflatten(self, leaves):
        """The container with these leaves.

        Raises:
            ValueError: their number is another.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the "
                f"spec refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.is_leaf():
            return next(leaves)
        children = [spec._build(leaves) for spec in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self):
        context = self._context
        if self.type in (dict, OrderedDict):
            context = tuple(context)
        elif self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent=0):
        if self.is_leaf():
            return "*"
        name = getattr(self.type, "__name__", self.type)
        start = f"TreeSpec({name}, {self._context}, ["
        if not self._children:
            return start + "])"
        indent += 2
        rest = (",\n" + " " * indent).join(
            child.__repr__(indent) for child in self._children
        )
        return start + rest + "])"

    def __reduce__(self):
        return TreeSpec, (self.type, self._context, self._children)


PyTreeSpec = TreeSpec


def sorted_list(values):
    """The values in order, or as they come where they have none."""
    try:
        return sorted(values)
    except TypeError:
        return list(values)


class LeafSpec(TreeSpec):
    """The description of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, ())

    def __reduce__(self):
        return LeafSpec, ()


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    """The description of a leaf.

    >>> treespec_leaf() == tree_structure(1)
    True
    """
    return _LEAF_SPEC


# -- apart and together -------------------------------------------------------------------


def _flatten(tree, leaves, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    specs = [_flatten(child, leaves, is_leaf) for child in children]
    return TreeSpec(kind, context, specs)


def tree_flatten(tree, is_leaf=None):
    """The leaves of a nest of containers, and the description of the rest.

    Args:
        tree: any value.
        is_leaf: says of a container that it is to be left whole.

    >>> leaves, spec = tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([10, 20, 30], spec)
    {'a': 10, 'b': (20, [30])}
    """
    leaves: list = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The nest that ``tree_flatten`` took apart, with other leaves.

    Raises:
        TypeError: the second argument is no description.
        ValueError: the number of leaves is another.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of "
            f"TreeSpec but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """The leaves, one by one."""
    if tree_is_leaf(tree, is_leaf=is_leaf):
        yield tree
        return
    children, _ = SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)
    for child in children:
        yield from tree_iter(child, is_leaf=is_leaf)


def tree_leaves(tree, is_leaf=None):
    """The leaves.

    >>> tree_leaves([1, {"a": (2, 3)}])
    [1, 2, 3]
    """
    return list(tree_iter(tree, is_leaf=is_leaf))


def tree_structure(tree, is_leaf=None):
    """The description alone."""
    return tree_flatten(tree, is_leaf=is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The same nest with a function of each leaf; of several, leaf by leaf.

    >>> tree_map(lambda a, b: a + b, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf=is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(map(func, *columns))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls a function of each leaf for its effect; returns the nest itself."""
    leaves, spec = tree_flatten(tree, is_leaf=is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    deque(map(func, *columns), maxlen=0)
    return tree


def _chosen(type_or_types_or_pred):
    """Whether a leaf is meant: one of some types, or what a function says."""
    wanted = type_or_types_or_pred
    import types

    if isinstance(wanted, (type, tuple, types.UnionType)):
        return lambda leaf: isinstance(leaf, wanted)
    if callable(wanted):
        return wanted
    raise TypeError(
        "Argument must be a type, a tuple of types, or a callable predicate."
    )


def map_only(type_or_types_or_pred, /):
    """Makes a function apply to some leaves only; the others stay."""
    meant = _chosen(type_or_types_or_pred)

    def wrap(func):
        @functools.wraps(func)
        def wrapped(leaf):
            return func(leaf) if meant(leaf) else leaf

        return wrapped

    return wrap


def tree_map_only(type_or_types_or_pred, func, tree, is_leaf=None):
    """The nest with a function of the leaves of some types.

    >>> tree_map_only(int, lambda x: x + 1, [1, "a"])
    [2, 'a']
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, func, tree, is_leaf=None):
    """Calls a function of the leaves of some types; returns the nest itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether something holds of every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether something holds of a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_all_only(type_or_types, pred, tree, is_leaf=None):
    """Whether something holds of every leaf of some types."""
    meant = _chosen(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf=is_leaf) if meant(leaf))


def tree_any_only(type_or_types, pred, tree, is_leaf=None):
    """Whether something holds of a leaf of some types."""
    meant = _chosen(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf=is_leaf) if meant(leaf))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Leaves of a nest repeated where a description goes deeper; None if it cannot be."""
    if tree_is_leaf(tree, is_leaf=is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    kind = _get_node_type(tree)
    if kind != treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result: list = []
    for child, spec in zip(children, treespec.children_specs):
        part = _broadcast_to_and_flatten(child, spec, is_leaf=is_leaf)
        if part is None:
            return None
        result += part
    return result


# -- with paths ---------------------------------------------------------------------------


def _with_paths(path, tree, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        yield path, tree
        return
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """The leaves, each with its path."""
    return list(_with_paths((), tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """The leaves, each with its path, and the description.

    >>> paths, _ = tree_flatten_with_path({"a": [1]})
    >>> [(keystr(path), leaf) for path, leaf in paths]
    [("['a'][0]", 1)]
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """The nest with a function of each leaf's path and value."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [*zip(*pairs)] if pairs else [(), ()]
    columns += [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(func(*row) for row in zip(*columns))


# -- as text ------------------------------------------------------------------------------


def _to_plain(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    serial = _serial.get(spec.type)
    if serial is None:
        raise NotImplementedError(
            f"Serializing {spec.type} in pytree is not registered."
        )
    if serial.to_dumpable is not None:
        context = serial.to_dumpable(spec.context)
    else:
        context = json.dumps(spec.context)
    children = [_to_plain(child) for child in spec.children_specs]
    return {"type": serial.name, "context": context, "children_spec": children}


def _from_plain(plain):
    if plain["type"] is None:
        return _LEAF_SPEC
    kind = _by_serial_name.get(plain["type"])
    if kind is None:
        raise NotImplementedError(f"Deserializing {plain['type']} is not registered.")
    load = _serial[kind].from_dumpable
    context = (
        load(plain["context"]) if load is not None else json.loads(plain["context"])
    )
    return TreeSpec(kind, context, map(_from_plain, plain["children_spec"]))


def treespec_dumps(treespec, protocol=None):
    """A description as JSON.

    Raises:
        TypeError: it is none.
        ValueError: the protocol is unknown.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of "
            f"TreeSpec but got item of type {type(treespec)}."
        )
    if protocol not in (None, PROTOCOL):
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]"
        )
    return json.dumps((PROTOCOL, _to_plain(treespec)))


def treespec_loads(serialized):
    """The description that ``treespec_dumps`` wrote.

    >>> spec = tree_structure({"a": (1, 2)})
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """
    protocol, plain = json.loads(serialized)
    if protocol != PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]"
        )
    return _from_plain(plain)


def treespec_pprint(treespec):
    """A description as a container with stars for leaves."""
    from pprint import pformat

    class _Star:
        def __repr__(self):
            return "*"

    return pformat(
        tree_unflatten([_Star() for _ in range(treespec.num_leaves)], treespec)
    )


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))

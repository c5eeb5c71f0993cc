"""Graphs of translated programs: values, nodes and blocks, in PyTorch's text form.

A :class:`Graph` is in static single assignment form: each :class:`Value` is made by one
:class:`Node`; ``prim::If`` and ``prim::Loop`` hold :class:`Block` objects whose results
are the node's.
"""

import re
import threading

_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    | {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
)
_NUMBERED = re.compile(r"\.\d+$")
_PLAIN_NAME = re.compile(r"[^A-Za-z0-9_.]")


class Value:
    """What a node makes or a block is given: one value, of one type."""

    __slots__ = ("node", "type", "name", "uses", "graph", "number")

    def __init__(self, node, kind, graph, name=None):
        self.node, self.type, self.graph, self.name = node, kind, graph, None
        self.uses = []
        self.number = graph.count_one()
        if name:
            self.named(name)

    def named(self, name):
        """Gives the value a name; what had it before gets a number behind it."""
        name = _PLAIN_NAME.sub("_", name)
        self.graph.give(self, f"_{name}" if name.isdigit() else name)
        return self

    def debugName(self):
        """The name that prints show."""
        return str(self.number) if self.name is None else self.name

    def setDebugName(self, name):
        """Gives the value a name."""
        self.named(name)

    def setType(self, kind):
        """Says what type the value is of."""
        self.type = kind
        return self

    def __repr__(self):
        return f"{self.debugName()} defined in ({self.node})"


class Node:
    """One operation: its kind, what it reads, what it makes, attributes and blocks."""

    __slots__ = (
        "kind_",
        "inputs_",
        "outputs_",
        "attributes",
        "blocks_",
        "place",
        "owner",
        "schema",
    )

    def __init__(self, graph, kind, inputs=(), place=None, **attributes):
        self.kind_, self.place, self.schema = kind, place, None
        self.inputs_, self.outputs_, self.blocks_ = [], [], []
        self.attributes, self.owner = attributes, None
        for value in inputs:
            self.add(value)

    def add(self, value):
        """Reads one more value."""
        self.inputs_.append(value)
        value.uses.append(self)

    def replace_input(self, at, value):
        """Reads another value at a place."""
        self.inputs_[at].uses.remove(self)
        self.inputs_[at] = value
        value.uses.append(self)

    def makes(self, kind, name=None):
        """Adds a result of a type."""
        value = Value(self, kind, self.owner.graph, name)
        self.outputs_.append(value)
        return value

    def kind(self):
        """The operation's name with its namespace."""
        return self.kind_

    def inputs(self):
        """The values read."""
        return iter(self.inputs_)

    def outputs(self):
        """The values made."""
        return iter(self.outputs_)

    def inputsSize(self):
        """How many values are read."""
        return len(self.inputs_)

    def outputsSize(self):
        """How many values are made."""
        return len(self.outputs_)

    def inputsAt(self, index):
        """A value that is read."""
        return self.inputs_[index]

    def outputsAt(self, index):
        """A value that is made."""
        return self.outputs_[index]

    def input(self):
        """The one value that is read."""
        (value,) = self.inputs_
        return value

    def output(self):
        """The one value that is made."""
        (value,) = self.outputs_
        return value

    def blocks(self):
        """The blocks inside."""
        return iter(self.blocks_)

    def attributeNames(self):
        """The names of the attributes."""
        return list(self.attributes)

    def hasAttribute(self, name):
        """Whether there is an attribute of this name."""
        return name in self.attributes

    def s(self, name):
        """An attribute."""
        return self.attributes[name]

    i = f = t = ival = s

    def sourceRange(self):
        """Where the operation stands in the source."""
        return "" if self.place is None else self.place.highlight() + "\n"

    def scopeName(self):
        """The modules that the operation was recorded in."""
        return self.attributes.get("scope", "")

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind inside."""
        return [n for b in self.blocks_ for n in b.findAllNodes(kind, recurse)]

    def findNode(self, kind, recurse=True):
        """The first node of a kind inside, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def destroy(self):
        """Takes the node out of its block."""
        for value in self.inputs_:
            value.uses.remove(self)
        self.inputs_ = []
        self.owner.nodes_.remove(self)

    def __repr__(self):
        return "\n".join(_node_lines(self, 0))


class Block:
    """Nodes in order, with what they are given and what they give back."""

    def __init__(self, graph, parent=None):
        self.graph, self.parent = graph, parent
        self.nodes_, self.params = [], []
        self.returns = Node(graph, "prim::Return")
        self.returns.owner = self

    def param(self, kind, name=None):
        """Adds a value that the block is given."""
        value = Value(None, kind, self.graph, name)
        self.params.append(value)
        return value

    def inputs(self):
        """What the block is given."""
        return iter(self.params)

    def outputs(self):
        """What the block gives back."""
        return iter(self.returns.inputs_)

    def nodes(self):
        """The nodes, in order."""
        return iter(list(self.nodes_))

    def returnNode(self):
        """The node that reads what is given back."""
        return self.returns

    def append(self, node):
        """Adds a node at the end."""
        node.owner = self
        self.nodes_.append(node)
        return node

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind, those of blocks inside included."""
        found = []
        for node in self.nodes_:
            if node.kind_ == kind:
                found.append(node)
            if recurse:
                found += node.findAllNodes(kind)
        return found

    def findNode(self, kind, recurse=True):
        """The first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)


class _Reading:
    """What has a variable's name while it is read."""

    name = None


class Graph(Block):
    """A whole program: a block with names."""

    def __init__(self):
        self.names, self.suffixes, self.count = {}, {}, 0
        self.literals = []  # nodes of numbers in the source, in order; see `tidy`
        self.late = []  # results of branches, named once all else is
        super().__init__(self)
        self.graph = self

    def count_one(self):
        """The number of one more value."""
        self.count += 1
        return self.count - 1

    def give(self, value, name):
        """Gives a value a name, as PyTorch does: the older one moves out of the way."""
        if value.name is not None and self.names.get(value.name) is value:
            del self.names[value.name]
        older = self.names.get(name)
        if older is not None:
            base, suffix = name, 1
            if _NUMBERED.search(name):
                base, _, digits = name.rpartition(".")
                suffix = int(digits)
            suffix = max(suffix, self.suffixes.get(base, 0) + 1)
            while f"{base}.{suffix}" in self.names:
                suffix += 1
            self.suffixes[base] = suffix + 1
            self.give(older, f"{base}.{suffix}")
        self.names[name] = value
        value.name = name

    def read(self, name):
        """Counts the reading of a variable, which is a value until the graph is whole."""
        self.count += 1
        self.give(_Reading(), name)

    def name_late(self):
        """Names the results of branches, which PyTorch does in a pass of its own."""
        for value, name in self.late:
            self.read(name)
            self.read(name)
            value.named(name)
        self.late = []
        self.names = {
            name: value
            for name, value in self.names.items()
            if not isinstance(value, _Reading)
        }

    def copy(self):
        """Another graph of the same nodes."""
        graph = Graph()
        known = {}
        for value in self.params:
            known[value] = graph.param(value.type, value.name)
        copy_nodes(self, graph, known)
        for value in self.returns.inputs_:
            graph.returns.add(known[value])
        return graph

    def str(self, print_source_ranges=True):
        """The text form."""
        return "\n".join(_graph_lines(self, print_source_ranges)) + "\n"

    def __str__(self):
        return self.str()

    __repr__ = __str__


def copy_nodes(block, into, known):
    """Adds copies of a block's nodes to another; ``known`` maps values to copies."""
    for node in block.nodes_:
        inputs = [known[value] for value in node.inputs_]
        new = into.append(
            Node(into.graph, node.kind_, inputs, node.place, **node.attributes)
        )
        new.schema = node.schema
        for inner in node.blocks_:
            made = Block(into.graph, new)
            new.blocks_.append(made)
            for value in inner.params:
                known[value] = made.param(value.type, value.name)
            copy_nodes(inner, made, known)
            for value in inner.returns.inputs_:
                made.returns.add(known[value])
        for value in node.outputs_:
            known[value] = new.makes(value.type, value.name)


_making = threading.RLock()


class Function:
    """A translated function or method: its graph, its schema and how it runs."""

    def __init__(self, name, schema, make_graph, owner=None):
        self.name, self.schema, self.owner = name, schema, owner
        self._make, self._graph, self._runs = make_graph, None, None
        self.python = self.plain = None

    @property
    def base_name(self):
        """The name without what it is defined in."""
        return self.name.rpartition(".")[2]

    @property
    def graph(self):
        """The graph, made when it is first asked for."""
        if self._graph is None:
            with _making:  # a call in the middle of another thread's is no recursion
                if self._graph is None:
                    self._graph = self._made()
        return self._graph

    def _made(self):
        make, self._make = self._make, self._recursive
        try:
            return make(self)
        except BaseException:
            self._make = make
            raise

    def _recursive(self, _):
        raise RuntimeError(
            f"function '{self.base_name}' is called recursively. Recursive calls are not supported"
        )


# -- text ------------------------------------------------------------------------------


def _typed(values):
    return ", ".join(f"%{v.debugName()} : {v.type.str()}" for v in values)


def constant_text(value):
    """A constant as graphs print it."""
    if value is True or value is False:
        return str(int(value))
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if set(text) & set(".enai") else f"{text}."
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(constant_text, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if type(value).__name__ in ("Tensor", "Parameter"):
        return "<Tensor>" if value.numel() != 1 else f"{{{value.item()}}}"
    return str(value)


def _attributes(node):
    shown = []
    for name, value in node.attributes.items():
        if name == "value" and value is None:
            continue
        if name == "function":
            shown.append(f'name="{value.base_name}"')
        elif not callable(value) and name != "scope":
            shown.append(f"{name}={constant_text(value)}")
    return f"[{', '.join(shown)}]" if shown else ""


def _node_lines(node, depth, ranges=True):
    pad = "  " * depth
    made = _typed(node.outputs_)
    inputs = ", ".join(f"%{value.debugName()}" for value in node.inputs_)
    line = f"{pad}{made} = {node.kind_}{_attributes(node)}({inputs})"
    if ranges and node.place is not None:
        line += f" # {node.place.short()}"
    yield line
    for number, block in enumerate(node.blocks_):
        yield f"{pad}  block{number}({_typed(block.params)}):"
        for inner in block.nodes_:
            yield from _node_lines(inner, depth + 2, ranges)
        values = ", ".join(f"%{v.debugName()}" for v in block.returns.inputs_)
        yield f"{pad}    -> ({values})"


def _graph_lines(graph, ranges):
    params = [f"%{v.debugName()} : {v.type.str()}" for v in graph.params]
    yield "graph(" + ",\n      ".join(params) + "):"
    for node in graph.nodes_:
        yield from _node_lines(node, 1, ranges)
    values = ", ".join(f"%{v.debugName()}" for v in graph.returns.inputs_)
    yield f"  return ({values})"

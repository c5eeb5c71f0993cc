"""Functional operators become in-place ones where nobody sees the difference.

What `functionalize` has made free of writes makes new memory at each step. Where the operand
is memory of the program's own that nothing reads later, by whatever view, a step may write
there; a step that puts a changed view back into what it is a view of has nothing left to do.
"""

from collections import defaultdict

from rushlight._subclasses.fake_tensor import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator, packets
from rushlight.fx.node import Node
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp, mode_of

__all__ = ["reinplace"]

# What puts a part of a tensor back, and the view that is the part.
_SCATTERS = {
    "aten.slice_scatter.default": "aten.slice.Tensor",
    "aten.select_scatter.default": "aten.select.int",
    "aten.diagonal_scatter.default": "aten.diagonal.default",
    "aten.as_strided_scatter.default": "aten.as_strided.default",
}


def reinplace(gm, *sample_args):
    """Has steps of a graph without writes write to memory that is read no more.

    Arguments are never written to. A step becomes its in-place form where its result has
    the first operand's sizes and type, no other operand lies on the same memory, and nothing
    later reads that memory, but for a ``slice_scatter`` (or ``select_scatter``,
    ``diagonal_scatter``, ``as_strided_scatter``) that puts this very result into what the
    operand is a view of: that step goes. Another such step becomes the view and a copy to it.

    Args:
        gm: a `GraphModule` of operators without writes; it is changed.
        sample_args: what it is called with: their looks alone count.

    Returns:
        the module.

    >>> import rushlight as rl
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> def program(x):
    ...     return (x + 1).sin()
    >>> print(reinplace(make_fx(program)(rl.ones(2)), rl.ones(2)).code.strip())
    def forward(self, x_1):
        add = torch.ops.aten.add.Tensor(x_1, 1);  x_1 = None
        sin = torch.ops.aten.sin_.default(add);  sin = None
        return add
    """
    mode = mode_of(sample_args) or FakeTensorMode(allow_non_fake_inputs=True)
    FakeTensorProp(gm, mode).propagate(*sample_args)
    work = _Work(gm.graph)
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node not in work.gone:
            work.visit(node)
    for node in reversed(work.gone):
        gm.graph.erase_node(node)
    gm.recompile()
    return gm


class _Work:
    """What is known of a graph's memory while its steps change.

    Attributes:
        sharing: the number of a storage -> the nodes whose results lie on it.
        gone: steps that have nothing to do any more, in their order.
    """

    def __init__(self, graph):
        self.graph = graph
        self.order = {node: at for at, node in enumerate(graph.nodes)}
        self.storages: dict = {}  # node -> the number of its storage
        self.sharing = defaultdict(set)
        self.gone: list = []
        seen: list = []
        inputs = set()
        for node in graph.nodes:
            storage = _storage(node)
            if storage is None:
                continue
            at = next((k for k, one in enumerate(seen) if one is storage), len(seen))
            if at == len(seen):
                seen.append(storage)
            self.storages[node] = at
            self.sharing[at].add(node)
            if node.op in ("placeholder", "get_attr"):
                inputs.add(at)
        self.inputs = inputs

    def visit(self, node):
        """Makes a step write to its first operand, if it may."""
        target = node.args[0] if node.args else None
        if not isinstance(node.target, Operator) or not self.is_own(target):
            return
        view = _SCATTERS.get(str(node.target))
        function = None if view else in_place_form(node.target)
        if function is None and view is None:
            return
        value, result = target.meta["val"], node.meta.get("val")
        if not isinstance(result, Tensor) or _overlaps(value):
            return
        if result.shape != value.shape or result.dtype is not value.dtype:
            return
        others = [one for one in node.all_input_nodes if one is not target]
        home = self.storages[target]
        if any(self.storages.get(one) == home for one in others):
            return
        put_back = self.put_back_later(target, node)
        if put_back is None:
            return
        if view:
            self.copy_to_view(node, target, view)
        else:
            node.target = function
            self.stands_for(node, target)
        for step in put_back:
            self.stands_for(step, step.args[0])
            self.gone.append(step)

    def is_own(self, node):
        """Whether a value is memory of the program's own."""
        home = self.storages.get(node) if isinstance(node, Node) else None
        return home is not None and home not in self.inputs

    def put_back_later(self, target, node):
        """The later steps that only put a result back; None where others read its memory."""
        found: list = []
        changed = {node: target}  # what is the operand, once it was written to
        nodes = set(self.sharing[self.storages[target]])
        users = {user for one in nodes for user in one.users if user not in self.gone}
        for user in sorted(users, key=self.order.get):
            if self.order[user] <= self.order[node] or user in nodes:
                continue  # a view reads nothing, and what reads it is looked at
            view = changed.get(user.args[1]) if len(user.args) > 1 else None
            if view is None or not _puts_back(user, view):
                return None
            found.append(user)
            changed[user] = user.args[0]
        return found

    def copy_to_view(self, node, target, view):
        """Puts a view and a copy in the place of a scatter."""
        changed, rest = node.args[1], node.args[2:]
        with self.graph.inserting_before(node):
            part = self.graph.call_function(
                _operator(view), (target, *rest), node.kwargs
            )
            copy = self.graph.call_function(
                _operator("aten.copy_.default"), (part, changed)
            )
        for one in (part, copy):
            self.order[one] = self.order[node]
            one.meta["val"] = changed.meta["val"]
            self.storages[one] = self.storages[target]
            self.sharing[self.storages[target]].add(one)
        self.stands_for(node, target)
        self.gone.append(node)

    def stands_for(self, node, target):
        """Has what reads a step's result read the operand that it was written to."""
        node.replace_all_uses_with(target)
        home = self.storages[target]
        own = self.storages.get(node)
        if own is not None and own != home:
            for one in self.sharing.pop(own, ()):
                self.storages[one] = home
                self.sharing[home].add(one)


def _puts_back(step, view):
    """Whether a step puts a view, which was written to, into what it is a view of."""
    wanted = _SCATTERS.get(str(step.target))
    return (
        wanted is not None
        and str(view.target) == wanted
        and _is_same(view.args[0], step.args[0])
        and view.args[1:] == step.args[2:]
        and view.kwargs == step.kwargs
    )


def _is_same(one, other):
    """Whether two nodes are the same view of the same node."""
    if one is other or not isinstance(one, Node) or not isinstance(other, Node):
        return one is other
    looks = [(n.op, n.target, n.args[1:], n.kwargs) for n in (one, other)]
    if looks[0] != looks[1] or not isinstance(one.target, Operator):
        return False
    return one.target.is_view and _is_same(one.args[0], other.args[0])


def _storage(node):
    """What a node's result lies on; None where it is no tensor."""
    value = node.meta.get("val")
    return value.untyped_storage() if isinstance(value, Tensor) else None


def _overlaps(tensor):
    """Whether elements of a tensor may lie on one another."""
    dims = sorted(
        (step, size)
        for size, step in zip(tensor.shape, tensor.stride(), strict=True)
        if size > 1
    )
    reach = 1
    for step, size in dims:
        if step < reach:
            return True
        reach = step * (size - 1) + reach
    return False


def _operator(name):
    namespace, base, overload = name.split(".")
    return getattr(packets()[namespace, base], overload)


def in_place_form(op):
    """The in-place operator that takes what another one takes; None where there is none.

    Args:
        op: the other operator.
    """
    base = op.name.partition(".")[0]
    packet = packets().get((op.namespace, f"{base}_"))
    if packet is None or base.endswith("_"):
        return None
    found = [one for one in packet.overloads if _rows(one) == _rows(op)]
    same = [
        one
        for one in found
        if str(one).rpartition(".")[2] == str(op).rpartition(".")[2]
    ]
    return next(iter(same or found), None)


def _rows(op):
    """What an operator's arguments are called, and of what kind they are."""
    return [(row[0], row[1]) for row in op.signature.rows]

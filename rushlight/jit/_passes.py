"""What is done to every graph once it is made: nothing unused, constants once, in front."""

import rushlight as torch

_PURE = frozenset(
    "prim::Constant prim::TupleConstruct prim::ListConstruct prim::DictConstruct "
    "prim::TupleIndex prim::Uninitialized prim::unchecked_cast prim::GetAttr "
    "aten::__is__ aten::__isnot__".split()
)


def tidy(graph):
    """Takes out what nothing reads, and puts each constant in front once.

    Numbers of the source come in their order, behind all others in reverse: PyTorch's
    order.
    """
    graph.nodes_[:0] = reversed(graph.literals)
    graph.literals = []
    remove_unused(graph)
    pool_constants(graph)


def remove_unused(block):
    """Takes out nodes without effect whose results nothing reads."""
    for node in reversed(list(block.nodes_)):
        for inner in node.blocks_:
            remove_unused(inner)
        if node.kind_ == "prim::If":
            drop_outputs(node)
        if node.kind_ in _PURE and not any(value.uses for value in node.outputs_):
            node.destroy()


def drop_outputs(node):
    """A choice no longer gives what nothing reads; without any effect it goes."""
    for at in range(len(node.outputs_) - 1, -1, -1):
        if not node.outputs_[at].uses:
            del node.outputs_[at]
            for inner in node.blocks_:
                inner.returns.inputs_.pop(at).uses.remove(inner.returns)
    if not node.outputs_ and not any(inner.nodes_ for inner in node.blocks_):
        node.destroy()


def _key(node):
    value = node.attributes["value"]
    if isinstance(value, torch.Tensor):
        return id(value)
    if isinstance(value, float):
        return (float, repr(value), node.outputs_[0].type)
    return (type(value), repr(value), node.outputs_[0].type)


def pool_constants(graph):
    """One node for each constant, before all others."""
    known: dict = {}
    _gather(graph, known)
    for node in known.values():
        node.owner.nodes_.remove(node)
        node.owner = graph
    graph.nodes_[:0] = reversed(known.values())


def _gather(block, known):
    for node in list(block.nodes_):
        if node.kind_ == "prim::Constant":
            first = known.setdefault(_key(node), node)
            if first is not node:
                replace(node.outputs_[0], first.outputs_[0])
                node.owner.nodes_.remove(node)
        for inner in node.blocks_:
            _gather(inner, known)


def replace(value, other):
    """Everything that reads a value reads another."""
    for node in list(dict.fromkeys(value.uses)):
        node.inputs_ = [other if read is value else read for read in node.inputs_]
    other.uses += value.uses
    value.uses = []

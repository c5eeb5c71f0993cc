"""Steps of a graph put into a module of their own."""

import copy
from queue import SimpleQueue

from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.tools_common import legalize_graph
from rushlight.fx.passes.utils.common import lift_subgraph_as_module


def topo_sort(nodes):
    """The steps in an order in which each comes after what it takes.

    Raises:
        AssertionError: they wait for each other.
    """
    waiting = {
        node: sum(n in set(nodes) for n in node.all_input_nodes) for node in nodes
    }
    ready: SimpleQueue = SimpleQueue()
    for node in nodes:
        if not waiting[node]:
            ready.put(node)
    done = []
    while not ready.empty():
        node = ready.get()
        done.append(node)
        for user in node.users:
            if user in waiting:
                waiting[user] -= 1
                if not waiting[user]:
                    ready.put(user)
    if len(done) != len(nodes):
        raise AssertionError(
            "topological sorted nodes doesn't have same length as input nodes"
        )
    return done


def validate_partition(partition):
    """Whether some steps can become one: nothing outside lies between them."""
    inside = set(partition)
    seen: set[Node] = set()
    waiting = [user for node in partition for user in node.users if user not in inside]
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting.extend(node.users)
    return True


def fuse_as_graphmodule(
    gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False
):
    """A module of some steps of a graph.

    Args:
        gm: the module that has the graph.
        nodes: the steps, in order.
        module_name: what the new module is called.
        partition_lookup_table: in place of ``nodes``, those that go in.
        always_return_tuple: whether one result is given as a tuple too.

    Returns:
        The module, the steps whose results it takes, and those whose results it gives.

    Raises:
        AssertionError: a step is not of this graph, or the steps cannot become one.
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = partition_lookup_table or dict.fromkeys(nodes)
    graph = Graph()
    inputs: dict[Node, Node] = {}
    values: dict[Node, Node] = {}

    def value_of(node):
        if node.op == "get_attr" and node not in inputs and node not in values:
            values[node] = graph.node_copy(node)
        if node in inside or node in values:
            return values[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = copy.copy(node.meta)
        return inputs[node]

    for node in nodes:
        map_arg((node.args, dict(node.kwargs)), value_of)
        values[node] = graph.node_copy(node, value_of)
    outputs = {
        node: values[node]
        for node in nodes
        if any(user not in inside for user in node.users)
    }
    given = tuple(outputs.values())
    graph.output(given[0] if len(given) == 1 and not always_return_tuple else given)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, "", module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs, insertion_point=None):
    """Puts the call of a module in the place of steps.

    Args:
        gm: the module whose graph is changed.
        sub_gm: the module to call.
        orig_inputs: the steps whose results it takes.
        orig_outputs: the steps whose results it gives in place of them.
        insertion_point: the step that the call comes after.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    place = insertion_point or gm.graph.output_node().prev
    with gm.graph.inserting_after(place):
        call = gm.graph.call_module(name, args=orig_inputs, kwargs=None)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(result, tuple):
        call.meta = copy.copy(orig_outputs[0].meta)
        orig_outputs[0].replace_all_uses_with(call)
    else:
        import operator

        with gm.graph.inserting_after(call):
            last = call
            for place, node in enumerate(orig_outputs):
                with gm.graph.inserting_after(last):
                    item = gm.graph.call_function(operator.getitem, (call, place))
                item.meta = copy.copy(node.meta)
                node.replace_all_uses_with(item)
                last = item
    return gm


def erase_nodes(gm, nodes):
    """Takes steps out of a graph, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Puts each set of steps into a module of its own.

    Args:
        gm: the module whose graph is changed.
        partitions: dicts whose keys are steps.
        prefix: what the new modules' names begin with.
        always_return_tuple: whether one result is given as a tuple too.
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition,
            always_return_tuple=always_return_tuple,
        )  # fmt: skip
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    legalize_graph(gm)
    return gm

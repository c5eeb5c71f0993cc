"""A backward in two halves: what the stage before waits for, and the weights' gradients.

The first half runs the nodes between outputs and inputs alone, and keeps the gradient that
enters each of them from which weights are reached by another way. The second starts at
these nodes, whenever there is time for it.
"""

import rushlight as rl
from rushlight.autograd.graph import GradientEdge, get_gradient_edge


def _reverse_edges(roots):
    """Node -> the nodes whose gradients come to it, of all that roots reach."""
    found = {each: [] for each in roots}
    stack = list(found)
    while stack:
        node = stack.pop()
        for each in [each for each, _ in node.next_functions if each is not None]:
            if each not in found:
                found[each] = []
                stack.append(each)
            found[each].append(node)
    return found


def _closure(starts, reverse_edges, ends=frozenset()):
    """The nodes from which starts are reached, and of the ends those met first."""
    seen, met, stack = set(starts), {}, list(starts)
    while stack:
        for node in reverse_edges.get(stack.pop(), ()):
            if node in ends:
                met[node] = None
            elif node not in seen:
                seen.add(node)
                stack.append(node)
    return seen, met


class _WeightGroup:
    """Weights that share nodes at which their gradients part from the inputs'."""

    def __init__(self):
        self.weights, self.nodes = {}, {}
        self.grads = {}  # node -> what has entered it in the inputs' half
        self.outputs = []  # (edge, gradient) of outputs that no input reaches

    def merge(self, other):
        """Take what another group has."""
        self.weights.update(other.weights)
        self.nodes.update(other.nodes)

    def keep(self, node):
        """A hook that keeps what enters a node."""

        def hook(grads):
            self.grads[node] = grads

        return hook

    def run(self):
        """Accumulate the gradients of the weights."""
        edges = [edge for edge, _ in self.outputs]
        grads = [grad for _, grad in self.outputs]
        for node, entering in self.grads.items():
            for number, grad in enumerate(entering):
                if grad is not None:
                    edges.append(GradientEdge(node, number))
                    grads.append(grad)
        # One of several nodes may be reached from another: what entered it is all.
        handles = [
            node.register_prehook(lambda _, entering=entering: entering)
            for node, entering in self.grads.items()
            if len(self.nodes) > 1
        ]
        try:
            if edges:
                rl.autograd.backward(
                    edges, grads, retain_graph=True, inputs=list(self.weights)
                )
        finally:
            for each in handles:
                each.remove()


class SplitBackward:
    """The backward of one microbatch, inputs first and weights later.

    Args:
        outputs: what is differentiated.
        grads: the gradient of each; None for that of a number.
        inputs: tensors whose gradients are wanted first.
        weights: tensors whose gradients come later.
    """

    def __init__(self, outputs, grads, inputs, weights):
        pairs = [pair for pair in zip(outputs, grads) if pair[0].requires_grad]
        self.outputs = [output for output, _ in pairs]
        self.grads = [grad for _, grad in pairs]
        self.inputs = [each for each in inputs if each.requires_grad]
        self.weights = [each for each in weights if each.requires_grad]
        self.groups = None

    def run_inputs(self):
        """Accumulate the gradients of the inputs.

        Without inputs nothing is to be done yet: the weights' half does all.
        """
        if not (self.inputs and self.outputs):
            return
        self.groups = self._find_groups()
        handles = [
            node.register_prehook(group.keep(node))
            for group in self.groups
            for node in group.nodes
        ]
        try:
            rl.autograd.backward(
                self.outputs, self.grads, retain_graph=True, inputs=self.inputs
            )
        finally:
            for each in handles:
                each.remove()

    def run_weights(self):
        """Accumulate the gradients of the weights, and let the graph go."""
        if self.groups is not None:
            for group in self.groups:
                group.run()
        elif self.outputs:
            rl.autograd.backward(self.outputs, self.grads)
        self.outputs, self.grads, self.groups = [], [], []

    def _find_groups(self):
        """The weights, by the nodes at which their gradients part from the inputs'."""
        roots = [get_gradient_edge(each).node for each in self.outputs]
        reverse_edges = _reverse_edges(roots)
        starts = [get_gradient_edge(each).node for each in self.inputs]
        between, _ = _closure(starts, reverse_edges)
        of_node = {}
        for weight in self.weights:
            node = get_gradient_edge(weight).node
            seen, met = _closure([node], reverse_edges, between)
            # An output that no input reaches is where its gradients start.
            met.update(dict.fromkeys(root for root in roots if root in seen))
            if not met:
                continue
            group = _WeightGroup()
            group.weights[weight] = None
            group.nodes.update(met)
            for each in met:
                if each in of_node:
                    group.merge(of_node[each])
            of_node.update(dict.fromkeys(group.nodes, group))
        self._keep_outputs(of_node, between)
        return list(dict.fromkeys(of_node.values()))

    def _keep_outputs(self, of_node, between):
        """Put the gradients of outputs that no input reaches with their weights."""
        for output, grad in zip(self.outputs, self.grads):
            edge = get_gradient_edge(output)
            if edge.node in of_node and edge.node not in between:
                grad = rl.ones_like(output) if grad is None else grad
                of_node[edge.node].outputs.append((edge, grad))

"""Graphs cut into parts that can be launched as graphs of a GPU's, and the rest."""

import operator

from rushlight.core.tensor import Tensor
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp, mode_of
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.operator_support import OperatorSupport
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS
from rushlight.utils._pytree import tree_leaves

__all__ = ["CudaGraphsSupport", "partition_cudagraphs"]

_NEVER = frozenset(["aten.embedding_dense_backward.default"])  # it waits for the GPU


class CudaGraphsSupport(OperatorSupport):
    """Says which steps can be in a graph of a GPU's: those of its tensors alone.

    A step's notes have its result: ``val``, as `FakeTensorProp` writes it.
    """

    def is_node_supported(self, submodules, node):
        """Whether all tensors that a step is given and gives are on a GPU.

        Args:
            submodules: the modules that steps may call, by their paths.
            node: the step.
        """
        if node.op not in CALLABLE_NODE_OPS or str(node.target) in _NEVER:
            return False
        if node.target is operator.getitem:
            return True
        values = [_result(one) for one in (*node.all_input_nodes, node)]
        return all(
            one.device.type == "cuda"
            for one in tree_leaves(values)
            if isinstance(one, Tensor)
        )


def _result(node):
    return node.meta["val"] if "val" in node.meta else node.meta["fake_result"]


def partition_cudagraphs(gm, inputs):
    """A graph whose steps that a graph of a GPU's can take are in modules of their own.

    Args:
        gm: the `GraphModule`, which is changed.
        inputs: what it is called with: their looks alone count.

    Returns:
        the module.
    """
    FakeTensorProp(gm, mode_of(inputs)).propagate(*inputs)
    partitioner = CapabilityBasedPartitioner(
        gm, CudaGraphsSupport(), allows_single_node_partition=True
    )
    return partitioner.fuse_partitions(partitioner.propose_partitions())

"""What a backend can run: yes or no for each step."""

import abc

from rushlight.fx.passes.shape_prop import TensorMetadata
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]


class OperatorSupportBase(abc.ABC):
    """Says which steps a backend can run."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Whether it can run a step; ``submodules`` are modules by their paths."""


class OperatorSupport(OperatorSupportBase):
    """Says it from a table: what is called, and of which types the arguments may be.

    Args:
        support_dict: from names as ``get_node_target`` gives them to pairs of types for
            positional arguments and for those by name, or to None for any types.
    """

    _support_dict: dict = {}

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or self._support_dict

    def is_node_supported(self, submodules, node):
        """Whether the table has what the step calls, with its types."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        args_types, kwargs_types = self._support_dict[target]
        for place, kinds in enumerate(args_types):
            if len(node.args) > place and _dtype_of(node.args[place]) not in kinds:
                return False
        return all(
            _dtype_of(node.kwargs[name]) in kinds
            for name, kinds in kwargs_types.items()
            if name in node.kwargs
        )


class FunctionalOperatorSupport(OperatorSupportBase):
    """Says it by a function."""

    def __init__(self, is_node_supported):
        self._is_node_supported = is_node_supported

    def is_node_supported(self, submodules, node):
        """What the function says."""
        return self._is_node_supported(submodules, node)


def create_op_support(is_node_supported):
    """Says it by a function of modules by their paths and a step."""
    return FunctionalOperatorSupport(is_node_supported)


def chain(*op_support):
    """Supports what all of some support."""
    return create_op_support(
        lambda submodules, node: all(
            each.is_node_supported(submodules, node) for each in op_support
        )
    )


def any_chain(*op_support):
    """Supports what any of some supports."""
    return create_op_support(
        lambda submodules, node: any(
            each.is_node_supported(submodules, node) for each in op_support
        )
    )


class OpSupports:
    """Ready-made answers."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """Refuses steps that take tensors of a type."""

        def answer(submodules, node):
            return all(_dtype_of(each) != dtype for each in node.all_input_nodes)

        return create_op_support(answer)

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """Refuses steps of given names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _dtype_of(arg):
    meta = getattr(arg, "meta", {}).get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else None

"""What parts of compared graphs and results are."""

import enum
from typing import NamedTuple

from rushlight.fx import Node


class NSSingleResultValuesType(enum.StrEnum):
    """What was recorded."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """Nodes that compute one thing: from the first to the last, one of which names it."""

    start_node: Node
    end_node: Node
    base_op_node: Node

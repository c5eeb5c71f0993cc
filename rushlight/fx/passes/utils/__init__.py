"""What passes share: finding patterns, lifting parts of graphs into modules."""

from rushlight.fx.passes.utils.common import (
    HolderModule,
    compare_graphs,
    lift_subgraph_as_module,
)

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]

"""What is known of a graph that has observers between its nodes."""

from dataclasses import dataclass, field

OBSERVED = "_observed_graph_module_attrs"


@dataclass
class ObservedGraphModuleAttrs:
    """What preparing a graph found out, for those who convert it.

    Args:
        node_name_to_qconfig: each node's configuration.
        node_name_to_scope: the module that each node is from.
        prepare_custom_config: what the user said.
        equalization_node_name_to_qconfig: None: scales are not moved between layers.
        qconfig_mapping: configurations by place.
        is_qat: whether it is trained.
        observed_node_names: nodes whose results are observed.
        is_observed_standalone_module: whether it is a module inside of another graph.
        standalone_module_input_quantized_idxs, standalone_module_output_quantized_idxs:
            what it takes and gives as integers there.
    """

    node_name_to_qconfig: dict
    node_name_to_scope: dict
    prepare_custom_config: object
    equalization_node_name_to_qconfig: dict | None
    qconfig_mapping: object
    is_qat: bool
    observed_node_names: set
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list = field(default_factory=list)
    standalone_module_output_quantized_idxs: list = field(default_factory=list)


def _is_observed_module(module):
    """Whether a module's graph was prepared."""
    return OBSERVED in getattr(module, "meta", ())


def _is_observed_standalone_module(module):
    """Whether a module was prepared to be a part of another graph."""
    return (
        _is_observed_module(module)
        and module.meta[OBSERVED].is_observed_standalone_module
    )

"""The weights of a graph's nodes."""

from rushlight import nn
from rushlight.ao.nn.intrinsic import _FusedModule
from rushlight.ao.nn.quantized.dynamic import LSTM
from rushlight.ao.ns.fx.graph_matcher import is_observer, modules_of
from rushlight.ao.ns.fx.mappings import (
    get_base_name_to_sets_of_related_ops,
    with_weights,
)
from rushlight.ao.ns.fx.ns_types import NSSingleResultValuesType
from rushlight.ao.ns.fx.utils import get_target_type_str, path_of
from rushlight.ao.quantization.utils import getattr_from_fqn
from rushlight.nn import functional as F


def module_weight(module):
    """A layer's weight; of recurrent layers, a list of them.

    Args:
        module: a layer of numbers or of integers.
    """
    if isinstance(module, LSTM):
        cells = [each.param for each in module._all_weight_values]
        return [part.unpack()[0] for cell in cells for part in (cell.w_ih, cell.w_hh)]
    if isinstance(module, nn.LSTM):
        names = [name for name, _ in module.named_parameters() if "weight_" in name]
        return [getattr(module, name).detach() for name in names]
    if hasattr(module, "_weight_bias"):
        return module._weight_bias()[0]
    if (
        isinstance(module, _FusedModule)
        and len(module._modules)
        and not hasattr(module, "weight")
    ):
        module = module[0]
    return module.weight.detach()


def function_weight(node, gm):
    """The weight that a call of a function reads, behind observers.

    Args:
        node: the call; its second argument is the weight.
        gm: the graph's module.
    """
    modules, weight = modules_of(gm), node.args[1]
    while is_observer(weight, modules):
        weight = weight.args[0]
    return getattr_from_fqn(gm, weight.target).detach()


def get_op_to_type_to_weight_extraction_fn():
    """Functions that find a weight, by operation and by what is called."""
    sets = get_base_name_to_sets_of_related_ops()
    functions = F.conv1d, F.conv2d, F.conv3d, F.linear
    return {
        "call_module": dict.fromkeys(with_weights(sets), module_weight),
        "call_function": dict.fromkeys(functions, function_weight),
    }


def extract_weight_from_node(node, gm, op_to_type_to_weight_extraction_fn=None):
    """What is told of a node's weight; None where it has none.

    Args:
        node: of the graph.
        gm: the graph's module.
        op_to_type_to_weight_extraction_fn: functions that find a weight.
    """
    known = op_to_type_to_weight_extraction_fn
    known = known or get_op_to_type_to_weight_extraction_fn()
    if node.op == "call_function":
        find, given = known["call_function"].get(node.target), (node, gm)
    elif node.op == "call_module":
        module = getattr_from_fqn(gm, node.target)
        find, given = known["call_module"].get(type(module)), (module,)
    else:
        return None
    if find is None:
        return None
    kind = get_target_type_str(node, gm)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value,
        "values": [find(*given)],
        "prev_node_name": node.name,
        "prev_node_target_type": kind,
        "ref_node_name": node.name,
        "ref_node_target_type": kind,
        "index_within_arg": 0,
        "index_of_arg": 0,
        "fqn": path_of(node, gm),
    }

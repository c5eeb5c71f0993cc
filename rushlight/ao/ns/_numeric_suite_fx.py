"""Two graphs of one model compared: weights, results, layers beside layers.

`extract_weights` looks at weights; `add_loggers` puts recorders into both graphs, whose
values `extract_logger_info` pairs; `add_shadow_loggers` runs each part of one graph beside
the part of the other that it was made of, from the same input.
"""

import rushlight as rl
from rushlight import nn
from rushlight.ao.ns.fx.graph_matcher import get_matching_subgraph_pairs
from rushlight.ao.ns.fx.graph_passes import (
    Side,
    add_loggers_to_model,
    create_a_shadows_b,
)
from rushlight.ao.ns.fx.ns_types import NSSingleResultValuesType
from rushlight.ao.ns.fx.utils import (
    compute_sqnr,
    maybe_add_missing_fqns,
    rekey_logger_info_on_node_name_of_model,
)
from rushlight.ao.ns.fx.weight_utils import extract_weight_from_node
from rushlight.ao.quantization import FakeQuantizeBase, ObserverBase
from rushlight.ao.quantization.quantize_fx import QuantizationTracer
from rushlight.fx import GraphModule

_FIELDS = (
    "ref_node_name", "prev_node_name", "model_name", "ref_name",
    "prev_node_target_type", "ref_node_target_type", "results_type",
    "index_within_arg", "index_of_arg", "fqn",
)  # fmt: skip


class OutputLogger(nn.Module):
    """Records a value that a node takes or gives.

    Args:
        ref_node_name: the node.
        prev_node_name: the node whose result the value is.
        model_name: of the two.
        ref_name: the name that the node's part has in both models.
        prev_node_target_type, ref_node_target_type: what the nodes call.
        results_type: ``node_input`` or ``node_output``.
        index_within_arg, index_of_arg: of a value that the node takes.
        fqn: the path of the node's module.
        qconfig_str: its configuration.

    Raises:
        TypeError: something is missing.
    """

    _is_impure = True

    def __init__(self, *values, qconfig_str="", **named):
        super().__init__()
        self.stats, self.stats_rnn, self.qconfig_str = [], [], qconfig_str
        given = dict(zip(_FIELDS, values)) | named
        if list(given) != list(_FIELDS):
            raise TypeError(f"{type(self).__name__} takes {', '.join(_FIELDS)}")
        vars(self).update(given)
        self.enabled = self.save_activations = True

    def forward(self, x):
        """Records a value and returns it."""
        if not (self.enabled and self.save_activations):
            return x
        if isinstance(x, rl.Tensor):
            self.stats.append(x.detach())
        elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
            state = tuple(each.detach() for each in x[1])
            self.stats_rnn.append((x[0].detach(), state))
        return x

    def __repr__(self):
        shown = {
            name: value
            for name, value in vars(self).items()
            if name != "training" and not name.startswith("_")
        }
        return f"{type(self).__name__}({shown})"


class OutputComparisonLogger(OutputLogger):
    """Records how far a value is from another one, too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.comparison_fn, self.comparison_fn_name = compute_sqnr, "sqnr"
        self.comparisons = []

    def forward(self, x, x_ref):
        """Records both and returns the first."""
        if not self.enabled:
            return x
        if not isinstance(x, rl.Tensor):
            raise AssertionError("non-tensor inputs not yet supported")
        if self.save_activations:
            self.stats.append(x.detach())
        self.comparisons.append(self.comparison_fn(x, x_ref))
        return x


class NSTracer(QuantizationTracer):
    """Traces into modules as quantization does, but not into observers."""

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module stays whole."""
        observes = isinstance(m, (ObserverBase, FakeQuantizeBase))
        return observes or super().is_leaf_module(m, module_qualified_name)


def _traced(model):
    found = GraphModule(model, NSTracer([], []).trace(model))
    found.meta.update(getattr(model, "meta", {}))
    return found


def _sides(name_a, model_a, name_b, model_b, related, unmatchable):
    """The graphs' modules, and pairs of their parts."""
    models = _traced(model_a), _traced(model_b)
    pairs = get_matching_subgraph_pairs(*models, related, unmatchable)
    return models, [
        tuple(map(Side, (name_a, name_b), models, parts, (reference, reference)))
        for reference, parts in pairs.items()
    ]


def extract_weights(
    model_name_a, model_a, model_name_b, model_b,
    base_name_to_sets_of_related_ops=None, unmatchable_types_map=None,
    op_to_type_to_weight_extraction_fn=None,
):  # fmt: skip
    """The weights of two models in pairs.

    Args:
        model_name_a, model_name_b: names of the models in the results.
        model_a, model_b: the models.
        base_name_to_sets_of_related_ops: what computes the same.
        unmatchable_types_map: what is passed over.
        op_to_type_to_weight_extraction_fn: functions that find a weight.

    Returns:
        dict: by the node in the second model, by ``weight``, by the model.

    >>> import copy, warnings
    >>> mapping = rl.ao.quantization.get_default_qconfig_mapping("fbgemm")
    >>> model, x = rl.nn.Sequential(rl.nn.Linear(2, 2)).eval(), rl.ones(1, 2)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     seen = rl.ao.quantization.quantize_fx.prepare_fx(model, mapping, (x,))
    ...     _ = seen(x)
    ...     made = rl.ao.quantization.quantize_fx.convert_fx(copy.deepcopy(seen))
    >>> found = extract_weights("float", seen, "int8", made)
    >>> found["_0"]["weight"]["int8"][0]["values"][0].dtype
    rushlight.qint8
    """
    _, pairs = _sides(
        model_name_a, model_a, model_name_b, model_b,
        base_name_to_sets_of_related_ops, unmatchable_types_map,
    )  # fmt: skip
    results, kind = {}, NSSingleResultValuesType.WEIGHT.value
    for pair in pairs:
        for side in pair:
            found = extract_weight_from_node(
                side.part.base_op_node, side.model, op_to_type_to_weight_extraction_fn
            )
            if found is not None:
                kinds = results.setdefault(side.reference, {kind: {}})
                kinds[kind][side.name] = [found]
    return _named(results, model_name_b)


def _named(results, model_name):
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name)


def add_loggers(
    name_a, model_a, name_b, model_b, logger_cls, should_log_inputs=False,
    base_name_to_sets_of_related_ops=None, unmatchable_types_map=None,
):  # fmt: skip
    """Two models with recorders behind the parts that they have in common.

    Args:
        name_a, name_b: names of the models in the results.
        model_a, model_b: the models, which get the recorders.
        logger_cls: makes recorders.
        should_log_inputs: whether what parts take is recorded, too.
        base_name_to_sets_of_related_ops: what computes the same.
        unmatchable_types_map: what is passed over.
    """
    models, pairs = _sides(
        name_a, model_a, name_b, model_b, base_name_to_sets_of_related_ops,
        unmatchable_types_map,
    )  # fmt: skip
    sides = zip(*pairs) if pairs else ((), ())
    return tuple(
        add_loggers_to_model(model, side, logger_cls, should_log_inputs)
        for model, side in zip(models, sides)
    )


def _collected(results, model, logger_cls):
    """What a model's recorders hold, by part, kind and model."""
    for logger in model.modules():
        if not isinstance(logger, logger_cls):
            continue
        kinds = results.setdefault(logger.ref_name, {})
        found = kinds.setdefault(logger.results_type, {})
        data = {"type": logger.results_type, "values": logger.stats_rnn or logger.stats}
        keys = {"model_name", "ref_name", "results_type"}
        data |= {name: getattr(logger, name) for name in _FIELDS if name not in keys}
        data["qconfig_str"] = logger.qconfig_str
        data["comparisons"] = getattr(logger, "comparisons", [])
        data["comparison_fn_name"] = getattr(logger, "comparison_fn_name", "")
        held = found.setdefault(logger.model_name, [])
        held.append(data)
        held.sort(key=lambda each: (each["index_of_arg"], each["index_within_arg"]))


def extract_logger_info(
    model_a, model_b, logger_cls, model_name_to_use_for_layer_names
):
    """What the recorders of two models hold, in pairs.

    Args:
        model_a, model_b: models that `add_loggers` gave, and that ran.
        logger_cls: of the recorders.
        model_name_to_use_for_layer_names: the model whose nodes name the results.

    Returns:
        dict: by node, by ``node_output`` or ``node_input``, by the model.
    """
    results = {}
    for model in (model_a, model_b):
        _collected(results, model, logger_cls)
    return _named(results, model_name_to_use_for_layer_names)


def add_shadow_loggers(
    name_a, model_a, name_b, model_b, logger_cls, should_log_inputs=False,
    base_name_to_sets_of_related_ops=None, node_type_to_io_type_map=None,
    unmatchable_types_map=None,
):  # fmt: skip
    """The second model with parts of the first beside its own, and recorders behind both.

    Args:
        name_a, name_b: names of the models in the results.
        model_a, model_b: the models.
        logger_cls: makes recorders.
        should_log_inputs: whether what parts take is recorded, too.
        base_name_to_sets_of_related_ops: what computes the same.
        node_type_to_io_type_map: not needed: what is quantized is seen in the graphs.
        unmatchable_types_map: what is passed over.
    """
    models, pairs = _sides(
        name_a, model_a, name_b, model_b, base_name_to_sets_of_related_ops,
        unmatchable_types_map,
    )  # fmt: skip
    return create_a_shadows_b(models[1], pairs, logger_cls, should_log_inputs)


def extract_shadow_logger_info(
    model_a_shadows_b, logger_cls, model_name_to_use_for_layer_names
):
    """What the recorders of a model with shadows hold, in pairs.

    Args:
        model_a_shadows_b: what `add_shadow_loggers` gave, and that ran.
        logger_cls: of the recorders.
        model_name_to_use_for_layer_names: the model whose nodes name the results.
    """
    results = {}
    _collected(results, model_a_shadows_b, logger_cls)
    return _named(results, model_name_to_use_for_layer_names)


def extend_logger_results_with_comparison(
    results, model_name_1, model_name_2, comparison_fn, comparison_name
):
    """Compares what was recorded, and puts it beside the second model's values.

    Args:
        results: of `extract_logger_info` and the like; changed in place.
        model_name_1, model_name_2: the two models.
        comparison_fn: takes two tensors.
        comparison_name: what the comparisons are called.

    Raises:
        AssertionError: a model, or the counterpart of a value, is not there.
    """
    for kinds in results.values():
        for models in kinds.values():
            for name in (model_name_1, model_name_2):
                if name not in models:
                    raise AssertionError(f"{name} not found in results")
            values = {_place(each): each["values"] for each in models[model_name_1]}
            for each in models[model_name_2]:
                if _place(each) not in values:
                    raise AssertionError("Expected result_1 to be not None")
                pairs = zip(values[_place(each)], each["values"])
                each[comparison_name] = [comparison_fn(*pair) for pair in pairs]


def _place(result):
    return result["index_of_arg"], result["index_within_arg"]


def _loggers(model):
    return (each for each in model.modules() if isinstance(each, OutputLogger))


def loggers_set_enabled(model, enabled):
    """Says whether a model's recorders record.

    Args:
        model: with recorders.
        enabled: whether they do.
    """
    for logger in _loggers(model):
        logger.enabled = enabled


def loggers_set_save_activations(model, save_activations):
    """Says whether a model's recorders keep values.

    Args:
        model: with recorders.
        save_activations: whether they do.
    """
    for logger in _loggers(model):
        logger.save_activations = save_activations

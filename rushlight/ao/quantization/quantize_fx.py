"""Models quantized as graphs: traced, observed between nodes, converted."""

import copy

from rushlight.ao.quantization.fx.convert import Converting, Referencing, convert
from rushlight.ao.quantization.fx.custom_config import (
    ConvertCustomConfig,
    FuseCustomConfig,
    PrepareCustomConfig,
)
from rushlight.ao.quantization.fx.fuse import fuse
from rushlight.ao.quantization.fx.prepare import (
    Configured,
    Observing,
    scopes_of,
    swap_for_training,
)
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping
from rushlight.ao.quantization.quantize import deprecated
from rushlight.fx import GraphModule, Tracer, _names

__all__ = [
    "convert_fx",
    "convert_to_reference_fx",
    "fuse_fx",
    "prepare_fx",
    "prepare_qat_fx",
]

FACTS = "_quantization_facts"


class QuantizationTracer(Tracer):
    """Traces into modules, but not into layers, nor into what is not to be traced.

    Args:
        skipped_module_names, skipped_module_classes: of modules that stay whole.
    """

    def __init__(self, skipped_module_names=(), skipped_module_classes=()):
        super().__init__()
        self.skipped_module_names = list(skipped_module_names)
        self.skipped_module_classes = tuple(skipped_module_classes)

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module stays whole."""
        return (
            module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or _names.in_package(m.__module__).startswith("torch.ao.nn")
            or super().is_leaf_module(m, module_qualified_name)
        )


def _traced(model, custom):
    tracer = QuantizationTracer(
        custom.non_traceable_module_names, custom.non_traceable_module_classes
    )
    graph = tracer.trace(model)
    found = GraphModule(model, graph).train(model.training)
    return _preserving(found, model, custom), scopes_of(tracer, graph)


def _preserving(made, model, custom):
    """A module made of another one, with the attributes that a user wants kept."""
    for name in custom.preserved_attributes:
        setattr(made, name, getattr(model, name))
    return made


def _custom(given, kind):
    """What a user says of a model, which may be a dictionary or nothing."""
    return given if isinstance(given, kind) else kind.from_dict(given or {})


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """A model as a graph whose modules that follow one another are one: for inference.

    Args:
        model: in evaluation mode.
        fuse_custom_config: ``preserved_attributes``.
        backend_config: the host's is used.
    """
    deprecated()
    custom = _custom(fuse_custom_config, FuseCustomConfig)
    found, _ = _traced(model, PrepareCustomConfig())
    return _preserving(fuse(found, False), model, custom)


def _prepared(model, mapping, is_qat, custom):
    if isinstance(mapping, dict):
        mapping = QConfigMapping.from_dict(mapping)
    if not isinstance(mapping, QConfigMapping):
        raise AssertionError("qconfig_mapping must be a QConfigMapping")
    custom = _custom(custom, PrepareCustomConfig)
    found, scopes = _traced(copy.deepcopy(model), custom)
    fuse(found, is_qat)
    modules = dict(found.named_modules(remove_duplicate=False))
    configured = Configured(mapping, modules, scopes)
    qconfigs = {node: configured.of(node) for node in found.graph.nodes}
    if is_qat:
        swap_for_training(found, qconfigs)
    observing = Observing(found, qconfigs, custom.input_quantized_indexes)
    rules, given = observing.run(), [node.name for node in observing.placeholders]
    found.graph.lint()
    found = GraphModule(found, found.graph).train(model.training)
    _preserving(found, model, custom)
    names = {node.name: qconfig for node, qconfig in qconfigs.items()}
    found.meta[FACTS] = {
        "rules": rules, "qconfigs": names, "scopes": scopes, "inputs": given,
        "outputs": custom.output_quantized_indexes,
    }  # fmt: skip
    return found


def prepare_fx(
    model, qconfig_mapping, example_inputs, prepare_custom_config=None,
    _equalization_config=None, backend_config=None,
):  # fmt: skip
    """A model as a graph with observers between its nodes.

    Args:
        model: in evaluation mode.
        qconfig_mapping: configurations by place, or a dictionary of them.
        example_inputs: taken as in PyTorch, and not needed.
        prepare_custom_config: what is not traced.
        _equalization_config: None.
        backend_config: the host's is used.

    Raises:
        NotImplementedError: scales are to be moved between layers.
    """
    deprecated()
    if _equalization_config is not None:
        raise NotImplementedError(
            "prepare_fx: scales are not moved between layers here"
        )
    return _prepared(model, qconfig_mapping, False, prepare_custom_config)


def prepare_qat_fx(
    model, qconfig_mapping, example_inputs, prepare_custom_config=None,
    backend_config=None,
):  # fmt: skip
    """A model as a graph whose weights and values are rounded as it trains.

    Args:
        model: in training mode.
        qconfig_mapping, example_inputs, prepare_custom_config, backend_config: as for
            `prepare_fx`.
    """
    deprecated()
    return _prepared(model, qconfig_mapping, True, prepare_custom_config)


def convert_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
    backend_config=None, keep_original_weights=False,
):  # fmt: skip
    """An observed graph as a graph of integers.

    Args:
        graph_module: what `prepare_fx` or `prepare_qat_fx` gave.
        convert_custom_config: ``preserved_attributes``.
        qconfig_mapping, backend_config, keep_original_weights: those of preparing.

    Raises:
        ValueError: it is no graph.
        AssertionError: it was not prepared.

    >>> import warnings
    >>> import rushlight as rl
    >>> mapping = rl.ao.quantization.get_default_qconfig_mapping("fbgemm")
    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 2)).eval()
    >>> with warnings.catch_warnings(action="ignore"):
    ...     seen = prepare_fx(model, mapping, (rl.ones(1, 2),))
    ...     _ = seen(rl.ones(1, 2))
    ...     made = convert_fx(seen)
    >>> type(made.get_submodule("0")).__name__
    'Linear'
    """
    return _converted(graph_module, Converting, convert_custom_config)


def convert_to_reference_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
    backend_config=None,
):  # fmt: skip
    """An observed graph as a graph of numbers that are rounded as integers hold them.

    Args:
        graph_module: what `prepare_fx` or `prepare_qat_fx` gave.
        convert_custom_config: ``preserved_attributes``.
        qconfig_mapping, backend_config: those of preparing.

    Raises:
        ValueError: it is no graph.
        AssertionError: it was not prepared.

    >>> import warnings
    >>> import rushlight as rl
    >>> mapping = rl.ao.quantization.get_default_qconfig_mapping("fbgemm")
    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 2)).eval()
    >>> with warnings.catch_warnings(action="ignore"):
    ...     seen = prepare_fx(model, mapping, (rl.ones(1, 2),))
    ...     _ = seen(rl.ones(1, 2))
    ...     made = convert_to_reference_fx(seen)
    >>> made.get_submodule("0")
    QuantizedLinear(Reference)(in_features=2, out_features=2, bias=True)
    """
    return _converted(graph_module, Referencing, convert_custom_config)


def _converted(graph_module, writer, custom):
    deprecated()
    if not isinstance(graph_module, GraphModule):
        raise ValueError(
            f"input model must be a GraphModule, Got type:{type(graph_module)} Please "
            "make sure to follow the tutorials."
        )
    facts = graph_module.meta.get(FACTS)
    if facts is None:
        raise AssertionError(
            "incoming model must be produced by prepare_fx\n  remedy: call prepare_fx "
            "or prepare_qat_fx first"
        )
    custom = _custom(custom, ConvertCustomConfig)
    return _preserving(convert(graph_module, facts, writer), graph_module, custom)

"""Models quantized module by module: observed, then converted."""

import copy
import functools
import inspect
import warnings

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.intrinsic import _FusedModule
from rushlight.ao.quantization import qconfig as configs
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.ao.quantization.observer import _is_activation_post_process
from rushlight.ao.quantization.stubs import DeQuantStub, QuantWrapper
from rushlight.ao.quantization.utils import (
    has_no_children_ignoring_parametrizations as has_no_children,
)
from rushlight.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "add_quant_dequant",
    "convert",
    "get_default_custom_config_dict",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]

DEPRECATED = (
    "torch.ao.quantization is deprecated and will be removed in 2.10. \n"
    "For migrations of users: \n"
    "1. Eager mode quantization (torch.ao.quantization.quantize, "
    "torch.ao.quantization.quantize_dynamic), please migrate to use torchao eager mode "
    "quantize_ API instead \n"
    "2. FX graph mode quantization (torch.ao.quantization.quantize_fx.prepare_fx,"
    "torch.ao.quantization.quantize_fx.convert_fx, please migrate to use torchao pt2e "
    "quantization API instead (prepare_pt2e, convert_pt2e) \n"
    "3. pt2e quantization has been migrated to torchao "
    "(https://github.com/pytorch/ao/tree/main/torchao/quantization/pt2e) \n"
    "see https://github.com/pytorch/ao/issues/2259 for more details"
)


def deprecated():
    """Warns as PyTorch does of all that quantizes."""
    warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=3)


@functools.cache
def get_default_custom_config_dict():
    """Modules with forms of their own to be observed and converted."""
    made = {nn.LSTM: nnq.LSTM, nn.MultiheadAttention: nnq.MultiheadAttention}
    observed = {kind: last._FLOAT_MODULE for kind, last in made.items()}
    return {
        "float_to_observed_custom_module_class": observed,
        "observed_to_quantized_custom_module_class": {
            observed[kind]: last for kind, last in made.items()
        },
    }


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Gives every module the configuration of its name, its kind or its parent.

    Args:
        module: the model.
        qconfig_dict: configurations by names and kinds.
        prepare_custom_config_dict: ``non_traceable_module_name`` and
            ``non_traceable_module_class`` are left out.
    """
    custom = prepare_custom_config_dict or {}
    _propagate(module, qconfig_dict or {}, None, "", custom)


def _propagate(module, known, parent, prefix, custom):
    found = known.get(type_before_parametrizations(module), parent)
    found = known.get(prefix, found)
    found = getattr(module, "qconfig", found)
    configs._assert_valid_qconfig(found, module)
    module.qconfig = found
    for name, child in module.named_children():
        names = custom.get("non_traceable_module_name", [])
        kinds = custom.get("non_traceable_module_class", [])
        if name not in names and type(child) not in kinds:
            path = f"{prefix}.{name}" if prefix else name
            _propagate(child, known, found, path, custom)


# ---- observing


def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _observed(module):
    return getattr(module, "qconfig", None) is not None


class _Observing:
    """Puts observers behind the modules of a model.

    Args:
        kinds: of modules that are observed.
        inner: kinds of modules with modules inside that are observed as a whole.
        device: of the observers.
        custom: observed classes by classes.
    """

    def __init__(self, kinds, inner, device, custom):
        self.kinds, self.inner = kinds, inner or ()
        self.device, self.custom = device, custom

    def made(self, module, special=None):
        """An observer of a module's results."""
        found = (special or module.qconfig.activation)()
        return found if self.device is None else found.to(self.device)

    def put(self, module, special=None):
        """Puts one behind a module; before one whose scales follow each value."""
        if not _observed(module) or isinstance(module, DeQuantStub):
            return
        module.add_module("activation_post_process", self.made(module, special))
        if configs._activation_is_memoryless(module.qconfig):
            module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
        else:
            module.register_forward_hook(_observer_forward_hook, prepend=True)

    def walk(self, module):
        """Puts them behind a module and all inside of it."""
        for name, child in list(module.named_children()):
            self.visit(module, name, child)
        kind = type_before_parametrizations(module)
        if isinstance(module, nn.Sequential) or kind not in self.kinds:
            return
        if has_no_children(module) or hasattr(module, "weight_fake_quant"):
            self.put(module)

    def visit(self, module, name, child):
        """Puts them behind a module's child."""
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:
            return
        if issubclass(kind, (nnq.FloatFunctional, nnq.QFunctional)):
            if _observed(child):
                child.activation_post_process = self.made(child)
        elif isinstance(child, _FusedModule) or kind in self.inner:
            self.put(child)
        elif mappings._has_special_act_post_process(child):
            self.put(child, mappings._get_special_act_post_process(child))
        elif _observed(child) and kind in self.custom:
            made = self.custom[kind].from_float(child)
            setattr(module, name, made)
            if not issubclass(self.custom[kind], tuple(mappings.no_observer_set())):
                self.put(made)
        else:
            self.walk(child)


def _get_unique_devices_(module):
    tensors = [*module.parameters(), *module.buffers()]
    return {each.device for each in tensors if each.device.type != "meta"}


def _device(module):
    devices = _get_unique_devices_(module)
    if len(devices) > 1:
        raise AssertionError(
            "quantization only works with cpu or single-device CUDA modules, but got "
            f"devices {devices}"
        )
    # where all of it has shapes alone, its observers do, too
    return next(iter((*devices, *(each.device for each in module.parameters()))), None)


def add_quant_dequant(module):
    """A model with every configured leaf between marks of quantized values."""
    if has_no_children(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def prepare(
    model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
    prepare_custom_config_dict=None,
):  # fmt: skip
    """A model with observers behind the modules that are to be quantized.

    Args:
        model: with ``qconfig`` on itself or on modules.
        inplace: whether the model itself is changed.
        allow_list: kinds of modules that are observed.
        observer_non_leaf_module_list: kinds of modules with modules inside that are
            observed as a whole.
        prepare_custom_config_dict: ``float_to_observed_custom_module_class``; if left
            out, `nn.LSTM` and `nn.MultiheadAttention` become modules of observed parts.
    """
    deprecated()
    return _prepare(
        model, inplace, allow_list, observer_non_leaf_module_list,
        prepare_custom_config_dict,
    )  # fmt: skip


def _prepare(model, inplace, kinds=None, inner=None, custom=None):
    custom = get_default_custom_config_dict() if custom is None else custom
    custom = custom.get("float_to_observed_custom_module_class", {})
    if not inplace:
        model = copy.deepcopy(model)
    kinds = mappings.get_default_qconfig_propagation_list() if kinds is None else kinds
    propagate_qconfig_(model)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct "
            "configuration through `qconfig_dict` or by assigning the `.qconfig` "
            "attribute directly on submodules",
            stacklevel=3,
        )
    _Observing(kinds, inner, _device(model), custom).walk(model)
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """A model whose weights and activations are rounded as it trains.

    Args:
        model: in training mode, with ``qconfig`` on itself or on modules.
        mapping: layers whose weights are rounded by layers.
        inplace: whether the model itself is changed.

    Raises:
        AssertionError: the model is not in training mode.
    """
    deprecated()
    return _prepare_qat(model, mapping, inplace)


def _prepare_qat(model, mapping=None, inplace=False):
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = mappings.get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    _convert(model, mapping)
    return _prepare(model, True, inner=set(mapping.values()))


# ---- converting


def convert(
    module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
    convert_custom_config_dict=None, use_precomputed_fake_quant=False,
):  # fmt: skip
    """A model whose observed modules are modules of integers.

    Args:
        module: the observed model.
        mapping: modules of integers by modules.
        inplace: whether the model itself is changed.
        remove_qconfig: whether configurations and observers go.
        is_reference: not supported here: `convert_fx` makes references.
        convert_custom_config_dict: ``observed_to_quantized_custom_module_class``.
        use_precomputed_fake_quant: whether weights are not looked at again.

    >>> model = nn.Sequential(rl.ao.quantization.QuantStub(), nn.Linear(2, 2)).eval()
    >>> model.qconfig = rl.ao.quantization.default_qconfig
    >>> with warnings.catch_warnings(action="ignore"):
    ...     seen = rl.ao.quantization.prepare(model)
    ...     _ = seen(rl.ones(1, 2))
    ...     made = rl.ao.quantization.convert(seen)
    >>> type(made[1]).__name__
    'Linear'
    """
    deprecated()
    if not inplace:
        module = copy.deepcopy(module)
    _convert(module, mapping, convert_custom_config_dict, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module, mapping=None, custom=None, precomputed=False):
    if mapping is None:
        mapping = mappings.get_default_static_quant_module_mappings()
    custom = get_default_custom_config_dict() if custom is None else custom
    own = custom.get("observed_to_quantized_custom_module_class", {})
    for name, child in list(module.named_children()):
        fused = isinstance(child, _FusedModule)
        if not fused and type_before_parametrizations(child) not in own:
            _convert(child, mapping, custom, precomputed)
        module._modules[name] = swap_module(child, mapping, own, precomputed)
    return module


def swap_module(
    mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False
):
    """The module of integers that a module becomes, with its hooks; or the module.

    Args:
        mod: the module.
        mapping, custom_module_class_mapping: classes by classes.
        use_precomputed_fake_quant: whether the weight is not looked at again.
    """
    kind = type_before_parametrizations(mod)
    if not _observed(mod):
        return mod
    if kind in custom_module_class_mapping:
        found = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        make = mapping[kind].from_float
        known = inspect.signature(make).parameters
        settings = {"use_precomputed_fake_quant": use_precomputed_fake_quant}
        found = make(mod, **{k: v for k, v in settings.items() if k in known})
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observer_forward_pre_hook:
            found.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            found.register_forward_hook(hook)
    device = _device(mod)
    return found if device is None else found.to(device)


def _remove_activation_post_process(module):
    if _is_activation_post_process(getattr(module, "activation_post_process", None)):
        del module.activation_post_process
    for hooks, ours in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for number in [number for number, hook in hooks.items() if hook is ours]:
            hooks.pop(number)


def _remove_qconfig(module):
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


# ---- whole workflows


def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """A model observed while a function runs it, and converted.

    Args:
        model: with ``qconfig``.
        run_fn: runs the model, given it and ``run_args``.
        run_args: the function's further arguments.
        mapping, inplace: as for `convert`.
    """
    deprecated()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    _prepare(model, True)
    run_fn(model, *run_args)
    _convert(model, mapping)
    _remove_qconfig(model)
    return model


def quantize_qat(model, run_fn, run_args, inplace=False):
    """A model trained for quantization by a function, and converted.

    Args:
        model: with ``qconfig``.
        run_fn: trains the model, given it and ``run_args``.
        run_args: the function's further arguments.
        inplace: whether the model itself is changed.
    """
    deprecated()
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    _prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    _convert(model)
    _remove_qconfig(model)
    return model


def _dynamic_kinds(dtype):
    """By a type of weights, which modules have them and by which configuration."""
    layers = nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell
    tables = nn.EmbeddingBag, nn.Embedding
    return {
        "qint8": (configs.default_dynamic_qconfig, layers),
        "float16": (configs.float16_dynamic_qconfig, layers),
        "quint8": (configs.float_qparams_weight_only_qconfig, tables),
        "quint4x2": (configs.float_qparams_weight_only_qconfig_4bit, tables[:1]),
    }.get(dtype.name)


def quantize_dynamic(
    model, qconfig_spec=None, dtype=rl.qint8, mapping=None, inplace=False
):
    """A model with weights of integers, whose values are quantized as they come.

    Args:
        model: the model.
        qconfig_spec: kinds or names of modules, or configurations by them.
        dtype: of the weights.
        mapping: modules by modules.
        inplace: whether the model itself is changed.

    Raises:
        ValueError: weights cannot be of the type.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     model = quantize_dynamic(nn.Sequential(nn.Linear(2, 2)), {nn.Linear})
    >>> model[0].weight().dtype
    rushlight.qint8
    """
    deprecated()
    known = _dynamic_kinds(dtype)
    if not isinstance(qconfig_spec, dict):
        if known is None:
            if qconfig_spec:
                words = "Unknown dtype specified for quantize_dynamic: "
                raise RuntimeError(words, str(dtype))
            raise ValueError(
                f"Don't know how to quantize with default settings for {dtype}. Provide "
                "full qconfig please"
            )
        qconfig_spec = dict.fromkeys(qconfig_spec or known[1], known[0])
    if mapping is None:
        mapping = mappings.get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    _convert(model, mapping)
    _remove_qconfig(model)
    return model

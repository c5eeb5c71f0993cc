"""A model and its quantized form compared: weights, layers' errors, values on the way.

`compare_weights` looks at states, `compare_model_stub` runs each layer of numbers beside
the layer of integers that has the same input, `compare_model_outputs` runs both models and
pairs what their layers gave.
"""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.quantized import dynamic as nnqd
from rushlight.ao.quantization.qconfig import QConfig
from rushlight.ao.quantization.quantization_mappings import (
    get_default_compare_output_module_list,
)
from rushlight.ao.quantization.quantize import prepare

# Modules with modules inside whose results are looked at as a whole.
NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {
    nnqd.Linear,
    nnq.Linear,
    nnqd.LSTM,
    nn.LSTM,
}


def _find_match(str_list, key_str, postfix):
    """The first name of a list whose module is a name's own, or the one around it.

    Args:
        str_list: names of values, with the paths of their modules.
        key_str: the name whose counterpart is looked for.
        postfix: the last part that the name must have.
    """
    *module, last = key_str.split(".")
    if last != postfix:
        return None
    wanted = [module]
    if postfix == "_packed_params" and len(module) > 1:
        wanted.append(module[:-1])  # packed values lie in a module of their own
    for path in wanted:
        for name in str_list:
            parts = name.split(".")
            if path in (parts[:-1], parts[:-2]):
                return name
    return None


def compare_weights(float_dict, quantized_dict):
    """The weights of a model and of its quantized form, by the latter's names.

    Args:
        float_dict, quantized_dict: the two models' states.

    Returns:
        dict: by name, a dictionary of ``float`` and ``quantized``.

    >>> import warnings
    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 2))
    >>> with warnings.catch_warnings(action="ignore"):
    ...     made = rl.ao.quantization.quantize_dynamic(model)
    >>> found = compare_weights(model.state_dict(), made.state_dict())
    >>> found["0._packed_params._packed_params"]["quantized"].dtype
    rushlight.qint8
    """
    found = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is not None:
            found[key] = {"float": float_dict[match], "quantized": value}
            continue
        match = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            found[key] = {"float": float_dict[match], "quantized": value[0]}
        pair = _recurrent_weights(float_dict, key, value)
        if pair is not None:
            found[key] = pair
    return found


def _recurrent_weights(float_dict, key, value):
    """The weights for the state, as in PyTorch, of a layer with packed weights."""
    *path, values, layer, last = ("", "", *key.split("."))
    if last != "param" or values != "_all_weight_values":
        return None
    module = ".".join(path[2:])
    names = [f"{module}.weight_{kind}_l{layer}" for kind in ("ih", "hh")]
    if not all(name in float_dict for name in names):
        return None
    weight, _ = value.w_hh.unpack()
    return {"float": float_dict[names[1]], "quantized": weight}


# ---- what records


class Logger(nn.Module):
    """What records values; subclasses say which.

    Attributes:
        stats: what was recorded, by kind.
        dtype: the type of values that are observed.
    """

    def __init__(self):
        super().__init__()
        self.stats = {}
        self.dtype = rl.quint8

    def forward(self, x):
        """Records nothing."""


class ShadowLogger(Logger):
    """Records what a layer of integers and the layer of numbers beside it gave."""

    def __init__(self):
        super().__init__()
        self.stats |= {"float": [], "quantized": []}

    def forward(self, x, y):
        """Records both; of those that are longer than 1, the first elements.

        Args:
            x: the result of the layer of integers.
            y: the result of the layer of numbers.
        """
        for kind, value in (("quantized", x), ("float", y)):
            first = value[0] if len(value) > 1 else value
            self.stats[kind].append(first.detach())


class OutputLogger(Logger):
    """Records the results of a layer, under ``tensor_val``."""

    def __init__(self):
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x):
        """Records a result and returns it."""
        self.stats["tensor_val"].append(x)
        return x


def get_logger_dict(mod, prefix=""):
    """What the recorders in a model hold, by their modules' paths and ``.stats``.

    Args:
        mod: the model.
        prefix: the path of the model itself.
    """
    found = {}
    _collect(mod, found, prefix)
    return found


def _collect(module, found, prefix):
    start = f"{prefix}." if prefix else ""
    for child in module.children():
        if isinstance(child, Logger):
            found[f"{start}stats"] = child.stats
            break
    for name, child in module.named_children():
        _collect(child, found, start + name)


# ---- layers beside layers


def _lists(value):
    return [_lists(each) for each in value] if type(value) is tuple else value


def _numbers(value):
    if type(value) is list:
        return [_numbers(each) for each in value]
    if isinstance(value, rl.Tensor) and value.is_quantized:
        return value.dequantize()
    return value


class Shadow(nn.Module):
    """A layer of integers, and beside it the layer of numbers that it was made of.

    Args:
        q_module: the layer of integers, whose results go on.
        float_module: the layer of numbers.
        logger_cls: makes what records the results of both.
    """

    def __init__(self, q_module, float_module, logger_cls):
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def forward(self, *x):
        """The result of integers."""
        given = _lists(x)
        output = self.orig_module(*given)
        self.logger(output, self.shadow_module(*_numbers(given)))
        return output

    def _shadowed(self, name, *given):
        output = getattr(self.orig_module, name)(*given)
        self.logger(output, getattr(self.shadow_module, name)(*map(_numbers, given)))
        return output

    def add(self, x, y):
        """The sum."""
        return self._shadowed("add", x, y)

    def add_scalar(self, x, y):
        """The sum with a number."""
        return self._shadowed("add_scalar", x, y)

    def mul(self, x, y):
        """The product."""
        return self._shadowed("mul", x, y)

    def mul_scalar(self, x, y):
        """The product with a number."""
        return self._shadowed("mul_scalar", x, y)

    def cat(self, x, dim=0):
        """Values one after another."""
        return self._shadowed("cat", list(x), dim)

    def add_relu(self, x, y):
        """The sum; what is below zero becomes zero."""
        return self._shadowed("add_relu", x, y)


def _is_identical_module_type(mod1, mod2):
    kinds = [[type(each) for each in mod.modules()] for mod in (mod1, mod2)]
    return kinds[0] == kinds[1]


def prepare_model_with_stubs(float_module, q_module, module_swap_list, logger_cls):
    """Puts layers of numbers beside the layers of integers that were made of them.

    Args:
        float_module: the model of numbers.
        q_module: the model of integers, which is changed.
        module_swap_list: kinds of layers of numbers.
        logger_cls: makes what records the results of both.
    """
    known = dict(float_module.named_children())
    for name, module in list(q_module.named_children()):
        if name not in known:
            continue
        numbers = known[name]
        if type(numbers) not in module_swap_list:
            prepare_model_with_stubs(numbers, module, module_swap_list, logger_cls)
        elif not _is_identical_module_type(module, numbers):
            q_module._modules[name] = Shadow(module, numbers, logger_cls)


def compare_model_stub(
    float_model, q_model, module_swap_list, *data, logger_cls=ShadowLogger
):
    """What layers of integers give, and those of numbers from the same inputs.

    Args:
        float_model, q_model: the two models; the latter is changed.
        module_swap_list: kinds of layers of numbers.
        data: the model's inputs.
        logger_cls: makes what records the results of both.

    Returns:
        dict: by path, what was recorded: lists under ``float`` and ``quantized``.
    """
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


# ---- results beside results


def get_matching_activations(float_module, q_module):
    """What layers of the two models recorded, in pairs.

    Args:
        float_module, q_module: models that `prepare_model_outputs` prepared, and that ran.

    Returns:
        dict: by path in the model of integers, lists under ``float`` and ``quantized``.
    """
    numbers, found = get_logger_dict(float_module), {}
    names = sorted(numbers, reverse=True)
    for key, seen in get_logger_dict(q_module).items():
        if not seen["tensor_val"]:
            continue
        match = _find_match(names, key, "stats")
        if match is not None:
            found[key] = {
                "float": numbers[match]["tensor_val"],
                "quantized": seen["tensor_val"],
            }
    return found


def prepare_model_outputs(
    float_module, q_module, logger_cls=OutputLogger, allow_list=None
):
    """Puts recorders behind the layers of both models.

    Args:
        float_module, q_module: the two models, which are changed.
        logger_cls: makes recorders.
        allow_list: kinds of layers.
    """
    kinds = allow_list
    if kinds is None:
        kinds = get_default_compare_output_module_list()
    recording = QConfig(activation=logger_cls, weight=None)
    whole = NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST
    for module, inner in ((float_module, None), (q_module, whole)):
        module.qconfig = recording
        prepare(module, True, kinds, inner, prepare_custom_config_dict={})


def compare_model_outputs(
    float_model, q_model, *data, logger_cls=OutputLogger, allow_list=None
):
    """What layers of both models give from the same inputs of the models, in pairs.

    Args:
        float_model, q_model: the two models, which are changed.
        data: the models' inputs.
        logger_cls: makes recorders.
        allow_list: kinds of layers.

    Returns:
        dict: by path in the model of integers, lists under ``float`` and ``quantized``.
    """
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)

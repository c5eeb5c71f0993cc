"""Which configuration which part of a model has, for graphs."""

import warnings
from collections import OrderedDict

import rushlight as rl
from rushlight import nn
from rushlight.ao.quantization import fake_quantize as fake
from rushlight.ao.quantization import observer as seen
from rushlight.ao.quantization import qconfig as configs
from rushlight.nn import functional as F

__all__ = [
    "QConfigMapping",
    "get_default_qat_qconfig_dict",
    "get_default_qat_qconfig_mapping",
    "get_default_qconfig_dict",
    "get_default_qconfig_mapping",
]

_KEYS = {
    "": "global_qconfig",
    "object_type": "object_type_qconfigs",
    "module_name_regex": "module_name_regex_qconfigs",
    "module_name": "module_name_qconfigs",
    "module_name_object_type_order": "module_name_object_type_order_qconfigs",
}


class QConfigMapping:
    """Configurations by the place in a model; the most special one counts.

    A name with a kind and a number counts before a name, a name before a pattern of
    names, a pattern before a kind, and a kind before the configuration of all.

    >>> mapping = QConfigMapping().set_global(configs.default_qconfig)
    >>> mapping.set_module_name("head", None).module_name_qconfigs
    OrderedDict([('head', None)])
    """

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs = OrderedDict()
        self.module_name_regex_qconfigs = OrderedDict()
        self.module_name_qconfigs = OrderedDict()
        self.module_name_object_type_order_qconfigs = OrderedDict()

    def set_global(self, global_qconfig):
        """Sets the configuration of all."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """Sets that of a class of modules, a function, or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        """Sets that of modules whose names match a pattern."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        """Sets that of a module and all inside of it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name, object_type, index, qconfig
    ):
        """Sets that of the n-th function or module of a kind inside a module.

        Args:
            module_name, object_type, index: which.
            qconfig: the configuration.
        """
        key = module_name, object_type, index
        self.module_name_object_type_order_qconfigs[key] = qconfig
        return self

    def to_dict(self):
        """The same as a dictionary of lists."""
        found = {"": self.global_qconfig}
        for key, name in list(_KEYS.items())[1:]:
            found[key] = [
                (*(k if isinstance(k, tuple) else (k,)), v)
                for k, v in getattr(self, name).items()
            ]
        return found

    @classmethod
    def from_dict(cls, qconfig_dict):
        """A mapping of what `to_dict` gives."""
        found = cls().set_global(qconfig_dict.get(""))
        for key, name in list(_KEYS.items())[1:]:
            for *place, qconfig in qconfig_dict.get(key, []):
                kept = place[0] if len(place) == 1 else tuple(place)
                getattr(found, name)[kept] = qconfig
        return found

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for name in _KEYS.values():
            value = getattr(self, name)
            if isinstance(value, OrderedDict):
                lines.append(f" {name}")
                lines += [f"  {k}: {v}" for k, v in value.items()] or ["  (empty)"]
            else:
                lines.append(f" {name}\n  {value}")
        return "\n".join([*lines, ")"])


_UNIT = (
    rl.sigmoid, F.sigmoid, F.hardsigmoid, nn.Hardsigmoid, nn.Sigmoid, nn.Softmax,
    "hardsigmoid", "hardsigmoid_", "sigmoid", "sigmoid_",
)  # fmt: skip
_BOTH = rl.tanh, F.tanh, nn.Tanh, "tanh", "tanh_"


def _default(is_qat, backend, version):
    """A backend's configuration, and those of functions with known ranges."""
    find = configs.get_default_qat_qconfig if is_qat else configs.get_default_qconfig
    qconfig = find(backend, version)
    fixed = fake.default_weight_fake_quant if is_qat else seen.default_weight_observer
    usual = fixed
    if backend in ("fbgemm", "x86", "onednn", "qnnpack"):
        usual = fake.default_fused_wt_fake_quant if is_qat and version else fixed
    transposed = configs.QConfig(qconfig.activation, usual)
    found = QConfigMapping().set_global(qconfig)
    found.set_object_type("reshape", configs.default_reuse_input_qconfig)
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d):
        found.set_object_type(kind, transposed)
    for kind in (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d):
        found.set_object_type(kind, transposed)
    for kind in (F.layer_norm, nn.LayerNorm):
        own = configs.QConfig(qconfig.activation, seen.default_placeholder_observer)
        found.set_object_type(kind, own)
    for kinds, word in ((_UNIT, "0to1"), (_BOTH, "neg1to1")):
        made = getattr(
            fake if is_qat else seen,
            f"default_fixed_qparams_range_{word}_{'fake_quant' if is_qat else 'observer'}",
        )
        for kind in kinds:
            found.set_object_type(kind, configs.QConfig(made, fixed))
    return found.set_object_type(nn.PReLU, configs.default_quint8_weight_qconfig)


def get_default_qconfig_mapping(backend="x86", version=0):
    """The configurations of static quantization that suit a backend."""
    return _default(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """The configurations of training for quantization that suit a backend."""
    return _default(True, backend, version)


def _older(name, newer, find):
    def give(backend="x86", version=0):
        warnings.warn(
            f"`torch.ao.quantization.{name}` is deprecated and will be removed in a "
            f"future version. Please use `torch.ao.quantization.{newer}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return find(backend, version).to_dict()

    give.__name__ = give.__qualname__ = name
    give.__doc__ = f"``{newer}`` as a dictionary."
    return give


get_default_qconfig_dict = _older(
    "get_default_qconfig_dict",
    "get_default_qconfig_mapping",
    get_default_qconfig_mapping,
)
get_default_qat_qconfig_dict = _older(
    "get_default_qat_qconfig_dict",
    "get_default_qat_qconfig_mapping",
    lambda backend, version: get_default_qat_qconfig_mapping(backend, version or 1),
)

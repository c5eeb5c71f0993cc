"""Quantization: observers, configurations, and workflows that use them."""

from importlib import import_module

from rushlight.ao.quantization.fake_quantize import *
from rushlight.ao.quantization.fuse_modules import fuse_modules, fuse_modules_qat
from rushlight.ao.quantization.fuser_method_mappings import *
from rushlight.ao.quantization.observer import *
from rushlight.ao.quantization.qconfig import *
from rushlight.ao.quantization.qconfig_mapping import *
from rushlight.ao.quantization.quant_type import *
from rushlight.ao.quantization.quantization_mappings import *
from rushlight.ao.quantization.quantize import *
from rushlight.ao.quantization.stubs import *
from rushlight.ao.quantization.utils import MatchAllNode, get_combined_dict

_LATER = ("quantize_fx", "fx", "backend_config")


def __getattr__(name):
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def default_eval_fn(model, calib_data):
    """Runs a model on the data of pairs of data and targets."""
    for data, _ in calib_data:
        model(data)

"""Automatic differentiation: calls are recorded as a graph, and the graph reversed."""

from rushlight.autograd import graph
from rushlight.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from rushlight.autograd.engine import is_checkpoint_valid as _is_checkpoint_valid
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.methods import backward, grad
from rushlight.autograd.variable import Variable
from rushlight.core import naming as _naming
from rushlight.core.state import is_grad_enabled, is_inference_mode_enabled
from rushlight.dispatch.overridable import open_functions as _open_functions

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


# Types and modes may take them whole; what they do inside is nobody's to take.
_open_functions(
    globals(),
    ("backward", "grad"),
    f"{_naming.package}.autograd",
    hidden=("grad_variables",),
)

# What few programs use is imported when it is first asked for.
_ON_DEMAND = ("forward_ad", "functional", "profiler")
TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who import everything
    from rushlight.autograd import functional


def __getattr__(name):
    if name in _ON_DEMAND:
        from importlib import import_module

        return import_module(f"rushlight.autograd.{name}")
    if name == "DeviceType":
        from rushlight.core.device_types import DeviceType

        return DeviceType
    raise AttributeError(f"module 'rushlight.autograd' has no attribute '{name}'")

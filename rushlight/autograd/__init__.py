"""Automatic differentiation: calls are recorded as a graph, and the graph reversed."""

from rushlight.autograd import functional, graph
from rushlight.autograd.anomaly import detect_anomaly, set_detect_anomaly
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.methods import backward, grad
from rushlight.autograd.variable import Variable
from rushlight.core.state import is_grad_enabled, is_inference_mode_enabled

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


def __getattr__(name):
    # forward mode opens levels of interpreters: who does not use it loads none
    if name == "forward_ad":
        from importlib import import_module

        return import_module("rushlight.autograd.forward_ad")
    raise AttributeError(f"module 'rushlight.autograd' has no attribute '{name}'")

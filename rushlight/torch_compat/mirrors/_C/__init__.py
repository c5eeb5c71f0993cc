"""Names that PyTorch's compiled core has and that programs reach for by it."""

import importlib
import types

from rushlight.autograd.grad_mode import (
    is_multithreading_enabled as _is_multithreading_enabled,
)
from rushlight.autograd.levels.stack import depth
from rushlight.core import naming
from rushlight.core.device import Device as device
from rushlight.core.dtype import DType as dtype
from rushlight.core.layout import Layout as layout
from rushlight.core.layout import MemoryFormat as memory_format
from rushlight.core.layout import Size
from rushlight.random.generator import Generator
from rushlight.core.state import function_modes, silenced_overrides
from rushlight.core.tensor import Tensor as TensorBase
from rushlight.dispatch.disabled import DisableTorchFunction as DisableTorchFunction
from rushlight.dispatch.disabled import (
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from rushlight.dispatch.disabled import (
    _disabled_torch_dispatch_impl as _disabled_torch_dispatch_impl,
)
from rushlight.dispatch.disabled import (
    _disabled_torch_function_impl as _disabled_torch_function_impl,
)
from rushlight.dispatch.keys import DispatchKey as DispatchKey
from rushlight.dispatch.keys import KeySet as DispatchKeySet
from rushlight.dispatch.overload import ArgumentInfo as Argument
from rushlight.dispatch.overload import Schema as FunctionSchema
from rushlight.dispatch.python_key import modes as dispatch_modes
from rushlight.operators.linalg.linalg_checks import LinAlgError as _LinAlgError

_TensorBase = TensorBase
_TensorMeta = type(TensorBase)
_GLIBCXX_USE_CXX11_ABI = True
has_mkldnn = False
has_mps = False
has_cuda = False
has_xpu = False
_has_mkldnn, _has_mps, _has_cuda, _has_xpu = has_mkldnn, has_mps, has_cuda, has_xpu


def _log_api_usage_once(event):
    """Notes the use of a name where a program has asked for it: nobody has."""


class ScriptObject:
    """An object of a class of translated programs: there are none."""

    def __init__(self, *args, **kwargs):
        raise TypeError("ScriptObject: No constructor defined!")


def _current_graph_task_id():
    """The number of the backward pass that this thread runs, or -1."""
    from rushlight.autograd.engine import current_graph_task_id

    return current_graph_task_id()


def _get_tracing_state():
    """The recording of the program that is going on: none."""
    return None


def _is_tracing():
    """Whether the program is being recorded: never."""
    return False


def _get_accelerator():
    """The kind of device beside the host: the host itself, as there is none."""
    return device("cpu")


def _are_functorch_transforms_active():
    """Whether a call is being batched or differentiated by a transform."""
    return depth() > 0


def _get_privateuse1_backend_name():
    """The name of the device type that a backend from outside has."""
    return device("privateuseone").type


def _is_torch_function_enabled():
    """Whether types from outside intercept calls."""
    return not silenced_overrides()


def _is_torch_function_all_disabled():
    """Whether neither types nor modes intercept calls."""
    return silenced_overrides() > 1


def _is_torch_function_mode_enabled():
    """Whether a mode intercepts calls."""
    return bool(function_modes()) and silenced_overrides() < 2


def _len_torch_function_stack():
    """How many modes intercept calls."""
    return len(function_modes())


def _len_torch_dispatch_stack(mode_key=None):
    """How many modes see operators."""
    return len(dispatch_modes())


# Switches of the machine for translated programs, which has nothing to run here. Each
# tells what it was told before.
_switches: dict = {}


def _switch(name, default=False):
    def setter(value):
        before = _switches.get(name, default)
        _switches[name] = value
        return before

    setter.__name__ = setter.__qualname__ = name
    setter.__doc__ = "Notes a switch that concerns translated programs only."
    return setter


_jit_set_profiling_executor = _switch("_jit_set_profiling_executor", True)
_jit_set_profiling_mode = _switch("_jit_set_profiling_mode", True)
_jit_override_can_fuse_on_cpu = _switch("_jit_override_can_fuse_on_cpu")
_jit_override_can_fuse_on_gpu = _switch("_jit_override_can_fuse_on_gpu", True)
_jit_set_texpr_fuser_enabled = _switch("_jit_set_texpr_fuser_enabled", True)
_jit_set_nvfuser_enabled = _switch("_jit_set_nvfuser_enabled")
_jit_set_nvfuser_guard_mode = _switch("_jit_set_nvfuser_guard_mode")
_jit_set_autocast_mode = _switch("_jit_set_autocast_mode", True)
_jit_set_num_profiled_runs = _switch("_jit_set_num_profiled_runs", 1)
_jit_set_bailout_depth = _switch("_jit_set_bailout_depth", 20)


def _jit_can_fuse_on_cpu():
    """Whether translated programs are fused: there are none."""
    return False


def _jit_can_fuse_on_gpu():
    """Whether translated programs are fused on a GPU: there are none."""
    return False


def _parse_to(*args, **kwargs):
    """What the arguments of ``Module.to`` say: device, dtype, flag, memory format."""
    device_, dtype_ = kwargs.get("device"), kwargs.get("dtype")
    non_blocking = kwargs.get("non_blocking", False)
    rest = list(args)
    if rest and isinstance(rest[0], TensorBase):
        other = rest.pop(0)
        device_, dtype_ = other.device, other.dtype
    else:
        if rest and (rest[0] is None or isinstance(rest[0], (str, int, device))):
            device_ = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtype)):
            dtype_ = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if device_ is not None:
        device_ = device(device_)
    return device_, dtype_, bool(non_blocking), kwargs.get("memory_format")


def _get_default_device():
    """The kind of device that new tensors are on."""
    from rushlight.core.device import get_default_device

    return get_default_device().type


def _dispatch_dump(name):
    """What is registered for an operator, key by key; nothing where there is none.

    Args:
        name: ``namespace::operator.overload``.

    >>> print(_dispatch_dump("aten::relu_").splitlines()[1])
    schema: aten::relu_(Tensor(a!) self) -> Tensor(a!)
    """
    from rushlight.dispatch.library import find_operator

    try:
        op = find_operator(name)
    except RuntimeError:
        return ""
    lines = [f"name: {name}", f"schema: {op._schema}", "debug: registered by Rushlight"]
    lines.append("alias analysis kind: FROM_SCHEMA")
    for key in sorted(op.kernels):
        lines.append(f"{DispatchKey(key).name}: registered by Rushlight [ boxed ]")
    return "\n".join(lines) + "\n"


def _jit_get_operation(name):
    """An operator by its name, and the names of its overloads; two None without it.

    Args:
        name: ``namespace::operator``.

    >>> _jit_get_operation("aten::nothing")
    (None, None)
    """
    from rushlight.dispatch.dispatcher import packets

    found = packets().get(tuple(name.split("::", 1)))
    if found is None:
        return None, None
    overloads = ["" if each == "default" else each for each in found.overloads()]
    return found, overloads


class _Operators(types.ModuleType):
    """Functions by the names that the core of PyTorch keeps them under."""

    def __init__(self, name, home):
        super().__init__(f"{naming.package}._C.{name}")
        self.__dict__["_home"] = home

    def __getattr__(self, name):
        from rushlight.operators import call

        found = getattr(call, name, None)
        if found is None:
            found = getattr(
                importlib.import_module(f"rushlight.{self._home}"), name, None
            )
        if found is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return found


_nn = _Operators("_nn", "nn.functional")
_nn._parse_to = _parse_to
_fft = _Operators("_fft", "fft")
_linalg = _Operators("_linalg", "linalg")
_special = _Operators("_special", "special")
_cpu = _Operators("_cpu", "cpu")


# Where the package has what PyTorch's core is asked for by its own name.
_HOME_OF = {
    "Tag": "dispatch.tags",
    "default_generator": "random.generator",
    "FileCheck": "testing",
    "Future": "futures",
    **dict.fromkeys(("Event", "Stream"), "_host_streams"),
    **dict.fromkeys(
        ("PyTorchFileReader", "PyTorchFileWriter"), "serialization._records"
    ),
    **dict.fromkeys(("CompilationUnit", "ScriptFunction", "ScriptModule"), "jit"),
}
# Parts of translated programs, of which there are none: nothing is an instance of them.
_TRANSLATED = frozenset(
    """
    Code ErrorReport GraphExecutorState IODescriptor LiteScriptModule
    ThroughputBenchmark Use
    """.split()
)


def _translated(name):
    """A class for annotations and ``isinstance`` that cannot be called."""

    def refuse(cls, *args, **kwargs):
        raise TypeError(f"{naming.package}._C.{name}: No constructor defined!")

    text = f"{name}: a part of translated programs that there is none of here."
    return type(name, (), {"__doc__": text, "__new__": refuse, "__module__": __name__})


def __getattr__(name):
    from rushlight.jit import _types

    if isinstance(getattr(_types, name, None), type):
        return getattr(_types, name)
    if name in ("Block", "Graph", "Node", "Value"):
        return getattr(importlib.import_module("rushlight.jit.ir"), name)
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"rushlight.{_HOME_OF[name]}"), name)
    if name in _TRANSLATED:
        globals()[name] = _translated(name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

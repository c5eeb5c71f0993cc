"""NVIDIA GPUs: what a program asks before it uses one. No device can be used yet.

Kernels for them are generated and assembled (``rushlight.te.build(target="ptx")``);
nothing launches them, so no device is reported. Questions get the answers of a PyTorch
that was built without CUDA; what needs a device raises.
"""

from __future__ import annotations

import collections
import contextlib
from importlib import import_module

from rushlight.core import naming

# What PyTorch's build without CUDA says.
default_generators: tuple = ()
has_half = True
has_magma = False
_MODULES = ("amp", "memory", "nvtx", "random", "streams")
_TYPES = (
    *("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long"),
    *("Short", "ComplexDouble", "ComplexFloat"),
)


class CudaError(RuntimeError):
    """An error of the driver's; none is loaded."""


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the driver; none waits."""


OutOfMemoryError = import_module("rushlight._facts").OutOfMemoryError


def _refuse():
    raise AssertionError(
        "Torch not compiled with CUDA enabled: Rushlight has no CUDA backend yet\n"
        '  remedy: keep tensors on device="cpu"'
    )


# -- questions ------------------------------------------------------------------------


def is_available():
    """Whether tensors can live on a GPU: not yet.

    >>> is_available()
    False
    """
    return False


def device_count():
    """The number of usable GPUs."""
    return 0


def is_initialized():
    """Whether the driver has been set up."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether a GPU computes in bfloat16."""
    return False


def is_tf32_supported():
    """Whether a GPU computes in TF32."""
    return False


def get_arch_list():
    """The GPU architectures that kernels were built for: none."""
    return []


def get_gencode_flags():
    """The compiler's flags for those architectures: none."""
    return ""


def get_rng_state_all():
    """The states of all GPUs' generators: none."""
    return []


def memory_allocated(device=None):
    """The bytes of GPU memory in use: none."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes of GPU memory ever in use: none."""
    return 0


def memory_reserved(device=None):
    """The bytes of GPU memory kept: none."""
    return 0


def max_memory_reserved(device=None):
    """The most bytes of GPU memory ever kept: none."""
    return 0


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def memory_stats(device=None):
    """Figures of the GPU's allocator: none."""
    return collections.OrderedDict()


def memory_snapshot(mempool_id=None):
    """The blocks of the GPU's allocator: none."""
    return []


def get_sync_debug_mode():
    """How a wait for the GPU is reported: not at all."""
    return 0


# -- what happens to all GPUs, of which there are none -----------------------------------


def manual_seed(seed):
    """Seed the current GPU's generator; without a GPU, nothing happens."""


def manual_seed_all(seed):
    """Seed every GPU's generator; without a GPU, nothing happens."""


def seed():
    """Seed the current GPU's generator at random; without a GPU, nothing happens."""


def seed_all():
    """Seed every GPU's generator at random; without a GPU, nothing happens."""


def set_rng_state_all(new_states):
    """Set the states of all GPUs' generators; without a GPU, nothing happens."""


def empty_cache():
    """Release cached GPU memory; without a GPU, nothing happens."""


def init():
    """Set up the driver.

    Raises:
        AssertionError: there is none.
    """
    _refuse()


# -- what needs a GPU --------------------------------------------------------------------


def _needs_one(name, text):
    def function(*args, **kwargs):
        _refuse()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\nRaises:\n    AssertionError: there is no GPU."
    globals()[name] = function


for _name, _text in {
    "synchronize": "Wait for the GPU.",
    "current_device": "The index of the current GPU.",
    "get_device_name": "The name of a GPU.",
    "get_device_capability": "The architecture of a GPU.",
    "get_device_properties": "What a GPU is like.",
    "get_rng_state": "The state of a GPU's generator.",
    "set_rng_state": "Sets the state of a GPU's generator.",
    "initial_seed": "The seed of the current GPU's generator.",
    "current_stream": "The queue that calls go to.",
    "default_stream": "The queue that a GPU begins with.",
    "set_stream": "Chooses the queue that calls go to.",
    "mem_get_info": "Free and total memory of a GPU.",
    "memory_summary": "A table of the GPU's allocator.",
    "reset_peak_memory_stats": "Begins counting the highest memory use anew.",
    "reset_accumulated_memory_stats": "Begins counting allocations anew.",
    "reset_max_memory_allocated": "Begins counting the highest memory use anew.",
    "reset_max_memory_cached": "Begins counting the highest memory kept anew.",
    "set_per_process_memory_fraction": "Limits the memory that a process may use.",
    "get_per_process_memory_fraction": "The limit of the memory that a process may use.",
    "ipc_collect": "Releases memory shared with other processes.",
    "can_device_access_peer": "Whether a GPU reads another's memory.",
    "cudart": "CUDA's own library.",
    "current_blas_handle": "The handle of the GPU's BLAS.",
    "utilization": "How busy a GPU is.",
    "temperature": "How hot a GPU is.",
    "power_draw": "What a GPU draws.",
    "clock_rate": "How fast a GPU's clock is.",
    "memory_usage": "How busy a GPU's memory is.",
    "is_current_stream_capturing": "Whether calls are being recorded.",
    "graph_pool_handle": "A pool for recorded calls.",
    "make_graphed_callables": "Functions recorded for a GPU.",
    "list_gpu_processes": "The processes on a GPU.",
    "set_sync_debug_mode": "Chooses how a wait for the GPU is reported.",
    "caching_allocator_alloc": "Memory of a GPU.",
    "caching_allocator_delete": "Gives memory of a GPU back.",
}.items():
    _needs_one(_name, _text)


def set_device(device):
    """Chooses the current GPU; a negative index chooses none.

    Raises:
        AssertionError: there is no GPU.
    """
    from rushlight._utils import _get_device_index

    if _get_device_index(device, optional=True) >= 0:
        _refuse()


class device:
    """Makes a GPU the current one for a block: there is none, so that nothing changes."""

    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        return None

    def __exit__(self, *raised):
        return False


class device_of(device):
    """Makes a tensor's GPU the current one for a block; nothing for other tensors."""

    def __init__(self, obj):
        super().__init__(-1)


class _Refused:
    """A thing on a GPU: making one raises."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"{naming.package}.cuda.{type(self).__name__} requires CUDA support: "
            "Rushlight has no CUDA backend yet"
        )


class Stream(_Refused):
    """A queue of a GPU's."""


class ExternalStream(Stream):
    """A queue of a GPU's that another library made."""


class Event(_Refused):
    """A moment in a queue of a GPU's."""


class CUDAGraph(_Refused):
    """Recorded calls."""


class MemPool(_Refused):
    """Memory apart from the rest."""


class CUDAPluggableAllocator(_Refused):
    """An allocator from outside."""


class graph(_Refused):
    """Records the calls of a block."""


class StreamContext:
    """Sends the calls of a block to a queue; without one, nothing changes."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *raised):
        return False


def stream(stream):
    """A block whose calls go to a queue; ``None`` changes nothing."""
    return StreamContext(stream)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """A block whose memory comes from a pool.

    Raises:
        AssertionError: there is no GPU.
    """
    _refuse()
    yield


class _TypeOfGPU(type):
    """Old names of tensors on a GPU: nothing is one, and none can be made."""

    def __instancecheck__(cls, value):
        return False

    def __call__(cls, *args, **kwargs):
        raise TypeError(
            f"type {naming.package}.cuda.{cls.__name__} not available. Torch not "
            "compiled with CUDA enabled."
        )

    def __repr__(cls):
        return f"<class '{naming.package}.cuda.{cls.__name__}'>"


for _name in _TYPES:
    for _kind in ("Tensor", "Storage"):
        globals()[_name + _kind] = _TypeOfGPU(
            _name + _kind, (), {"__module__": __name__, "__doc__": "On a GPU."}
        )


def __getattr__(name):
    if name in _MODULES:
        return import_module(f"rushlight.cuda.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

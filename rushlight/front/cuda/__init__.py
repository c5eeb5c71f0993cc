"""NVIDIA GPUs: which there are, and what a thread uses of them.

`streams`, `memory` and `graphs` hold the rest; their names are found here too.
Everything stands on `rushlight.runtime.cuda`, which loads NVIDIA's driver when the
first question needs it. Where there is no driver, questions get the answers of a PyTorch
that was built without CUDA, and what needs a device raises.
"""

from __future__ import annotations

from importlib import import_module

from rushlight.runtime.cuda import contexts, driver
from rushlight.core import naming
from rushlight.core.errors import AcceleratorError, OutOfMemoryError
from rushlight.core.state import tell_of_reading
from rushlight.cuda import _where

has_half = True
has_magma = False
_TYPES = (
    *("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long"),
    *("Short", "ComplexDouble", "ComplexFloat"),
)
# Names that other modules of this package define, imported when they are asked for
_ELSEWHERE = {
    "streams": (
        *("Stream", "ExternalStream", "Event", "StreamContext", "stream"),
        *("current_stream", "default_stream", "set_stream", "get_stream_from_external"),
    ),
    "graphs": (
        *("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"),
        "make_graphed_callables",
    ),
    "memory": (
        *("CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc"),
        *("caching_allocator_delete", "empty_cache", "get_allocator_backend"),
        *("get_per_process_memory_fraction", "host_memory_stats"),
        *("host_memory_stats_as_nested_dict", "list_gpu_processes"),
        *("max_memory_allocated", "max_memory_cached", "max_memory_reserved"),
        *("mem_get_info", "memory_allocated", "memory_cached", "memory_reserved"),
        *("memory_snapshot", "memory_stats", "memory_stats_as_nested_dict"),
        *("memory_summary", "reset_accumulated_memory_stats"),
        *("reset_max_memory_allocated", "reset_max_memory_cached"),
        *("reset_peak_memory_stats", "set_per_process_memory_fraction"),
        "use_mem_pool",
    ),
    "random": (
        *("default_generators", "get_rng_state", "get_rng_state_all", "initial_seed"),
        *("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"),
        "set_rng_state_all",
    ),
}
_HOMES = {name: home for home, names in _ELSEWHERE.items() for name in names}
_MODULES = ("amp", "graphs", "memory", "nvtx", "random", "streams")
CudaError = AcceleratorError


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the driver; none waits."""


# -- which there are ------------------------------------------------------------------


def is_available():
    """Whether tensors can live on a GPU.

    The backend is not whole yet: it is used where ``RUSHLIGHT_CUDA=1`` is set and NVIDIA's
    driver finds a card.

    >>> is_available()
    False
    """
    import os

    return os.environ.get("RUSHLIGHT_CUDA") == "1" and device_count() > 0


def device_count():
    """The number of usable GPUs."""
    return contexts.count() if _where.ready() else 0


def is_initialized():
    """Whether the driver has been set up."""
    return driver.loaded()


def init():
    """Set up the driver, which the first use of a GPU does by itself.

    Raises:
        AssertionError: there is none.
    """
    _where.need()


def get_device_properties(device=None):
    """What a GPU is like: ``name``, ``total_memory``, ``multi_processor_count``, ….

    Args:
        device: a GPU; the current one by default.
    """
    return _where.card_of(device).properties


def get_device_name(device=None):
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """The version of a GPU's instruction set, as two numbers."""
    told = get_device_properties(device)
    return told.major, told.minor


def is_bf16_supported(including_emulation=True):
    """Whether a GPU computes in bfloat16."""
    if not _where.ready():
        return False
    return including_emulation or get_device_capability() >= (8, 0)


def is_tf32_supported():
    """Whether a GPU computes in TF32."""
    return _where.ready() and get_device_capability() >= (8, 0)


def get_arch_list():
    """The architectures that kernels were built for ahead: none, they are built for the
    card at hand."""
    return []


def get_gencode_flags():
    """The compiler's flags for those architectures: none."""
    return ""


def can_device_access_peer(device, peer_device):
    """Whether a GPU reads another's memory by itself."""
    first, other = _where.card_of(device), _where.card_of(peer_device)
    if first is other:
        return False
    return first.reaches(other)


# -- the current one --------------------------------------------------------------------


def current_device():
    """The index of the GPU that this thread uses."""
    _where.need()
    return contexts.current_index()


def set_device(device):
    """Chooses the GPU that this thread uses; a negative index chooses none.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: none has that number.
    """
    index = _where.index_of(device)
    if index >= 0:
        _where.need()
        contexts.use(index)


class device:
    """Makes a GPU the one that this thread uses, for a block; a negative index none."""

    def __init__(self, device):
        self.idx = _where.index_of(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0 and _where.ready():
            self.prev_idx = contexts.use(self.idx)

    def __exit__(self, *raised):
        if self.prev_idx >= 0:
            contexts.use(self.prev_idx)
        return False


class device_of(device):
    """Makes a tensor's GPU the one that is used, for a block; others change nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def synchronize(device=None):
    """Waits until everything that was asked of a GPU is done."""
    tell_of_reading(None)
    card = _where.card_of(device)
    card.synchronize()
    card.look()


def ipc_collect():
    """Releases memory that other processes had a share in: none is shared."""
    _where.need()


def get_sync_debug_mode():
    """How a wait for the GPU is reported: 0 not, 1 by a warning, 2 by an error."""
    return _debug[0]


def set_sync_debug_mode(debug_mode):
    """Chooses how a wait for the GPU is reported.

    Args:
        debug_mode: "default", "warn", "error", or their numbers 0, 1, 2.
    """
    _where.need()
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = _DEBUG.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
        )
    _debug[0] = debug_mode


_DEBUG = ("default", "warn", "error")
_debug = [0]


# -- what NVIDIA's management library knows ----------------------------------------------


def _needs_management(name, text):
    def function(device=None):
        raise ModuleNotFoundError(
            f"nvidia-ml-py does not seem to be installed or it can't be imported: "
            f"{name} asks it"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\nRaises:\n    ModuleNotFoundError: it is not asked."
    globals()[name] = function


for _name, _text in {
    "utilization": "How busy a GPU is.",
    "temperature": "How hot a GPU is.",
    "power_draw": "What a GPU draws.",
    "clock_rate": "How fast a GPU's clock is.",
    "memory_usage": "How busy a GPU's memory is.",
}.items():
    _needs_management(_name, _text)


def cudart():
    """CUDA's runtime library: the driver is used without it.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: there is one.
    """
    _where.need()
    raise RuntimeError("cudart: the driver is used, and no runtime library")


def current_blas_handle():
    """The handle of the GPU's BLAS.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: no library is loaded.
    """
    _where.need()
    raise RuntimeError("current_blas_handle: no BLAS library is loaded")


# -- old names ------------------------------------------------------------------------------


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
    if name in _HOMES:
        found = getattr(import_module(f"rushlight.cuda.{_HOMES[name]}"), name)
        if name != "default_generators":
            globals()[name] = found
        return found
    if name in _MODULES:
        return import_module(f"rushlight.cuda.{name}")
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_HOMES, *_MODULES})

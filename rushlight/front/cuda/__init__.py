"""NVIDIA GPUs: which there are, and what a thread uses of them.

`streams`, `memory` and `graphs` hold the rest; their names are found here too.
Everything stands on `rushlight.runtime.cuda`, which loads NVIDIA's driver when the
first question needs it. Where there is no driver, questions get the answers of a PyTorch
that was built without CUDA, and what needs a device raises.
"""

from importlib import import_module

from rushlight.runtime.cuda import contexts, driver
from rushlight.core import naming
from rushlight.core.errors import AcceleratorError, OutOfMemoryError
from rushlight.core.state import notify_read as _tell_of_reading
from rushlight.cuda import _where

has_half = True
has_magma = False
_TYPES = (
    *("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long"),
    *("Short", "ComplexDouble", "ComplexFloat"),
)
# Names that other modules of this package define, imported when they are asked for
_HOME_OF = {
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
_HOMES = {name: home for home, names in _HOME_OF.items() for name in names}
_MODULES = ("amp", "graphs", "memory", "nccl", "nvtx", "profiler", "random", "streams")
CudaError = AcceleratorError


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the driver; none waits."""


# -- which there are ------------------------------------------------------------------


def is_available():
    """Whether tensors can live on a GPU.

    The backend is not whole yet: it is used where ``RUSHLIGHT_CUDA=1`` is set and NVIDIA's
    driver finds a device.

    >>> is_available()
    False
    """
    import os

    return os.environ.get("RUSHLIGHT_CUDA") == "1" and device_count() > 0


def device_count():
    """The number of usable GPUs.

    Returns:
        an integer; 0 where there is no driver, or where the process may see no GPU.

    >>> torch.cuda.device_count() >= 0
    True
    """
    return contexts.count() if _where.ready() else 0


def is_initialized():
    """Whether the driver has been set up.

    >>> isinstance(torch.cuda.is_initialized(), bool)
    True
    """
    return driver.loaded()


def init():
    """Set up the driver, which the first use of a GPU does by itself.

    Raises:
        AssertionError: there is none.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.init()
    """
    _where.need()


_lazy_init = init


def _lazy_call(callable, **kwargs):
    """Calls a function now, or when the driver is set up: never, where there is no GPU.

    Args:
        callable: the function, of no arguments.
        kwargs: accepted; what seeds a generator is called like the rest.
    """
    if _where.ready():
        callable()


def _is_in_bad_fork():
    """Whether this process was forked from one that had started the driver."""
    return driver.in_bad_fork()


def get_device_properties(device=None):
    """What a GPU is like: ``name``, ``total_memory``, ``multi_processor_count``, ….

    Args:
        device: a GPU; the current one by default.

    Returns:
        an object with ``name``, ``major``, ``minor``, ``total_memory`` in bytes,
        ``multi_processor_count`` and others.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_properties(0).total_memory > 0
    """
    return _where.context_for(device).properties


def get_device_name(device=None):
    """The name of a GPU.

    Args:
        device: a GPU, as a device or a number; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert isinstance(torch.cuda.get_device_name(), str)
    """
    return get_device_properties(device).name


def get_device_capability(device=None):
    """The version of a GPU's instruction set, as two numbers.

    Args:
        device: a GPU, as a device or a number; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_capability() >= (5, 0)
    """
    found_properties = get_device_properties(device)
    return found_properties.major, found_properties.minor


def is_bf16_supported(including_emulation=True):
    """Whether a GPU computes in bfloat16.

    Args:
        including_emulation: whether a GPU that computes it in float32 counts.

    >>> isinstance(torch.cuda.is_bf16_supported(), bool)
    True
    """
    if not _where.ready():
        return False
    return including_emulation or get_device_capability() >= (8, 0)


def is_tf32_supported():
    """Whether a GPU computes in TF32.

    >>> isinstance(torch.cuda.is_tf32_supported(), bool)
    True
    """
    return _where.ready() and get_device_capability() >= (8, 0)


def get_arch_list():
    """The architectures that kernels were built for ahead: none, they are built for the
    device at hand.

    >>> torch.cuda.get_arch_list()
    []
    """
    return []


def get_gencode_flags():
    """The compiler's flags for those architectures: none.

    >>> torch.cuda.get_gencode_flags()
    ''
    """
    return ""


def can_device_access_peer(device, peer_device):
    """Whether a GPU reads another's memory by itself.

    Args:
        device: the GPU that reads.
        peer_device: the GPU whose memory it reads.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.device_count() > 1:
    ...     assert torch.cuda.can_device_access_peer(0, 1) in (True, False)
    """
    first, other = _where.context_for(device), _where.context_for(peer_device)
    if first is other:
        return False
    return first.reaches(other)


# -- the current one --------------------------------------------------------------------


def current_device():
    """The index of the GPU that this thread uses.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_device() == 0
    """
    _where.need()
    return contexts.current_index()


def set_device(device):
    """Chooses the GPU that this thread uses; a negative index chooses none.

    Args:
        device: a GPU, as a device or a number.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: none has that number.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_device(0)
    """
    index = _where.index_of(device)
    if index >= 0:
        _where.need()
        contexts.use(index)


class device:
    """Makes a GPU the one that this thread uses, for a block; a negative index none.

    Args:
        device: a GPU, as a device or a number.

    >>> with torch.cuda.device(-1):  # no GPU: nothing changes
    ...     pass
    """

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
    """Makes a tensor's GPU the one that is used, for a block; others change nothing.

    Args:
        obj: the tensor, or a storage.

    >>> with torch.cuda.device_of(torch.ones(2)):
    ...     pass
    """

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def synchronize(device=None):
    """Waits until everything that was asked of a GPU is done.

    Args:
        device: a GPU; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.synchronize()
    """
    _tell_of_reading(None)
    _where.context_for(device).wait()


def ipc_collect():
    """Releases memory that other processes had a share in: none is shared.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.ipc_collect()
    """
    _where.need()


def get_sync_debug_mode():
    """How a wait for the GPU is reported: 0 not, 1 by a warning, 2 by an error.

    >>> torch.cuda.get_sync_debug_mode()
    0
    """
    return contexts.sync_debug_mode


def set_sync_debug_mode(debug_mode):
    """Chooses how a wait for the GPU is reported.

    Args:
        debug_mode: "default", "warn", "error", or their numbers 0, 1, 2.

    Raises:
        RuntimeError: ``debug_mode`` is none of these.
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_sync_debug_mode("default")
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
    contexts.sync_debug_mode = debug_mode


_DEBUG = ("default", "warn", "error")


# -- what NVIDIA's management library knows ----------------------------------------------


_UNASKED = """{}

Args:
    device: a GPU; the current one by default.

Raises:
    ModuleNotFoundError: always; the library is not asked.

>>> import pytest
>>> with pytest.raises(ModuleNotFoundError):
...     torch.cuda.{}()
"""


def _needs_management(name, text):
    def function(device=None):
        raise ModuleNotFoundError(
            f"nvidia-ml-py does not seem to be installed or it can't be imported: "
            f"{name} asks it"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _UNASKED.format(text, name)
    globals()[name] = function


for _name, _text in {
    "utilization": "How busy a GPU is.",
    "temperature": "How hot a GPU is.",
    "power_draw": "What a GPU draws.",
    "clock_rate": "How fast a GPU's clock is.",
    "memory_usage": "How busy a GPU's memory is.",
    "device_memory_used": "The bytes of a GPU's memory that are in use.",
}.items():
    _needs_management(_name, _text)


def cudart():
    """CUDA's runtime library: the driver is used without it.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: there is one.

    >>> import pytest
    >>> with pytest.raises((AssertionError, RuntimeError)):
    ...     torch.cuda.cudart()
    """
    _where.need()
    raise RuntimeError("cudart: the driver is used, and no runtime library")


def current_blas_handle():
    """The handle of the GPU's BLAS.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: no library is loaded.

    >>> import pytest
    >>> with pytest.raises((AssertionError, RuntimeError)):
    ...     torch.cuda.current_blas_handle()
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


def _sleep(cycles):
    """Would keep a GPU's queue busy for some of its cycles.

    Raises:
        AttributeError: there is no GPU, as in a PyTorch that was built without.
        NotImplementedError: there is one, which has no kernel that waits.
    """
    _where.need_binding("_cuda_sleep")
    raise NotImplementedError("torch.cuda._sleep: no kernel here waits")


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

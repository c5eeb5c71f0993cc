"""The memory of GPUs: what is taken, kept, and given back."""

import contextlib
import pickle

from rushlight.core.docstrings import describe_arguments
from rushlight.core.warning import warn
from rushlight.cuda import _where
from rushlight.cuda.streams import _refuse
from rushlight.runtime.cuda import contexts, graphs, pinned_memory
from rushlight.runtime.cuda.memory_stats import FIGURES, flat

RULE = "=" * 75
THIN = "-" * 75
ROWS = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "GPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "GPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
POOLS = (
    ("large_pool", "      from large pool"),
    ("small_pool", "      from small pool"),
)
PREFIXES = ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB")
OVERSIZE = (
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize GPU segments"),
)


def _statistics(device):
    """The figures of a device; None where nothing was ever asked of one."""
    if not _where.ready():
        return None
    return _where.context_for(device).allocator.statistics


def memory_stats_as_nested_dict(device=None):
    """The allocator's figures, as dictionaries in dictionaries; empty without a GPU.

    >>> isinstance(torch.cuda.memory_stats_as_nested_dict(), dict)
    True
    """
    figures = _statistics(device)
    return {} if figures is None else figures.nested()


def memory_stats(device=None):
    """The allocator's figures by name, such as ``allocated_bytes.all.peak``.

    >>> memory_stats().get("allocated_bytes.all.current", 0)
    0
    """
    return flat(memory_stats_as_nested_dict(device))


def _current(name, device):
    figures = _statistics(device)
    return 0 if figures is None else figures.current(name)


def _peak(name, device):
    figures = _statistics(device)
    return 0 if figures is None else figures.peak(name)


def memory_allocated(device=None):
    """The bytes that tensors of a GPU take.

    Returns:
        bytes; 0 without a GPU.

    >>> torch.cuda.memory_allocated() >= 0
    True
    """
    return _current("allocated_bytes", device)


def max_memory_allocated(device=None):
    """The most bytes that tensors of a GPU ever took.

    Returns:
        bytes since the process began, or since `reset_peak_memory_stats`.

    >>> torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    True
    """
    return _peak("allocated_bytes", device)


def memory_reserved(device=None):
    """The bytes of a GPU that are kept, taken or free.

    Returns:
        bytes; 0 without a GPU.

    >>> torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    True
    """
    return _current("reserved_bytes", device)


def max_memory_reserved(device=None):
    """The most bytes of a GPU that were ever kept.

    Returns:
        bytes since the process began, or since `reset_peak_memory_stats`.

    >>> torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
    True
    """
    return _peak("reserved_bytes", device)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device=None):
    """Begins counting the highest memory use anew.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.reset_peak_memory_stats()
    """
    _where.context_for(device).allocator.statistics.forget_peaks()


def reset_accumulated_memory_stats(device=None):
    """Begins counting what is taken and given back anew.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.reset_accumulated_memory_stats()
    """
    _where.context_for(device).allocator.statistics.forget_sums()


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def empty_cache():
    """Gives memory that no tensor uses back to the driver; without a GPU, nothing.

    >>> torch.cuda.empty_cache()
    """
    if _where.ready():
        for ctx in contexts.opened():
            ctx.allocator.release_idle()


def mem_get_info(device=None):
    """Free and total bytes of a GPU, as the driver counts them.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     free, total = torch.cuda.mem_get_info()
    ...     assert 0 < free <= total
    """
    return _where.context_for(device).memory()


def set_per_process_memory_fraction(fraction, device=None):
    """Limits this process's tensors to a share of a GPU's memory.

    Args:
        fraction: from 0 to 1.

    Raises:
        TypeError: ``fraction`` is no float.
        ValueError: it is outside of 0 to 1.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_per_process_memory_fraction(1.0)
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    ctx = _where.context_for(device)
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    ctx.allocator.cap(fraction)


def get_per_process_memory_fraction(device=None):
    """The share of a GPU's memory that this process's tensors may take.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert 0 < torch.cuda.get_per_process_memory_fraction() <= 1
    """
    return _where.context_for(device).allocator.share


def memory_snapshot(mempool_id=None, include_traces=True):
    """What lies in every segment of every GPU's memory.

    Args:
        mempool_id: a pool's ``id``, for its segments alone; all by default.
        include_traces: accepted; there are no traces.

    Returns:
        a list with a dictionary for each segment.

    >>> isinstance(torch.cuda.memory_snapshot(), list)
    True
    """
    found = [part for ctx in contexts.opened() for part in ctx.allocator.snapshot()]
    if mempool_id is None:
        return found
    return [part for part in found if part["segment_pool_id"] == tuple(mempool_id)]


def memory_summary(device=None, abbreviated=False):
    """A table of the allocator's figures.

    Args:
        abbreviated: leaves the rows of the two kinds of pools out.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert "Allocated memory" in torch.cuda.memory_summary()
    """
    ctx = _where.context_for(device)
    stats = ctx.allocator.statistics.nested()
    lines = [
        RULE,
        f" {'':16} PyTorch CUDA memory summary, device ID {ctx.index:<17d} ",
        THIN,
        f"  {'':9} CUDA OOMs: {stats['num_ooms']:<12d} | {'':6} cudaMalloc retries: "
        f"{stats['num_alloc_retries']:<8d}  ",
        RULE,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for metric, title, in_bytes in ROWS:
        lines.append(THIN)
        shown = [("all", title), *([] if abbreviated else POOLS)]
        first = stats[metric]["all"]
        for pool, name in shown:
            lines.append(_row(name, stats[metric][pool], first, in_bytes))
    for metric, title in OVERSIZE:
        lines += [THIN, _row(title, stats[metric], stats[metric], False)]
    lines.append(RULE)
    return "|" + "|\n|".join(lines) + "|\n"


def _row(name, figures, scale, in_bytes):
    """One line: what is, was at most, and was ever taken and given back."""
    cells = [_shown(figures[key], scale[key], in_bytes) for key in FIGURES]
    return f" {name:<21} | " + " | ".join(cells) + " "


def _shown(value, scale, in_bytes):
    """A number with the prefix that suits the one at the head of its rows."""
    step, most, width = (1024, 768 * 1024, 6) if in_bytes else (1000, 750 * 1000, 7)
    prefixes = PREFIXES if in_bytes else (" ", "K", "M")
    at = 0
    while scale >= most and at + 1 < len(prefixes):
        value, scale, at = value // step, scale / step, at + 1
    return f"{value:{width}d} {prefixes[at]}" + ("" if in_bytes else " ")


def list_gpu_processes(device=None):
    """The processes that use a GPU, as text; the driver's bindings do not tell.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert "pynvml" in torch.cuda.list_gpu_processes()
    """
    _where.need()
    return "pynvml module not found, please install nvidia-ml-py"


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of ``size`` bytes of a GPU's memory, for other libraries.

    Args:
        size: bytes.
        stream: the queue that uses them, or the driver's pointer to it; the current one by
            default.

    Returns:
        an address, to be given back to `caching_allocator_delete`.

    Raises:
        AssertionError: there is no GPU.
        ValueError: ``size`` is no number of bytes.

    >>> if torch.cuda.is_available():
    ...     place = torch.cuda.caching_allocator_alloc(1024)
    ...     torch.cuda.caching_allocator_delete(place)
    """
    ctx = _where.context_for(device)
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"caching_allocator_alloc: {size!r} is no number of bytes")
    queue = contexts.current_stream(ctx)
    handle = queue.handle if stream is None else getattr(stream, "cuda_stream", stream)
    return ctx.allocator.allocate(size, handle)


def caching_allocator_delete(mem_ptr):
    """Gives back what `caching_allocator_alloc` gave.

    Args:
        mem_ptr: the address.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: nothing was given at that address.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(16))
    """
    _where.need()
    for ctx in contexts.opened():
        if mem_ptr in ctx.allocator.blocks:
            ctx.allocator.free(mem_ptr)
            return
    raise RuntimeError(f"Invalid device pointer: {mem_ptr:#x}")


def get_allocator_backend():
    """The kind of allocator.

    >>> torch.cuda.get_allocator_backend()
    'native'
    """
    return "native"


def host_memory_stats():
    """Figures of locked host memory.

    >>> isinstance(torch.cuda.host_memory_stats(), dict)
    True
    """
    return flat(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict():
    """Figures of locked host memory, as dictionaries in dictionaries.

    >>> isinstance(torch.cuda.memory.host_memory_stats_as_nested_dict(), dict)
    True
    """
    return pinned_memory.figures()


class MemPool:
    """Memory apart from the rest: what a block asks for with `use_mem_pool`.

    Args:
        allocator: None; another allocator is not taken.
        use_on_oom: accepted; the pool is used inside `use_mem_pool` alone.
        no_split: accepted; blocks are split as elsewhere.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.MemPool()
    ...     with torch.cuda.use_mem_pool(pool):
    ...         x = torch.zeros(4, device="cuda")
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        if not _where.ready():
            _refuse(self)
        if allocator is not None:
            raise RuntimeError(
                "MemPool: memory comes from the driver; another allocator is not taken"
            )
        self.id = graphs.pool_name()
        self._ctxs: set = set()

    def use_count(self):
        """How many hold it: this object, and blocks that are using it."""
        inside = sum(ctx.allocator.holders.get(self.id, 0) for ctx in self._ctxs)
        return max(inside, 1)

    def snapshot(self, include_traces=True):
        """What lies in its segments."""
        return memory_snapshot(self.id)

    def __del__(self):
        for ctx in getattr(self, "_ctxs", ()):
            ctx.allocator.let_go(self.id)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """A block of this thread whose memory comes from a `MemPool`.

    Args:
        pool: the `MemPool`.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    ...         x = torch.zeros(4, device="cuda")
    """
    import threading

    ctx = _where.context_for(device)
    me = threading.get_ident()
    if ctx not in pool._ctxs:
        pool._ctxs.add(ctx)
        ctx.allocator.hold(pool.id)
    with ctx.allocator.route(pool.id, lambda stream: threading.get_ident() == me):
        yield


def _record_memory_history(enabled="all", *args, **options):
    """Would keep who asks for memory: segments are told by ``_snapshot()``, events not.

    Args:
        enabled: ``None`` to stop, ``"state"`` or ``"all"``.
        args, options: what PyTorch keeps of each event.

    Raises:
        AttributeError: there is no GPU, as in a PyTorch that was built without.
        RuntimeError: another word.
    """
    _where.need_binding("_cuda_record_memory_history")
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if enabled:
        warn("_record_memory_history: events are not kept, only what is allocated")


def _snapshot(device=None, augment_with_fx_traces=False):
    """Segments of every GPU's memory; what happened before is not kept.

    >>> sorted(_snapshot()), _snapshot()["device_traces"]
    (['device_traces', 'segments'], [])
    """
    traces = [[] for _ in contexts.opened()]
    return {"segments": memory_snapshot(), "device_traces": traces}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes ``_snapshot()`` to a file that PyTorch's viewer of memory reads."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


class CUDAPluggableAllocator:
    """An allocator from outside: not taken.

    Raises:
        RuntimeError: always.

    >>> import pytest
    >>> with pytest.raises(RuntimeError, match="can not be replaced"):
    ...     torch.cuda.memory.CUDAPluggableAllocator("alloc.so", "alloc", "free")
    """

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"torch.cuda.{type(self).__name__} requires CUDA support: Rushlight's "
            "allocator can not be replaced"
        )


describe_arguments(globals(), device="a GPU; the current one by default.")

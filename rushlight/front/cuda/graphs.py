"""Work of a GPU that is written down once and launched as a whole."""

import rushlight as rl
from rushlight.cuda import _where
from rushlight.cuda._graphed import make, refuse_unfit
from rushlight.cuda._graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)
from rushlight.cuda.streams import _refuse

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]


def make_graphed_callables(
    callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None
):
    """Functions or modules whose forward and backward passes are launched as graphs.

    Args:
        callables: one, or a tuple of them.
        sample_args: the tensors of a call, or a tuple of them for each.
        num_warmup_iters: how often each runs before it is written down.
        allow_unused_input: whether an input may have no gradient.
        pool: the name of memory to use.

    Raises:
        AssertionError: a module has hooks or buffers that learn, or an argument is no
            tensor.
        RuntimeError: there is no GPU, or `autocast` keeps what it has converted.

    >>> if torch.cuda.is_available():
    ...     net, x = torch.nn.Linear(2, 2).cuda(), torch.ones(3, 2, device="cuda")
    ...     fast = torch.cuda.make_graphed_callables(net, (x,))
    """
    if not _where.ready():
        _refuse(CUDAGraph.__new__(CUDAGraph))
    alone = not isinstance(callables, tuple)
    functions = (callables,) if alone else callables
    samples = (sample_args,) if alone else sample_args
    if rl.is_autocast_enabled() and rl.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    for function, args in zip(functions, samples):
        refuse_unfit(function, args)
    made = make(functions, samples, num_warmup_iters, allow_unused_input, pool)
    return made[0] if alone else tuple(made)

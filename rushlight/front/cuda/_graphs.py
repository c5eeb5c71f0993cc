"""Recording of a GPU's work, and the graphs that launch it as a whole."""

import gc

from rushlight.cuda import _where
from rushlight.cuda.streams import Stream, StreamContext, _refuse, current_stream
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda import graphs as written


def is_current_stream_capturing():
    """Whether the current queue's work is written down instead of done.

    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return _where.ready() and current_stream().is_capturing()


def graph_pool_handle():
    """A name for memory that several graphs share.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.graph_pool_handle()
    """
    _where.need()
    return written.pool_name()


class CUDAGraph:
    """Work that was written down, and the memory that it uses.

    Args:
        keep_graph: keeps what was written down, so that it can be looked at.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     x, work = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(work):
    ...         y = x * 2
    ...     work.replay()
    """

    def __init__(self, keep_graph=False):
        if not _where.ready():
            _refuse(self)
        self._graph = written.Graph(keep_graph)

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Writes the current queue's work down from now on.

        Args:
            pool: the name of memory to use, from `graph_pool_handle` or another
                graph's `pool`.
            capture_error_mode: who may not do what cannot be written down: "global"
                any thread, "thread_local" this one, "relaxed" nobody.
        """
        queue = contexts.current_stream(_where.context_for())
        self._graph.begin(queue, pool, capture_error_mode)

    def capture_end(self):
        """Ends it; the work can be launched from now on."""
        self._graph.end()

    def instantiate(self):
        """Makes it ready to launch, where ``keep_graph`` put that off."""
        self._graph.instantiate()

    def replay(self):
        """Launches it on the current queue."""
        self._graph.replay()

    def reset(self):
        """Lets go of the work and its memory."""
        self._graph.reset()

    def pool(self):
        """The name of its memory."""
        return self._graph.name

    def raw_cuda_graph(self):
        """The driver's pointer to what was written down, as a number."""
        if not self._graph.keep:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was "
                "initialized with keep_graph=true"
            )
        if self._graph.graph is None:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance until capture_end() has "
                "been called"
            )
        return int(self._graph.graph)


class graph:
    """Writes the work of a block down.

    Args:
        cuda_graph: a `CUDAGraph` to keep it.
        pool: the name of memory to use.
        stream: the queue to write down; one for this purpose by default.
        capture_error_mode: as in `CUDAGraph.capture_begin`.
        enable_annotations: accepted; nothing is annotated.
        check_input_liveness: accepted; inputs are not watched.

    >>> if torch.cuda.is_available():
    ...     x, work = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(work):
    ...         y = x + 1
    ...     work.replay()
    """

    default_capture_stream = None

    def __init__(
        self,
        cuda_graph,
        pool=None,
        stream=None,
        capture_error_mode="global",
        enable_annotations=False,
        check_input_liveness=False,
    ):
        if stream is None:
            stream = graph.default_capture_stream
            if stream is None or stream._queue.ctx is not _where.context_for():
                stream = graph.default_capture_stream = Stream()
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = stream
        self.stream_ctx = StreamContext(stream)
        self.capture_error_mode = capture_error_mode

    def __enter__(self):
        ctx = self.capture_stream._queue.ctx
        ctx.synchronize()
        gc.collect()
        ctx.allocator.release_idle()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, *raised):
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*raised)
        return False

"""What tensors on NVIDIA's GPUs ask for: memory, bytes that move, queues, kernels."""

from rushlight.core import device_roles
from rushlight.core.device import Device, register_backend
from rushlight.core.roles import Roles
from rushlight.runtime.cpu.launch import count_launch
from rushlight.runtime.cuda import (
    attention,
    batched_launch,
    block_kernels,
    contexts,
    cublas,
    cudnn,
    driver,
    graphs,
    matmul,
    pinned_memory,
    scan,
    select,
)
from rushlight.runtime.cuda.launch import CompiledBackend
from rushlight.runtime.cuda.streams import Event, Stream

ROLES = Roles("cuda", "rushlight.runtime.cuda")


def context_of(device):
    """The context of a device; the current one where none is named.

    Raises:
        AssertionError: there is no driver.
    """
    if not driver.loaded() and not driver.present():
        refuse()
    return contexts.ctx(device.index)


class CudaMemory(device_roles.Memory):
    """Blocks from an allocator, copies in the order of streams, locked host memory."""

    def allocate(self, n_bytes, device):
        ctx = context_of(device)
        return ctx.allocator.allocate(n_bytes, contexts.current_stream(ctx).handle)

    def free(self, address, n_bytes, device):
        if contexts is None:  # the interpreter ends, and has taken the modules down
            return
        ctx, waiting = contexts.known(device.index), batched_launch.current()
        if waiting is not None:
            waiting.give_back(device, address, n_bytes)
        elif ctx is not None:  # else the program ends, and the driver is gone
            ctx.allocator.free(address)

    def empty_cache(self):
        for ctx in contexts.opened():
            ctx.allocator.release_idle()

    def copy_bytes(self, target, to, source, of, n_bytes, non_blocking=False):
        count_launch()
        waiting = batched_launch.current()
        if waiting is not None and not to.on_host and not of.on_host:
            ctx = context_of(of)
            if ctx is context_of(to):
                waiting.take_copy(ctx, target, source, n_bytes)
                return
        batched_launch.flush()
        if to.on_host or of.on_host:
            ctx = context_of(of if to.on_host else to)
            queue = contexts.current_stream(ctx)
            if not non_blocking:
                ctx.report_wait()
            ctx.call("cuMemcpyAsync", target, source, n_bytes, queue.handle)
            host = target if to.on_host else source
            if not non_blocking:
                ctx.wait(queue) if to.on_host else queue.synchronize()
            elif pinned_memory.block_of(host) is not None:
                pinned_memory.used_by(host, queue)
            elif to.on_host:
                ctx.wait(queue)
            # else the driver has copied what is not locked before it returned
            return
        first, last = context_of(of), context_of(to)
        if first is last:
            queue = contexts.current_stream(first)
            first.call("cuMemcpyAsync", target, source, n_bytes, queue.handle)
            return
        self.copy_between(first, source, last, target, n_bytes)

    def copy_between(self, first, source, last, target, n_bytes):
        """Copies from device to device, in the first one's queue; the other's waits."""
        first.open_to(last)
        queue, other = contexts.current_stream(first), contexts.current_stream(last)
        queue.wait_event(Event(last).record(other))
        first.call(
            *("cuMemcpyPeerAsync", target, last.context, source, first.context),
            *(n_bytes, queue.handle),
        )
        other.wait_event(Event(first).record(queue))

    def pin(self, n_bytes):
        return pinned_memory.allocate(n_bytes)

    def is_pinned(self, address):
        return pinned_memory.block_of(address) is not None

    def unpin(self, address, n_bytes):
        pinned_memory.free(address)


class CudaLaunch(device_roles.Launch):
    """Launches on the current stream of a device, gathered where they may be."""

    def __init__(self, name):
        super().__init__(name)
        self.known: dict = {}  # kernels by source and types

    def compiles(self):
        return True

    def specialize(self, source, *args, **choices):
        # static values are not kept: 1 and 1.0 are two of them, and one key
        if choices or len(args) != 3 or not {str, tuple} >= {type(a) for a in args}:
            return specialized(source, *args, **choices)
        key = source, args
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = specialized(source, *args)
        return found

    def run_elements(self, kernel, device, addresses, sizes, strides, numbers, total):
        ctx, waiting = context_of(device), batched_launch.current()
        if waiting is None or not waiting.take(
            ctx, kernel, addresses, sizes, strides, numbers, total
        ):
            batched_launch.flush()
            kernel.run_elements(ctx, addresses, sizes, strides, numbers, total)

    def faults(self, device):
        ctx = context_of(device)
        graph = graphs.recorder(contexts.current_stream(ctx))
        return ctx.faults if graph is None else graph.faults

    def run_lists(self, kernel, device, operands, lists, counts, numbers, fault=0):
        batched_launch.flush()
        ctx = context_of(device)
        kernel.run_lists(ctx, operands, lists, counts, numbers, fault)

    def together(self):
        return batched_launch.Gathered()

    def run_spans(self, kernel, device, addresses, ints, total, whole=False):
        batched_launch.flush()
        chunk = total if whole else 1
        kernel.run_spans(context_of(device), addresses, ints, total, chunk)

    def run_rows(self, kernel, device, addresses, ints, rows, length, strided, held=()):
        batched_launch.flush()
        ctx = context_of(device)
        kernel.run_rows(ctx, addresses, ints, rows, length, strided, held)


def specialized(source, *args, **choices):
    """What `specialize` of a source gives for devices."""
    from rushlight.codegen.target import NVIDIA, using

    with using(NVIDIA):
        return source.specialize(*args, **choices)


class CudaLibraries(device_roles.Libraries):
    """cuBLAS, cuDNN, and kernels of this package for whole operators."""

    def run_scan(self, source, kinds, operands, outer, size, inner):
        batched_launch.flush()
        ctx = context_of(operands[0].device)
        return scan.run(ctx, source, kinds, operands, outer, size, inner)

    def run_selection(self, way, operands, extents, rank, descending, skip):
        rows, size, parts = extents
        if not select.takes(operands[2].dtype.name, size):
            return False
        batched_launch.flush()
        ctx = context_of(operands[0].device)
        given = rows, size, parts, rank, descending, skip
        return select.run(ctx, way, operands, *given)

    def run_blocks(self, make, kinds, operands, ints, blocks, threads):
        batched_launch.flush()
        context = context_of(operands[0].device)
        block_kernels.run(context, make, kinds, operands, ints, blocks, threads)

    def has_separate_sums(self):
        return True

    def run_product(
        self, device, element, compute, sizes, operands, scales, batch, result=None,
        activation=None,
    ):  # fmt: skip
        batched_launch.flush()
        args = context_of(device), element, compute, result or compute, sizes, operands
        args = *args, scales, batch
        if cublas.run(*args, activation):
            return True
        matmul.run(*args)
        return activation is None

    def run_scaled_product(
        self, device, elements, result, sizes, operands, scales, fast
    ):
        batched_launch.flush()
        ctx = context_of(device)
        return cublas.run_scaled(ctx, elements, result, sizes, operands, scales, fast)

    def attends(self, device, dtype, depth, width, masked, dropout=False):
        sizes = depth, width, masked, dropout
        return attention.takes(context_of(device), dtype.name, *sizes)

    def run_attention(
        self, results, operands, log_mass, is_causal, scale, dropout=None
    ):
        batched_launch.flush()
        ctx = context_of(results.device)
        attention.run(ctx, results, operands, log_mass, is_causal, scale, dropout)

    def run_attention_gradients(
        self, results, grad, out, operands, log_mass, is_causal, scale, dropout=None
    ):
        batched_launch.flush()
        ctx = context_of(grad.device)
        given = results, grad, out, operands, log_mass, is_causal, scale, dropout
        return attention.run_gradients(ctx, *given)

    def convolves(self, dtype):
        return cudnn.takes(dtype.name)

    def run_convolution(
        self, kind, result, first, second, vector, last, stride, padding, dilation
    ):
        batched_launch.flush()
        return cudnn.run(
            *(context_of(result.device), kind, result, first, second, vector, last),
            *(stride, padding, dilation),
        )


class CudaGraphs(device_roles.Graphs):
    """Work that is captured, and launched as a CUDA graph."""

    def graph(self, device):
        return graphs.Written(context_of(device))

    def recorder(self, device):
        return graphs.recorder(contexts.current_stream(context_of(device)))

    def is_writing(self, device):
        return context_of(device).allocator.capturing()


class CudaStreams(device_roles.Streams):
    """Streams of the driver, and events."""

    def synchronize(self, device):
        batched_launch.flush()
        context_of(device).wait()

    def order(self, device, handle):
        current = self.current_stream(device)
        if handle != current.handle:
            Stream(current.ctx, handle).wait_stream(current)

    def stream(self, device, priority=0):
        return context_of(device).streams.give(priority)

    def current_stream(self, device):
        batched_launch.flush()
        return contexts.current_stream(context_of(device))

    def set_stream(self, stream):
        batched_launch.flush()
        return contexts.use_stream(stream)

    def event(self, device, timing=False):
        return Event(context_of(device), timing)


class CudaBackend(CompiledBackend):
    """The GPUs of this machine, as one backend."""

    def __init__(self):
        super().__init__("cuda")
        self.memory = CudaMemory(self.name)
        self.launch = CudaLaunch(self.name)
        self.libraries = CudaLibraries(self.name)
        self.graphs = CudaGraphs(self.name)
        self.streams = CudaStreams(self.name)

    def roles(self):
        return ROLES

    def place(self, device):
        return Device("cuda", context_of(device).index)

    def device_count(self):
        return contexts.count()

    def current_device(self):
        return contexts.current_index()

    def set_device(self, index):
        contexts.use(index)

    def processors(self, device):
        facts = context_of(device).properties
        return facts.multi_processor_count, facts.max_threads_per_multi_processor

    def generator(self, device):
        return context_of(device).generator


def refuse():
    """Raises what a call that needs a device raises where there is none."""
    if driver.in_bad_fork():
        driver.load()
    raise AssertionError(
        "Torch not compiled with CUDA enabled: Rushlight finds no NVIDIA driver\n"
        '  remedy: pip install rushlight[cuda] on a machine with a GPU, or device="cpu"'
    )


def serve():
    """Has tensors of type ``cuda`` live on devices; the backend that served them before."""
    return register_backend("cuda", CudaBackend())


serve()

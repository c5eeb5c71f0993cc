"""Groups of processes whose devices NCCL connects, and groups that take host tensors too.

A collective is put into a queue of the device, and the host goes on. Beside the library, the
processes stay connected as those of `ProcessGroupGloo`: every rank tells the others what it
begins, so that a rank that is lost, late or differs is named, and ends the group in a second.
"""

import os
import threading
from contextlib import contextmanager

import rushlight as rl
from rushlight.core.device import Device
from rushlight.core.state import AttributeScope
from rushlight.distributed import nan_check
from rushlight.distributed.collectives.devices import (
    Communicators,
    DeviceOperand,
    numbered,
    on_queue,
    one_run,
    reduction_of,
)
from rushlight.distributed.collectives.operands import type_name
from rushlight.distributed.constants import default_pg_nccl_timeout
from rushlight.distributed.device_work import DeviceWork, Watchdog
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.process_group import ProcessGroupGloo
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.stores.base import seconds
from rushlight.distributed.transport.frames import Collective
from rushlight.runtime.cuda import batched_launch, contexts
from rushlight.runtime.cuda.nccl import NCCL

HIGH_PRIORITY = -1


class NcclOptions:
    """What ``init_process_group(pg_options=)`` takes for NCCL.

    Args:
        is_high_priority_stream: whether collectives go before other work of the device.
    """

    def __init__(self, is_high_priority_stream=False):
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = default_pg_nccl_timeout


class Launch:
    """A collective, or a message, as it is put into a queue.

    Args:
        call: what it is: all ranks must agree, but on a message.
        tensors: all that it touches.
        result: those that it fills.
        enqueue: called with communicator and queue; calls the library.
        store: called behind that in the queue; None where results are in place.
        peer: the other rank of a message.
    """

    def __init__(self, call, tensors, result, enqueue, store=None, peer=None):
        self.call, self.tensors, self.result = call, tensors, result
        self.enqueue, self.store, self.peer = enqueue, store, peer


class ProcessGroupNCCL(ProcessGroupGloo):
    """Processes whose devices exchange tensors by themselves.

    Args:
        store: where they meet; keys of the group alone.
        rank: this process's number in it.
        size: the number of processes.
        timeout: how long a collective may take, a ``timedelta``.
        meeting_host: where the store is served, or None.
        device: the device of this process, joined at once; else each when it is used.
        options: a ``ProcessGroupNCCL.Options``.
    """

    __module__ = "rushlight.distributed"
    Options = NcclOptions
    takes_uneven = True

    def __init__(
        self,
        store,
        rank,
        size,
        timeout=default_pg_nccl_timeout,
        meeting_host=None,
        device=None,
        options=None,
    ):
        NCCL.library()
        if not contexts.count():
            raise ValueError(
                "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
            )
        super().__init__(store, rank, size, timeout, meeting_host)
        is_urgent = options is not None and options.is_high_priority_stream
        priority = HIGH_PRIORITY if is_urgent else 0
        self._guard, self._block, self._used = threading.RLock(), None, None
        self._communicators = Communicators(store, rank, size, self._look, priority)
        self._watchdog = Watchdog(self)
        self._failure, self._has_left, self._sequence = None, False, 0
        self._blocks = os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") == "1"
        if device is not None:
            self.bound_device_id = rl.device(device)
            self._communicators.of(contexts.ctx(self.bound_device_id.index))

    def name(self):
        """The name of the backend."""
        return "nccl"

    _get_backend_name = name

    def _coordination_device(self):
        """Where tensors that only say something to other ranks are made."""
        index = contexts.current_index()
        if self._used is not None or self.bound_device_id is not None:
            index = (self.bound_device_id or self._used).index
        return Device("cuda", index)

    def _get_sequence_number_for_group(self):
        return self._sequence

    # -- what the other processes say -------------------------------------------------

    def _look(self):
        """Read what others have said; raises where one has failed or differs."""
        if self._channel is None:
            return
        with self._guard:
            self._channel.look()

    def _refuse(self, text, culprit=None):
        """End the group, and tell all others why; the exception to raise."""
        if self._channel is None:
            return DistBackendError(text)
        with self._guard:
            return self._channel.fail(text, self._rank if culprit is None else culprit)

    def _abort_communicators(self):
        for each in self._communicators.every():
            each.abort()

    def _announce(self, call):
        """Tell the others what begins; the position that they are waited at."""
        self._sequence += 1
        call.sequence = self._sequence
        if self._channel is None:
            return 0
        channel = self._channel
        channel.begin(call)
        channel.announce(1)
        position = channel.position + 1
        channel.next_piece()
        return position

    # -- how all collectives run ------------------------------------------------------

    def _context_of(self, tensors):
        devices = {each.device for each in tensors}
        if len(devices) != 1:
            raise ValueError(
                f"Tensors must be on the same device\n  devices: {sorted(map(str, devices))}"
            )
        self._used = devices.pop()
        return contexts.ctx(self._used.index)

    def _launch(self, launch, async_op, timeout=None):
        """Put a collective into a queue; its ``Work`` where ``async_op``, else None."""
        if self._refuses_nan:
            nan_check.refuse_inputs(self, launch.call, launch.tensors)
        if self._block is not None:
            self._block.launches.append(launch)
            return self._block.work
        work = self._run([launch], async_op, timeout)
        return work if async_op else None

    def _run(self, launches, async_op, timeout=None, work=None):
        first = launches[0]
        context = self._context_of([each for one in launches for each in one.tensors])
        peer = first.peer if work is None else None
        if work is None:
            work = DeviceWork(first.call, first.result, (), None)
        work.kept = [one.tensors for one in launches] if async_op else ()
        work.patience = seconds(self._timeout) if timeout is None else timeout
        work.peer, work.blocks = peer, work.blocks or self._blocks
        batched_launch.flush()
        with self._guard:
            if self._failure is not None:
                raise self._failure
            pair = None if peer is None else sorted((self._rank, peer))
            comm = self._communicators.of(context, pair)
            self._announce_all(launches, work)
            queue = current = contexts.current_stream(context)
            if async_op:
                queue = self._communicators.queues[comm]
                queue.wait_stream(current)
            self._enqueue(launches, comm, queue)
            work.record(queue)
        if not queue.capturing():
            self._watchdog.add(work)
        return work

    def _announce_all(self, launches, work):
        """Announce collectives; messages are between two ranks alone."""
        for one in launches:
            work.entries.append(self._executor.recorder.record(one.call))
            work.entries[-1][1] = "started"
            if one.peer is None:
                work.position = self._announce(one.call)

    def _enqueue(self, launches, comm, queue):
        with on_queue(queue):
            if len(launches) == 1:
                launches[0].enqueue(comm, queue.handle)
            else:
                with comm.grouped():
                    for one in launches:
                        one.enqueue(comm, queue.handle)
            for one in launches:
                if one.store is not None:
                    one.store()

    @contextmanager
    def _together(self):
        """Collectives and messages of the block become one launch, with one ``Work``."""
        block = _Block()
        with AttributeScope(self, _block=block):
            yield
        if block.launches:
            self._run(block.launches, True, work=block.work)

    # -- collectives ------------------------------------------------------------------

    def _all_reduce(self, tensors, op=ReduceOp.SUM, async_op=False):
        operands, kind = [DeviceOperand(t) for t in tensors], type_name(tensors[0])
        sizes = tensors[0].shape if len(tensors) == 1 else [t.numel() for t in tensors]
        call = Collective(
            "all_reduce", kind, sizes, reduction=reduction_of(op, tensors[0])
        )

        def enqueue(comm, queue):
            with numbered(comm, op, tensors[0]) as number, _several(comm, operands):
                for each in operands:
                    comm.all_reduce(each.run, number, queue)

        return self._launch(Launch(call, tensors, tensors, enqueue), async_op)

    def _reduce(self, tensor, root, op=ReduceOp.SUM, async_op=False):
        name, run = reduction_of(op, tensor), DeviceOperand(tensor).run
        call = Collective("reduce", type_name(tensor), tensor.shape, root, name)

        def enqueue(comm, queue):
            with numbered(comm, op, tensor) as number:
                comm.reduce(run, number, root, queue)

        return self._launch(Launch(call, [tensor], [tensor], enqueue), async_op)

    def _broadcast(self, tensor, root, async_op=False):
        call = Collective("broadcast", type_name(tensor), tensor.shape, root)
        run = DeviceOperand(tensor).run

        def enqueue(comm, queue):
            comm.broadcast(run, root, queue)

        return self._launch(Launch(call, [tensor], [tensor], enqueue), async_op)

    def _all_gather(self, outputs, tensor, async_op=False, result=None):
        operand, outs = DeviceOperand(tensor), [DeviceOperand(each) for each in outputs]
        is_even = len({each.run[1] for each in outs}) == 1
        call = Collective(
            "all_gather", type_name(tensor), tensor.shape if is_even else None
        )
        found = result or list(outputs)
        place = one_run(outs) if is_even else None
        whole: list = []

        def enqueue_uneven(comm, queue):
            outputs[self._rank].copy_(tensor)
            batched_launch.flush()
            with comm.grouped():
                for root, each in enumerate(outs):
                    comm.broadcast(each.run, root, queue)

        def enqueue(comm, queue):
            if place is None:
                whole.append(tensor.new_empty(len(outs) * tensor.numel()))
            target = whole[0].data_ptr() if whole else place
            comm.all_gather(operand.run, target, queue)

        def store():
            for out, part in zip(outputs, whole[0].chunk(len(outs)) if whole else ()):
                out.copy_(part.view(out.shape))

        tensors = [tensor, *outputs]
        how = (enqueue, store) if is_even else (enqueue_uneven,)
        return self._launch(Launch(call, tensors, found, *how), async_op)

    def _gather(self, outputs, tensor, root, async_op=False):
        run, outs = DeviceOperand(tensor).run, [DeviceOperand(each) for each in outputs]
        call = Collective("gather", type_name(tensor), tensor.shape, root)

        def enqueue(comm, queue):
            with comm.grouped():
                comm.send(run, root, queue)
                for rank, each in enumerate(outs):
                    comm.receive(each.run, rank, queue)

        launch = Launch(call, [tensor, *outputs], list(outputs), enqueue)
        return self._launch(launch, async_op)

    def _scatter(self, tensor, inputs, root, async_op=False):
        run, parts = DeviceOperand(tensor).run, [DeviceOperand(each) for each in inputs]
        call = Collective("scatter", type_name(tensor), tensor.shape, root)

        def enqueue(comm, queue):
            with comm.grouped():
                for rank, each in enumerate(parts):
                    comm.send(each.run, rank, queue)
                comm.receive(run, root, queue)

        launch = Launch(call, [tensor, *inputs], [tensor], enqueue)
        return self._launch(launch, async_op)

    def _reduce_scatter(self, output, inputs, op=ReduceOp.SUM, async_op=False):
        out, parts = DeviceOperand(output), [DeviceOperand(each) for each in inputs]
        name = reduction_of(op, output)
        call = Collective("reduce_scatter", type_name(output), None, reduction=name)
        is_even = len({each.run[1] for each in parts}) == 1
        place, whole = one_run(parts) if is_even else None, []

        def enqueue(comm, queue):
            if place is None:
                whole.append(rl.cat([each.reshape(-1) for each in inputs]))
                batched_launch.flush()
            with numbered(comm, op, output) as number:
                if is_even:
                    source = whole[0].data_ptr() if whole else place
                    comm.reduce_scatter(source, out.run, number, queue)
                    return
                reduced = whole[0].split([each.numel() for each in inputs])
                with comm.grouped():
                    for root, each in enumerate(reduced):
                        comm.reduce(DeviceOperand(each).run, number, root, queue)

        def store():
            if not is_even:
                first = sum(each.numel() for each in inputs[: self._rank])
                own = whole[0][first : first + output.numel()]
                output.copy_(own.view(output.shape))

        launch = Launch(call, [output, *inputs], [output], enqueue, store)
        return self._launch(launch, async_op)

    def _all_to_all(self, outputs, inputs, async_op=False, result=None):
        outs = [DeviceOperand(each).run for each in outputs]
        parts = [DeviceOperand(each).run for each in inputs]
        call = Collective("all_to_all", type_name(inputs[0]))

        def enqueue(comm, queue):
            with comm.grouped():
                for rank, (out, part) in enumerate(zip(outs, parts)):
                    if part[1]:
                        comm.send(part, rank, queue)
                    if out[1]:
                        comm.receive(out, rank, queue)

        found = result or list(outputs)
        return self._launch(Launch(call, [*outputs, *inputs], found, enqueue), async_op)

    def _barrier(self, async_op=False, timeout=None):
        one = rl.zeros(1, device=self._coordination_device())
        run = DeviceOperand(one).run

        def enqueue(comm, queue):
            comm.all_reduce(run, 0, queue)

        work = self._run(
            [Launch(Collective("barrier"), [one], [], enqueue)], True, timeout
        )
        work.blocks = True
        return work if async_op else work.wait() and None

    def _monitored_barrier(self, timeout=None, wait_all_ranks=False):
        raise ValueError("monitored_barrier is only implemented for GLOO backend")

    def _symmetric_array(self, count, dtype):
        return None

    # -- messages between two ranks ---------------------------------------------------

    def _message(self, tensor, rank, tag, starts):
        if rank is None:
            raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")
        run, call = DeviceOperand(tensor).run, Collective("message", type_name(tensor))

        def enqueue(comm, queue):
            getattr(comm, starts)(run, comm.ranks.index(rank), queue)

        result = [tensor] if starts == "receive" else []
        work = self._launch(Launch(call, [tensor], result, enqueue, peer=rank), True)
        work._completion.source = rank
        return work

    # -- the end ----------------------------------------------------------------------

    def shutdown(self, failure=None):
        """Leave the group; collectives of others that need this process fail.

        Args:
            failure: why this process leaves in the midst; None where it is done.
        """
        if self._has_left:
            return
        self._has_left = True
        if failure is None:
            self._watchdog.drain(seconds(self._timeout))
        failed = self._watchdog.closing
        self._failure = self._failure or DistBackendError(
            f"the process group has failed before\n  failure: {failure or 'it was left'}"
        )
        self._watchdog.close()
        for each in self._communicators.every():
            each.abort() if failure or failed else each.destroy()
        super().shutdown(failure)


class _Block:
    """Collectives that are put together."""

    def __init__(self):
        self.launches: list = []
        self.work = DeviceWork(Collective("coalesced"), (), (), None)


@contextmanager
def _several(comm, operands):
    """Puts several calls together; one needs no group."""
    if len(operands) == 1:
        yield
    else:
        with comm.grouped():
            yield


class ProcessGroupByDevice(ProcessGroupGloo):
    """Processes that exchange tensors of the host one way and those of devices another.

    Args:
        parts: the kind of a device -> the group that takes its tensors.
    """

    __module__ = "rushlight.distributed"
    takes_uneven = False

    def __init__(self, parts):
        self._parts = parts
        host = parts["cpu"]
        super().__init__(host._store, 0, 1, host._timeout)
        self._rank, self._size = host.rank(), host.size()
        self._executor = host._executor
        self.bound_device_id = parts["cuda"].bound_device_id

    def name(self):
        """The name of the backend of host tensors."""
        return self._parts["cpu"].name()

    _get_backend_name = name

    def _get_backend(self, device):
        """The group that takes the tensors of a device.

        Args:
            device: the device.
        """
        return self._parts[rl.device(device).type]

    def _join_record(self, group, ranks):
        for each in self._parts.values():
            each._join_record(group, ranks)

    def set_timeout(self, timeout):
        """Set how long a collective may take.

        Args:
            timeout: a ``timedelta``.
        """
        for each in self._parts.values():
            each.set_timeout(timeout)

    @contextmanager
    def _together(self):
        with self._parts["cuda"]._together():
            yield

    def shutdown(self, failure=None):
        """Leave the group.

        Args:
            failure: why this process leaves in the midst; None where it is done.
        """
        for each in self._parts.values():
            each.shutdown(failure)


def _routed(name, place):
    """A method of the group that takes the tensors' device."""

    def method(self, *args, **options):
        given = args[place]
        first = given[0] if isinstance(given, (list, tuple)) else given
        part = self._parts.get(first.device.type)
        if part is None:
            raise RuntimeError(
                f"No backend type associated with device type {first.device.type}"
            )
        return getattr(part, name)(*args, **options)

    return method


def _of_host(name):
    def method(self, *args, **options):
        return getattr(self._parts["cpu"], name)(*args, **options)

    return method


for _name, _place in {
    "_all_reduce": 0, "_reduce": 0, "_broadcast": 0, "_all_gather": 1, "_gather": 1,
    "_scatter": 0, "_reduce_scatter": 0, "_all_to_all": 1, "_send": 0, "_receive": 0,
}.items():  # fmt: skip
    setattr(ProcessGroupByDevice, _name, _routed(_name, _place))
for _name in (
    *("_barrier", "_monitored_barrier", "_symmetric_array", "_reduce_symmetric"),
    *("_release_symmetric", "_await_release"),
):
    setattr(ProcessGroupByDevice, _name, _of_host(_name))

"""A group of processes and what it can do, over connections that the group owns."""

import time
from contextlib import contextmanager
from datetime import timedelta

import rushlight as rl
from rushlight.core.device import Device
from rushlight.distributed import nan_check
from rushlight.distributed.collectives.engine import Alone, Connected
from rushlight.distributed.collectives.operands import Operand, octets, type_name
from rushlight.distributed.collectives.symmetric import SymmetricArray
from rushlight.distributed.reductions import ReduceOp, reduction_name
from rushlight.distributed.stores.base import seconds
from rushlight.distributed.transport.channel import Channel
from rushlight.distributed.transport.connect import connect_all
from rushlight.distributed.transport.frames import Collective
from rushlight.distributed.transport.mailbox import Mailbox, Message
from rushlight.distributed.work import Executor, Work


class ProcessGroup:
    """Processes that exchange tensors.

    Args:
        store: where they meet; keys of the group alone.
        rank: this process's number in it.
        size: the number of processes.
        timeout: how long a collective may take, a ``timedelta``.
        meeting_host: where the store is served, or None.
    """

    __module__ = "rushlight.distributed"
    takes_uneven = False  # whether ranks may gather tensors of different sizes

    def __init__(
        self, store, rank, size, timeout=timedelta(minutes=30), meeting_host=None
    ):
        self._store, self._rank, self._size = store, rank, size
        self._timeout = timeout
        self.group_name, self.group_desc = "", "undefined"
        self.bound_device_id = None
        self._channel = self._mailbox = self._connections = None
        if size > 1:
            self._connections = connect_all(
                store, rank, size, seconds(timeout), meeting_host
            )
            self._channel = Channel(self._connections, seconds(timeout))
        self._engine = Alone() if size == 1 else Connected(self._channel)
        self._executor = Executor(self._channel)
        self._refuses_nan = size > 1 and nan_check.is_wanted()

    def rank(self):
        """This process's number in the group."""
        return self._rank

    def size(self):
        """The number of processes."""
        return self._size

    def name(self):
        """The name of the backend."""
        return "gloo"

    _get_backend_name = name

    def get_group_store(self):
        """Where the processes of the group met."""
        return self._store

    def set_timeout(self, timeout):
        """Set how long a collective may take.

        Args:
            timeout: a ``timedelta``.
        """
        self._timeout = timeout
        if self._channel is not None:
            self._channel.timeout = seconds(timeout)

    def recent_collectives(self):
        """The last collectives of the group, oldest first: a flight recorder.

        Returns:
            A dict for each: its sequence number, operator, sizes, state and times.
        """
        return self._executor.recorder.dump()

    def _get_sequence_number_for_group(self):
        return self._channel.sequence if self._channel else 0

    def __repr__(self):
        return f"<ProcessGroup {self.group_name!r}: rank {self._rank} of {self._size}>"

    def __deepcopy__(self, memo):
        return self

    def _join_record(self, group, ranks):
        """Say of whom the flight recorder writes.

        Args:
            group: what others know as the group.
            ranks: the global rank of each of its ranks.
        """
        self._executor.recorder.join(group, ranks)

    def _coordination_device(self):
        """Where tensors that only say something to other ranks are made."""
        return Device("cpu")

    @contextmanager
    def _together(self):
        """Collectives and messages of the block may become one."""
        yield

    # -- how all collectives run ------------------------------------------------------

    def _start(self, call, body, result, async_op, timeout=None, inputs=()):
        """Run ``body()`` now, or in its turn; then results are in place."""
        if self._refuses_nan:
            nan_check.refuse_inputs(self, call, inputs)
        if async_op:
            return self._executor.submit(call, body, result, timeout)
        self._executor.run(call, body, timeout)
        return None

    def _all_reduce(self, tensors, op=ReduceOp.SUM, async_op=False):
        """Reduce one tensor, or several in one collective, on every rank."""
        names = [reduction_name(op, each) for each in tensors]
        parts = self.size()
        operands = [Operand(*each, parts) for each in zip(tensors, names)]
        sizes = tensors[0].shape
        if len(tensors) > 1:
            sizes = [each.numel() for each in tensors]
        call = Collective(
            "all_reduce", type_name(tensors[0]), sizes, reduction=names[0]
        )

        def body():
            for each in operands:
                self._engine.all_reduce(each.flat, each.reduction)
                each.store()

        return self._start(call, body, tensors, async_op, inputs=tensors)

    def _reduce(self, tensor, root, op=ReduceOp.SUM, async_op=False):
        name = reduction_name(op, tensor)
        operand = Operand(tensor, name, self.size())
        call = Collective("reduce", type_name(tensor), tensor.shape, root, name)

        def body():
            self._engine.reduce(operand.flat, operand.reduction, root)
            operand.store()

        return self._start(call, body, [tensor], async_op, inputs=[tensor])

    def _broadcast(self, tensor, root, async_op=False):
        operand = Operand(tensor)
        call = Collective("broadcast", type_name(tensor), tensor.shape, root)

        def body():
            self._engine.broadcast(operand.flat, root)
            operand.store()

        given = [tensor] if root == self._rank else ()
        return self._start(call, body, [tensor], async_op, inputs=given)

    def _all_gather(self, outputs, tensor, async_op=False, result=None):
        """Bring every rank's tensor to all; ``outputs`` are of its size each."""
        operand, outs = Operand(tensor), [Operand(each) for each in outputs]
        call = Collective("all_gather", type_name(tensor), tensor.shape)

        def body():
            self._engine.all_gather([each.flat for each in outs], operand.flat)
            for each in outs:
                each.store()

        found = result or list(outputs)
        return self._start(call, body, found, async_op, inputs=[tensor])

    def _gather(self, outputs, tensor, root, async_op=False):
        operand, outs = Operand(tensor), [Operand(each) for each in outputs]
        call = Collective("gather", type_name(tensor), tensor.shape, root)

        def body():
            self._engine.gather([each.flat for each in outs], operand.flat, root)
            for each in outs:
                each.store()

        return self._start(call, body, list(outputs), async_op, inputs=[tensor])

    def _scatter(self, tensor, inputs, root, async_op=False):
        operand, parts = Operand(tensor), [Operand(each) for each in inputs]
        call = Collective("scatter", type_name(tensor), tensor.shape, root)

        def body():
            self._engine.scatter(operand.flat, [each.flat for each in parts], root)
            operand.store()

        return self._start(call, body, [tensor], async_op, inputs=inputs)

    def _reduce_scatter(self, output, inputs, op=ReduceOp.SUM, async_op=False):
        name = reduction_name(op, output)
        out = Operand(output, name, self.size())
        parts = [Operand(each) for each in inputs]
        call = Collective("reduce_scatter", type_name(output), None, reduction=name)

        def body():
            flats = [each.flat for each in parts]
            self._engine.reduce_scatter(out.flat, flats, out.reduction)
            out.store()

        return self._start(call, body, [output], async_op, inputs=inputs)

    def _all_to_all(self, outputs, inputs, async_op=False, result=None):
        outs = [Operand(each) for each in outputs]
        parts = [Operand(each) for each in inputs]
        call = Collective("all_to_all", type_name(inputs[0]))

        def body():
            flats = [each.flat for each in outs], [each.flat for each in parts]
            self._engine.all_to_all(*flats)
            for each in outs:
                each.store()

        found = result or list(outputs)
        return self._start(call, body, found, async_op, inputs=inputs)

    def _barrier(self, async_op=False, timeout=None):
        return self._start(
            Collective("barrier"), self._engine.barrier, [], async_op, timeout
        )

    def _monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Wait on rank 0 for all others; say which of them do not come."""

        def late(ranks, wait):
            named = ", ".join(map(str, ranks if wait_all_ranks else ranks[:1]))
            word = "Ranks" if wait_all_ranks else "Rank"
            return f"{word} {named} failed to pass monitoredBarrier in {wait} ms"

        def body():
            channel = self._channel
            if channel is None:
                return
            channel.late_text = late if channel.rank == 0 else None
            if channel.rank:
                channel.announce(1)
                channel.await_phase(2, [0])
            else:
                channel.await_phase(1)
                channel.announce(2)
            channel.next_piece()

        patience = seconds(self._timeout if timeout is None else timeout)
        # Others hear from rank 0 which of them are late: they wait longer than it.
        patience += 5 if self._rank else 0
        self._start(Collective("monitored_barrier"), body, [], False, patience)

    # -- arrays that all ranks see ----------------------------------------------------

    def _symmetric_array(self, count, dtype):
        """An array of each rank that all ranks see; None where that cannot be.

        Args:
            count: its elements, on every rank.
            dtype: their type.
        """
        if self._channel is None or not self._channel.slabs or not count:
            return None
        if dtype.is_complex or dtype is rl.bool:
            return None
        found = []

        def body():
            memories = self._channel.share_memory(count * dtype.itemsize)
            if memories is not None:
                found.append(SymmetricArray(self._channel, memories, count, dtype))

        name = str(dtype).rpartition(".")[2]
        self._start(Collective("rendezvous", name, [count]), body, [], False)
        return found[0] if found else None

    def _reduce_symmetric(self, array):
        """Sum an array over the ranks, each rank its part; what gives a ``Work``."""
        own = array.own
        call = Collective("all_reduce", type_name(own), own.shape, reduction="sum")
        return self._start(call, lambda: array.reduce("sum"), [own], True, inputs=[own])

    def _release_symmetric(self):
        """Tell all ranks that this one has read what was reduced; see `_await_release`.

        Returns:
            What to wait for before an array that was reduced is written again.
        """
        positions = []

        def body():
            channel = self._channel
            channel.announce(1)
            positions.append(channel.position + 1)
            channel.next_piece()
            channel.finish()

        self._start(Collective("release"), body, [], False)
        return positions[0]

    def _await_release(self, position):
        """Wait until all ranks have read what was reduced before a release."""
        self._executor.between(lambda: self._channel.await_read(position))

    # -- messages between two ranks ---------------------------------------------------

    def _message(self, tensor, rank, tag, starts):
        operand = Operand(tensor)
        work = Work([tensor])

        def finish(error, source):
            if error is None and starts == "receive":
                operand.store()
            work._completion.finish(error, source)

        if self._mailbox is None:
            self._mailbox = Mailbox(
                self._connections.peers.values(), self._rank, self._channel.silence_of
            )
        deadline = time.monotonic() + seconds(self._timeout)
        view = octets(operand.flat)
        message = Message(view, rank, tag, deadline, finish)
        work._operand = operand  # its memory is in use until it is over
        getattr(self._mailbox, starts)(message)
        return work

    def _send(self, tensor, rank, tag=0):
        return self._message(tensor, rank, tag, "send")

    def _receive(self, tensor, rank, tag=0):
        return self._message(tensor, rank, tag, "receive")

    # -- the end ----------------------------------------------------------------------

    def shutdown(self, failure=None):
        """Leave the group; collectives of others that need this process fail.

        Args:
            failure: why this process leaves in the midst; None where it is done.
        """
        if self._channel is None or self._connections is None:
            return
        if failure is None:
            self._executor.drain(5)
        self._connections = None
        self._executor.close()
        if self._mailbox is not None:
            self._mailbox.close()
        self._engine.close()
        self._channel.leave(failure)

    def abort(self):
        """Leave the group and make the collectives of all others fail."""
        self.shutdown("it has aborted the group")


def _tensors_of(value):
    return value if isinstance(value, (list, tuple)) else [value]


def _option(opts, name, default):
    if isinstance(opts, (ReduceOp, int)):
        return opts
    return default if opts is None else getattr(opts, name)


class ProcessGroupGloo(ProcessGroup):
    """The group under the names that PyTorch's has: each call gives a ``Work``."""

    __module__ = "rushlight.distributed"

    def allreduce(self, tensors, opts=None):
        """Reduce tensors on every rank."""
        op = _option(opts, "reduceOp", ReduceOp.SUM)
        return self._all_reduce(_tensors_of(tensors), op, True)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts=None, root=None):
        """Copy a rank's tensor to all."""
        root = _option(opts, "rootRank", 0) if root is None else root
        return self._broadcast(_tensors_of(tensors)[0], root, True)

    def reduce(self, tensors, root=0, op=ReduceOp.SUM):
        """Reduce tensors on one rank."""
        if not isinstance(root, int):
            root, op = root.rootRank, root.reduceOp
        return self._reduce(_tensors_of(tensors)[0], root, op, True)

    def allgather(self, output_tensors, input_tensor, opts=None):
        """Bring all ranks' tensors to each."""
        outputs, tensor = output_tensors, _tensors_of(input_tensor)[0]
        if isinstance(outputs[0], (list, tuple)):
            outputs = outputs[0]
        return self._all_gather(outputs, tensor, True)

    def _allgather_base(self, output, input, opts=None):
        parts = output.view(self._size, *input.shape)
        return self._all_gather(list(parts), input, True, [output])

    def gather(self, output_tensors, input_tensor, root=0):
        """Bring all ranks' tensors to one."""
        root = root if isinstance(root, int) else root.rootRank
        outputs = output_tensors[0] if output_tensors else []
        return self._gather(outputs, _tensors_of(input_tensor)[0], root, True)

    def scatter(self, output_tensor, input_tensors, root=0):
        """Bring one rank's tensors to each."""
        root = root if isinstance(root, int) else root.rootRank
        inputs = input_tensors[0] if input_tensors else []
        return self._scatter(_tensors_of(output_tensor)[0], inputs, root, True)

    def reduce_scatter(self, output_tensor, input_tensors, opts=None):
        """Reduce what all ranks have for each, on that rank."""
        op, inputs = _option(opts, "reduceOp", ReduceOp.SUM), input_tensors
        if isinstance(inputs[0], (list, tuple)):
            inputs = inputs[0]
        return self._reduce_scatter(_tensors_of(output_tensor)[0], inputs, op, True)

    def _reduce_scatter_base(self, output, input, opts=None):
        op = _option(opts, "reduceOp", ReduceOp.SUM)
        parts = input.view(self._size, *output.shape)
        return self._reduce_scatter(output, list(parts), op, True)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        """Bring a tensor from each rank to each."""
        return self._all_to_all(output_tensors, input_tensors, True)

    def barrier(self, opts=None):
        """Wait until every rank has come."""
        return self._barrier(True)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Wait until every rank has come; rank 0 says which do not."""
        self._monitored_barrier(timeout, wait_all_ranks)

    def send(self, tensors, dstRank, tag=0):
        """Send a tensor to a rank."""
        return self._send(_tensors_of(tensors)[0], dstRank, tag)

    def recv(self, tensors, srcRank, tag=0):
        """Receive a tensor from a rank."""
        return self._receive(_tensors_of(tensors)[0], srcRank, tag)

    def recv_anysource(self, tensors, tag=0):
        """Receive a tensor from any rank."""
        return self._receive(_tensors_of(tensors)[0], None, tag)

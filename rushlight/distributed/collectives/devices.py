"""Tensors of devices as libnccl takes them, and the communicators that connect devices."""

import ctypes
import threading
from contextlib import ExitStack, contextmanager

import rushlight as rl
from rushlight.distributed.collectives.operands import type_name
from rushlight.distributed.reductions import PremultipliedSum, ReduceOp
from rushlight.runtime.cuda import batched_launch, contexts
from rushlight.runtime.cuda.nccl import NCCL, REDUCTIONS, TYPES, Communicator

JOIN_SECONDS = 0.05  # how often a rank that joins looks whether others are lost
AS_OCTETS = "bool float8_e4m3fnuz float8_e5m2fnuz".split()
FACTORS = {"float32": ctypes.c_float, "float64": ctypes.c_double}
# Values of these are no less than two octets, and ctypes has none of them.
SHORT_FACTORS = {"float16": rl.float16, "bfloat16": rl.bfloat16}


@contextmanager
def on_queue(queue):
    """Sends this thread's work to a queue of a device.

    Args:
        queue: a ``runtime.cuda.streams.Stream``.
    """
    batched_launch.flush()
    before = contexts.use_stream(queue)
    try:
        yield
    finally:
        batched_launch.flush()
        contexts.use_stream(before)


class DeviceOperand:
    """A tensor as a run of elements on a device.

    Args:
        tensor: dense, on a device; its elements go in the order in which they lie.

    Raises:
        ValueError: it is on the host, or its elements do not lie together.
        TypeError: the library has not its type.
    """

    __slots__ = ("tensor", "run")

    def __init__(self, tensor):
        self.tensor = whole = tensor.detach()
        if whole.device.type != "cuda" or whole.is_sparse:
            raise ValueError(
                f"Tensors must be CUDA and dense\n  tensor: {type_name(whole)}"
                f"{list(whole.shape)} on {whole.device}\n  remedy: .cuda(), or "
                'backend="cpu:gloo,cuda:nccl", which takes tensors of both'
            )
        if not is_dense(whole):
            raise ValueError(
                "Tensors must be non-overlapping and dense\n  sizes: "
                f"{list(whole.shape)}, strides: {list(whole.stride())}\n"
                "  remedy: contiguous()"
            )
        count = whole.numel()
        if whole.is_complex():
            whole, count = rl.view_as_real(whole.resolve_conj()), 2 * count
        name = type_name(whole)
        kind = TYPES.get("uint8" if name in AS_OCTETS else name)
        if kind is None or name.startswith("uint") and name != "uint8":
            raise TypeError(
                "Input tensor data type is not supported for NCCL process group: "
                f"{name}\n  remedy: another type, as int32, or view(torch.uint8) where "
                "elements only move"
            )
        self.run = whole.data_ptr(), count, kind


def is_dense(tensor):
    """Whether the elements of a tensor fill a run of memory, in whatever order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def one_run(operands):
    """Where runs begin that are equally long and lie behind one another; else None.

    Args:
        operands: the `DeviceOperand` of each.
    """
    start, count, _ = operands[0].run
    length = operands[0].tensor.nbytes
    for index, each in enumerate(operands):
        if each.run[:2] != (start + index * length, count):
            return None
    return start


def reduction_of(op, tensor):
    """The library's name of a reduction, for a tensor.

    Args:
        op: a ``ReduceOp``, or a `PremultipliedSum`.
        tensor: the tensor.

    Raises:
        ValueError: the library has not that reduction.
        TypeError: it has not for that type, or ``op`` is none.
    """
    if isinstance(op, PremultipliedSum):
        return "premul_sum"
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, not {type(op).__name__}")
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        raise ValueError(f"Cannot use ReduceOp.{op.name} with NCCL")
    if op is ReduceOp.AVG and tensor.dtype is rl.bool:
        raise TypeError("Cannot use ReduceOp.AVG with Boolean inputs")
    if tensor.is_complex() and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    name = op.name.lower()
    if name not in REDUCTIONS:
        raise ValueError(f"Unhandled ReduceOp: {op}")
    if tensor.dtype is rl.bool and name == "sum":  # or 1 and 1 would be 2
        return "max"
    return name


def _factor(op, tensor):
    """A premultiplied sum's factor in the elements' type, as ctypes has it."""
    name = type_name(tensor)
    if name in FACTORS:
        return FACTORS[name](op.factor)
    if name in SHORT_FACTORS:
        value = rl.tensor(op.factor, dtype=SHORT_FACTORS[name])
        return ctypes.c_int16(int(value.view(rl.int16)))
    raise TypeError(
        "PreMulSum Data type must be half, float, bfloat16 or double\n  tensor: "
        f"{name}{list(tensor.shape)}"
    )


@contextmanager
def numbered(comm, op, tensor):
    """The library's number of a reduction, while it is called.

    Args:
        comm: the communicator.
        op: as `reduction_of` takes it.
        tensor: the tensor.
    """
    name = reduction_of(op, tensor)
    with ExitStack() as stack:
        if name == "premul_sum":
            factor, kind = _factor(op, tensor), DeviceOperand(tensor).run[2]
            yield stack.enter_context(comm.premultiplied(factor, kind))
        else:
            yield REDUCTIONS[name]


class Communicators:
    """The communicators of a group: of all ranks, and of two for messages.

    Args:
        store: where ranks tell each other identities; keys of the group alone.
        rank: this process's number in it.
        size: the number of processes.
        look: called while others are waited for; raises where one is lost.
        priority: of the queues that asynchronous collectives go to.
    """

    def __init__(self, store, rank, size, look, priority=0):
        self.store, self.rank, self.size, self.look = store, rank, size, look
        self.priority = priority
        self.made: dict = {}  # (device's number, ranks) -> communicator
        self.queues: dict = {}

    def of(self, context, ranks=None):
        """The communicator of some ranks on a device; the first time all must come.

        Args:
            context: this rank's.
            ranks: their numbers in the group, in order; all without it.
        """
        ranks = tuple(range(self.size)) if ranks is None else tuple(ranks)
        key = context.index, ranks
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._join(context, ranks)
            found.ranks = ranks
            self.queues[found] = context.streams.give(self.priority)
        return found

    def _join(self, context, ranks):
        number = ranks.index(self.rank)
        joins = sum(known == ranks for _, known in self.made)
        key = f"nccl/{'_'.join(map(str, (ranks[0], ranks[-1], len(ranks), joins)))}"
        if number == 0:
            identity = NCCL.identity()
            self.store.set(key, identity)
        else:
            identity = self.store.get(key)
        found: list = []

        def join():
            try:
                found.append(Communicator(context, identity, len(ranks), number))
            except Exception as error:
                found.append(error)

        # The library waits for ever for a rank that has ended: this thread looks.
        thread = threading.Thread(target=join, name="rushlight-nccl-join", daemon=True)
        thread.start()
        while not found:
            thread.join(JOIN_SECONDS)
            self.look()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def every(self):
        """All that have been made."""
        return list(self.made.values())

"""NVIDIA's library of collectives without cards: one that checks what it is asked.

Every rank is a process with a machine of `tests.cuda.driver` of its own. What a rank gives
goes into a folder when its queue comes to it, and a collective is over when what all others
give is there, or when it is aborted: then its results are not. Ranks that ask for different
things wait for ever, as with NVIDIA's. Arguments go through prototypes as its header has
them.
"""

from __future__ import annotations

import ctypes
import itertools
import secrets
import time
from pathlib import Path

import numpy as np

from rushlight.runtime.cuda.nccl import SIGNATURES
from tests.cuda.driver import Misuse, Work, near

SUCCESS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = 0, 4, 5, 6
TEXTS = {
    4: b"invalid argument (run with NCCL_DEBUG=WARN for details)",
    5: b"invalid usage",
}
TEXTS[6] = b"remote process exited or there was a network error"
BFLOAT16 = 9
KINDS = {
    0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8",
    BFLOAT16: "u2", 10: "u1", 11: "u1",
}  # fmt: skip
SUM, PRODUCT, MAX, MIN, MEAN = range(5)
OWN_OPS = 64  # numbers of reductions that a rank has made begin here


class Identity(ctypes.Structure):
    """``ncclUniqueId``."""

    _fields_ = [("internal", ctypes.c_byte * 128)]


P, I, N = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
OUT = ctypes.POINTER
# As `nccl.h` has them: const void* and handles are pointers, enumerations are ints.
HEADER = {
    "ncclGetVersion": [OUT(I)],
    "ncclGetUniqueId": [OUT(Identity)],
    "ncclCommInitRank": [OUT(P), I, Identity, I],
    "ncclCommDestroy": [P],
    "ncclCommAbort": [P],
    "ncclCommGetAsyncError": [P, OUT(I)],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": [P, P, N, I, I, P, P],
    "ncclReduce": [P, P, N, I, I, I, P, P],
    "ncclBroadcast": [P, P, N, I, I, P, P],
    "ncclAllGather": [P, P, N, I, P, P],
    "ncclReduceScatter": [P, P, N, I, I, P, P],
    "ncclSend": [P, N, I, I, P, P],
    "ncclRecv": [P, N, I, I, P, P],
    "ncclRedOpCreatePreMulSum": [OUT(I), P, I, I, P],
    "ncclRedOpDestroy": [I, P],
}


class Refused(Exception):
    """Ends a call with a result code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


class Comm:
    """A communicator as one rank has it.

    Args:
        folder: where its ranks leave what they give.
        context: of the card.
        size: the number of ranks.
        rank: this one.
    """

    def __init__(self, folder, context, size, rank):
        self.folder, self.context, self.size, self.rank = folder, context, size, rank
        self.collectives = itertools.count()
        self.messages: dict = {}
        self.ops: dict = {}
        self.is_aborted, self.error = False, SUCCESS
        self.on_its_way = 0

    def message(self, end, source, target):
        """A name for the next message from a rank to a rank, at one of its ends."""
        turns = self.messages.setdefault((end, source, target), itertools.count())
        return f"message-{source}-{target}-{next(turns)}"


class Exchange:
    """What one launch gives to other ranks, and awaits of them: `Work.waits` for it.

    Args:
        comm: the communicator.
    """

    def __init__(self, comm):
        self.comm = comm
        self.gives: list = []  # (file's name, what gives its octets)
        self.awaits: list = []  # (file's name, its number of octets)
        self.puts: list = []  # called once all is there
        self.has_given = False

    @property
    def done(self):
        """1 when all has come; the queue asks when it has come to it."""
        comm = self.comm
        if comm.is_aborted:
            return 1
        if not self.has_given:
            self.has_given = True
            for name, octets in self.gives:
                leave(comm.folder / name, octets())
        return int(all((comm.folder / name).exists() for name, _ in self.awaits))

    def finish(self):
        """Put what has come where it belongs."""
        self.comm.on_its_way -= 1
        if not self.comm.is_aborted:
            for put in self.puts:
                put()


def leave(path, octets):
    """Writes a file that is there whole, or not at all."""
    whole = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    whole.write_bytes(octets)
    whole.replace(path)


def widened(octets, kind):
    """Elements for a computation."""
    found = np.frombuffer(octets, KINDS[kind])
    if kind == BFLOAT16:
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found


def narrowed(values, kind):
    """The octets of what was computed."""
    if kind != BFLOAT16:
        return values.astype(KINDS[kind]).tobytes()
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()


class FakeNccl:
    """The functions of libnccl.

    Args:
        driver: the imagined driver of this process.
        folder: one that all ranks see.
    """

    def __init__(self, driver, folder):
        self.driver, self.root = driver, Path(folder)
        self.comms: dict = {}
        self.calls: list = []
        self.depth, self.pending = 0, []
        self.last, self.kept = b"", []
        for name, arguments in HEADER.items():
            own = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(self._checked(name))
            self.kept.append(own)
            place = ctypes.cast(own, ctypes.c_void_p).value
            caller = ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES[name])
            setattr(
                self, name, caller(place)
            )  # as C is called: by the bits of arguments

    def _checked(self, name):
        function = getattr(self, "_" + name)

        def called(*arguments):
            try:
                if name not in ("ncclCommInitRank", "ncclCommAbort"):
                    with self.driver.lock:
                        self.calls.append(name)
                        function(*arguments)
                else:
                    self.calls.append(name)
                    function(*arguments)
            except Refused as error:
                self.last = error.text.encode()
                return error.code
            except BaseException as error:  # no exception goes through C
                self.last = repr(error).encode()
                return INVALID_USAGE
            return SUCCESS

        return called

    def ncclGetErrorString(self, code):
        return TEXTS[code]

    def ncclGetLastError(self, comm):
        return self.last

    # -- communicators -----------------------------------------------------------------

    def _ncclGetVersion(self, out):
        out[0] = 22803

    def _ncclGetUniqueId(self, out):
        name = secrets.token_hex(16).encode()
        ctypes.memmove(out, name.ljust(128, b"\0"), 128)

    def _ncclCommInitRank(self, out, size, identity, rank):
        context = self.driver.need_context()
        if not 0 <= rank < size:
            raise Refused(INVALID_ARGUMENT, f"rank {rank} of {size}")
        folder = self.root / bytes(identity.internal).rstrip(b"\0").decode()
        folder.mkdir(exist_ok=True)
        leave(folder / f"joined-{rank}", str(context.device).encode())
        others = [folder / f"joined-{other}" for other in range(size)]
        while not all(each.exists() for each in others):
            time.sleep(0.001)
        cards = [each.read_text() for each in others]
        if len(set(cards)) < size:
            raise Refused(INVALID_USAGE, f"Duplicate GPU detected: {cards}")
        handle = 0x5000_0000 + 16 * len(self.comms)
        self.comms[handle] = Comm(folder, context, size, rank)
        out[0] = handle

    def known(self, handle):
        """The communicator of a handle."""
        found = self.comms.get(handle)
        if found is None or found.is_aborted:
            raise Refused(INVALID_ARGUMENT, f"{handle} is no communicator")
        if self.driver.need_context() is not found.context:
            raise Refused(INVALID_USAGE, "the communicator is another card's")
        return found

    def _ncclCommDestroy(self, handle):
        if self.known(handle).on_its_way:
            raise Misuse("a communicator is destroyed while work is on its way")
        self.comms[handle] = None

    def _ncclCommAbort(self, handle):
        # Others may be in the driver and wait for what this ends.
        found, self.comms[handle] = self.comms[handle], None
        found.is_aborted = True

    def _ncclCommGetAsyncError(self, handle, out):
        out[0] = self.known(handle).error

    # -- what goes into queues ------------------------------------------------------------

    def _ncclGroupStart(self):
        self.depth += 1

    def _ncclGroupEnd(self):
        if not self.depth:
            raise Refused(INVALID_USAGE, "ncclGroupEnd: no group is open")
        self.depth -= 1
        if self.depth:
            return
        pending, self.pending = self.pending, []
        launches: dict = {}
        for comm, stream, fill in pending:
            key = comm, stream
            if key not in launches:
                launches[key] = Exchange(comm)
            fill(launches[key])
        for (comm, stream), exchange in launches.items():
            comm.on_its_way += 1
            what = "nccl"
            self.driver.put(stream, Work(exchange.finish, (exchange, 1), what))

    def later(self, comm, stream, fill):
        """Takes a call into the group that is open, or into one of its own."""
        stream = stream or 0
        self.driver.queue(stream)
        self._ncclGroupStart()
        self.pending.append((comm, stream, fill))
        self._ncclGroupEnd()

    def run(self, comm, address, count, kind, what):
        """Checks that a run lies on the card; what reads it, and what writes it."""
        if kind not in KINDS:
            raise Refused(INVALID_ARGUMENT, f"{what}: {kind} is no type")
        length = count * np.dtype(KINDS[kind]).itemsize
        if not length:
            return lambda: b"", lambda octets: None
        held = self.driver.holder(address or 0, length, (self.driver.device,))
        if held is None or held.where != comm.context.device:
            raise Refused(
                INVALID_ARGUMENT,
                f"{what}: {length} bytes at {address} are not on card {comm.context.device}",
            )
        if address % np.dtype(KINDS[kind]).itemsize:
            raise Refused(INVALID_ARGUMENT, f"{what}: {address:#x} is not aligned")

        def read():
            self.driver.still(held, f"nccl ({what})")
            return ctypes.string_at(near(address), length)

        def write(octets):
            self.driver.still(held, f"nccl ({what})")
            assert len(octets) == length, (what, len(octets), length)
            ctypes.memmove(near(address), octets, length)

        return read, write

    def collective(self, handle, stream, facts, read, put):
        """One that all ranks give to; ``put`` gets the octets of each.

        Args:
            handle: the communicator.
            stream: the driver's.
            facts: what must be the same on all ranks, or they wait for ever.
            read: gives this rank's octets; None where it gives none.
            put: called with rank -> octets.
        """
        comm = self.known(handle)
        stem = "-".join(map(str, (next(comm.collectives), *facts)))

        def fill(exchange):
            exchange.gives.append((f"{stem}-from-{comm.rank}", read))
            names = [f"{stem}-from-{rank}" for rank in range(comm.size)]
            exchange.awaits += [(name, None) for name in names]
            exchange.puts.append(
                lambda: put([(comm.folder / name).read_bytes() for name in names])
            )

        self.later(comm, stream, fill)

    def check_root(self, comm, root):
        if not 0 <= root < comm.size:
            raise Refused(INVALID_ARGUMENT, f"root {root} of {comm.size}")

    def reduced(self, comm, parts, kind, op):
        """What all ranks' octets are together, in the order of the ranks."""
        values = [widened(part, kind) for part in parts]
        if op >= OWN_OPS:
            factors = [comm.ops[op]] * len(values)
            values = [v * v.dtype.type(f) for v, f in zip(values, factors, strict=True)]
            op = SUM
        by = {SUM: np.add, PRODUCT: np.multiply, MAX: np.maximum, MIN: np.minimum}
        total = values[0].copy()
        for value in values[1:]:
            total = by.get(op, np.add)(total, value)
        if op == MEAN:
            whole = KINDS[kind][0] in "iu" and kind != BFLOAT16
            total = total // comm.size if whole else total / total.dtype.type(comm.size)
        return narrowed(total, kind)

    def check_op(self, comm, op):
        if op not in comm.ops and not SUM <= op <= MEAN:
            raise Refused(INVALID_ARGUMENT, f"{op} is no reduction")
        return op if op < OWN_OPS else "own"

    def _ncclAllReduce(self, source, target, count, kind, op, handle, stream):
        comm = self.known(handle)
        read, _ = self.run(comm, source, count, kind, "sendbuff")
        _, write = self.run(comm, target, count, kind, "recvbuff")
        facts = "all_reduce", count, kind, self.check_op(comm, op)

        def put(parts):
            write(self.reduced(comm, parts, kind, op))

        self.collective(handle, stream, facts, read, put)

    def _ncclReduce(self, source, target, count, kind, op, root, handle, stream):
        comm = self.known(handle)
        self.check_root(comm, root)
        read, _ = self.run(comm, source, count, kind, "sendbuff")
        _, write = self.run(comm, target, count, kind, "recvbuff")
        facts = "reduce", count, kind, self.check_op(comm, op), root

        def put(parts):
            if comm.rank == root:
                write(self.reduced(comm, parts, kind, op))

        self.collective(handle, stream, facts, read, put)

    def _ncclBroadcast(self, source, target, count, kind, root, handle, stream):
        comm = self.known(handle)
        self.check_root(comm, root)
        read, _ = self.run(comm, source, count, kind, "sendbuff")
        _, write = self.run(comm, target, count, kind, "recvbuff")
        given = read if comm.rank == root else lambda: b""
        facts = "broadcast", count, kind, root
        self.collective(handle, stream, facts, given, lambda parts: write(parts[root]))

    def _ncclAllGather(self, source, target, count, kind, handle, stream):
        comm = self.known(handle)
        read, _ = self.run(comm, source, count, kind, "sendbuff")
        _, write = self.run(comm, target, comm.size * count, kind, "recvbuff")
        self.check_place(comm, source, target, count, kind)
        facts = "all_gather", count, kind
        self.collective(
            handle, stream, facts, read, lambda parts: write(b"".join(parts))
        )

    def check_place(self, comm, one, many, count, kind):
        """A rank's part may lie in the whole at its own place alone."""
        length = count * np.dtype(KINDS[kind]).itemsize
        own, end = many + comm.rank * length, many + comm.size * length
        if many - length < one < end and one != own:
            raise Refused(INVALID_USAGE, "the part lies in the whole, at another place")

    def _ncclReduceScatter(self, source, target, count, kind, op, handle, stream):
        comm = self.known(handle)
        read, _ = self.run(comm, source, comm.size * count, kind, "sendbuff")
        _, write = self.run(comm, target, count, kind, "recvbuff")
        self.check_place(comm, target, source, count, kind)
        facts = "reduce_scatter", count, kind, self.check_op(comm, op)

        def put(parts):
            whole = self.reduced(comm, parts, kind, op)
            length = len(whole) // comm.size
            write(whole[comm.rank * length : comm.rank * length + length])

        self.collective(handle, stream, facts, read, put)

    def _ncclSend(self, source, count, kind, rank, handle, stream):
        comm = self.known(handle)
        self.check_root(comm, rank)
        read, _ = self.run(comm, source, count, kind, "sendbuff")
        name = comm.message("send", comm.rank, rank)

        def fill(exchange):
            exchange.gives.append((f"{name}-{count}-{kind}", read))

        self.later(comm, stream, fill)

    def _ncclRecv(self, target, count, kind, rank, handle, stream):
        comm = self.known(handle)
        self.check_root(comm, rank)
        _, write = self.run(comm, target, count, kind, "recvbuff")
        name = comm.message("recv", rank, comm.rank) + f"-{count}-{kind}"

        def fill(exchange):
            exchange.awaits.append((name, None))
            path = comm.folder / name
            exchange.puts.append(lambda: write(path.read_bytes()))

        self.later(comm, stream, fill)

    def _ncclRedOpCreatePreMulSum(self, out, scalar, kind, residence, handle):
        comm = self.known(handle)
        if residence != 1 or kind not in (6, 7, 8, 9):
            raise Refused(INVALID_ARGUMENT, "a factor on the card, or of that type")
        width = np.dtype(KINDS[kind]).itemsize
        out[0] = OWN_OPS + len(comm.ops)
        comm.ops[out[0]] = widened(ctypes.string_at(scalar, width), kind)[0]

    def _ncclRedOpDestroy(self, op, handle):
        if op not in self.known(handle).ops:
            raise Refused(INVALID_ARGUMENT, f"{op} is no reduction of its own")

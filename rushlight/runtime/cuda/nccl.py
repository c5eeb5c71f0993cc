"""NVIDIA's library of collectives between devices, libnccl, through ctypes.

It is loaded when a process group first asks for it: the one of the wheel
``nvidia-nccl-cu12``, or the system's. Anything with the same functions can stand in for
it: the tests put a library there that checks what it is asked.
"""

import ctypes
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from rushlight.core.errors import AcceleratorError
from rushlight.runtime.cpu.launch import count_launch

IN_PROGRESS = 7
IDENTITY_BYTES = 128
FILE = "libnccl.so.2"
# ncclDataType_t and ncclRedOp_t, by the names of types and reductions here.
TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
    "float8_e4m3fn": 10, "float8_e5m2": 11,
}  # fmt: skip
REDUCTIONS = {"sum": 0, "product": 1, "max": 2, "min": 3, "avg": 4}
ON_HOST = 1  # where the factor of a premultiplied sum is: read when it is made


class Identity(ctypes.Structure):
    """What the ranks of a communicator know it by."""

    _fields_ = [("octets", ctypes.c_char * IDENTITY_BYTES)]


_COMM = _STREAM = _ADDRESS = ctypes.c_void_p
_INT, _SIZE = ctypes.c_int, ctypes.c_size_t
_INT_OUT = ctypes.POINTER(ctypes.c_int)
SIGNATURES = {
    "ncclGetVersion": (_INT_OUT,),
    "ncclGetUniqueId": (ctypes.POINTER(Identity),),
    "ncclCommInitRank": (ctypes.POINTER(_COMM), _INT, Identity, _INT),
    "ncclCommDestroy": (_COMM,),
    "ncclCommAbort": (_COMM,),
    "ncclCommGetAsyncError": (_COMM, _INT_OUT),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _COMM, _STREAM),
    "ncclReduce": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _INT, _COMM, _STREAM),
    "ncclBroadcast": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _COMM, _STREAM),
    "ncclAllGather": (_ADDRESS, _ADDRESS, _SIZE, _INT, _COMM, _STREAM),
    "ncclReduceScatter": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _COMM, _STREAM),
    "ncclSend": (_ADDRESS, _SIZE, _INT, _INT, _COMM, _STREAM),
    "ncclRecv": (_ADDRESS, _SIZE, _INT, _INT, _COMM, _STREAM),
    "ncclRedOpCreatePreMulSum": (_INT_OUT, _ADDRESS, _INT, _INT, _COMM),
    "ncclRedOpDestroy": (_INT, _COMM),
}
TEXTS = {"ncclGetErrorString": (_INT,), "ncclGetLastError": (_COMM,)}


def _library_paths():
    """Where the library may be, the wheel's first."""
    spec = find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "nccl" / "lib" / FILE
        if path.exists():
            yield str(path)
    yield FILE


class Nccl:
    """The library, found when it is first asked."""

    def __init__(self):
        self.found = None
        self.missing = ""
        self.lock = threading.Lock()

    def library(self):
        """What has its functions.

        Raises:
            RuntimeError: it is not on this machine.
        """
        with self.lock:
            if self.found is None and not self.missing:
                self._find()
        if self.found is None:
            raise RuntimeError(
                f"Distributed package doesn't have NCCL built in: {self.missing}\n"
                '  remedy: pip install nvidia-nccl-cu12, or backend="gloo", which copies '
                "tensors of cards by way of the host"
            )
        return self.found

    def _find(self):
        for place in _library_paths():
            try:
                found = ctypes.CDLL(place)
            except OSError as error:
                self.missing = str(error)
                continue
            for name, arguments in (SIGNATURES | TEXTS).items():
                function = getattr(found, name)
                function.argtypes = list(arguments)
                function.restype = ctypes.c_char_p if name in TEXTS else _INT
            self.found, self.missing = found, ""
            return

    def present(self):
        """Whether it can be called."""
        try:
            self.library()
        except RuntimeError:
            return False
        return True

    def call(self, name, *arguments, comm=None):
        """Call a function.

        Args:
            name: its name.
            arguments: what it takes.
            comm: the communicator that an error is asked of.

        Raises:
            AcceleratorError: it reports an error.
        """
        library = self.library()
        count_launch()
        code = getattr(library, name)(*arguments)
        if code not in (0, IN_PROGRESS):
            raise AcceleratorError(self.describe(code, name, comm))
        return code

    def describe(self, code, name, comm=None):
        """An error in words.

        Args:
            code: of the library.
            name: the function that gave it.
            comm: the communicator.
        """
        library = self.library()
        text = library.ncclGetErrorString(code).decode()
        last = library.ncclGetLastError(comm) or b""
        lines = [f"NCCL error: {text}", f"  function: {name} returned {code}"]
        if last.strip():
            lines.append(f"  last error: {last.decode().strip()}")
        return "\n".join(lines)

    def version(self):
        """Its version, as (major, minor, patch)."""
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        major, rest = divmod(number.value, 10000)
        return major, *divmod(rest, 100)

    def identity(self):
        """The octets of a new identity: one rank makes it, and all are told."""
        made = Identity()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return ctypes.string_at(ctypes.addressof(made), IDENTITY_BYTES)

    def replace(self, library):
        """Put another library in place, or None for the machine's own.

        Args:
            library: anything with its functions.
        """
        self.found, self.missing = library, ""


NCCL = Nccl()


class Communicator:
    """One rank's end of what connects devices; made when all ranks have come.

    Args:
        context: the device of this rank, a ``runtime.cuda.contexts.CudaContext``.
        identity: octets that all ranks know.
        size: the number of ranks.
        rank: this one.
    """

    def __init__(self, context, identity, size, rank):
        self.context, self.size, self.rank = context, size, rank
        self.is_open = True
        self.lock = threading.Lock()
        handle, made = ctypes.c_void_p(), Identity()
        ctypes.memmove(ctypes.addressof(made), identity, IDENTITY_BYTES)
        context.enter()
        NCCL.call("ncclCommInitRank", ctypes.byref(handle), size, made, rank)
        self.handle = handle.value

    def _call(self, name, *arguments):
        self.context.enter()
        NCCL.call(name, *arguments, comm=self.handle)

    @contextmanager
    def grouped(self):
        """Calls of the block become one launch: sends and receives must, to meet."""
        self._call("ncclGroupStart")
        try:
            yield
        finally:
            self._call("ncclGroupEnd")

    def all_reduce(self, run, op, stream):
        """Reduce a run of elements of all ranks, in place.

        Args:
            run: (address, count, type), as those below take it.
            op: the library's number.
            stream: the driver's number of the stream.
        """
        at, count, kind = run
        self._call("ncclAllReduce", at, at, count, kind, op, self.handle, stream)

    def reduce(self, run, op, root, stream):
        """Reduce a run of all ranks on one."""
        at, *rest = run
        self._call("ncclReduce", at, at, *rest, op, root, self.handle, stream)

    def broadcast(self, run, root, stream):
        """Copy one rank's run to all."""
        at, *rest = run
        self._call("ncclBroadcast", at, at, *rest, root, self.handle, stream)

    def all_gather(self, run, target, stream):
        """Bring the runs of all ranks to an address, behind one another."""
        at, *rest = run
        self._call("ncclAllGather", at, target, *rest, self.handle, stream)

    def reduce_scatter(self, source, run, op, stream):
        """Reduce the parts at an address into each rank's run."""
        self._call("ncclReduceScatter", source, *run, op, self.handle, stream)

    def send(self, run, rank, stream):
        """Send a run to a rank."""
        self._call("ncclSend", *run, rank, self.handle, stream)

    def receive(self, run, rank, stream):
        """Receive a run from a rank."""
        self._call("ncclRecv", *run, rank, self.handle, stream)

    @contextmanager
    def premultiplied(self, factor, kind):
        """The number of a sum whose values are first multiplied by a factor.

        Args:
            factor: a ctypes number of the elements' type.
            kind: the library's number of that type.
        """
        op = ctypes.c_int()
        create = "ncclRedOpCreatePreMulSum"
        address = ctypes.addressof(factor)
        self._call(create, ctypes.byref(op), address, kind, ON_HOST, self.handle)
        try:
            yield op.value
        finally:
            self._call("ncclRedOpDestroy", op.value, self.handle)

    def error(self):
        """What has gone wrong in the background, in words; empty where nothing has."""
        code = ctypes.c_int()
        with self.lock:
            if not self.is_open:
                return ""
            self._call("ncclCommGetAsyncError", self.handle, ctypes.byref(code))
        if code.value in (0, IN_PROGRESS):
            return ""
        return NCCL.describe(code.value, "ncclCommGetAsyncError", self.handle)

    def abort(self):
        """End what is on its way, and the communicator."""
        self._end("ncclCommAbort")

    def destroy(self):
        """Give it back, once nothing is on its way."""
        self._end("ncclCommDestroy")

    def _end(self, name):
        with self.lock:
            if self.is_open:
                self.is_open = False
                self._call(name, self.handle)

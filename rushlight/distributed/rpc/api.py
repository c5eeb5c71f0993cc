"""Calls from process to process, and references to values that others own."""

import itertools
import threading
import weakref

from rushlight.distributed.autograd import contexts
from rushlight.distributed.rpc import _codec
from rushlight.distributed.rpc._agent import Agent, RpcFuture, WorkerInfo, current

__all__ = [
    "RRef",
    "get_worker_info",
    "method_factory",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

UNSET_RPC_TIMEOUT = -1.0


def agent():
    """This process's agent.

    Raises:
        RuntimeError: ``init_rpc`` has not been called.
    """
    found = current["agent"]
    if found is None:
        raise RuntimeError(
            "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."
        )
    return found


def get_worker_info(worker_name=None):
    """A process by its name; this one without it.

    Args:
        worker_name: the name.
    """
    found = agent()
    return found.own if worker_name is None else found.worker(worker_name)


# -- values and their gradients on the wire ------------------------------------------


def _packed(value):
    """Octets of a value, and of what context its tensors' gradients are."""
    header = contexts.note_sent(value)
    return header, _codec.encode(value)


def _opened(header, payload):
    value = _codec.decode(payload)
    return contexts.note_received(value, header)


def _run(header, payload):
    """What a call of another process gives."""
    with contexts.entered(header.get("context")):
        function, args, kwargs = _opened(header, payload)
        result = function(*args, **kwargs)
        if getattr(function, "_wraps_async", False):
            result = result.wait()
        return result


def _answer_call(header, payload):
    result = _run(header, payload)
    with contexts.entered(header.get("context")):
        more, octets = _packed(result)
    return {**more, "as": "value"}, octets


# -- calls ---------------------------------------------------------------------------


def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Call a function in another process; the future of its result.

    Args:
        to: the process: a name, a number or a ``WorkerInfo``.
        func: a function that the other process has by the same name.
        args: its arguments: tensors, numbers, text, references, containers of them.
        kwargs: those by name.
        timeout: seconds that it may take; 0 for any time, as ``init_rpc`` says without.
    """
    found = agent()
    header, payload = _packed((func, tuple(args or ()), dict(kwargs or {})))
    header["op"] = "call"
    return found.ask(found.worker(to), header, payload, timeout)


def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Call a function in another process, and wait for its result.

    Args:
        to: the process: a name, a number or a ``WorkerInfo``.
        func: a function that the other process has by the same name.
        args: its arguments.
        kwargs: those by name.
        timeout: seconds that it may take.

    Raises:
        RuntimeError: it takes longer, or the process is gone.
        Exception: what the function raised, with where.
    """
    return rpc_async(to, func, args, kwargs, timeout).wait()


def remote(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Call a function in another process, which keeps its result.

    Args:
        to: the process.
        func: a function or class that the other process has by the same name.
        args: its arguments.
        kwargs: those by name.
        timeout: seconds that it may take.

    Returns:
        An ``RRef`` of the result.
    """
    found = agent()
    owner = found.worker(to)
    made = RRef._of(owner, f"{found.own.id}.{next(_numbers)}", is_new=True)
    header, payload = _packed((func, tuple(args or ()), dict(kwargs or {})))
    header.update(op="remote", rref=made._number)
    made._future = found.ask(owner, header, payload, timeout)
    return made


# -- references ----------------------------------------------------------------------

_numbers = itertools.count()
_owned: dict = {}  # number -> the value that this process keeps for others
_guard = threading.Lock()


class _Kept:
    """A value that others refer to, and how many do."""

    def __init__(self):
        self.future, self.count = RpcFuture(), 1


def _kept(number):
    with _guard:
        return _owned.setdefault(number, _Kept())


def _answer_remote(header, payload):
    kept = _kept(header["rref"])
    try:
        kept.future.set_result(_run(header, payload))
    except Exception as error:
        kept.future.set_exception(error)
    return {"as": "value"}, _codec.encode(None)


def _answer_fetch(header, payload):
    value = _kept(header["rref"]).future.wait()
    with contexts.entered(header.get("context")):
        more, octets = _packed(value)
    return {**more, "as": "value"}, octets


def _answer_count(header, payload):
    number, change = header["rref"], header["change"]
    with _guard:
        kept = _owned.get(number)
        if kept is not None:
            kept.count += change
            if kept.count <= 0:
                del _owned[number]
    return {"as": "value"}, _codec.encode(None)


def _count(owner, number, change):
    """Tell an owner that one more, or one less, refers to a value."""
    found = current["agent"]
    if found is None:
        return None
    header = {"rref": number, "change": change}
    if owner.id == found.own.id:
        _answer_count(header, b"")
        return None
    try:
        return found.ask(owner, {**header, "op": "count"})
    except (OSError, RuntimeError):
        return None


class RRef:
    """A reference to a value that one process owns.

    Args:
        value: the value, which this process keeps.
        type_hint: without effect.
    """

    __module__ = "rushlight.distributed.rpc"

    def __init__(self, value, type_hint=None):
        found = agent()
        self._owner, self._number = found.own, f"{found.own.id}.{next(_numbers)}"
        kept = _kept(self._number)
        kept.future.set_result(value)
        self._future = None
        weakref.finalize(self, _count, self._owner, self._number, -1)

    @classmethod
    def _of(cls, owner, number, is_new=False):
        made = cls.__new__(cls)
        made._owner, made._number, made._future = owner, number, None
        weakref.finalize(made, _count, owner, number, -1)
        return made

    def owner(self):
        """The process that has the value."""
        return self._owner

    def owner_name(self):
        """Its name."""
        return self._owner.name

    def is_owner(self):
        """Whether it is this one."""
        return self._owner.id == agent().own.id

    def confirmed_by_owner(self):
        """Whether the owner knows of this reference."""
        return self._future is None or self._future.done()

    def local_value(self):
        """The value, on its owner.

        Raises:
            RuntimeError: this process is not the owner.
        """
        if not self.is_owner():
            raise RuntimeError(
                f"For UserRRef, can't call localValue() on {self!r}: "
                f"call it on {self._owner!r}, or to_here()"
            )
        return _kept(self._number).future.wait()

    def to_here(self, timeout=UNSET_RPC_TIMEOUT):
        """The value: copied, where this process is not the owner.

        Args:
            timeout: seconds that it may take.
        """
        if self.is_owner():
            return self.local_value()
        if self._future is not None:
            self._future.wait()
        header = contexts.note_sent(None)
        header.update(op="fetch", rref=self._number)
        return agent().ask(self._owner, header, b"", timeout).wait()

    def rpc_sync(self, timeout=UNSET_RPC_TIMEOUT):
        """The value's methods, called where it is.

        Args:
            timeout: seconds that each may take.
        """
        return _Methods(self, rpc_sync, timeout)

    def rpc_async(self, timeout=UNSET_RPC_TIMEOUT):
        """The same, with futures of their results.

        Args:
            timeout: seconds that each may take.
        """
        return _Methods(self, rpc_async, timeout)

    def remote(self, timeout=UNSET_RPC_TIMEOUT):
        """The same, with references to their results.

        Args:
            timeout: seconds that each may take.
        """
        return _Methods(self, remote, timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """Run a backward from the value, a number, where it is.

        Args:
            dist_autograd_ctx_id: the context that gets the gradients; those of the
                owner's own tensors without it.
            retain_graph: whether the graph is kept.
        """
        if not self.is_owner():
            rpc_sync(self._owner, _backward, (self, dist_autograd_ctx_id, retain_graph))
            return
        _backward(self, dist_autograd_ctx_id, retain_graph)

    def __repr__(self):
        kind = "OwnerRRef" if self.is_owner() else "UserRRef"
        return f"{kind}({self._number}, owner={self._owner.name})"


def _backward(rref, context_id, retain_graph):
    value = rref.local_value()
    if context_id < 0:
        value.backward(retain_graph=retain_graph)
    else:
        contexts.backward(context_id, [value], retain_graph)


def _sent(rref):
    """A reference on its way: it counts for who gets it from now on."""
    done = _count(rref._owner, rref._number, 1)
    if done is not None:
        done.wait()
    return [list(rref._owner), rref._number]


_codec.register(
    RRef,
    _codec.REFERENCE,
    _sent,
    lambda facts: RRef._of(WorkerInfo(*facts[0]), facts[1]),
)


def _call_method(rref, name, args, kwargs):
    return getattr(rref.local_value(), name)(*args, **kwargs)


class _Methods:
    """The methods of a value that another process owns."""

    def __init__(self, rref, call, timeout):
        self._rref, self._call, self._timeout = rref, call, timeout

    def __getattr__(self, name):
        def call(*args, **kwargs):
            given = self._rref, name, args, kwargs
            return self._call(
                self._rref.owner(), _call_method, given, timeout=self._timeout
            )

        return call


def method_factory(method_name, docstring):
    """A method that calls the value's of the same name.

    Args:
        method_name: the name.
        docstring: its text.
    """

    def method(self, *args, **kwargs):
        return getattr(super(RRef, self), method_name)(*args, **kwargs)

    method.__doc__ = docstring
    return method


# -- beginning and end ---------------------------------------------------------------


def start(store, name, rank, size, timeout, host):
    """Join the processes that call each other."""
    found = Agent(store, name, rank, size, timeout, host)
    found.handlers = {
        "call": _answer_call,
        "remote": _answer_remote,
        "fetch": _answer_fetch,
        "count": _answer_count,
        "backward": contexts.answer_backward,
        "release": contexts.answer_release,
    }
    found.openers = {"value": _opened}
    current["agent"] = found
    contexts.bind(found.own.id, _ask_context, _codec.decode)
    found.barrier("begin")


def _ask_context(worker, header, value=None):
    found = agent()
    payload = _codec.encode(value)
    return found.ask(found.worker(worker), header, payload)


def shutdown(graceful=True, timeout=0):
    """Leave the processes that call each other.

    Args:
        graceful: whether to wait until all of them come here, answering meanwhile.
        timeout: without effect.
    """
    found = agent()
    if graceful:
        found.barrier("shutdown")
        found.barrier("close")
        found.part()
    current["agent"] = None
    found.close()
    with _guard:
        _owned.clear()
    contexts.clear()

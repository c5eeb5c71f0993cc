"""The queues of devices in a backward sweep: each node runs where its forward call ran.

As PyTorch documents: gradients that another queue brings are waited for by the node's own;
a leaf's gradient is added in the queue where the leaf was first used; and the queues of the
caller wait, in the end, for all that the sweep has used. Nothing of this is looked at before
a program has chosen a queue for the first time.
"""

import threading
from weakref import WeakKeyDictionary

from rushlight.autograd import engine, node
from rushlight.core.device import backend_for

_kinds: dict = {}  # kinds of devices: how their first queue is found, and used memory told
_queues: WeakKeyDictionary = WeakKeyDictionary()  # of nodes
_thread = threading.local()


def start(kind, first, use):
    """Notes queues from now on: a program has chosen one.

    Args:
        kind: of devices, such as ``"cuda"``.
        first: gives a device's first queue.
        use: tells the owner of a tensor's memory of a queue that uses it.
    """
    if kind not in _kinds:
        _kinds[kind] = first, use
        node.set_stream_notes(note)
        engine.follow_streams(Follower())


def current(device):
    """The queue that this thread's work on a device goes to."""
    return backend_for(device.type).streams.current_stream(device)


def note(made, device):
    """Keeps the queue that a node's call ran in.

    Args:
        made: the node.
        device: of its output.
    """
    if device.type in _kinds and made not in _queues:
        _queues[made] = current(device)


class Follower:
    """What the engine asks around nodes and gradients."""

    def begin(self):
        """A sweep begins: the queues that it uses are noted."""
        _thread.sweeps = (*getattr(_thread, "sweeps", ()), {})

    def end(self, results):
        """A sweep has ended: the caller's queues wait for those that it used.

        Args:
            results: gradients that the caller gets, or None.
        """
        *around, used = _thread.sweeps
        _thread.sweeps = tuple(around)
        for queue, device in used.items():
            mine = current(device)
            if mine != queue:
                mine.wait_stream(queue)
            if around:
                around[-1].setdefault(mine, device)
        for grad in results or ():
            self.use(grad, None)

    def enter(self, made, device):
        """Makes a node's queue the current one; what `leave` is to put back."""
        if device is None or device.type not in _kinds:
            return None
        queue = _queues.get(made) or _kinds[device.type][0](device)
        _thread.sweeps[-1].setdefault(queue, device)
        before = current(device)
        if before == queue:
            return None
        streams = backend_for(device.type).streams
        streams.set_stream(queue)
        return streams, before

    def leave(self, before):
        """Goes back to the queue before."""
        if before is not None:
            streams, queue = before
            streams.set_stream(queue)

    def receive(self, made, device, grad):
        """Has a node's queue wait for a gradient of the current one, and enters it."""
        brought = current(grad.device) if grad.device.type in _kinds else None
        before = self.enter(made, device)
        if brought is not None and device.type == grad.device.type:
            queue = current(device)
            if queue != brought:
                queue.wait_stream(brought)
                self.use(grad, queue)
        return before

    def use(self, grad, queue):
        """Tells the owner of a gradient's memory of a queue that uses it, its current one."""
        if (
            grad is None
            or grad.device.type not in _kinds
            or grad.layout.name != "strided"
        ):
            return
        _kinds[grad.device.type][1](grad, queue or current(grad.device))

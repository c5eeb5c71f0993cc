"""Gradients through calls: which tensors have gone to whom, in which backward.

A tensor that needs a gradient and goes to another process is noted here under a number; there
it is a leaf. When that leaf gets a gradient, it is sent back under the same number.
"""

import contextlib
import itertools
import threading

import rushlight as rl
from rushlight.core.state import AttributeScope
from rushlight.utils import _pytree as pytree

BITS = 48
_state: dict = {"worker": 0, "ask": None, "decode": None}
_contexts: dict = {}
_here = threading.local()
_numbers = itertools.count()
_lock = threading.RLock()


class _Context:
    """One backward over several processes: what this one needs of it."""

    def __init__(self, number):
        self.number = number
        self.sent, self.received = {}, {}
        self.grads, self.workers = {}, set()
        self.lock = threading.RLock()


def bind(worker, ask, decode):
    """Take this process's number, and what sends and reads requests.

    Args:
        worker: the number.
        ask: called with a worker, a header and a value.
        decode: makes the value of a request's octets.
    """
    _state.update(worker=worker, ask=ask, decode=decode)


def clear():
    """Forget all contexts."""
    _contexts.clear()
    _state["ask"] = None


def _context(number):
    with _lock:
        return _contexts.setdefault(number, _Context(number))


def entered(number):
    """A block that belongs to a context; to none where the number is None.

    Args:
        number: the context's.
    """
    return AttributeScope(_here, number=number)


@contextlib.contextmanager
def context():
    """A block of calls whose gradients belong together; gives its number."""
    if _state["ask"] is None:
        raise RuntimeError(
            "Need to initialize distributed autograd using "
            "torch.distributed.autograd._init()"
        )
    number = (_state["worker"] << BITS) + next(_numbers)
    made = _context(number)
    try:
        with entered(number):
            yield number
    finally:
        _release(made)


def _release(made):
    with _lock:
        _contexts.pop(made.number, None)
    for worker in made.workers:
        if _state["ask"] is not None:
            _state["ask"](worker, {"op": "release", "context": made.number})


def answer_release(header, payload):
    """Forget a context, and have those forget it that this process has called in it."""
    with _lock:
        found = _contexts.pop(header["context"], None)
    if found is not None:
        for worker in found.workers - {header["from"]}:
            _state["ask"](worker, {"op": "release", "context": header["context"]})
    return {}, b""


def _tensors(value):
    return [
        each
        for each in pytree.tree_leaves(value)
        if isinstance(each, rl.Tensor) and each.requires_grad
    ]


def note_sent(value):
    """Note tensors that go to another process; the header that says so.

    Args:
        value: what goes.
    """
    number = getattr(_here, "number", None)
    if number is None:
        return {}
    header = {"context": number}
    tensors = _tensors(value)
    if tensors:
        message = (_state["worker"] << BITS) + next(_numbers)
        _context(number).sent[message] = tensors
        header["message"] = message
    return header


def note_received(value, header):
    """The value with tensors that send their gradients back.

    Args:
        value: what has come.
        header: what came with it.
    """
    number, message = header.get("context"), header.get("message")
    if number is None:
        return value
    found = _context(number)
    if "from" in header:
        found.workers.add(header["from"])
    if message is None:
        return value
    leaves = []

    def leaf(each):
        if not (isinstance(each, rl.Tensor) and each.requires_grad):
            return each
        made = each.detach().requires_grad_()
        found.received[id(made)] = made, message, len(leaves)
        leaves.append(made)
        return made

    found.workers.add(message >> BITS)
    return pytree.tree_map(leaf, value)


# -- the backward --------------------------------------------------------------------


def _leaves_under(tensors):
    """The leaves that gradients of tensors reach."""
    found, seen, waiting = {}, set(), []
    for each in tensors:
        if each.grad_fn is None:
            found[id(each)] = each
        else:
            waiting.append(each.grad_fn)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        waiting += [each for each, _ in node.next_functions if each is not None]
    return list(found.values())


def _run(made, tensors, grads, retain_graph=True):
    """Gradients of this process's graph; those of others' tensors go to them."""
    leaves = _leaves_under(tensors)
    if not leaves:
        return
    with made.lock:
        results = rl.autograd.grad(
            tensors, leaves, grads, retain_graph=retain_graph, allow_unused=True
        )
    outgoing: dict = {}
    with made.lock:
        for leaf, grad in zip(leaves, results):
            if grad is None:
                continue
            if id(leaf) in made.received:
                _, message, position = made.received[id(leaf)]
                outgoing.setdefault(message, {})[position] = grad
            else:
                key = id(leaf)
                before = made.grads.get(key)
                total = grad if before is None else before[1] + grad
                made.grads[key] = leaf, total
    futures = [
        _state["ask"](
            message >> BITS,
            {"op": "backward", "context": made.number, "message": message},
            parts,
        )
        for message, parts in outgoing.items()
    ]
    for future in futures:
        future.wait()


def answer_backward(header, payload):
    """Go on with a backward that has come to this process's tensors."""
    made = _context(header["context"])
    tensors, parts = made.sent[header["message"]], _state["decode"](payload)
    positions = sorted(parts)
    _run(
        made,
        [tensors[position] for position in positions],
        [parts[i] for i in positions],
    )
    return {}, b""


def backward(context_id, roots, retain_graph=False):
    """Run a backward over all processes; gradients gather in the context.

    Args:
        context_id: its number.
        roots: tensors of one element each.
        retain_graph: whether the graph is kept: it is, as long as the context.

    Raises:
        RuntimeError: there is no such context, or a root has no gradient.
    """
    if context_id not in _contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for each in roots:
        if not each.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if each.numel() != 1:
            raise RuntimeError("root is not a scalar, all roots need to be scalar")
    grads = [rl.ones_like(each) for each in roots]
    _run(_context(context_id), list(roots), grads)


def get_gradients(context_id):
    """The gradients of this process's tensors in a context, by tensor.

    Args:
        context_id: its number.
    """
    if context_id not in _contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    return dict(_contexts[context_id].grads.values())

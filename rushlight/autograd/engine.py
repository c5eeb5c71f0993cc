"""The reverse sweep: walks the recorded graph from its results back to its leaves.

Nodes wait in a heap ordered by sequence number, the latest call first, until every
gradient they are owed has come; AccumulateGrad goes before all others. Nothing
recurses, however deep the graph is.
"""

from __future__ import annotations

import threading

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.ref import Py_REFCNT
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.rushlight.autograd.node import (
    AccumulateGrad,
    Node,
    edge_number,
    fit_gradient,
    gradient_edge,
    owns_memory,
)
from cython.cimports.rushlight.autograd.saved import listened_to
from cython.cimports.rushlight.core._python import (
    Py_DECREF,
    Py_INCREF,
    Py_XDECREF,
    p_object,
)
from cython.cimports.rushlight.core.keys import KEY_ABSENT, KEY_BATCHED
from cython.cimports.rushlight.core.spans import (
    SPAN_BACKWARD,
    SPAN_NODE,
    begin_span,
    end_span,
    is_profiled,
    recording_spans,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, hooks_of

from rushlight.autograd import anomaly_mode, errors

REENTRANT_LIMIT = cython.declare(cython.int, 60)
next_task = cython.declare(uint64_t, 0)
live_tasks = cython.declare(list, [])
spare_tasks = cython.declare(list, [])

Frame = cython.struct(
    node=p_object,  # owned
    grads=p_object,  # owned: one gradient or a list; NULL: none yet
    sequence=uint64_t,
    dependencies=cython.int,  # gradients still owed by other nodes of this task
    captured=cython.bint,  # grad() wants what arrives here
    run=cython.bint,  # the node itself has to run
    reach=cython.bint,  # something wanted lies here or behind
)


@cython.final
@cython.cclass
class GraphTask:
    """One call of ``backward`` or ``grad``: the part of the graph that it walks."""

    number: uint64_t
    thread: cython.long
    frames: cython.pointer(Frame)  # move while nodes are met, never during the sweep
    room: cython.int
    count: cython.int
    heap: cython.pointer(cython.int)
    heap_size: cython.int
    foreign: dict  # slots of nodes that another live task has claimed, by id
    keep_graph: cython.bint
    pruned: cython.bint
    captures: dict  # (slot, output number) -> list of places in results
    results: list
    callbacks: list

    def __dealloc__(self):
        self.clear()
        free(self.frames)
        free(self.heap)

    @cython.cfunc
    @cython.exceptval(check=False)
    def clear(self) -> cython.void:
        """Let go of every node and gradient; the arrays stay."""
        i: cython.int
        count: cython.int = self.count
        self.count = 0
        self.heap_size = 0
        for i in range(count):
            Py_XDECREF(self.frames[i].grads)
            Py_DECREF(self.frames[i].node)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        room: cython.int = 64 if self.room == 0 else 2 * self.room
        frames: cython.p_void = realloc(self.frames, room * cython.sizeof(Frame))
        if frames == cython.NULL:
            raise MemoryError("backward: no memory for the graph's nodes")
        self.frames = cython.cast(cython.pointer(Frame), frames)
        heap: cython.p_void = realloc(self.heap, room * cython.sizeof(cython.int))
        if heap == cython.NULL:
            raise MemoryError("backward: no memory for the graph's nodes")
        self.heap = cython.cast(cython.pointer(cython.int), heap)
        self.room = room
        return 0


# --- where a node stands in a task ----------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(-2, check=False)
def find_slot(task: GraphTask, node: Node) -> cython.int:
    """The node's place among the task's frames, -1 where it has none."""
    if node.task == task.number:
        return node.slot
    if task.foreign is None:
        return -1
    return task.foreign.get(id(node), -1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def claim_slot(task: GraphTask, node: Node) -> cython.int:
    """A new frame for a node that the task meets for the first time."""
    if task.count == task.room:
        task.grow()
    slot: cython.int = task.count
    frame: cython.pointer(Frame) = cython.address(task.frames[slot])
    memset(frame, 0, cython.sizeof(Frame))
    frame.node = cython.cast(p_object, node)
    Py_INCREF(frame.node)
    frame.sequence = node.sequence
    frame.run = True
    task.count += 1
    if len(live_tasks) > 1 and is_live(node.task):
        if task.foreign is None:
            task.foreign = {}
        task.foreign[id(node)] = slot
    else:
        node.task = task.number
        node.slot = slot
    return slot


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_live(number: uint64_t) -> cython.bint:
    """Whether a task that claimed a node still runs: a nested or concurrent one."""
    for task in live_tasks:
        if cython.cast(GraphTask, task).number == number:
            return True
    return False


@cython.cfunc
@cython.exceptval(check=False)
def push(task: GraphTask, slot: cython.int) -> cython.void:
    """Put a ready node into the heap, the largest sequence number on top."""
    i: cython.int = task.heap_size
    parent: cython.int
    sequence: uint64_t = task.frames[slot].sequence
    task.heap_size += 1
    while i > 0:
        parent = (i - 1) >> 1
        if task.frames[task.heap[parent]].sequence >= sequence:
            break
        task.heap[i] = task.heap[parent]
        i = parent
    task.heap[i] = slot


@cython.cfunc
@cython.exceptval(check=False)
def pop(task: GraphTask) -> cython.int:
    """Take the ready node with the largest sequence number."""
    top: cython.int = task.heap[0]
    task.heap_size -= 1
    n: cython.int = task.heap_size
    if n == 0:
        return top
    slot: cython.int = task.heap[n]
    sequence: uint64_t = task.frames[slot].sequence
    i: cython.int = 0
    child: cython.int = 1
    while child < n:
        if child + 1 < n and (
            task.frames[task.heap[child + 1]].sequence
            > task.frames[task.heap[child]].sequence
        ):
            child += 1
        if task.frames[task.heap[child]].sequence <= sequence:
            break
        task.heap[i] = task.heap[child]
        i = child
        child = 2 * i + 1
    task.heap[i] = slot
    return top


# --- before the sweep -----------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def discover(task: GraphTask) -> cython.int:
    """Meet every node behind the roots and count what each is owed.

    The frames are themselves the queue of nodes still to look at.
    """
    at: cython.int = 0
    i: cython.int
    slot: cython.int
    while at < task.count:
        node: Node = cython.cast(Node, cython.cast(object, task.frames[at].node))
        for i in range(node.n_edges):
            target: object = node.edges[i]
            if target is None:
                continue
            slot = find_slot(task, cython.cast(Node, target))
            if slot < 0:
                slot = claim_slot(task, cython.cast(Node, target))
            task.frames[slot].dependencies += 1
        at += 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def prune(task: GraphTask) -> cython.int:
    """Mark the nodes that lie on a way to something wanted; no other runs."""
    order: list = sort_topologically(task)
    i: cython.int
    slot: cython.int
    reaches_capture: cython.bint
    frame: cython.pointer(Frame)
    for place in reversed(order):
        slot = place
        frame = cython.address(task.frames[slot])
        node: Node = cython.cast(Node, cython.cast(object, frame.node))
        reaches_capture = frame.reach and not frame.captured
        for i in range(node.n_edges):
            target: object = node.edges[i]
            if (
                target is not None
                and task.frames[find_slot(task, cython.cast(Node, target))].reach
            ):
                reaches_capture = True
        frame.run = reaches_capture
        frame.reach = frame.reach or reaches_capture
    return 0


@cython.cfunc
def sort_topologically(task: GraphTask) -> list:
    """Slots with every node before those that its gradients flow to."""
    owed: list = [task.frames[i].dependencies for i in range(task.count)]
    order: list = [i for i in range(task.count) if owed[i] == 0]
    at: cython.Py_ssize_t = 0
    i: cython.int
    slot: cython.int
    while at < len(order):
        slot = order[at]
        node: Node = cython.cast(Node, cython.cast(object, task.frames[slot].node))
        for i in range(node.n_edges):
            target: object = node.edges[i]
            if target is not None:
                slot = find_slot(task, cython.cast(Node, target))
                owed[slot] -= 1
                if owed[slot] == 0:
                    order.append(slot)
        at += 1
    return order


@cython.cfunc
@cython.exceptval(-1, check=False)
def want(task: GraphTask, inputs, accumulate: cython.bint) -> cython.int:
    """Note which tensors the caller asked for; they may lie outside the graph."""
    task.pruned = True
    task.captures = {}
    task.results = [None] * len(inputs)
    slot: cython.int
    for place, one in enumerate(inputs):
        tensor, node, number = edge_of(one)
        if accumulate and tensor is not None:
            tensor.retain_grad()
        if node is None:
            if tensor is None or tensor.requires_grad:
                continue  # a view made under no_grad: nothing leads to it
            raise RuntimeError(
                "One of the differentiated Tensors does not require grad"
            )
        slot = find_slot(task, cython.cast(Node, node))
        if slot < 0:
            continue
        task.frames[slot].reach = True
        if not accumulate:
            task.frames[slot].captured = True
            task.captures.setdefault((slot, number), []).append(place)
    return prune(task)


@cython.cfunc
def edge_of(one: object) -> tuple:
    """``(tensor or None, node, output number)`` of a tensor or a GradientEdge."""
    if isinstance(one, Tensor):
        node: Node = gradient_edge(one)
        return one, node, cython.cast(Tensor, one).output_number
    return None, one.node, one.output_nr


# --- the queues of devices ------------------------------------------------------------

_follower = cython.declare(object, None)


def follow_streams(follower):
    """Has the queues of nodes and gradients followed; see `rushlight.autograd.streams`."""
    global _follower
    _follower = follower


@cython.cfunc
def device_of(node: Node) -> object:
    """The device of a node's output; None where nothing is known of it."""
    if node.is_accumulator:
        return cython.cast(AccumulateGrad, node).variable.storage.device
    if node.meta_device is not None:
        return node.meta_device
    for meta in node.metas or ():
        if meta is not None:
            return meta[2]
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def evaluate_in_stream(task: GraphTask, slot: cython.int) -> cython.int:
    """Runs one node in the queue that its forward call ran in."""
    node: Node = cython.cast(Node, cython.cast(object, task.frames[slot].node))
    before = _follower.enter(node, device_of(node))
    try:
        if recording_spans and is_profiled():
            return evaluate_profiled(task, slot)
        return evaluate(task, slot)
    finally:
        _follower.leave(before)


@cython.cfunc
@cython.exceptval(-1, check=False)
def receive(
    task: GraphTask, slot: cython.int, number: cython.int, grad: object
) -> cython.int:
    """Adds a gradient in the queue of its node, which waits for what brought it."""
    node: Node = cython.cast(Node, cython.cast(object, task.frames[slot].node))
    before = _follower.receive(node, device_of(node), grad)
    try:
        return add_gradient(task, slot, number, grad)
    finally:
        _follower.leave(before)


# --- the sweep ------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_gradient(
    task: GraphTask, slot: cython.int, number: cython.int, grad: object
) -> cython.int:
    """Add a gradient to what has already come for one output of a node."""
    frame: cython.pointer(Frame) = cython.address(task.frames[slot])
    node: Node = cython.cast(Node, cython.cast(object, frame.node))
    old: object
    if node.n_outputs <= 1:
        if frame.grads != cython.NULL:
            # The frame lets go first: `accumulate` counts who else has the sum.
            old = cython.cast(object, frame.grads)
            Py_DECREF(frame.grads)
            frame.grads = cython.NULL
            grad = accumulate(old, grad)
        frame.grads = cython.cast(p_object, grad)
        Py_INCREF(frame.grads)
        return 0
    if frame.grads == cython.NULL:
        room: list = [None] * node.n_outputs
        frame.grads = cython.cast(p_object, room)
        Py_INCREF(frame.grads)
    buffer: list = cython.cast(list, cython.cast(object, frame.grads))
    old = buffer[number]
    buffer[number] = None
    buffer[number] = grad if old is None else accumulate(old, grad)
    return 0


@cython.cfunc
def accumulate(old: object, grad: object) -> object:
    """The sum of two gradients, in place where nobody else can see the first."""
    first: Tensor = cython.cast(Tensor, old)
    if (first.keys >> KEY_ABSENT) & 1 and type(grad) is Tensor:
        if not (cython.cast(Tensor, grad).keys >> KEY_ABSENT) & 1:
            return grad + first  # what is sparse comes second
    if (
        not state().grad_mode
        and not listened_to(first)
        and first.row_major
        and Py_REFCNT(old) <= 2  # the caller's variable and ours
        and (owns_memory(first))
    ):
        return first.add_(grad)
    return first + grad


@cython.cfunc
@cython.exceptval(-1, check=False)
def sweep(task: GraphTask) -> cython.int:
    slot: cython.int
    while task.heap_size > 0:
        slot = pop(task)
        if _follower is not None:
            evaluate_in_stream(task, slot)
        elif recording_spans and is_profiled():
            evaluate_profiled(task, slot)
        else:
            evaluate(task, slot)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def evaluate_profiled(task: GraphTask, slot: cython.int) -> cython.int:
    """The same as a span: what comes to a node, its formula, and what it sends on."""
    node: Node = cython.cast(Node, cython.cast(object, task.frames[slot].node))
    token: int64_t = begin_span(SPAN_BACKWARD, title_of(node), None, node.sequence)
    try:
        return evaluate(task, slot)
    finally:
        end_span(token)


@cython.cfunc
@cython.exceptval(-1, check=False)
def evaluate(task: GraphTask, slot: cython.int) -> cython.int:
    """Run one node on the gradients that have come, and send on what it returns."""
    frame: cython.pointer(Frame) = cython.address(task.frames[slot])
    node: Node = cython.cast(Node, cython.cast(object, frame.node))
    result: object
    grads: object = None
    if frame.grads != cython.NULL:
        grads = cython.cast(object, frame.grads)
        Py_DECREF(frame.grads)
        frame.grads = cython.NULL
    elif node.n_outputs > 1:
        grads = [None] * node.n_outputs
    if frame.captured and frame.run:
        # hooks are for what flows on; where nothing does, they are for what is kept
        capture(task, slot, node, grads)
    if node.hooks is not None or node.is_accumulator:
        grads = run_tensor_hooks(node, grads)
    if frame.captured and not frame.run:
        capture(task, slot, node, grads)
    if not frame.run:
        return 0
    needs: cython.ulonglong = node.needs
    if task.pruned:
        needs &= wanted_edges(task, node)
    if node.reached is not None:
        node.reached()
    if node.hooks is None and not state().anomaly:
        if recording_spans:
            result = apply_profiled(node, grads, needs)
        else:
            result = node.apply(grads, needs)
    else:
        result = apply_watched(node, grads, needs)
    if not task.keep_graph:
        node.release()
    grads = None
    if node.n_edges > 0:
        send(task, node, result)
    return 0


@cython.cfunc
def run_tensor_hooks(node: Node, grads: object) -> object:
    """The hooks of the tensors whose gradients have just become complete."""
    if node.is_accumulator:
        leaf: Tensor = cython.cast(AccumulateGrad, node).variable
        hooks = hooks_of(leaf)
        if hooks is not None and grads is not None:
            return hooks.run_backward(grads)
        return grads
    i: cython.int
    if node.n_outputs <= 1:
        return node.hooks.run_tensor_hooks(0, grads)
    for i in range(node.n_outputs):
        grads[i] = node.hooks.run_tensor_hooks(i, grads[i])
    return grads


@cython.cfunc
@cython.exceptval(-1, check=False)
def capture(task: GraphTask, slot: cython.int, node: Node, grads: object) -> cython.int:
    """Keep what ``grad()`` asked for at this node."""
    number: cython.int
    for number in range(max(node.n_outputs, 1)):
        positions = task.captures.get((slot, number))
        if positions is not None:
            value = grads if node.n_outputs <= 1 else grads[number]
            for place in positions:
                task.results[place] = value
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def wanted_edges(task: GraphTask, node: Node) -> cython.ulonglong:
    """Bit i is set where something wanted lies behind edge i."""
    wanted: cython.ulonglong = 0
    one: cython.ulonglong = 1
    i: cython.int
    for i in range(node.n_edges):
        target: object = node.edges[i]
        if (
            target is not None
            and task.frames[find_slot(task, cython.cast(Node, target))].reach
        ):
            wanted |= one << (i if i < 63 else 63)  # long lists share the last bit
    return wanted


@cython.cfunc
def title_of(node: Node) -> str:
    """What profilers call a node: those that no operator made have PyTorch's C++ name."""
    if node.is_accumulator:
        return "torch::autograd::AccumulateGrad"
    return node.name()


@cython.cfunc
def apply_profiled(node: Node, grads: object, needs: cython.ulonglong) -> object:
    """A node's formula, as a span where a profiler records the thread.

    It holds the gradients no more often than its caller does: what nobody else holds is
    written to in place.
    """
    if not recording_spans or not is_profiled():
        return node.apply(grads, needs)
    token: int64_t = begin_span(SPAN_NODE, title_of(node), None, node.sequence)
    try:
        return node.apply(grads, needs)
    finally:
        end_span(token)


@cython.cfunc
def apply_watched(node: Node, grads: object, needs: cython.ulonglong) -> object:
    """Run a node that has hooks, or any node in anomaly mode."""
    hooks: object = node.hooks
    if hooks is not None and hooks.pre:
        changed: tuple = hooks.run_pre(tuple(grads) if node.n_outputs > 1 else (grads,))
        grads = list(changed) if node.n_outputs > 1 else changed[0]
    watching: cython.bint = state().anomaly
    try:
        result = apply_profiled(node, grads, needs)
    except Exception:
        if watching:
            anomaly_mode.warn_about(node)
        raise
    results: tuple = as_results(node, result)
    if hooks is not None and hooks.post:
        results = hooks.run_post(
            results, tuple(grads) if node.n_outputs > 1 else (grads,)
        )
    if watching and state().anomaly_check_nan:
        try:
            anomaly_mode.check_nan(node.name(), results)
        except RuntimeError:
            anomaly_mode.warn_about(node)
            raise
    return results


@cython.cfunc
def as_results(node: Node, result: object) -> tuple:
    """What a node returned, as a tuple with one entry for each edge."""
    if type(result) is tuple:
        return result
    if node.n_edges == 1:
        return (result,)
    return tuple([None] * node.n_edges)


@cython.cfunc
@cython.exceptval(-1, check=False)
def send(task: GraphTask, node: Node, result: object) -> cython.int:
    """Hand each gradient to the node behind its edge; wake those that have all."""
    i: cython.int
    slot: cython.int
    grad: object
    frame: cython.pointer(Frame)
    single: cython.bint = type(result) is not tuple
    if single and result is not None and node.n_edges != 1:
        refuse_count(node, 1)
    if not single and len(cython.cast(tuple, result)) != node.n_edges:
        refuse_count(node, len(result))
    for i in range(node.n_edges):
        target: object = node.edges[i]
        if target is None:
            continue
        slot = find_slot(task, cython.cast(Node, target))
        frame = cython.address(task.frames[slot])
        if task.pruned and not frame.reach:
            continue
        grad = result if single else cython.cast(tuple, result)[i]
        if grad is not None:
            grad = fit_gradient(
                cython.cast(Node, target), edge_number(node, i), grad, node, i
            )
            if _follower is None:
                add_gradient(task, slot, edge_number(node, i), grad)
            else:
                receive(task, slot, edge_number(node, i), grad)
        frame.dependencies -= 1
        if frame.dependencies == 0:
            push(task, slot)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_count(node: Node, count: cython.Py_ssize_t) -> cython.int:
    raise RuntimeError(
        f"function {node.name()} returned an incorrect number of gradients "
        f"(expected {node.n_edges}, got {count})"
    )


# --- a whole call ---------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_root(task: GraphTask, root: object, grad: object, place: object) -> cython.int:
    _tensor, node, number = edge_of(root)
    if node is None:
        raise RuntimeError(
            f"element {place} of tensors does not require grad and does not have a "
            "grad_fn"
        )
    slot: cython.int = find_slot(task, cython.cast(Node, node))
    if slot < 0:
        slot = claim_slot(task, cython.cast(Node, node))
    if grad is not None:
        grad = fit_gradient(
            cython.cast(Node, node), number, grad, cython.cast(Node, node), place
        )
        if _follower is None:
            add_gradient(task, slot, number, grad)
        else:
            receive(task, slot, number, grad)
    return 0


@cython.cfunc
def start_task() -> GraphTask:
    global next_task
    task: GraphTask
    task = spare_tasks.pop() if spare_tasks else GraphTask.__new__(GraphTask)
    next_task += 1
    task.number = next_task
    task.thread = PyThread_get_thread_ident()
    live_tasks.append(task)
    return task


@cython.cfunc
@cython.exceptval(-1, check=False)
def end_task(task: GraphTask) -> cython.int:
    live_tasks.remove(task)
    task.clear()
    task.foreign = None
    task.captures = None
    task.results = None
    task.callbacks = None
    task.pruned = False
    if len(spare_tasks) < 4 and task.room <= 4096:
        spare_tasks.append(task)
    return 0


_ENDING = cython.declare(object, None)


def when_ending(function):
    """Has a function called at the end of each sweep, in whatever way it ends."""
    global _ENDING
    _ENDING = function


@cython.cfunc
def run_backward(
    roots: tuple,
    grads: tuple,
    keep_graph: cython.bint,
    create_graph: cython.bint,
    inputs: object,
    accumulate_grad: cython.bint,
) -> object:
    """Sweep from ``roots``; the gradients captured for ``inputs``, or None."""
    current: cython.pointer(ThreadState) = state()
    if accumulate_grad and (current.included >> KEY_BATCHED) & 1:
        raise RuntimeError(errors.BACKWARD_IN_TRANSFORM)
    if current.reentrant_depth >= REENTRANT_LIMIT:
        return in_fresh_thread(
            roots, grads, keep_graph, create_graph, inputs, accumulate_grad
        )
    recording: cython.bint = current.grad_mode
    i: cython.int
    task: GraphTask = start_task()
    task.keep_graph = keep_graph
    current.reentrant_depth += 1
    follower: object = _follower
    if follower is not None:
        follower.begin()
    try:
        current.grad_mode = create_graph
        for i in range(len(roots)):
            add_root(task, roots[i], grads[i], i)
        ready: cython.int = task.count
        discover(task)
        if inputs is not None:
            want(task, inputs, accumulate_grad)
        for i in range(ready):
            if task.frames[i].dependencies == 0:
                push(task, i)
        sweep(task)
        if task.callbacks is not None:
            run_callbacks(task)
        return task.results
    finally:
        current.reentrant_depth -= 1
        current.grad_mode = recording
        if follower is not None:
            follower.end(task.results)
        end_task(task)
        if _ENDING is not None and current.reentrant_depth == 0:
            _ENDING()


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_callbacks(task: GraphTask) -> cython.int:
    """What ``queue_callback`` was given; a callback may queue another."""
    at: cython.Py_ssize_t = 0
    while at < len(task.callbacks):
        task.callbacks[at]()
        at += 1
    return 0


@cython.cfunc
def in_fresh_thread(
    roots,
    grads,
    keep_graph: cython.bint,
    create_graph: cython.bint,
    inputs,
    accumulate_grad: cython.bint,
) -> object:
    """A sweep nested too deeply for this stack goes on in a thread of its own."""
    outcome: dict = {}
    recording: cython.bint = state().grad_mode

    def work():
        state().grad_mode = recording
        try:
            outcome["results"] = run_backward(
                roots, grads, keep_graph, create_graph, inputs, accumulate_grad
            )
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=work, name="rushlight-backward")
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["results"]


def queue_callback(callback):
    """Run ``callback()`` when the backward that is running in this thread ends."""
    thread: cython.long = PyThread_get_thread_ident()
    for task in reversed(live_tasks):
        if cython.cast(GraphTask, task).thread == thread:
            found: GraphTask = task
            if found.callbacks is None:
                found.callbacks = []
            found.callbacks.append(callback)
            return
    raise RuntimeError("Final callbacks can only be installed during backward pass.")


def is_checkpoint_valid() -> bool:
    """Whether the backward running in this thread, if any, is for all leaves."""
    thread: cython.long = PyThread_get_thread_ident()
    for task in reversed(live_tasks):
        if cython.cast(GraphTask, task).thread == thread:
            return not cython.cast(GraphTask, task).pruned
    return True


def current_graph_task_id() -> int:
    """A number for the backward running in this thread, or -1."""
    thread: cython.long = PyThread_get_thread_ident()
    for task in reversed(live_tasks):
        if cython.cast(GraphTask, task).thread == thread:
            return cython.cast(GraphTask, task).number
    return -1


def count_expected(nodes) -> int:
    """How many of the nodes get a gradient in the backward running in this thread."""
    thread: cython.long = PyThread_get_thread_ident()
    slot: cython.int
    count: cython.int = 0
    for task in reversed(live_tasks):
        found: GraphTask = task
        if found.thread == thread:
            for node in nodes:
                slot = find_slot(found, node)
                if slot >= 0 and (found.frames[slot].reach or not found.pruned):
                    count += 1
            break
    return count

"""The recorded graph: nodes, the edges between them and what they keep for backward."""

from __future__ import annotations

import cython
import cython.cimports.rushlight.core.geometry as geometry
from cython.cimports.cpython.ref import Py_REFCNT
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.autograd.saved import SavedTensor, detached, listened_to
from cython.cimports.rushlight.core._python import (
    Py_DECREF,
    Py_INCREF,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.device import Device
from cython.cimports.rushlight.core.dtype import COMPLEX, DType
from cython.cimports.rushlight.core.keys import (
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_COMPOSING,
    KEY_DECOMPOSE,
    RECORDING,
)
from cython.cimports.rushlight.core.posix import sched_yield
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import (
    VIEW_CUSTOM_FUNCTION,
    VIEW_DEFAULT,
    VIEW_INFERENCE,
    VIEW_MULTI_OUTPUT,
    VIEW_NO_GRAD,
    Extra,
    Tensor,
    new_empty,
    view_replay_of,
)

from rushlight.autograd import errors, node_attributes
from rushlight.autograd.anomaly_mode import trace_forward
from rushlight.autograd.hooks import InputMetadata, NodeHooks, registered
from rushlight.autograd.windows import Window
from rushlight.operators import call

LAST = cython.declare(uint64_t, 0xFFFFFFFFFFFFFFFF)  # sequence of AccumulateGrad
VECTOR_ARGS = cython.declare(cython.int, 16)  # saved values passed without a tuple


@cython.freelist(256)
@cython.cclass
class Node:
    """One recorded call: a formula, what it saved and where gradients go next.

    ``next_functions`` holds a pair ``(node, output number)`` for each input; the
    node is None where the input needs no gradient.
    """

    def __cinit__(self):
        self.meta_ndim = -1

    @cython.cfunc
    def apply(self, grads: object, needs: cython.ulonglong) -> object:
        return run_formula(self, grads, needs)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def release(self) -> cython.int:
        """Drop the saved tensors; a node that saved none can run again."""
        if self.keeps_number:
            forget_saved(self)
        elif self.saved is not None:
            for value in self.saved:
                if holds_tensor(value):
                    forget_saved(self)
                    break
        return 0

    def name(self) -> str:
        """What the node is called when printed, ``MulBackward0`` for ``mul``."""
        if self.op_name[0] == ":":
            return node_attributes.name_of(self, self.op_name)
        return self.op_name

    @property
    def next_functions(self):
        if self.edges is None:
            return ()
        return tuple(
            [(self.edges[i], edge_number(self, i)) for i in range(self.n_edges)]
        )

    @property
    def requires_grad(self):
        return True

    @property
    def metadata(self):
        """A dictionary for the user's own notes on this node."""
        if self.metadata_ is None:
            self.metadata_ = {}
            if self.trace is not None:
                self.metadata_["traceback_"] = self.trace
        return self.metadata_

    @property
    def _input_metadata(self):
        """Shape, type and device of each gradient that the node takes."""
        found: list = []
        if self.meta_ndim >= 0:
            sizes = [self.meta_sizes[i] for i in range(self.meta_ndim)]
            found.append(InputMetadata(sizes, self.meta_dtype, self.meta_device))
        for meta in (self.metas or ())[len(found) :]:
            found.append(
                None if meta is None else InputMetadata(list(meta[0]), *meta[1:])
            )
        return found

    @property
    def trace_lines(self):
        """The stack of the forward call in anomaly mode, else None."""
        return self.trace

    def _sequence_nr(self):
        return self.sequence

    def register_hook(self, fn):
        """Call ``fn(grad_inputs, grad_outputs)`` after the node has run.

        A tuple that it returns replaces ``grad_inputs``.
        """
        hooks = node_hooks(self)
        return registered(hooks.post, fn)

    def register_prehook(self, fn):
        """Call ``fn(grad_outputs)`` before the node runs.

        A tuple that it returns replaces ``grad_outputs``.
        """
        hooks = node_hooks(self)
        return registered(hooks.pre, fn)

    def __call__(self, *grads):
        """The gradients of the node's inputs, hooks left out."""
        if len(grads) != max(self.n_outputs, 1):
            raise TypeError(
                f"expected {max(self.n_outputs, 1)} arguments, got {len(grads)} instead"
            )
        given = grads[0] if self.n_outputs <= 1 else list(grads)
        result = self.apply(given, self.needs)
        return result[0] if type(result) is tuple and len(result) == 1 else result

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            value = unpack_all([saved_by_name(self, name[7:])], self)[0]
            return tuple(value) if isinstance(value, list) else value
        if name.startswith("_raw_saved_"):
            return saved_by_name(self, name[11:])
        raise AttributeError(f"'{short(self)}' object has no attribute '{name}'")

    def __dir__(self):
        found = list(object.__dir__(self))
        code = getattr(self.formula, "__code__", None)
        if code is not None:
            names = code.co_varnames[2 : code.co_argcount]
            saved = self.saved or (None,) * len(names)
            tensors = [isinstance(value, SavedTensor) for value in saved]
            found += node_attributes.saved_attributes(names, tensors)
        return found

    def __repr__(self):
        return f"<{short(self)} object at {id(self):#x}>"


@cython.cfunc
def saved_by_name(node: Node, name: str) -> object:
    """The saved value that the formula takes by this name."""
    code = getattr(node.formula, "__code__", None)
    if code is not None:
        names = code.co_varnames[2 : code.co_argcount]
        parameter = node_attributes.parameter_of(name)
        if parameter in names and node.released:
            raise RuntimeError(errors.SECOND_BACKWARD)
        if parameter in names and node.saved is not None:
            return node.saved[names.index(parameter)]
    raise AttributeError(f"'{short(node)}' object has no attribute '_saved_{name}'")


def short(node) -> str:
    """A node's name without the namespaces that PyTorch's own nodes have."""
    return node.name().rpartition("::")[2]


@cython.cfunc
@cython.exceptval(-1, check=False)
def forget_saved(node: Node) -> cython.int:
    """Drop what a node saved; a name that follows from it is found out before."""
    name: str = node.op_name
    if name is not None and name[0] == ":" and name[len(name) - 1] != ":":
        node.op_name = node.name()
    node.saved = None
    node.released = True
    return 0


@cython.no_gc_clear  # dealloc clears the leaf's pointer, so it must still know the leaf
@cython.cclass
class AccumulateGrad(Node):
    """Where a gradient ends: adds what arrives to the leaf's ``.grad``."""

    def __dealloc__(self):
        if self.variable is not None and self.variable.extra is not None:
            self.variable.extra.accumulator = cython.NULL

    @cython.cfunc
    def apply(self, grads: object, needs: cython.ulonglong) -> object:
        leaf: Tensor = self.variable
        if grads is None or not leaf.wants_grad:
            return None
        extra: Extra = leaf.own_extra()
        # Other threads run while a kernel does, and may bring the same leaf a gradient.
        while self.busy:
            with cython.nogil:
                sched_yield()
        self.busy = True
        try:
            if extra.grad is None:
                extra.grad = first_gradient(leaf, cython.cast(Tensor, grads))
            elif is_absent(extra.grad) and not is_absent(grads):
                # where a sparse one meets a dense one, the dense one comes first
                extra.grad = grads + extra.grad
            elif state().grad_mode:
                extra.grad = extra.grad + grads
            else:
                extra.grad.add_(grads)
        finally:
            self.busy = False
        if extra.hooks is not None:
            extra.hooks.run_post_accumulate(leaf)
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def release(self) -> cython.int:
        return 0

    def name(self):
        return "torch::autograd::AccumulateGrad"


@cython.cfunc
@cython.exceptval(check=False)
def holds_tensor(value: object) -> cython.bint:
    """Whether a saved value is a tensor, or a list with tensors and not of sizes."""
    if isinstance(value, SavedTensor):
        return True
    if isinstance(value, list):
        for item in value:
            if isinstance(item, SavedTensor):
                return True
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_absent(grad: object) -> cython.bint:
    """Whether a gradient has no dense memory: it is sparse."""
    return (cython.cast(Tensor, grad).keys >> KEY_ABSENT) & 1


@cython.cfunc
def first_gradient(leaf: Tensor, grad: Tensor) -> object:
    """The leaf's new ``.grad``: the tensor itself where nobody else has it.

    A dense leaf gets its own strides, any other a row-major gradient.
    """
    dense: cython.bint = leaf.row_major or geometry.is_dense(
        leaf.ndim_, leaf.sizes, leaf.strides
    )
    suits: cython.bint = grad.row_major and (leaf.row_major or not dense)
    recording: cython.bint = state().grad_mode
    if dense and not suits:
        suits = same_strides(leaf, grad)
    seen: cython.bint = listened_to(grad)
    if suits and not recording and Py_REFCNT(grad) == 1:
        if seen and (owns_memory(grad) or is_lone_view(grad)):
            return detached(grad)
        if not seen and owns_memory(grad):
            return grad
    if seen and dense:
        return grad.new_empty_strided(leaf.shape, leaf.stride()).copy_(grad)
    if dense and (leaf.keys >> KEY_ABSENT) & 1:  # its type says what it is made of
        return call.empty_like(leaf, dtype=grad.dtype_).copy_(grad)
    if suits and grad.row_major:
        return grad.clone()
    fresh: Tensor = new_empty(
        leaf.ndim_,
        leaf.sizes,
        leaf.strides if dense else cython.NULL,
        grad.dtype_,
        leaf.storage.device,
    )
    fresh.copy_(grad)
    return fresh


@cython.cfunc
@cython.exceptval(check=False)
def is_lone_view(tensor: Tensor) -> cython.bint:
    """Whether nobody but a view's base, which only the view knows, has the storage."""
    if tensor.base is None:
        return False
    base = cython.cast(p_object, tensor.base)
    if base.ob_refcnt != 1:
        return False
    storage = cython.cast(p_object, tensor.storage)
    return storage.ob_refcnt == 2


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def owns_memory(tensor: Tensor) -> cython.bint:
    """Whether no other tensor looks at the same storage."""
    seen: cython.Py_ssize_t = cython.cast(p_object, tensor.storage).ob_refcnt
    if seen == 2 and state().included & RECORDING:
        # what waits for its memory is held by what will fill it, too
        storage: Storage = tensor.storage
        return storage.data == cython.NULL and storage.device.has_memory
    return seen == 1


@cython.cfunc
@cython.exceptval(check=False)
def same_strides(a: Tensor, b: Tensor) -> cython.bint:
    i: cython.int
    for i in range(a.ndim_):
        if a.sizes[i] != 1 and a.strides[i] != b.strides[i]:
            return False
    return True


@cython.cclass
class CopySlices(Node):
    """An in-place operator on a view, seen from the base of the view.

    The base's gradient passes through, except in the slice, which goes through the
    operator's own node.
    """

    @cython.cfunc
    def apply(self, grads: object, needs: cython.ulonglong) -> object:
        if self.inner is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        if grads is None:
            return tuple([None] * self.n_edges)
        if (state().included >> KEY_BATCHED) & 1:
            return self.apply_in_levels(grads, needs)
        given: Tensor = grads
        result: Tensor = empty_as(
            self.base_geometry, given.dtype_, given.storage.device
        )
        result.copy_(grads)
        window: Tensor = self.view_of(result)
        inside = self.inner.apply(window.clone(), needs)
        gradients: list = listed(inside, self.n_edges)
        if needs & 1:
            self.fill_window(window, gradients[0])
            gradients[0] = result
        return tuple(gradients)

    def apply_in_levels(self, grads: object, needs: cython.ulonglong):
        """The same under transformations, whose gradients have strides of their own."""
        window = Window(self.view_of, self.base_geometry, grads)
        inside = self.inner.apply(window.read(grads), needs)
        gradients: list = listed(inside, self.n_edges)
        if needs & 1:
            own = gradients[0]
            if own is not None:
                own = fit_gradient(self.inner, 0, own, self.inner, 0)
            gradients[0] = window.write(grads, own)
        return tuple(gradients)

    def fill_window(self, window: Tensor, grad: object):
        """Replace the slice of the base's gradient by what its operator says."""
        if grad is None:
            window.zero_()
        else:
            window.copy_(fit_gradient(self.inner, 0, grad, self.inner, 0))

    def view_of(self, base: Tensor):
        if self.replay is not None:
            return self.replay(base)
        sizes, strides, offset = self.view_geometry
        return base.as_strided(sizes, strides, offset - self.base_geometry[2])

    def written_view(self) -> Tensor:
        """The view after the write, with its history; its elements are undefined."""
        base: Tensor = empty_as(self.base_geometry, self.meta_dtype, self.meta_device)
        base.grad_fn_ = self
        base.wants_grad = True
        current: cython.pointer(ThreadState) = state()
        recording: cython.bint = current.grad_mode
        current.grad_mode = True
        try:
            return self.view_of(base)
        finally:
            current.grad_mode = recording

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def release(self) -> cython.int:
        if self.inner is not None:
            self.inner.release()
        return 0

    def name(self):
        return "torch::autograd::CopySlices"


@cython.cfunc
def listed(inside: object, count: cython.int) -> list:
    """What a formula gave, as a list of ``count`` gradients; one may come alone."""
    if type(inside) is tuple:
        return list(inside)
    gradients: list = [None] * count
    if count == 1:
        gradients[0] = inside
    return gradients


@cython.cclass
class PythonNode(Node):
    """A node whose gradient is computed by Python: subclasses define ``run(grads)``."""

    @cython.cfunc
    def apply(self, grads: object, needs: cython.ulonglong) -> object:
        return self.run(tuple(grads) if self.n_outputs > 1 else (grads,), needs)


@cython.cclass
class Formulas:
    """Who runs formulas while a thread's operators are followed."""

    @cython.cfunc
    def run(self, formula: object, args: pp_object, n: cython.int) -> object:
        """What a formula gives for some arguments."""
        return vectorcall(cython.cast(p_object, formula), args, n, cython.NULL)


_formulas = cython.declare(Formulas, Formulas())


@cython.cfunc
@cython.exceptval(-1, check=False)
def set_formulas(formulas: Formulas) -> cython.int:
    """Names who it is."""
    global _formulas
    _formulas = formulas
    return 0


@cython.cfunc
def run_formula(node: Node, grad: object, needs: cython.ulonglong) -> object:
    """Call ``formula(needs, grad, *saved)`` with the saved tensors unpacked."""
    args: p_object[20]
    keep: p_object[20]
    count: cython.int = 0
    first: object = grad
    value: object
    if node.multi:
        first = tuple(grad) if node.n_outputs > 1 else (grad,)
        if all([one is None for one in first]):
            return None
    elif node.n_outputs > 1:
        first = grad[0]
    if first is None:
        return None
    if node.released:
        raise RuntimeError(errors.SECOND_BACKWARD)
    mask: object = needs
    if needs == 0:
        return None  # run for its hooks' sake
    kept: tuple = node.saved  # another thread may let go of them meanwhile
    n_saved: cython.int = 0 if kept is None else len(kept)
    if n_saved > VECTOR_ARGS:
        return node.formula(mask, first, *unpack_all(list(kept), node))
    args[0] = cython.NULL
    args[1] = cython.cast(p_object, mask)
    args[2] = cython.cast(p_object, first)
    i: cython.int
    try:
        for i in range(n_saved):
            value = kept[i]
            if type(value) is SavedTensor:
                value = cython.cast(SavedTensor, value).unpack(node)
            elif type(value) is list:
                value = unpack_all(value, node)
            keep[count] = cython.cast(p_object, value)
            Py_INCREF(keep[count])
            args[3 + count] = keep[count]
            count += 1
        if listening(first):
            composing: cython.bint = not node.number_as_tensor
            formula: object = node.formula
            return run_observed(formula, composing, cython.address(args[1]), 2 + count)
        if state().included & RECORDING:
            return _formulas.run(node.formula, cython.address(args[1]), 2 + count)
        return vectorcall(
            cython.cast(p_object, node.formula),
            cython.address(args[1]),
            2 + count,
            cython.NULL,
        )
    finally:
        for i in range(count):
            Py_DECREF(keep[i])


@cython.cfunc
@cython.exceptval(check=False)
def listening(grad: object) -> cython.bint:
    """Whether handlers see the operators that a formula calls."""
    st: cython.pointer(ThreadState) = state()
    keys: uint64_t = st.included
    if isinstance(grad, Tensor):
        keys |= cython.cast(Tensor, grad).keys
    return ((keys & ~st.excluded) >> KEY_DECOMPOSE) & 1


@cython.cfunc
def run_observed(
    formula: object, composing: cython.bint, args: pp_object, n: cython.size_t
) -> object:
    """Call a formula; whoever listens may be told that its calls are not a program's."""
    st: cython.pointer(ThreadState) = state()
    one: uint64_t = 1
    before: uint64_t = st.included & (one << KEY_COMPOSING)
    if composing:
        st.included |= one << KEY_COMPOSING
    try:
        return vectorcall(cython.cast(p_object, formula), args, n, cython.NULL)
    finally:
        st.included = (st.included & ~(one << KEY_COMPOSING)) | before


@cython.cfunc
def unpack_all(values: list, node: Node) -> list:
    """Saved values as the formula sees them; a list holds the tensors of a list."""
    shown: list = []
    for value in values:
        if isinstance(value, SavedTensor):
            shown.append(cython.cast(SavedTensor, value).unpack(node))
        elif isinstance(value, list):
            shown.append(unpack_all(value, node))
        else:
            shown.append(value)
    return shown


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def edge_number(node: Node, index: cython.int) -> cython.int:
    if node.edge_numbers is not None:
        return cython.cast(cython.int, node.edge_numbers[index])
    return node.edge_number_inline[index]


@cython.cfunc
def node_hooks(node: Node) -> object:
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks


# --- edges and history ----------------------------------------------------------------


_note_stream = cython.declare(object, None)


def set_stream_notes(function):
    """Has a function called with each node that is made, and the device of its output."""
    global _note_stream
    _note_stream = function


@cython.cfunc
def gradient_edge(tensor: Tensor) -> Node:
    if tensor.base is not None and tensor.view_version != tensor.version():
        refresh_view(tensor)
    if tensor.grad_fn_ is not None:
        return cython.cast(Node, tensor.grad_fn_)
    if not tensor.wants_grad:
        return None
    extra: Extra = tensor.own_extra()
    if extra.accumulator != cython.NULL:
        return cython.cast(Node, cython.cast(object, extra.accumulator))
    node: AccumulateGrad = AccumulateGrad.__new__(AccumulateGrad)
    node.variable = tensor
    node.sequence = LAST
    node.n_outputs = 1
    node.is_accumulator = True
    extra.accumulator = cython.cast(cython.p_void, node)
    if _note_stream is not None:
        _note_stream(node, tensor.storage.device)
    return node


@cython.cfunc
@cython.exceptval(-1, check=False)
def set_history(result: Tensor, node: Node, index: cython.int) -> cython.int:
    describe_output(node, index, result)
    result.grad_fn_ = node
    result.output_number = index
    result.wants_grad = True
    if result.base is not None:
        result.view_version = result.version()
    if state().anomaly and node.trace is None:
        node.trace = trace_forward()
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def describe_output(node: Node, index: cython.int, result: Tensor) -> cython.int:
    """Keep the shape, dtype and device that a gradient arriving here must fit."""
    if index >= node.n_outputs:
        node.n_outputs = index + 1
    if _note_stream is not None:
        _note_stream(node, result.storage.device)
    if index == 0 and result.ndim_ <= 6:
        node.meta_ndim = result.ndim_
        node.meta_dtype = result.dtype_
        node.meta_device = result.storage.device
        memcpy(node.meta_sizes, result.sizes, result.ndim_ * cython.sizeof(int64_t))
        return 0
    if node.metas is None:
        node.metas = []
    while len(node.metas) <= index:
        node.metas.append(None)
    node.metas[index] = (sizes_of(result), result.dtype_, result.storage.device)
    return 0


@cython.cfunc
def sizes_of(tensor: Tensor) -> tuple:
    return tuple([tensor.sizes[i] for i in range(tensor.ndim_)])


@cython.cfunc
def geometry_of(tensor: Tensor) -> tuple:
    strides = tuple([tensor.strides[i] for i in range(tensor.ndim_)])
    return sizes_of(tensor), strides, tensor.offset


@cython.cfunc
def empty_as(shape: tuple, dtype: DType, device: Device) -> Tensor:
    """Undefined memory of the recorded sizes and strides."""
    sizes: int64_t[64]
    strides: int64_t[64]
    i: cython.int
    ndim: cython.int = len(shape[0])
    for i in range(ndim):
        sizes[i] = shape[0][i]
        strides[i] = shape[1][i]
    return new_empty(ndim, sizes, strides, dtype, device)


@cython.cfunc
@cython.exceptval(-1, check=False)
def rebase_history(tensor: Tensor, node: Node) -> cython.int:
    if tensor.base is None:
        move_retained(tensor, node)
        return set_history(tensor, node, 0)
    base: Tensor = tensor.base
    around: CopySlices = CopySlices.__new__(CopySlices)
    edge: Node = gradient_edge(base)
    around.inner = node
    around.base_geometry = geometry_of(base)
    around.view_geometry = geometry_of(tensor)
    around.replay = view_replay_of(tensor)
    around.sequence = state().sequence
    state().sequence += 1
    around.n_edges = node.n_edges
    around.edges = (edge,) + node.edges[1:]
    around.edge_numbers = (base.output_number,) + tuple(
        [edge_number(node, i) for i in range(1, node.n_edges)]
    )
    around.needs = (
        node.needs | 1
        if edge is not None
        else node.needs & ~cython.cast(cython.ulonglong, 1)
    )
    describe_output(node, 0, tensor)
    move_retained(base, around)
    set_history(base, around, 0)
    tensor.view_version = -1
    refresh_view(tensor)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def move_retained(tensor: Tensor, node: Node) -> cython.int:
    """``retain_grad`` follows the tensor to its new node; hooks stay behind."""
    old: object = tensor.grad_fn_
    if old is not None and cython.cast(Node, old).hooks is not None:
        retained = cython.cast(Node, old).hooks.retained.pop(tensor.output_number, None)
        if retained is not None:
            node_hooks(node).retained[0] = retained
    return 0


# --- views and in-place rules ---------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def tracks_gradient(tensor: Tensor) -> cython.bint:
    if (
        tensor.base is not None
        and tensor.base.wants_grad
        and (tensor.view_version != tensor.version())
    ):
        refresh_view(tensor)
    return tensor.wants_grad or (tensor.base is not None and tensor.base.wants_grad)


@cython.cfunc
def view_grad_fn(tensor: Tensor) -> object:
    if tensor.base is not None and tensor.view_version != tensor.version():
        refresh_view(tensor)
    return tensor.grad_fn_


@cython.cfunc
@cython.exceptval(-1, check=False)
def replay_view(tensor: Tensor) -> cython.int:
    tensor.view_version = -1
    return refresh_view(tensor)


@cython.cfunc
def view_again(tensor: Tensor, base: Tensor) -> Tensor:
    """What a view is of the base as it is now, recorded."""
    replay = view_replay_of(tensor)
    sizes, strides, offset = geometry_of(tensor)

    def view(base):
        if replay is not None:
            return replay(base)
        return base.as_strided(sizes, strides, offset - start)

    start: int64_t = 0
    if (state().included >> KEY_BATCHED) & 1:
        start = base.offset
        return Window(view, geometry_of(base), base).read(base)
    return view(base)


@cython.cfunc
@cython.exceptval(-1, check=False)
def refresh_view(tensor: Tensor) -> cython.int:
    """Give a view the history that follows from its base's present one."""
    base: Tensor = tensor.base
    if not base.wants_grad:
        return 0
    if tensor.view_creation != VIEW_DEFAULT:
        refuse_view(tensor, True)
    current: cython.pointer(ThreadState) = state()
    recording: cython.bint = current.grad_mode
    inference: cython.bint = current.inference_mode
    excluded: uint64_t = current.excluded
    current.grad_mode = True
    current.inference_mode = False
    current.excluded = 0
    try:
        fresh: Tensor = view_again(tensor, base)
    finally:
        current.grad_mode = recording
        current.inference_mode = inference
        current.excluded = excluded
    if fresh.grad_fn_ is None:
        return 0  # its transformation is over, and records no more
    old: object = tensor.grad_fn_
    if old is not None and old is not fresh.grad_fn_:
        move_retained(tensor, cython.cast(Node, fresh.grad_fn_))
    tensor.grad_fn_ = fresh.grad_fn_
    tensor.output_number = fresh.output_number
    tensor.wants_grad = True
    tensor.view_version = tensor.version()
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_inplace(tensor: Tensor) -> cython.int:
    if tensor.base is not None:
        if tensor.view_creation != VIEW_DEFAULT:
            refuse_view(tensor, False)
        if tensor.base.grad_fn_ is None and (
            tensor.wants_grad or tensor.base.wants_grad
        ):
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an "
                "in-place operation."
            )
    elif tensor.wants_grad and tensor.grad_fn_ is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_view(tensor: Tensor, indirect: cython.bint) -> cython.int:
    """Raise for a view whose history cannot follow an in-place change."""
    creation: cython.int = tensor.view_creation
    kind: str = "multi_output"
    if creation == VIEW_NO_GRAD:
        kind = "no_grad"
    elif creation == VIEW_INFERENCE:
        kind = "inference_mode"
    elif creation == VIEW_CUSTOM_FUNCTION:
        kind = "custom_function"
    elif creation != VIEW_MULTI_OUTPUT:
        kind = "no_grad"
    maker: object = tensor.grad_fn_
    raise RuntimeError(
        errors.describe_view_refusal(
            kind,
            "" if maker is None else errors.operator_of(maker),
            tensor.output_number,
            indirect,
        )
    )


# --- gradients that must fit ----------------------------------------------------------


@cython.cfunc
def fit_gradient(
    target: Node, number: cython.int, grad: object, source: Node, index: cython.int
) -> object:
    """The gradient in the shape and dtype of the output it belongs to."""
    if not isinstance(grad, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
    given: Tensor = grad
    sizes: cython.pointer(int64_t)
    ndim: cython.int
    dtype: DType
    if target.is_accumulator:
        leaf: Tensor = cython.cast(AccumulateGrad, target).variable
        ndim = leaf.ndim_
        sizes = leaf.sizes
        dtype = leaf.dtype_
        if _OTHER_TYPES:
            dtype = kept_type(leaf, given)
    elif number == 0 and target.meta_ndim >= 0:
        ndim = target.meta_ndim
        sizes = target.meta_sizes
        dtype = target.meta_dtype
    else:
        return fit_described(target, number, given, source, index)
    i: cython.int
    same: cython.bint = given.ndim_ == ndim and given.dtype_ is dtype
    if same:
        for i in range(ndim):
            if given.sizes[i] != sizes[i]:
                same = False
                break
    if same:
        return grad
    return reshape_gradient(
        given, tuple([sizes[i] for i in range(ndim)]), dtype, source, index
    )


_OTHER_TYPES = cython.declare(cython.bint, False)


def expect_other_types():
    """From now on leaves are asked for the type of their gradients."""
    global _OTHER_TYPES
    _OTHER_TYPES = True


@cython.cfunc
def kept_type(leaf: Tensor, grad: Tensor) -> DType:
    """The type that a leaf's gradients have: its own, unless ``grad_dtype`` was set."""
    kept = vars(cython.cast(object, leaf)).get("_grad_dtype", leaf.dtype_)
    return grad.dtype_ if kept is None else kept


@cython.cfunc
def fit_described(
    target: Node, number: cython.int, grad: Tensor, source: Node, index: cython.int
) -> object:
    if target.metas is None or number >= len(target.metas):
        return grad
    if target.metas[number] is None:
        return grad
    sizes, dtype, _device = target.metas[number]
    if sizes_of(grad) == sizes and grad.dtype_ is dtype:
        return grad
    return reshape_gradient(grad, sizes, dtype, source, index)


@cython.cfunc
def reshape_gradient(
    grad: Tensor, sizes: tuple, dtype: DType, source: Node, index: cython.int
) -> object:
    """Sum what broadcasting repeated, then cast."""
    found: tuple = sizes_of(grad)
    fitted: object = grad
    if found != sizes:
        lead: cython.int = len(found) - len(sizes)
        dims: list = list(range(lead))
        fits: cython.bint = lead >= 0
        if fits:
            for i in range(len(sizes)):
                if sizes[i] == 1 and found[lead + i] != 1:
                    dims.append(lead + i)
                elif sizes[i] != found[lead + i]:
                    fits = False
        if not fits:
            raise RuntimeError(
                f"Function {source.name()} returned an invalid gradient at index "
                f"{index} - got {list(found)} but expected shape compatible with "
                f"{list(sizes)}"
            )
        keeps: cython.bint = len(dims) > lead or listened_to(grad)
        if dims:
            fitted = grad.sum(dims, keepdim=keeps)
        if keeps and lead > 0 or not dims:
            fitted = fitted.reshape(sizes)
    if cython.cast(Tensor, fitted).dtype_ is not dtype:
        fitted = cast_gradient(fitted, dtype)
    return fitted


@cython.cfunc
def cast_gradient(grad: object, dtype: DType) -> object:
    if (
        cython.cast(Tensor, grad).dtype_.category == COMPLEX
        and dtype.category != COMPLEX
    ):
        grad = grad.real
    return grad.to(dtype)

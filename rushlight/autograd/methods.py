"""What tensors and users call: backward, grad, hooks, and the parts of custom nodes."""

from __future__ import annotations

import functools
import warnings
import weakref

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.autograd.engine import run_backward
from cython.cimports.rushlight.autograd.node import (
    AccumulateGrad,
    CopySlices,
    Node,
    describe_output,
    gradient_edge,
    rebase_history,
    set_history,
    view_grad_fn,
)
from cython.cimports.rushlight.autograd.saved import (
    SavedTensor,
    detached,
    listened_to,
    save_tensor,
    save_written_view,
)
from cython.cimports.rushlight.core.dtype import COMPLEX, FLOATING
from cython.cimports.rushlight.core.elements import write_element
from cython.cimports.rushlight.core.keys import (
    BELOW_AUTOGRAD,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_DECOMPOSE,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import (
    VIEW_CUSTOM_FUNCTION,
    VIEW_MULTI_OUTPUT,
    Extra,
    Tensor,
    hooks_of,
    new_empty,
    same_window,
    view_replay_of,
)

from rushlight.autograd import errors
from rushlight.autograd.hooks import NodeHooks, TensorHooks, registered
from rushlight.core.naming import refused_in_transforms
from rushlight.core.state import is_transforming
from rushlight.core.warning import warn_once
from rushlight.operators import call

# --- what users call ------------------------------------------------------------------


@cython.cfunc
def one_for(output: Tensor) -> object:
    """The gradient of a scalar with respect to itself."""
    keys: int64_t = output.keys | state().included
    if ((keys >> KEY_PYTHON) | (keys >> KEY_BATCHED)) & 1:
        return call.ones_like(output)  # which a batch has for each example
    if not output.storage.device.on_host:
        return call.ones(output.shape, dtype=output.dtype, device=output.device)
    ones: Tensor = new_empty(
        output.ndim_, output.sizes, cython.NULL, output.dtype_, output.storage.device
    )
    write_element(ones.dtype_.code, ones.pointer(), 1)
    return ones


@cython.cfunc
def one_for_edge(edge: object) -> object:
    """The same for the edge that a scalar's gradient flows to.

    Raises:
        RuntimeError: what stood at the edge was no scalar.
    """
    node, number = edge.node, edge.output_nr
    if isinstance(node, AccumulateGrad):
        return one_for(cython.cast(AccumulateGrad, node).variable)
    metas = node._input_metadata
    meta = metas[number] if number < len(metas) else None
    if meta is None or any([size != 1 for size in meta.shape]):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return call.ones(meta.shape, dtype=meta.dtype, device=meta.device)


@cython.cfunc
def root_gradient(output: object, grad: object, place: object) -> object:
    """The gradient to start from: the given one, or 1 for a scalar.

    Raises:
        RuntimeError: no gradient is given and the output is no real scalar, or the
            shapes differ.
    """
    if not isinstance(output, Tensor):
        return one_for_edge(output) if grad is None else grad
    tensor: Tensor = cython.cast(Tensor, output)
    if grad is None:
        if not tensor.requires_grad:
            return None
        if tensor.numel_ != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if tensor.dtype_.category != FLOATING:
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{tensor.dtype_}"
            )
        return one_for(tensor)
    if not isinstance(grad, Tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(grad).__name__}"
        )
    if tuple(grad.shape) != tuple(tensor.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{place}] has a shape of {grad.shape} and "
            f"output[{place}] has a shape of {tensor.shape}."
        )
    if (
        tensor.dtype_.category == COMPLEX
        and cython.cast(Tensor, grad).dtype_.category != COMPLEX
    ):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the "
            f"same dtype. Mismatch in dtype: grad_output[{place}] has a dtype of "
            f"{grad.dtype} and output[{place}] has a dtype of {tensor.dtype_}."
        )
    return grad


@cython.cfunc
def as_tuple(value: object) -> tuple:
    if value is None:
        return ()
    if isinstance(value, Tensor) or hasattr(value, "output_nr"):
        return (value,)
    return tuple(value)


@cython.cfunc
def root_gradients(outputs: tuple, grads: object) -> tuple:
    given: tuple = as_tuple(grads) if grads is not None else (None,) * len(outputs)
    given = given[: len(outputs)]  # what there are too many of, nobody looks at
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    return tuple([root_gradient(outputs[i], given[i], i) for i in range(len(outputs))])


def tensor_backward(
    self,
    gradient=None,
    retain_graph=None,
    create_graph=False,
    inputs=None,
):
    """Adds the gradient of this tensor to ``.grad`` of the leaves it was made from.

    Args:
        gradient: gradient of something else with respect to this tensor; may be
            left out for a scalar.
        retain_graph: keep what the graph saved, to go through it again.
        create_graph: record the backward itself, for higher derivatives.
        inputs: only these tensors get a gradient.
    """
    if inputs is not None or create_graph:
        return backward(self, gradient, retain_graph, create_graph, None, inputs)
    run_backward(
        (self,),
        (root_gradient(self, gradient, 0),),
        retain_graph is not None and retain_graph,
        False,
        None,
        True,
    )


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Adds to ``.grad`` of the leaves the gradients of the sum of ``tensors``.

    Args:
        tensors: one tensor or several; each that is no scalar needs a gradient.
        grad_tensors: a gradient, or None, for each tensor.
        retain_graph: keep what the graph saved; default is ``create_graph``.
        create_graph: record the backward itself, for higher derivatives.
        grad_variables: the old name of ``grad_tensors``.
        inputs: only these tensors get a gradient.

    Raises:
        RuntimeError: a tensor needs no gradient, a shape does not fit, or the graph's
            saved values are gone.

    >>> import rushlight as rl
    >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> rl.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both "
                "passed to `backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    wanted: object = None
    if inputs is not None:
        wanted = as_tuple(inputs.values() if type(inputs) is dict else inputs)
        if len(wanted) == 0:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if create_graph:
        warn_once(errors.CREATE_GRAPH_CYCLE)
    roots: tuple = as_tuple(tensors)
    run_backward(
        roots,
        root_gradients(roots, grad_tensors),
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        wanted,
        True,
    )


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of the sum of ``outputs`` with respect to ``inputs``, as a tuple.

    Args:
        outputs: the tensors to differentiate.
        inputs: the tensors to differentiate by, or a dictionary of them, for which
            there is one of gradients; ``.grad`` is left alone.
        grad_outputs: the gradient to start from at each output.
        retain_graph: keep what the graph saved; default is ``create_graph``.
        create_graph: record the backward itself, for higher derivatives.
        only_inputs: kept for old programs; only True means something.
        allow_unused: give None for an input the outputs do not depend on, instead of
            an error.
        is_grads_batched: the first dimension of the ``grad_outputs`` counts gradients
            to start from, and that of the results what each gives.
        materialize_grads: give zeros for such an input.

    Raises:
        RuntimeError: an output does not depend on an input, or its graph is gone.

    >>> import rushlight as rl
    >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> rl.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when "
            "materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). "
            "To accumulate gradient for other parts of the graph, please use "
            "rushlight.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if type(inputs) is dict:
        results = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            only_inputs,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, results))
    if is_grads_batched:
        from rushlight.autograd.levels.batch import batched_grad

        return batched_grad(
            grad,
            as_tuple(outputs),
            as_tuple(inputs),
            as_tuple(grad_outputs),
            create_graph if retain_graph is None else retain_graph,
            create_graph,
            allow_unused,
            materialize_grads,
        )
    roots: tuple = as_tuple(outputs)
    wanted: tuple = as_tuple(inputs)
    if len(wanted) == 0:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    results = run_backward(
        roots,
        root_gradients(roots, grad_outputs),
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        wanted,
        False,
    )
    for i in range(len(wanted)):
        if results[i] is None:
            results[i] = unused(wanted[i], i, allow_unused, materialize_grads)
    return tuple(results)


@cython.cfunc
def unused(tensor: object, place: object, allowed: object, zeros: object) -> object:
    """The gradient of an input that the outputs do not depend on."""
    if zeros:
        return tensor.new_zeros(tensor.shape)
    if not allowed:
        raise RuntimeError(
            f"The differentiated Tensor at index {place} appears to not have been used "
            "in the graph. Set allow_unused=True if this is the desired behavior."
        )
    return None


# --- attributes that are set --------------------------------------------------------------


def set_requires_grad(t: Tensor, value: cython.bint):
    """Switch recording for a tensor, which is not as it should be."""
    if t.grad_fn_ is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to "
            "use a computed variable in a subgraph that doesn't require differentiation "
            "use var_no_grad = var.detach()."
        )
    if value and t.inference and not state().inference_mode:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is "
            "not allowed."
        )
    if value and t.dtype_.category not in (FLOATING, COMPLEX):
        raise RuntimeError(
            "only Tensors of floating point dtype can require gradients, "
            f"not {t.dtype_!r}"
        )
    t.wants_grad = value


def set_grad(t: Tensor, value: object):
    """Give a tensor a gradient from outside."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(value).__name__}"
        )
    g: Tensor = value
    if g is t:
        raise RuntimeError("can't assign Variable as its own grad")
    kept = t.dtype_
    if g.dtype_ is not kept:
        kept = vars(cython.cast(object, t)).get("_grad_dtype", kept)
    if g.dtype_ is not kept and kept is not None:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{g.dtype_.name}' to a tensor "
            f"with dtype '{t.dtype_.name}'. The gradient must match the tensor's dtype."
        )
    if g.shape != t.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(g.shape)}' to a tensor of "
            f"size '{list(t.shape)}'. Please ensure that the gradient and the tensor are "
            "the same size"
        )
    if g.storage.device != t.storage.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{g.storage.device.type}' "
            f"to a tensor with device type '{t.storage.device.type}'. Please ensure that "
            "the gradient and the tensor are on the same device"
        )
    t.own_extra().grad = g


def data_of(t: Tensor):
    """What a tensor's ``data`` is to levels, and to handlers of the operator."""
    if t._stand is not None:
        t._stand = t._stand.data()
    return detached(t) if listened_to(t) else t


def can_show(t: Tensor, value: Tensor) -> bool:
    """Whether a tensor can be one over another's memory, its object staying the same."""
    return (
        value.layout is t.layout
        and value.storage.device.has_memory == t.storage.device.has_memory
        and not (value.keys ^ t.keys) >> KEY_ABSENT & 1
    )


def set_data(t: Tensor, other):
    """Have a tensor show what another one shows; history, count and handlers stay."""
    if not isinstance(other, Tensor):
        raise TypeError(
            f"Variable data has to be a tensor, but got {type(other).__name__}"
        )
    value: Tensor = other
    if ((t.keys | value.keys) >> KEY_BATCHED) & 1:
        raise RuntimeError(
            "mutating directly with `.data` inside functorch transform is not allowed."
        )
    if value.dtype_.category < FLOATING and t.wants_grad:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    if not can_show(t, value):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` "
            f"have incompatible tensor type.\n  variable: {t.dtype_}, {t.layout}, on "
            f"{t.storage.device}\n  tensor: {value.dtype_}, {value.layout}, on "
            f"{value.storage.device}"
        )
    t.own_counter()
    t.storage = value.storage
    t.dtype_ = value.dtype_
    one: uint64_t = 1
    handlers: uint64_t = (one << KEY_PYTHON) | (one << KEY_DECOMPOSE)
    t.keys = (value.keys & ~handlers) | (t.keys & (handlers | BELOW_AUTOGRAD))
    t.inference = t.inference and value.inference
    if value is not t:
        t.set_geometry(value.ndim_, value.sizes, value.strides, value.offset)


# --- hooks on tensors -----------------------------------------------------------------


@cython.cfunc
def own_hooks(tensor: Tensor) -> object:
    extra: Extra = tensor.own_extra()
    if extra.hooks is None:
        extra.hooks = TensorHooks()
    return extra.hooks


@cython.cfunc
def node_hooks(tensor: Tensor) -> object:
    node: Node = cython.cast(Node, view_grad_fn(tensor))
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks


def register_hook(self, hook):
    """Call ``hook(grad)`` when this tensor's gradient is computed.

    A tensor that the hook returns replaces the gradient; the hook must not change its
    argument. Returns a handle whose ``remove()`` takes the hook away.
    """
    tensor: Tensor = self
    if not tensor.requires_grad:
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient"
        )
    if view_grad_fn(tensor) is None:
        return registered(own_hooks(tensor).backward, hook)
    return registered(node_hooks(tensor).table(tensor.output_number), hook)


def register_post_accumulate_grad_hook(self, hook):
    """Call ``hook(tensor)`` after each change of this leaf's ``.grad`` by backward."""
    tensor: Tensor = self
    if not tensor.requires_grad:
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient"
        )
    if tensor.grad_fn_ is not None:
        raise RuntimeError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors"
        )
    return registered(own_hooks(tensor).post_accumulate, hook)


def retain_grad(self):
    """Let ``backward`` set ``.grad`` of this tensor though it is no leaf."""
    tensor: Tensor = self
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if is_transforming():
        raise refused_in_transforms("retain_grad")
    if view_grad_fn(tensor) is None:
        return
    own_hooks(tensor).retains_grad = True
    retained: dict = node_hooks(tensor).retained
    if tensor.output_number not in retained:
        retained[tensor.output_number] = weakref.ref(tensor)


def retains_grad(self) -> bool:
    """Whether ``retain_grad`` was called on this tensor, which is no leaf."""
    tensor: Tensor = self
    hooks = hooks_of(tensor)
    return hooks is not None and hooks.retains_grad


def backward_hooks(self):
    """The table of ``register_hook``'s hooks, or None."""
    tensor: Tensor = self
    if tensor.grad_fn_ is None:
        own = hooks_of(tensor)
        return own.backward or None if own is not None else None
    hooks: object = cython.cast(Node, tensor.grad_fn_).hooks
    return None if hooks is None else hooks.tensor.get(tensor.output_number)


def post_accumulate_hooks(self):
    """The table of ``register_post_accumulate_grad_hook``'s hooks, or None."""
    tensor: Tensor = self
    hooks = hooks_of(tensor)
    return hooks.post_accumulate or None if hooks is not None else None


def grad_fn(self):
    """The node that made this tensor; None for a leaf."""
    return view_grad_fn(self)


def find_gradient_edge(tensor):
    """The node that the tensor's gradient flows to, or None, and its output number."""
    node: Node = gradient_edge(tensor)
    return node, cython.cast(Tensor, tensor).output_number


# --- the parts of custom nodes --------------------------------------------------------


def connect(node, tensors):
    """Give a node that Python made its edges, its mask and its place in time."""
    made: Node = node
    tensor: Tensor
    one: cython.ulonglong = 1
    i: cython.int
    edges: list = []
    numbers: list = []
    made.needs = 0
    for i in range(len(tensors)):
        tensor = tensors[i]
        target: Node = gradient_edge(tensor)
        edges.append(target)
        numbers.append(tensor.output_number if target is not None else 0)
        if target is not None:
            made.needs |= one << (i if i < 63 else 63)
    made.edges = tuple(edges)
    made.n_edges = len(edges)
    made.edge_numbers = tuple(numbers)
    made.sequence = state().sequence
    state().sequence += 1


def attach_output(tensor, node, index):
    """Make ``tensor`` output ``index`` of ``node``."""
    set_history(tensor, node, index)


def count_outputs(node, outputs):
    """Say how many gradients a node takes, and of what shape where it is a tensor."""
    made: Node = node
    i: cython.int
    for i in range(len(outputs)):
        if isinstance(outputs[i], Tensor):
            describe_output(made, i, outputs[i])
    made.n_outputs = len(outputs)


def attach_changed(tensor, node, index):
    """Make a tensor that was changed in place output ``index`` of ``node``."""
    changed: Tensor = tensor
    if changed.base is not None:
        rebase_history(changed, node)
    else:
        set_history(changed, node, index)


@cython.cfunc
def save_value(value: Tensor, owner: Node, outputs: object) -> SavedTensor:
    # what is marked as not differentiable comes back as it is
    own: cython.bint = any([value is result for result in outputs])
    if own and value.base is not None:
        around: object = value.base.grad_fn_
        if isinstance(around, CopySlices):
            if cython.cast(CopySlices, around).inner is owner:
                return save_written_view(value, owner)
    return save_tensor(value, owner, own and view_grad_fn(value) is owner)


def save_values(node, values, outputs):
    """Keep tensors, or None, in a node; ``outputs`` are the node's own results."""
    owner: Node = node
    kept: list = []
    for value in values:
        if value is None:
            kept.append(None)
        else:
            kept.append(save_value(value, owner, outputs))
    owner.saved = tuple(kept)


def saved_values(node):
    """The tensors kept in a node, each checked against its version."""
    owner: Node = node
    if owner.released:
        raise RuntimeError(errors.SECOND_BACKWARD)
    if owner.saved is None:
        return ()
    values: list = []
    for value in owner.saved:
        if value is None:
            values.append(None)
        else:
            values.append(value.unpack_in_graph(owner))
    return tuple(values)


def raw_saved_values(node):
    """The ``SavedTensor`` objects of a node."""
    return cython.cast(Node, node).saved or ()


def saved_outputs(node) -> list:
    """The copies that a node has saved of its own outputs."""
    found: list = []
    saved: SavedTensor
    for one in cython.cast(Node, node).saved or ():
        if isinstance(one, SavedTensor):
            saved = one
            if saved.is_output and saved.tensor is not None:
                found.append(saved.tensor)
    return found


def view_taker(view):
    """What a view takes of its base, as a function of other bases that lie like it."""
    shown: Tensor = view
    replay = view_replay_of(shown)
    if replay is not None:
        return replay
    return functools.partial(
        take_window,
        tuple(shown.shape),
        shown.stride(),
        shown.offset - shown.base.offset,
    )


def take_window(sizes, strides, offset, base):
    """Elements of a base, their offset counted from the base's own."""
    return base.as_strided(sizes, strides, base.storage_offset() + offset)


def zeros_for_output(node, index):
    """Zeros in the shape of a node's output."""
    owner: Node = node
    sizes: int64_t[64]
    i: cython.int
    if index == 0 and owner.meta_ndim >= 0:
        return cleared(
            new_empty(
                owner.meta_ndim,
                owner.meta_sizes,
                cython.NULL,
                owner.meta_dtype,
                owner.meta_device,
            )
        )
    if owner.metas is None or index >= len(owner.metas) or owner.metas[index] is None:
        return None
    shape, dtype, device = owner.metas[index]
    for i in range(len(shape)):
        sizes[i] = shape[i]
    return cleared(new_empty(len(shape), sizes, cython.NULL, dtype, device))


@cython.cfunc
def cleared(made: Tensor) -> Tensor:
    """New memory filled with zeros, which no transformation hears of."""
    if made.storage.device.on_host:
        made.storage.fill_(0)
        return made
    return made.zero_()


def shown_again(tensor, node, index, several):
    """A view of all of ``tensor`` as an output of a custom node."""
    source: Tensor = tensor
    view: Tensor = same_window(source)
    view.base = source if source.base is None else source.base
    attach_output(view, node, index)
    forbid_rebase(view, several)
    return view


def forbid_rebase(tensor, several):
    """Say that a view comes from a custom node: in-place changes are refused."""
    view: Tensor = tensor
    if view.base is not None:
        view.view_creation = VIEW_MULTI_OUTPUT if several else VIEW_CUSTOM_FUNCTION
        view.view_version = view.version()


def detach_(self):
    """Cut this tensor off from its history, in place."""
    tensor: Tensor = self
    if tensor.base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view "
            "is set as True, gradients are views of DDP buckets, and hence detach_() "
            "cannot be called on these gradients."
        )
    tensor.grad_fn_ = None
    tensor.output_number = 0
    tensor.wants_grad = False
    if self._tangent is not None:
        self._tangent = None
    return self


def version_of(tensor) -> int:
    return cython.cast(Tensor, tensor).version()


def set_version(tensor, version: int64_t):
    """Make ``version`` the number of in-place changes of a tensor and its relatives."""
    cython.cast(Tensor, tensor).own_counter().value = version


def bump_version(tensor):
    """Count an in-place change that no operator made."""
    cython.cast(Tensor, tensor).bump_version()

"""What happens at the Autograd keys: graph nodes, version counters, views' bases."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.autograd.node import (
    Node,
    check_inplace,
    gradient_edge,
    rebase_history,
    replay_view,
    set_history,
    tracks_gradient,
)
from cython.cimports.rushlight.autograd.saved import (
    note_modification,
    save_tensor,
    save_written_view,
)
from cython.cimports.rushlight.autograd.view_replay import replay_of, replay_reshaped
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.dtype import COMPLEX, FLOATING
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_BATCHED,
    KEY_COMPOSING,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import (
    VIEW_INFERENCE,
    VIEW_MULTI_OUTPUT,
    VIEW_NO_GRAD,
    Tensor,
    view_replay_of,
)
from cython.cimports.rushlight.dispatch.dispatcher import (
    INPLACE,
    OUT,
    Derivative,
    Operator,
    Recorder,
    set_recorder,
)
from cython.cimports.rushlight.dispatch.outputs import refuse_gradient
from cython.cimports.rushlight.dispatch.writing import NO_VERSION_BUMP

from rushlight.dispatch.declared import IMPLEMENTATION, KIND, OUTPUT, RULE
from rushlight.dispatch.destination import set_write_counter
from rushlight.dispatch.outputs import refuse_count

_ONE = cython.declare(uint64_t, 1)
TENSOR_OR_NUMBER = cython.declare(cython.int, 4)  # a signature's kind of argument
_BOTH = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)


@cython.cfunc
def run_below(
    op: Operator, slots: pp_object, keys: uint64_t, st: cython.pointer(ThreadState)
) -> object:
    """The backend's part of a call; operators inside it do not record."""
    before: uint64_t = st.excluded
    st.excluded = before | _BOTH
    try:
        return op.run(slots, keys & ~_BOTH)
    finally:
        st.excluded = before


@cython.cfunc
def mark_view(
    op: Operator,
    result: Tensor,
    source: Tensor,
    slots: pp_object,
    number: cython.int,
    st: cython.pointer(ThreadState),
):
    """Tie a view to the root it shares memory with."""
    if result is source or result.storage is not source.storage:
        return
    if source.inference and not st.inference_mode:
        return
    if differentiable(source) and not differentiable(result):
        return  # the bytes of floats as integers
    result.base = source if source.base is None else source.base
    if (
        view_replay_of(source) is not None
        or result.dtype_ is not source.dtype_
        or (result.keys ^ source.keys) & DEFERRED
    ):
        result.own_extra().view_replay = replay_of(op, source, slots, number)
    result.view_version = result.version()
    if st.inference_mode:
        result.view_creation = VIEW_INFERENCE
    elif not st.grad_mode:
        result.view_creation = VIEW_NO_GRAD
    elif op.multi_view:
        result.view_creation = VIEW_MULTI_OUTPUT
    else:
        result.view_creation = source.view_creation


@cython.cfunc
def mark_views(
    op: Operator, result: object, slots: pp_object, st: cython.pointer(ThreadState)
):
    source: Tensor = cython.cast(Tensor, cython.cast(object, slots[op.tensor_args[0]]))
    number: cython.int = 0
    if isinstance(result, Tensor):
        mark_view(op, result, source, slots, 0, st)
    elif result is not None:  # which a handler may give
        for one in result:
            mark_view(op, one, source, slots, number, st)
            number += 1


@cython.cfunc
def count_write(target: object):
    """Bump the version counters of what was written."""
    if isinstance(target, Tensor):
        t: Tensor = target
        if t.inference and not state().inference_mode:
            t.storage.writes += 1
            return
        t.bump_version()
        note_modification(t)
    elif target is not None:
        for one in target:
            count_write(one)


@cython.cfunc
@cython.exceptval(-1, check=False)
def keeps_sizes(slots: pp_object) -> cython.bint:
    """Whether the sizes given to a tensor are its own."""
    target = cython.cast(object, slots[0])
    return tuple(target.shape) == tuple(cython.cast(object, slots[1]))


@cython.final
@cython.cclass
class ListFormula:
    """Gives each tensor of list arguments an edge of its own."""

    formula = cython.declare(object)
    counts = cython.declare(tuple)  # edges of each group; -1: one tensor

    @cython.cfunc
    def spread(self, gradients: object) -> tuple:
        flat: list = []
        groups = gradients if len(self.counts) > 1 else (gradients,)
        for count, gradient in zip(self.counts, groups):
            if count < 0:
                flat.append(gradient)
            elif gradient is None:
                flat.extend([None] * count)
            else:
                flat.extend(gradient)
        return tuple(flat)

    def __call__(self, needs, grad, *saved):
        groups: uint64_t = 0
        edge: cython.int = 0
        i: cython.int
        wanted: uint64_t = needs
        for i in range(len(self.counts)):
            count: cython.int = self.counts[i]
            width: cython.int = 1 if count < 0 else count
            if width >= 64 - edge or (wanted >> edge) & ((_ONE << width) - 1):
                groups |= _ONE << i
            edge += width if edge + width < 64 else 0
        gradients = self.formula(groups, grad, *saved)
        flat = self.spread(gradients)
        return flat[0] if len(flat) == 1 else flat


@cython.cfunc
def make_edges(node: Node, d: Derivative, slots: pp_object):
    """Point the node at what its gradients flow to."""
    edges: list = []
    numbers: list = []
    i: cython.int
    needs: uint64_t = 0
    t: Tensor
    for i in range(d.n_groups):
        item = cython.cast(object, slots[d.group_arg[i]])
        for one in item if d.group_list[i] else (item,):
            edge: Node = None
            if isinstance(one, Tensor):
                t = cython.cast(Tensor, one)
                edge = gradient_edge(t)
                numbers.append(0 if t.grad_fn_ is None else t.output_number)
            else:
                numbers.append(0)
            if edge is not None:
                needs |= _ONE << (len(edges) if len(edges) < 63 else 63)
            edges.append(edge)
    node.edges = tuple(edges)
    node.n_edges = len(edges)
    node.needs = needs
    if node.n_edges > 4:
        node.edge_numbers = tuple(numbers)
    for i in range(4 if node.n_edges > 4 else node.n_edges):
        node.edge_number_inline[i] = numbers[i]
    if d.has_lists:
        wrapped: ListFormula = ListFormula.__new__(ListFormula)
        wrapped.formula = d.formula
        wrapped.counts = tuple(
            [
                len(cython.cast(object, slots[d.group_arg[i]]))
                if d.group_list[i]
                else -1
                for i in range(d.n_groups)
            ]
        )
        node.formula = wrapped


@cython.cfunc
def make_simple_edges(node: Node, d: Derivative, slots: pp_object):
    """The same where no argument is a list and there are one or two groups."""
    first: Node = None
    second: Node = None
    t: Tensor
    item = cython.cast(object, slots[d.group_arg[0]])
    node.needs = 0
    node.n_edges = d.n_groups
    if isinstance(item, Tensor):
        t = cython.cast(Tensor, item)
        first = gradient_edge(t)
        if first is not None:
            node.needs = 1
            node.edge_number_inline[0] = 0 if t.grad_fn_ is None else t.output_number
    if d.n_groups == 1:
        node.edges = (first,)
        return
    item = cython.cast(object, slots[d.group_arg[1]])
    if isinstance(item, Tensor):
        t = cython.cast(Tensor, item)
        second = gradient_edge(t)
        if second is not None:
            node.needs |= 2
            node.edge_number_inline[1] = 0 if t.grad_fn_ is None else t.output_number
    node.edges = (first, second)


@cython.cfunc
def saved_value(what: cython.int, item: object, node: Node) -> object:
    """One entry of a node's ``saved``: a tensor guarded, or a fact about it."""
    if what == 0:
        if isinstance(item, Tensor):
            return save_tensor(item, node, False)
        if isinstance(item, (list, tuple)) and item and isinstance(item[0], Tensor):
            return [
                None if one is None else save_tensor(one, node, False) for one in item
            ]
        return item
    if what == 7:
        return tuple([t.shape for t in item])
    if what == 8:
        return tuple([t.dtype for t in item])
    if not isinstance(item, Tensor):
        return None
    t: Tensor = item
    if what == 2 or what == 9:
        return t.shape
    if what == 3 or what == 10:
        return t.dtype_
    if what == 4:
        return t.ndim_
    if what == 5:
        return t.stride()
    if what == 11:
        return t.offset
    if what == 12:  # a matrix column by column, as the transpose of a weight is
        return t.ndim_ == 2 and t.strides[0] == 1 and t.strides[1] == t.sizes[0]
    return t.storage.device


@cython.cfunc
def save_values(
    node: Node,
    op: Operator,
    d: Derivative,
    slots: pp_object,
    needs: uint64_t,
    result: object,
    replaced: object,
):
    """Fill ``node.saved`` with what the formula reads."""
    values: list = []
    i: cython.int
    what: cython.int
    item: object
    for i in range(d.n_saved):
        what = d.what[i]
        if d.mask[i] and not (d.mask[i] & needs):
            values.append(None)
        elif what == 1:
            item = result if isinstance(result, Tensor) else result[d.index[i]]
            values.append(save_result(item, node, op.form == INPLACE))
        elif what == 9 or what == 10:
            item = result if isinstance(result, Tensor) else result[d.index[i]]
            values.append(saved_value(what, item, node))
        else:
            item = cython.cast(object, slots[d.index[i]])
            if replaced is not None and d.index[i] == 0 and what == 0:
                item = replaced
            if (
                op.signature.kinds[d.index[i]] == TENSOR_OR_NUMBER
                and what == 0
                and not isinstance(item, Tensor)
            ):
                node.keeps_number = True  # a second backward is refused, as of a tensor
                node.number_as_tensor = (
                    op.named_by_caller and not (state().included >> KEY_COMPOSING) & 1
                )
            values.append(saved_value(what, item, node))
    node.saved = tuple(values)


@cython.cfunc
def save_result(item: object, node: Node, inplace: cython.bint) -> object:
    if not isinstance(item, Tensor):
        return item
    t: Tensor = item
    if inplace and t.base is not None and not (state().included >> KEY_BATCHED) & 1:
        return save_written_view(t, node)
    # outputs that do not require grad are plain values
    return save_tensor(t, node, t.grad_fn_ is node)


@cython.cfunc
def group_needs(d: Derivative, slots: pp_object) -> uint64_t:
    """Which groups of arguments want a gradient, a bit each."""
    needs: uint64_t = 0
    i: cython.int
    for i in range(d.n_groups):
        item = cython.cast(object, slots[d.group_arg[i]])
        if isinstance(item, Tensor):
            if tracks_gradient(cython.cast(Tensor, item)):
                needs |= _ONE << i
        elif d.group_list[i]:
            for one in item:
                if one is not None and tracks_gradient(cython.cast(Tensor, one)):
                    needs |= _ONE << i
    return needs


@cython.cfunc
@cython.exceptval(check=False)
def differentiable(t: Tensor) -> cython.bint:
    return t.dtype_.category in (FLOATING, COMPLEX)


@cython.cfunc
def tie_results(node: Node, d: Derivative, result: object, slots_self: object):
    """Make the differentiable outputs point back at the node."""
    i: cython.int
    if isinstance(result, Tensor):
        if result is not slots_self and differentiable(result):
            set_history(result, node, 0)
        return
    if isinstance(result, list):
        for i in range(len(result)):
            if differentiable(result[i]):
                set_history(result[i], node, i)
        return
    node.n_outputs = len(result)
    for i in range(len(result)):
        one = result[i]
        if i in d.outputs and isinstance(one, Tensor) and differentiable(one):
            set_history(one, node, i)
    if node.n_outputs < len(result):
        node.n_outputs = len(result)


@cython.cfunc
def copy_before_change(target: Tensor, st: cython.pointer(ThreadState)) -> Tensor:
    """The values that an in-place call will lose, at their place in the graph."""
    before: uint64_t = st.excluded
    st.excluded = before | _BOTH
    try:
        copy: Tensor = target.clone()
    finally:
        st.excluded = before
    copy.grad_fn_ = gradient_edge(target)
    copy.wants_grad = copy.grad_fn_ is not None
    copy.output_number = target.output_number
    return copy


@cython.cfunc
@cython.exceptval(check=False)
def any_wants_grad(out: object) -> cython.bint:
    """Whether one of the outputs given for a call wants a gradient."""
    for t in (out,) if isinstance(out, Tensor) else out:
        if isinstance(t, Tensor) and cython.cast(Tensor, t).wants_grad:
            return True
    return False


@cython.cfunc
def is_watched(op: Operator) -> cython.bint:
    """Whether an ``out=`` form is no leaf's: not where results are of another type.

    Of functions without a derivative, those are watched that keep their operands' type.
    """
    if op.functional.derivative is not None:
        return True
    entry: tuple = op.entry
    return bool(entry) and (
        entry[IMPLEMENTATION][KIND] == "pointwise" and entry[RULE][0] == "promote"
    )


@cython.cfunc
def reshape_in_place(
    op: Operator, slots: pp_object, keys: uint64_t, st: cython.pointer(ThreadState)
) -> object:
    """``transpose_`` and its relatives; a view's base may get a gradient later."""
    target: Tensor = cython.cast(Tensor, cython.cast(object, slots[0]))
    offset: int64_t = target.offset
    result = run_below(op, slots, keys, st)
    replay_reshaped(target, offset)
    count_write(target)
    return result


@cython.final
@cython.cclass
class GraphRecorder(Recorder):
    """Records differentiable calls; keeps version counters and bases of views."""

    @cython.cfunc
    def record(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        d: Derivative = op.derivative
        needs: uint64_t
        if op.form == OUT:
            if len(op.returns) > 1:
                out = cython.cast(object, slots[op.n_args - 1])
                refuse_count(op.base_name(), len(op.returns), out)
            if op.functional.derivative is not None and not op.out_detached:
                refuse_gradient(op.base_name())
            elif is_watched(op) and any_wants_grad(
                cython.cast(object, slots[op.n_args - 1])
            ):
                refuse_gradient(op.base_name())
            return self.keep_books(op, slots, keys)
        if d is None or not st.grad_mode:
            return self.keep_books(op, slots, keys)
        needs = group_needs(d, slots)
        if needs == 0:
            return self.keep_books(op, slots, keys)
        if op.form == INPLACE:
            return self.record_inplace(op, slots, keys, needs)
        if d.formula is None:
            d.load()
        result = run_below(op, slots, keys, st)
        subject = cython.cast(object, slots[op.tensor_args[0]])
        if result is subject or result is None:
            return result
        if op.is_view or op.view_or_copy:
            mark_views(op, result, slots, st)
        node: Node = self.new_node(op, d, slots, st)
        tie_results(node, d, result, subject)
        save_values(node, op, d, slots, needs, result, None)
        return result

    @cython.cfunc
    def new_node(
        self,
        op: Operator,
        d: Derivative,
        slots: pp_object,
        st: cython.pointer(ThreadState),
    ) -> Node:
        node: Node = Node.__new__(Node)
        node.formula = d.formula
        node.op_name = op.node_name
        node.multi = d.multi
        node.sequence = st.sequence
        st.sequence += 1
        if d.n_groups <= 2 and not d.has_lists:
            make_simple_edges(node, d, slots)
        else:
            make_edges(node, d, slots)
        return node

    @cython.cfunc
    def record_inplace(
        self, op: Operator, slots: pp_object, keys: uint64_t, needs: uint64_t
    ) -> object:
        st: cython.pointer(ThreadState) = state()
        d: Derivative = op.derivative
        target: Tensor = cython.cast(Tensor, cython.cast(object, slots[0]))
        original: object = None
        if (
            not differentiable(target)
            and op.entry
            and "if_recorded" in op.entry[OUTPUT]
        ):
            return self.keep_books(op, slots, keys)
        check_inplace(target)
        if op.is_view and target.base is not None and target.base.wants_grad:
            reshape_in_place(op, slots, keys, st)
            replay_view(target)
            return target
        if d.formula is None:
            d.load()
        if d.saves_self:
            original = copy_before_change(target, st)
        node: Node = self.new_node(op, d, slots, st)
        if not (node.needs & 1) and (d.n_groups == 0 or d.group_arg[0] != 0):
            raise RuntimeError(
                f"{op.name}: the tensor written to is not differentiable"
            )
        if not d.saves_result:
            save_values(node, op, d, slots, needs, target, original)
        run_below(op, slots, keys, st)
        target.bump_version()
        note_modification(target)
        rebase_history(target, node)
        if d.saves_result:
            save_values(node, op, d, slots, needs, target, original)
        return target

    @cython.cfunc
    def keep_books(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        if op.form == INPLACE and op.is_view:
            return reshape_in_place(op, slots, keys, st)
        idle: cython.bint = op.out_overlap & NO_VERSION_BUMP and keeps_sizes(slots)
        result = run_below(op, slots, keys, st)
        if op.form == INPLACE:
            if not idle:
                count_write(cython.cast(object, slots[0]))
        elif op.form == OUT:
            count_write(cython.cast(object, slots[op.n_args - 1]))
        elif (op.is_view or op.view_or_copy) and not op.untracked:
            mark_views(op, result, slots, st)
        return result


set_recorder(GraphRecorder())
set_write_counter(lambda target: count_write(target))

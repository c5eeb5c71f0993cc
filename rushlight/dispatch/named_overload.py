"""Overloads that PyTorch has where one here takes more: ``gt.Scalar`` of ``gt.Tensor``."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.keys import KEY_COMPOSING
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.calling import enable_vectorcall
from cython.cimports.rushlight.dispatch.dispatcher import Operator

from rushlight.dispatch.declared import (
    COMPOSED,
    CONDITIONS,
    FILED,
    NAMED,
    NUMBER,
    ONE,
    OVERLOAD_NAME,
    TENSOR,
)
from rushlight.dispatch.dispatcher import find_packet, forget

_TENSOR_KIND, _TENSOR_OR_NUMBER, _NUMBER_KIND = 0, 4, 5


@cython.cclass
class NamedOverload(Operator):
    """An overload by PyTorch's name; calls go to the operator that takes them here.

    >>> import rushlight as rl
    >>> rl.ops.aten.gt.Scalar(rl.ones(2), 0.5)
    tensor([True, True])
    """

    target = cython.declare(Operator, visibility="readonly")
    row = cython.declare(tuple, visibility="readonly")

    def __init__(self, target: Operator, row):
        base = target.name.partition(".")[0]
        name = row[OVERLOAD_NAME]
        super().__init__(
            target.namespace,
            base if name == "default" else f"{base}.{name}",
            rows_of(target, row),
            target.returns,
            form=target.form,
            derivative=target.derivative,
            functional=target.functional,
            entry=target.entry,
            is_view=target.is_view,
            node_name=target.node_name,
        )
        forget(self)
        self.target = target
        self.row = row
        self.names = ()
        self.view_or_copy = target.view_or_copy
        self.kernels, self.by_backend = target.kernels, target.by_backend

    def refresh(self):
        """Recompute which keys answer: what it is given is the target's, too."""
        Operator.refresh(self)
        if self.target is not None:
            self.target.refresh()

    def set_fallthrough(self, key):
        """Let calls of the target pass a key."""
        self.target.set_fallthrough(key)

    def clear_fallthrough(self, key):
        """Take back ``set_fallthrough``."""
        self.target.clear_fallthrough(key)

    @cython.cfunc
    def call(self, slots: pp_object) -> object:
        return self.target.call(slots)

    @cython.cfunc
    def run(self, slots: pp_object, keys: uint64_t) -> object:
        return self.target.run(slots, keys)

    def __reduce__(self):
        base, _, name = self.name.partition(".")
        return getattr, (find_packet(self.namespace, base), name or "default")


def rows_of(op: Operator, row):
    """The arguments of an overload: what was asked of one is all that it may be."""
    asked = {index: what for what, index in row[CONDITIONS]}
    made = []
    for index, argument in enumerate(op.signature.rows):
        kind = argument[1]
        if kind == _TENSOR_OR_NUMBER and asked.get(index) == NUMBER:
            kind = _NUMBER_KIND
        elif kind == _TENSOR_OR_NUMBER and asked.get(index) == TENSOR:
            kind = _TENSOR_KIND
        made.append((argument[0], kind, *argument[2:]))
    return tuple(made)


@cython.cfunc
def shown_as(op: Operator, slots: pp_object) -> Operator:
    if not op.names:
        return op
    i: cython.int
    values = [cython.cast(object, slots[i]) for i in range(op.n_args)]
    row = row_for(op, values, is_tensor)
    return op if row is None else stand_in(op, row)


def is_tensor(value) -> bool:
    """Whether an argument is a tensor."""
    return isinstance(value, Tensor)


def row_for(op, values, is_tensor, whole=False, filed=False):
    """The row of the further name that an operator has for arguments, or None.

    Args:
        op: the operator.
        values: its arguments by position; those at the end may be left out.
        is_tensor: tells of an argument whether it is a tensor.
        whole: whether the call is a step of a program with its compositions whole.
        filed: whether the step is written as in PyTorch, where a list of one is a list.
    """
    for row in op.names:
        for what, index in row[CONDITIONS]:
            value = values[index] if index < len(values) else None
            if what == COMPOSED:
                if not (state().included >> KEY_COMPOSING) & 1:
                    break
            elif what == NAMED or what == FILED:
                if what == NAMED or not whole:
                    break
            elif what == ONE and isinstance(value, (list, tuple)) and filed:
                break
            elif not holds(what, value, is_tensor):
                break
        else:
            return row
    return None


def holds(what, value, is_tensor):
    """Whether an argument is what a condition asks for."""
    if value is None:
        return False
    if what == ONE:
        return not isinstance(value, (list, tuple)) or len(value) == 1
    return is_tensor(value) == (what == TENSOR)


def stand_in(op: Operator, row):
    """The operator that stands for another under a further name, made once."""
    if op.named is None:
        op.named = {}
    made = op.named.get(row)
    if made is None:
        made = op.named[row] = NamedOverload(op, row)
    return made


def written_as(op, args, is_tensor=is_tensor, whole=True):
    """The overload that a step of a recorded program shows: the one that PyTorch calls.

    Args:
        op: the operator.
        args: its arguments by position; those at the end may be left out.
        is_tensor: tells of an argument whether it is a tensor.
        whole: whether the program has its compositions whole.
    """
    if not op.names:
        return op
    row = row_for(op, args, is_tensor, whole)
    return op if row is None else stand_in(op, row)


def overload_named(op: Operator, name):
    """The operator that stands for another under a name; None where it has no such name."""
    for row in op.names:
        if row[OVERLOAD_NAME] == name:
            return stand_in(op, row)
    return None


def written_arguments(op, args):
    """A call's arguments as the overload has them: one dimension, not a list of one.

    Overloads that only whole programs call leave nothing out.
    """
    if not isinstance(op, NamedOverload):
        return args
    conditions = op.row[CONDITIONS]
    if any(what == FILED for what, _ in conditions):
        return (*args, *op.signature.defaults[len(args) :])
    alone = {index for what, index in conditions if what == ONE}
    return tuple(
        one[0] if at in alone and isinstance(one, (list, tuple)) else one
        for at, one in enumerate(args)
    )


def _install_vectorcall():
    probe: Operator = Operator("aten", "_probe", (), ())
    made: NamedOverload = NamedOverload(probe, ("default", None, ()))
    enable_vectorcall(NamedOverload, made, cython.address(made.vectorcall), 1 << 11)
    forget(probe)


_install_vectorcall()

"""Conjugates and negatives that were put off: made real where a kernel wants numbers.

A lazy conjugate is a view with a key of its own among its dispatch keys. Operators on
geometry let the key pass; for all others the kernel here computes what was put off.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.dtype import COMPLEX, FLOATING
from cython.cimports.rushlight.core.keys import (
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_CONJUGATE,
    KEY_NEGATIVE,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, alias
from cython.cimports.rushlight.dispatch.derived import copy_into
from cython.cimports.rushlight.dispatch.dispatcher import INPLACE, OUT, Kernel, Operator

from rushlight.core.subclass import become
from rushlight.dispatch.declared import says

_ONE = cython.declare(uint64_t, 1)


def passes(op: Operator) -> bool:
    """Whether an operator takes deferred tensors as they are."""
    return op.is_view or says(op, "geometry")


@cython.cfunc
def with_bit(t: Tensor, bit: uint64_t, wanted: cython.bint) -> Tensor:
    """The same window, with or without something put off."""
    shown: Tensor = alias(t, t.ndim_, t.sizes, t.strides, t.offset)
    if (t.keys >> KEY_PYTHON) & 1:  # its type takes the operators still
        shown = become(type(t), shown)
        vars(cython.cast(object, shown)).update(vars(cython.cast(object, t)))
    shown.keys = (shown.keys | bit) if wanted else (shown.keys & ~bit)
    return shown


@cython.cfunc
@cython.inline
def is_seen(keys: uint64_t) -> cython.bint:
    """Whether a mode or a type of somebody's sees the operators on a tensor.

    It is shown a copy of the tensor as it is, as by PyTorch: that a window of the numbers is
    no conjugate would be lost where calls are recorded.
    """
    st: cython.pointer(ThreadState) = state()
    return ((keys | st.included) & ~st.excluded) >> KEY_PYTHON & 1


@cython.final
@cython.cclass
class DeferredKernel(Kernel):
    """Computes what was put off, then runs the operator on the numbers."""

    bit = cython.declare(uint64_t)
    compute = cython.declare(Operator)
    clone = cython.declare(Operator)

    def __init__(self, key, compute, clone):
        self.bit = _ONE << cython.cast(cython.int, int(key))
        self.compute, self.clone = compute, clone

    @cython.cfunc
    def settle(self, t: Tensor) -> Tensor:
        """A fresh tensor of the numbers that ``t`` stands for."""
        slots: p_object[1]
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.excluded
        seen: cython.bint = is_seen(t.keys)
        plain: Tensor = t if seen else with_bit(t, self.bit, False)
        slots[0] = cython.cast(p_object, plain)
        st.excluded = before | ((_ONE << KEY_AUTOGRAD) | (_ONE << KEY_ADINPLACEORVIEW))
        try:
            return self.clone(t) if seen else self.compute.call(slots)
        finally:
            st.excluded = before

    @cython.cfunc
    def settled(self, item: object) -> object:
        """An argument with its tensors, or those in it, made plain; None if they are."""
        found: cython.bint = False
        if isinstance(item, Tensor):
            if cython.cast(Tensor, item).keys & self.bit:
                return self.settle(item)
            return None
        if not isinstance(item, (list, tuple)):
            return None
        made: list = []
        for one in item:
            if isinstance(one, Tensor) and cython.cast(Tensor, one).keys & self.bit:
                found = True
                one = self.settle(one)
            made.append(one)
        if not found:
            return None
        return made if isinstance(item, list) else tuple(made)

    @cython.cfunc
    def write_back(self, target: object, numbers: object) -> object:
        """Put what an operator wrote where it was to go."""
        if isinstance(target, Tensor):
            t: Tensor = target
            if t.keys & self.bit:
                written: Tensor = numbers
                if t.shape != written.shape:
                    t.resize_(written.shape)
                plain: Tensor = with_bit(t, self.bit, False)
                copy_into(plain, self.settle(written))
            return target
        if isinstance(target, (list, tuple)):
            for one, made in zip(target, numbers):
                self.write_back(one, made)
        return target

    @cython.cfunc
    def copy(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        """``copy_``: the target's bit goes over to the source."""
        target: Tensor = cython.cast(Tensor, cython.cast(object, slots[0]))
        source: Tensor = cython.cast(Tensor, cython.cast(object, slots[1]))
        args: p_object[3]
        aim: Tensor = target
        pending: cython.bint = (source.keys & self.bit) != 0
        if target.keys & self.bit:
            aim = with_bit(target, self.bit, False)
            if (
                not pending
                and source.dtype_.category < FLOATING
                and self.bit != (_ONE << KEY_CONJUGATE)
            ):
                source = source.to(target.dtype_)
            pending = not pending
        if pending:
            source = self.settle(source)
        elif source.keys & self.bit:
            source = with_bit(source, self.bit, False)
        args[0] = cython.cast(p_object, aim)
        args[1] = cython.cast(p_object, source)
        args[2] = slots[2]
        op.run(args, keys & ~self.bit)
        return target

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        args: p_object[24]
        keep: list = []
        i: cython.int
        at: cython.int
        written: cython.int = -1
        if op.name in ("copy_", "clone") and is_seen(keys):
            return op.run(slots, keys & ~self.bit)
        if op.name == "copy_":
            return self.copy(op, slots, keys)
        if op.form == INPLACE:
            written = 0
        elif op.form == OUT:
            written = op.n_args - 1
        for i in range(op.n_args):
            args[i] = slots[i]
        for i in range(op.n_tensors):
            at = op.tensor_args[i]
            made = self.settled(cython.cast(object, slots[at]))
            if made is not None:
                keep.append(made)
                args[at] = cython.cast(p_object, made)
        result = op.run(args, keys & ~self.bit)
        if written < 0 or args[written] == slots[written]:
            return result
        return self.write_back(
            cython.cast(object, slots[written]), cython.cast(object, args[written])
        )


def is_conj(self: Tensor):
    """Whether the tensor is a conjugate that was put off."""
    return (self.keys & (_ONE << KEY_CONJUGATE)) != 0


def is_neg(self: Tensor):
    """Whether the tensor is a negative that was put off."""
    return (self.keys & (_ONE << KEY_NEGATIVE)) != 0


def conj(self):
    """The complex conjugate, put off; real tensors and numbers as they are."""
    if not isinstance(self, Tensor):
        return self.conjugate() if isinstance(self, complex) else self
    if cython.cast(Tensor, self).dtype_.category != COMPLEX:
        return self
    return _LAZY_CONJ(self)


def resolve_conj(self: Tensor):
    """The tensor itself, or a copy where its conjugate was put off."""
    return self.clone() if self.keys & (_ONE << KEY_CONJUGATE) else self


def resolve_neg(self: Tensor):
    """The tensor itself, or a copy where its negative was put off."""
    return self.clone() if self.keys & (_ONE << KEY_NEGATIVE) else self


_LAZY_CONJ = cython.declare(object, None)


def bind_lazy_conj(operator):
    """Name the operator that makes a lazy conjugate."""
    global _LAZY_CONJ
    _LAZY_CONJ = operator

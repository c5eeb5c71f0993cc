"""Tangents on tensors: what `forward_ad.dual_level` adds to the calls of its thread.

A tangent belongs to its tensor, as a gradient does, so reverse mode works beside it: the
primal part of a call is recorded as ever, and so are the calls that compute tangents.
A view's tangent is the same view of its base's tangent, and a write through a view
writes into the base's; so a tangent always lies in memory as its primal does.

The ForwardAD key is in the keys of a thread's calls while a level is open, and in no
tensor's: where none is open, nothing is paid.
"""

from rushlight.autograd import methods
from rushlight.autograd.levels.pushforward import (
    Pushforward,
    differentiable,
    transpose_in_place,
    with_copies,
)
from rushlight.autograd.levels.stack import THREAD, each, revived, tensors
from rushlight.core import state
from rushlight.core.facts import storage_of
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import INPLACE, OUT, TAGS
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import set_fallback
from rushlight.operators import call

FORWARD_AD = 1 << DispatchKey.ForwardAD


class Level:
    """One `dual_level` block: its tangents vanish when it is over."""

    __slots__ = ("alive",)

    def __init__(self):
        self.alive = True


class Tangent:
    """What a tensor knows of its tangent.

    Attributes:
        level: the block that it belongs to.
        value: the tangent; None where there is none, or where it was not taken yet.
        source: the `Tangent` that this one's is a view of; None where it is no view.
        take: the view, as a function of the source's value.
        layout: sizes, strides, offset, elements of storage, dtype and device.
    """

    __slots__ = ("layout", "level", "source", "take", "value")

    def __init__(self, level, primal, source=None, take=None):
        self.level, self.value = level, None
        self.source, self.take = source, take
        storage = storage_of(primal).nbytes() // primal.element_size()
        self.layout = (
            tuple(primal.shape),
            primal.stride(),
            primal.storage_offset(),
            storage,
            primal.device,
        )

    def look(self):
        """The tangent, or None."""
        if not self.level.alive:
            return None
        if self.value is None and self.source is not None:
            whole = self.source.look()
            if whole is not None:
                self.value = self.take(whole)
        return self.value

    @property
    def carries(self):
        """Whether there is a tangent."""
        return self.look() is not None

    def like_primal(self, tangent):
        """A tangent in memory as the primal is: itself where it lies so, or a copy."""
        shape, strides, offset, storage, _ = self.layout
        held = storage_of(tangent).nbytes() // tangent.element_size()
        if (
            tangent.stride() == strides
            and tangent.storage_offset() == offset
            and held == storage
        ):
            return tangent
        return self.zeros(tangent.dtype).copy_(tangent)

    def zeros(self, dtype):
        """Zeros in memory as the primal is."""
        shape, strides, offset, storage, device = self.layout
        zeros = call.empty_strided(shape, strides, dtype=dtype, device=device)
        if not offset and storage_of(zeros).nbytes() == storage * dtype.itemsize:
            return zeros.zero_()
        whole = call.zeros(storage, dtype=dtype, device=device)
        return whole.as_strided(shape, strides, offset)

    def assign(self, tangent, written=False):
        """Makes a tangent this tensor's; of a view that is written, its base's too."""
        if written and self.source is not None:
            own = self.source.look()
            if own is None:
                own = self.source.zeros(tangent.dtype)
                self.source.assign(own, written)
            self.value = self.take(self.source.value)
            self.value.copy_(tangent)
        else:
            self.value = self.like_primal(tangent)


class Beneath:
    """A block in which no call sees tangents."""

    __slots__ = ("keys",)

    def __enter__(self):
        self.keys = (state.included_keys(), state.excluded_keys())
        state.set_keys(self.keys[0] & ~FORWARD_AD, self.keys[1])

    def __exit__(self, *raised):
        state.set_keys(*self.keys)


def owner_depth(tensor):
    """How many transformations stand around the calls that a tensor belongs to."""
    stand = tensor._stand
    while stand is not None and not stand.level.alive:
        stand = stand.value._stand
    return 0 if stand is None else stand.level.number


def record_of(tensor, make=False):
    """A tensor's `Tangent`; None where it has none and none is made.

    Args:
        make: give it one, and its base, where it has none.
    """
    level = THREAD.dual
    found = tensor._tangent
    if found is not None and found.level is level:
        return found
    base = tensor._base
    source = None if base is None else record_of(base, make)
    if source is None and not make:
        return None
    if source is None:
        found = Tangent(level, tensor)
    else:
        found = Tangent(level, tensor, source, methods.view_taker(tensor))
    tensor._tangent = found
    return found


class Dual(Pushforward):
    """Carries tangents through the calls of a `dual_level` block."""

    beneath = Beneath

    def unwrap(self, tensor):
        return tensor

    def outside(self, op, values):
        with Beneath():
            return op.redispatch(None, *values)

    def at_value(self, function, *args):
        with Beneath():
            return function(*args)

    def tangent_of(self, tensor):
        """The tangent that calls see; None where they see none."""
        if tensor._tangent is None and tensor._base is None:
            return None
        if owner_depth(tensor) != THREAD.at or not differentiable(tensor):
            return None
        record = record_of(tensor)
        return None if record is None else self.at_value(record.look)

    def set_tangent(self, tensor, tangent, written=False):
        """Give a tensor its tangent.

        Raises:
            RuntimeError: the sizes differ, or the tangent has a tangent.
        """
        if tensor.shape != tangent.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that "
                "of the original Tensor, this is not supported. Tensor is of size "
                f"{list(tensor.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}."
            )
        if self.tangent_of(tangent) is not None:
            raise RuntimeError(
                "Setting a forward grad that itself has a forward gradient at the same "
                "level 0 is not supported."
            )
        with Beneath():
            record_of(tensor, make=True).assign(tangent, written)

    def with_tangent(self, value, tangent):
        """A tensor that has just been made, with its tangent if there is one."""
        if tangent is not None:
            self.set_tangent(value, tangent)
        return value

    def process(self, op, args):
        """The call, and the tangents of what it gives."""
        if (
            THREAD.dual is None
            or not THREAD.forward
            or state.is_inference_mode_enabled()
        ):
            return self.outside(op, args)
        carried = any(self.tangent_of(t) is not None for t in tensors(args))
        if op.form == OUT and carried:
            name = op.name.partition(".")[0]
            raise NotImplementedError(
                f"Trying to use forward AD with {name}_out that does not support it "
                "because it is an out= function"
            )
        if op.form == INPLACE:
            return self.process_inplace(op, args, carried)
        if op.is_view or op.view_or_copy:
            return self.process_view(op, args)
        if not carried or op.untracked:
            return self.outside(op, args)
        result, found = self.push_forward(op, args, args)
        self.attach(result, found, args)
        return result

    def attach(self, result, found, args):
        """Give results their tangents, and to what was saved of them."""
        given = list(tensors(args))
        for output, tangent in zip(tensors([result]), found):
            if tangent is None or not differentiable(output):
                continue
            if any(output is one for one in given):
                continue
            self.set_tangent(output, tangent)
            mark_saved(output)

    # -- views -------------------------------------------------------------------------

    def process_view(self, op, args):
        source = args[0]
        result = self.outside(op, args)
        if op.untracked or result is source or not isinstance(source, Tensor):
            return result
        if owner_depth(source) != THREAD.at:
            return result
        record = record_of(source)
        if record is None:
            return result
        rest = args[1:]
        outputs = [result] if isinstance(result, Tensor) else result
        for number, output in enumerate(outputs):
            if not differentiable(output):
                continue
            shared = storage_of(output) is storage_of(source)

            def take(whole, number=None if output is result else number):
                with Beneath():
                    taken = op.redispatch(None, whole, *rest)
                return taken if number is None else taken[number]

            if shared:
                output._tangent = Tangent(THREAD.dual, output, record, take)
                output._tangent.look()
            elif record.look() is not None:
                self.set_tangent(output, take(record.look()))
        return result

    # -- in place ----------------------------------------------------------------------

    def process_inplace(self, op, args, carried):
        target = args[0]
        if not carried or not isinstance(target, Tensor) or not differentiable(target):
            return self.outside(op, args)
        if owner_depth(target) != THREAD.at:
            return self.outside(op, args)
        if op.is_view:  # another window on the same memory
            tangent = self.tangent_of(target)
            result = self.outside(op, args)
            if tangent is not None:
                self.outside(op, [tangent, *args[1:]])
                target._tangent = record = Tangent(THREAD.dual, target)
                record.value = tangent
            return result
        number = op.name == "fill_" and not isinstance(args[1], Tensor)
        if op.name == "zero_" or number:
            result = self.outside(op, args)
            self.write(target, None)
            return result
        if op.name in ("copy_", "fill_"):
            moved = self.tangent_of(args[1]) if isinstance(args[1], Tensor) else None
            result = self.outside(op, args)
            self.write(target, moved)
            mark_saved(target)
            return result
        return self.write_result(op, args)

    def write_result(self, op, args):
        """Write, and compute the new tangent from copies of the old values."""
        target = args[0]
        if op.functional is None:
            self.refuse_unknown(op)
        given = with_copies(target, args, call.clone)
        if op.entry and "random" in op.entry[TAGS]:  # numbers are drawn once
            return target.copy_(self.written(op, given))
        result = self.outside(op, args)
        self.write(target, self.tangent_of(self.written(op, given)))
        mark_saved(target)
        return result

    def written(self, op, given):
        """What an in-place operator writes, as a value of its own with a tangent."""
        if op.functional is not None:
            return op.functional.redispatch(None, *given)
        after, found = self.transposed(transpose_in_place, op, given)
        self.attach(after, found, ())
        return after

    def refuse_unknown(self, op):
        """Refuses an operator that writes what no derivative tells of.

        Raises:
            NotImplementedError: it has none.
        """
        if op.derivative is None:
            raise NotImplementedError(
                f"Trying to use forward AD with {op.name} that does not support it "
                "because it has not been implemented yet."
            )

    def write(self, target, tangent):
        """Write into the tangent of a tensor that is written; None is zero."""
        own = self.tangent_of(target)
        if own is not None:
            with Beneath():
                own.zero_() if tangent is None else own.copy_(tangent)
        elif tangent is not None:
            with Beneath():
                fresh = call.zeros_like(target, requires_grad=False)
                fresh.copy_(tangent)
            self.set_tangent(target, fresh, written=True)


def mark_saved(output):
    """Let the copies of an output that its node has saved share its tangent."""
    node = output.grad_fn
    if node is not None and output._tangent is not None:
        for saved in methods.saved_outputs(node):
            if saved.shape == output.shape:
                saved._tangent = output._tangent


DUAL = Dual()


def _forward(op, *args):
    """The fallback of all operators while a level is open."""
    return DUAL.process(op, each(revived, args))


_installed = []


def include(level):
    """Has the calls of this thread see tangents of a level; None ends it."""
    if not _installed:
        set_fallback(DispatchKey.ForwardAD, _forward)
        _installed.append(True)  # last: no other thread goes on before
    if level is not None:  # first in and last out: `dual_level` goes by it
        THREAD.dual = level
    included, excluded = state.included_keys(), state.excluded_keys()
    state.set_keys(_with(included, level), excluded)
    for around in THREAD.open[: THREAD.at]:
        keys, other = around.outer_keys
        around.outer_keys = _with(keys, level), other
    THREAD.dual = level


def _with(keys, level):
    return keys & ~FORWARD_AD if level is None else keys | FORWARD_AD

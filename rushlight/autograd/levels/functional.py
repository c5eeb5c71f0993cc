"""The level without writes: what a program writes in place becomes new values.

Each tensor of the level knows the memory that it is a window on, and by which views one
comes from the whole of it to the window. A write makes a new value of the window; going
the views back makes a new value of the whole, of which the other windows are taken anew
when they are next looked at.
"""

from rushlight.autograd.levels.stack import (
    STANDS,
    Level,
    Outside,
    Stand,
    each,
    follow,
    imitate,
    mapped,
    tensors,
)
from rushlight.autograd.levels.view_inverse import expanded, way_back
from rushlight.core.facts import storage_of
from rushlight.core.subclass import is_absent
from rushlight.core.tensor import Tensor
from rushlight.core.views import take_window
from rushlight.core.window import make_tensor
from rushlight.dispatch.declared import INPLACE, OUT
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call

# The level takes the compositions that handlers see whole.
KEYS = STANDS | 1 << DispatchKey.Functionalize
WRITTEN = 1  # among the flags of an argument: the operator writes to it


class Memory:
    """What several windows share: the value of the whole, and how often it was written."""

    __slots__ = ("offset", "value", "version")

    def __init__(self, value):
        self.value, self.version = value, 0
        self.offset = value.storage_offset()  # of the first value, in its storage


class ViewMeta:
    """One view on the way from the whole to a window; of several results, one of them.

    ``op`` is called with the tensor and ``rest``.
    """

    __slots__ = ("number", "op", "rest")

    def __init__(self, op, rest, number=None):
        self.op, self.rest, self.number = op, rest, number

    def taken(self, value):
        """The window on a value."""
        result = self.op.redispatch(None, value, *self.rest)
        return result if self.number is None else result[self.number]

    def put_back(self, whole, window):
        """The whole with the window's values in their places."""
        back = way_back(self.op)
        if back is None:
            return _by_position([self], whole, window)
        return back(self, whole, window)

    @property
    def repeats(self):
        """Whether one element may be seen at several places."""
        return way_back(self.op) in (None, expanded)


class Window(Stand):
    """A value that is part of a memory; the value may be older than the memory's."""

    __slots__ = ("memory", "seen", "steps")
    opaque = None

    def __init__(self, level, value, memory, steps=()):
        super().__init__(level, value)
        self.memory, self.steps, self.seen = memory, steps, memory.version

    def look(self):
        """The value, taken anew where the memory has been written since."""
        if self.seen != self.memory.version:
            with Outside(self.level):
                value = self.memory.value
                for step in self.steps:
                    value = step.taken(value)
            self.value, self.seen = value, self.memory.version
        return self.value

    def read(self, method):
        self.look()
        return super().read(method)


class FunctionalLevel(Level):
    """One ``functionalize`` at work.

    Args:
        copies: whether views become copies, too.
        write_copies: what runs an operator that writes to some of its arguments, on
            copies of those: ``write_copies(op, values, positions)`` gives its result and
            what it has written.
        as_step: what runs an operator that stands for another one, and is to be seen
            as itself: ``as_step(op, values)``; None where it may be taken apart.
    """

    title = "FunctionalTensor"

    def __init__(self, copies=False, write_copies=None, as_step=None):
        self.copies = copies
        self.write_copies = write_copies or _write_copies
        self.as_step = as_step

    def wrap(self, value):
        tensor = imitate(value, KEYS)
        tensor._stand = Window(self, value, Memory(value))
        return tensor

    def unwrap(self, tensor):
        return tensor._stand.look() if self.owns(tensor) else tensor

    def written(self, tensor):
        """Whether anything has been written to a tensor's memory."""
        return tensor._stand.memory.version > 0

    def process(self, op, args):
        values = each(self.unwrap, args)
        rows = () if op.entry or op.form == OUT else enumerate(op.signature.rows)
        positions = [at for at, row in rows if row[5] & WRITTEN]
        if any(self.owns(one) for at in positions for one in tensors([args[at]])):
            return self.write_some(op, args, values, positions)
        if op.form == INPLACE:
            return self.write(op, args, values)
        if op.form == OUT:
            return self.write_out(op, args, values)
        if op is _BATCH_NORM and (self.as_step or args[_TRAINING]):
            return self.normalise(args, values)
        if self.owns(args[0]) if args and isinstance(args[0], Tensor) else False:
            if op.is_view or op.view_or_copy or op.untracked:
                return self.look_at(op, args, values)
        result = self.outside(op, values)
        known = {id(value): arg for value, arg in zip(values, args)}
        return mapped(
            lambda t: known[id(t)] if id(t) in known else self.wrap(t), result
        )

    # -- views -------------------------------------------------------------------------

    def look_at(self, op, args, values):
        source = args[0]
        if self.copies:
            op = _copying(op)
        rest = values[1:]
        result = self.outside(op, values)
        if result is values[0]:
            return source
        shares = (
            (op.is_view and not op.view_or_copy)
            or self.copies
            or (
                isinstance(result, Tensor)
                and storage_of(result) is storage_of(values[0])
            )
        )
        if not shares and op.view_or_copy:
            return mapped(self.wrap, result)
        stand = source._stand
        before = stand.steps
        if op.name == "as_strided":
            # it counts elements of the whole, whatever the window
            before = ()
            if rest[2] is None:
                rest[2] = values[0].storage_offset()

        def window(value, number=None):
            tensor = self.on_memory_of(source, value)
            steps = (*before, ViewMeta(op, rest, number))
            tensor._stand = Window(self, value, stand.memory, steps)
            return tensor

        if isinstance(result, Tensor):
            return window(result)
        parts = [window(part, number) for number, part in enumerate(result)]
        return parts if isinstance(result, list) else tuple(parts)

    def on_memory_of(self, source, value):
        """A tensor like the value; one sees that it is a view of the source.

        Whoever is inside compares places in memory. Those of the first value stay, as
        new ones come and go.
        """
        storage, offset = source.untyped_storage(), source.storage_offset()
        if not self.copies:
            whole = source._stand.memory
            offset = value.storage_offset() - whole.value.storage_offset()
            offset += whole.offset
        if is_absent(value):  # without memory there is no place in it to see
            return imitate(value, KEYS)
        with Outside(self):
            shown = make_tensor(
                storage, tuple(value.shape), value.stride(), offset, value.dtype
            )
            shown = shown.conj() if value.is_conj() else shown
            shown = shown._neg_view() if value.is_neg() else shown
        return imitate(shown, KEYS)

    # -- writes ------------------------------------------------------------------------

    def refuse_own(self, args):
        """Refuses to write what is the level's into a tensor that is not."""
        if any(self.owns(t) for t in tensors(args)):
            raise RuntimeError(
                "mutating a non-functional tensor with a functional tensor is not "
                "allowed. Please ensure that all of your inputs are wrapped inside "
                "of a functionalize() call."
            )

    def write(self, op, args, values):
        target = args[0]
        if not self.owns(target):
            self.refuse_own(args)
            self.outside(op, values)
            return target
        if op.is_view:
            return self.review(op, args, values)
        with Outside(self):
            made = _functional(op, values)
        self.assign(target, made)
        return target

    def write_some(self, op, args, values, positions):
        """An operator that says which of its arguments it writes to."""
        with Outside(self):
            result, made = self.write_copies(op, values, positions)
        for at, new in zip(positions, made):
            for target, value in zip(tensors([args[at]]), tensors([new])):
                self.assign(target, value)
        return mapped(self.wrap, result)

    def normalise(self, args, values):
        """Batch normalization, which writes its statistics without saying so."""
        at = (_MEAN, _MEAN + 1)
        made = [one for one in at if args[one] is not None]
        if not args[_TRAINING]:
            op = call._native_batch_norm_legit_no_training.overloads[0]
            values = [*values[:_TRAINING], *values[_TRAINING + 1 :]]
        elif made:
            op = call._native_batch_norm_legit_functional.overloads[0]
        else:
            op = _overload_of(call._native_batch_norm_legit, "no_stats")
            values = [*values[:_MEAN], *values[_TRAINING:]]
        with Outside(self):
            run = self.as_step or (lambda op, given: op.redispatch(None, *given))
            results = run(op, values)
        for place, new in zip(at, results[3:]):
            self.assign(args[place], new)
        return tuple(mapped(self.wrap, one) for one in results[:3])

    def write_out(self, op, args, values):
        """``out=``: the result takes the place of what it was to be written into."""
        given = args[-1]
        targets = [given] if isinstance(given, Tensor) else list(given)
        if not all(self.owns(t) for t in targets):
            self.refuse_own(args)
            self.outside(op, values)
            return given
        made = self.outside(op.functional, values[:-1])
        results = [made] if isinstance(made, Tensor) else list(made)
        for target, value in zip(targets, results, strict=True):
            if value.dtype is not target.dtype:
                with Outside(self):
                    value = value.to(target.dtype)
            self.assign(target, value)
        return given

    def review(self, op, args, values):
        """Another window on the same memory, as ``transpose_`` gives."""
        target = args[0]
        stand = target._stand
        viewed = getattr(call, op.name.split(".")[0].rstrip("_"))
        found = [one for one in viewed.overloads if _overload(one) == _overload(op)]
        view = _copying(found[0]) if self.copies else found[0]
        value = self.outside(view, values)
        stand.steps = (*stand.steps, ViewMeta(view, values[1:]))
        stand.value = value
        follow(target, self.on_memory_of(target, value))
        return target

    def assign(self, target, value):
        """Makes a value that of a window, and of what lies around it."""
        stand = target._stand
        memory = stand.memory
        with Outside(self):
            value = _put_back(stand.steps, memory.value, value)
            memory.value = _laid_out_like(memory.value, value)
        memory.version += 1
        if not stand.steps:
            stand.value, stand.seen = memory.value, memory.version
            if target.shape != memory.value.shape:  # out= of another size
                take_window(target, memory.value)
                memory.offset = memory.value.storage_offset()


_BATCH_NORM = call.native_batch_norm.overloads[0]
_MEAN, _TRAINING = 3, 5  # places among its arguments


def _overload_of(packet, name):
    return next(one for one in packet.overloads if _overload(one) == name)


def _laid_out_like(before, value):
    """A value with the strides of the one before it, which views may depend on."""
    strides = before.stride()
    if value.shape != before.shape or value.stride() == strides:
        return value
    order = sorted(range(value.dim()), key=lambda dim: -strides[dim])
    back = [order.index(dim) for dim in range(value.dim())]
    return value.permute(order).contiguous().permute(back)


def _overload(op):
    return op.name.partition(".")[2]


def _copying(op):
    """The operator that copies what a view shows; the view where there is none."""
    name = op.name.split(".")[0]
    copies = getattr(call, f"{name}_copy", None)
    if copies is None:
        return op
    found = [one for one in copies.overloads if _overload(one) == _overload(op)]
    return found[0] if found else op


def _write_copies(op, values, positions):
    """An operator's result, and the copies of arguments that it has written to."""
    given = list(values)
    for at in positions:
        given[at] = mapped(lambda one: one.clone(), values[at])
    return op.redispatch(None, *given), [given[at] for at in positions]


def _functional(op, values):
    """What an in-place operator would have written."""
    target, *rest = values
    name = op.name.split(".")[0]
    if name == "zero_":
        return call.zeros_like(target)
    if name == "fill_" and not isinstance(rest[0], Tensor):
        return call.full_like(target, rest[0])
    if name in ("copy_", "fill_"):
        source = rest[0].to(device=target.device, dtype=target.dtype)
        return source.expand(target.shape).clone()
    if op.functional is not None:
        made = op.functional.redispatch(None, *values)
        return made if made.dtype is target.dtype else made.to(target.dtype)
    made = target.clone()
    op.redispatch(None, made, *rest)
    return made


# -- the way back through views --------------------------------------------------------


def _put_back(steps, whole, window):
    """The whole with the values of the window that some steps lead to."""
    if any(step.repeats for step in steps[:-1]):
        return _by_position(steps, whole, window)
    wholes = [whole]
    for step in steps[:-1]:
        wholes.append(step.taken(wholes[-1]))
    for step, one in zip(reversed(steps), reversed(wholes)):
        window = step.put_back(one, window)
    return window


def _by_position(steps, whole, window):
    """Into the places that the steps look at, whatever they are."""
    positions = call.arange(whole.numel(), device=whole.device).view(whole.shape)
    positions = _laid_out_like(whole, positions)
    for step in steps:
        positions = step.taken(positions)
    positions = positions.reshape(-1)
    flat = call.index_put(whole.reshape(-1), (positions,), window.reshape(-1))
    return flat.view(whole.shape)

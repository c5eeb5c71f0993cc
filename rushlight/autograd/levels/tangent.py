"""The level of forward mode: each tensor may carry a tangent beside its primal value."""

from rushlight.autograd.levels.pushforward import (
    Pushforward,
    differentiable,
    transpose_in_place,
    transpose_twice,
    with_copies,
)
from rushlight.autograd.levels.stack import (
    STANDS,
    Level,
    Outside,
    Stand,
    each,
    follow,
    imitate,
    levels_of,
    mapped,
    refused_write,
    tensors,
)
from rushlight.core.facts import storage_of
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import INPLACE, OUT, TAGS
from rushlight.dispatch.guard import GradMode
from rushlight.operators import call


class Dual(Stand):
    """A primal value and its tangent, both of the level outside.

    A view knows what it is a view of: its tangent is the same view of the other's.
    """

    __slots__ = ("source", "tangent", "view", "whole")
    opaque = None

    def __init__(self, level, value, tangent=None, source=None, view=None):
        super().__init__(level, value)
        self.tangent, self.source, self.view = tangent, source, view
        self.whole = None  # what the tangent is a view of

    @property
    def carries(self):
        """Whether the tangent is not zero."""
        return self.look() is not None

    def data(self):
        """The value without its tangent."""
        return Dual(self.level, self.value)

    def look(self):
        """The tangent; None for zero."""
        if self.source is not None:
            self.follow(self.source.look())
        return self.tangent

    def follow(self, whole):
        """Takes the view of the source's tangent, unless that is the same as before."""
        if whole is not self.whole:
            self.tangent, self.whole = self.view(whole), whole

    def recorded(self, function, *args, **options):
        """A call that moves the tangent: its history is kept whatever the grad mode."""
        with GradMode(True):
            return self.level.at_value(function, *args, **options)

    def settle(self):
        """Has the tangent lie in memory as the value does, so that it has its views."""
        if self.source is not None:
            self.source.settle()
        elif self.tangent is not None and self.tangent.stride() != self.value.stride():
            sizes, strides = self.value.shape, self.value.stride()
            at_value, tangent = self.recorded, self.tangent
            fresh = at_value(Tensor.new_empty_strided, tangent, sizes, strides)
            self.tangent = at_value(Tensor.copy_, fresh, tangent)

    def reshape_(self, change):
        """Changes the tangent's window, now and whenever it is viewed again."""
        tangent, view = self.look(), self.view
        if tangent is not None:
            change(tangent)
        if view is not None:
            self.view = lambda whole: change(view(whole))

    def own(self, moved=None):
        """The tangent to write into: zeros are made where there is none.

        Args:
            moved: what will be written. The tangent gets all of its levels, as where it
                is another one for each example and the value is the same for all.
        """
        if self.source is not None:
            self.follow(self.source.own(moved))
            return self.tangent
        at_value, tangent = self.recorded, self.tangent
        if tangent is None:
            tangent = at_value(call.zeros_like, self.value)
        elif 0 in tangent.stride():
            tangent = at_value(call.clone, tangent)
        if moved is not None and not levels_of(moved) <= levels_of(tangent):
            zeros = at_value(
                Tensor.new_zeros, moved, tangent.shape, dtype=tangent.dtype
            )
            tangent = at_value(call.add, tangent, zeros)
        self.tangent = tangent
        return tangent


class TangentLevel(Pushforward, Level):
    """Carries tangents through the calls of one ``jvp``."""

    title = "DualTensor"

    def wrap(self, value, tangent=None, source=None, view=None):
        if tangent is not None and tangent.is_complex() and not value.is_conj():
            # views of the value look at its elements as they lie
            tangent = self.at_value(Tensor.resolve_conj, tangent)
        tensor = imitate(value, STANDS)
        tensor._stand = Dual(self, value, tangent, source, view)
        return tensor

    def at_value(self, function, *args, **options):
        """Calls a function as the levels outside would."""
        with Outside(self):
            return function(*args, **options)

    with_tangent = wrap

    def beneath(self):
        """A block whose calls are those of the levels outside."""
        return Outside(self)

    def tangent_of(self, tensor):
        return tensor._stand.look() if self.owns(tensor) else None

    def process(self, op, args):
        if op.form == OUT:
            return self.outside(op, each(self.unwrap, args))
        if op.form == INPLACE:
            return self.process_inplace(op, args)
        mine = [t for t in tensors(args) if self.owns(t)]
        values = each(self.unwrap, args)
        if op.untracked:
            return mapped(self.wrap, self.outside(op, values))
        if op.is_view or (op.view_or_copy and mine):
            return self.process_view(op, args, values)
        carried = any(self.tangent_of(t) is not None for t in mine)
        if not carried:
            result = self.outside(op, values)
            known = {id(self.unwrap(t)): t for t in tensors(args)}
            return mapped(
                lambda t: known[id(t)] if id(t) in known else self.wrap(t), result
            )
        result, found = self.push_forward(op, args, values)
        return self.paired(result, found)

    def paired(self, result, found):
        """Results of this level, with their tangents in order."""
        rest = iter(found)
        return mapped(lambda value: self.wrap(value, next(rest)), result)

    def process_view(self, op, args, values):
        source = args[0]
        result = self.outside(op, values)
        if not self.owns(source):
            return result
        if result is values[0]:
            return source
        source._stand.settle()
        shares = op.is_view and not op.view_or_copy
        others, recording = values[1:], is_grad_enabled()

        def take(number):
            def view(whole):
                with GradMode(recording):  # as of the view of the value
                    taken = self.outside(op, [whole, *others])
                return taken if number is None else taken[number]

            return view

        if isinstance(result, Tensor):
            if not differentiable(result):
                return self.wrap(result)
            if not shares and storage_of(result) is not storage_of(values[0]):
                whole = source._stand.look()
                moved = None if whole is None else take(None)(whole)
                if moved is not None and storage_of(moved) is storage_of(whole):
                    moved = self.at_value(call.clone, moved)  # as the value was
                return self.wrap(result, moved)
            return self.wrap(result, None, source._stand, take(None))
        parts = [
            self.wrap(part, None, source._stand, take(i))
            for i, part in enumerate(result)
        ]
        return parts if isinstance(result, list) else tuple(parts)

    # -- in place --------------------------------------------------------------------

    def process_inplace(self, op, args):
        target = args[0]
        values = each(self.unwrap, args)
        carried = any(self.tangent_of(t) is not None for t in tensors(args))
        if not self.owns(target):
            if carried or is_grad_enabled():
                raise refused_write(op)
            self.outside(op, values)
            return target
        if op.is_view:  # another window on the same memory
            self.outside(op, values)
            target._stand.reshape_(lambda t: self.outside(op, [t, *values[1:]]))
            follow(target, values[0])
            return target
        if not carried:
            self.outside(op, values)
            follow(target, values[0])
            return target
        if not differentiable(target):
            self.outside(op, values)
            return target
        self.write_tangent(op, args, values)
        follow(target, values[0])
        return target

    def write_tangent(self, op, args, values):
        """Write the values, and the tangent that is computed from the old ones."""
        target = args[0]
        stand = target._stand
        number = op.name == "fill_" and not isinstance(args[1], Tensor)
        if op.name == "zero_" or number:
            self.outside(op, values)
            self.at_value(Tensor.zero_, stand.own())
            return
        if op.name in ("copy_", "fill_"):
            self.outside(op, values)
            moved = self.tangent_of(args[1]) if isinstance(args[1], Tensor) else None
            own = stand.own(moved)
            if moved is None:
                self.at_value(Tensor.zero_, own)
            else:
                self.at_value(Tensor.copy_, own, moved)
            return
        given = with_copies(target, args, self.copied)
        written = self.write_value(op, values)
        if op.functional is not None:
            computed, found = self.transposed(transpose_twice, op.functional, given)
        else:
            computed, found = self.transposed(transpose_in_place, op, given)
        if not written:
            self.at_value(Tensor.copy_, values[0], computed)
        if found[0] is None:
            self.at_value(Tensor.zero_, stand.own())
        else:
            self.at_value(Tensor.copy_, stand.own(found[0]), found[0])

    def copied(self, tensor):
        """A tensor with a value and a tangent of their own."""
        value, tangent = self.unwrap(tensor), self.tangent_of(tensor)
        return self.wrap(
            self.at_value(call.clone, value),
            None if tangent is None else self.at_value(call.clone, tangent),
        )

    def write_value(self, op, values):
        """Write as the levels outside do, which refuse what they refuse.

        False of an operator that draws numbers, which are drawn once, with the tangent.
        """
        drawn = bool(op.entry) and "random" in op.entry[TAGS]
        if not drawn:
            self.outside(op, values)
        return not drawn

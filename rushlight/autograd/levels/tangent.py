"""The level of forward mode: each tensor may carry a tangent beside its primal value.

Linear operators, which their declarations name, act on tangents as they act on values;
products do in each factor. An elementwise operator's tangent is its derivative's formula
with the tangent for the gradient. Any other operator's comes from its gradient: the
vector-Jacobian product is linear in its vector u, and the gradient of <J^T u, t> by u is
J t (Pearlmutter's transposition, 1994; Townsend 2017). So whatever has a gradient that can
be differentiated again has forward mode too.
"""

from __future__ import annotations

import functools
import importlib

from rushlight.autograd.levels.gradient import GradientLevel
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
    tensors,
)
from rushlight.core.state import is_grad_enabled, set_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import FORWARD, IMPLEMENTATION, INPLACE, KIND, OUT
from rushlight.dispatch.library import tangent_rules
from rushlight.ops import call

ARGUMENT, RESULT = 0, 1  # what a formula's saved value is


def says(op, word):
    """Whether the declaration says this of forward mode."""
    return bool(op.entry) and op.entry[FORWARD] == word


@functools.cache
def named(module, function):
    """A function that a declaration or a derivative names."""
    return getattr(importlib.import_module(module), function)


def own_rule(op):
    """The operator's own rule ``rule(tangents, args, result)``, or None."""
    if op in tangent_rules:
        return tangent_rules[op]
    said = op.entry[FORWARD] if op.entry else None
    return named(*said) if isinstance(said, tuple) else None


@functools.cache
def by_formula(op):
    """Whether an operator's tangent is its derivative's formula with the tangent.

    So it is where the Jacobian is its own transpose, as of elementwise operators:
    each element of the result comes from one of each argument.
    """
    rule = op.derivative
    if rule is None or not op.entry or rule.outputs != (0,):
        return False
    plain = all(kind in (ARGUMENT, RESULT) for kind, _, _ in rule.saved)
    single = not any(listed for _, listed in rule.groups)
    known = op.entry[IMPLEMENTATION][KIND] == "pointwise" or says(op, "symmetric")
    return plain and single and known


def real(tensor):
    """Whether derivatives by a tensor are those of real numbers, or there are none."""
    return not tensor.is_complex()


class Dual(Stand):
    """A primal value and its tangent, both of the level outside.

    A view knows what it is a view of: its tangent is the same view of the other's.
    """

    __slots__ = ("source", "tangent", "view", "whole")

    def __init__(self, level, value, tangent=None, source=None, view=None):
        super().__init__(level, value)
        self.tangent, self.source, self.view = tangent, source, view
        self.whole = None  # what the tangent is a view of

    @property
    def carries(self):
        """Whether the tangent is not zero."""
        return self.look() is not None

    def look(self):
        """The tangent; None for zero."""
        if self.source is not None:
            self.follow(self.source.look())
        return self.tangent

    def follow(self, whole):
        """Takes the view of the source's tangent, unless that is the same as before."""
        if whole is not self.whole:
            self.tangent, self.whole = self.view(whole), whole

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
        at_value, tangent = self.level.at_value, self.tangent
        if tangent is None:
            tangent = at_value(call.zeros_like, self.value)
        elif 0 in tangent.stride():
            tangent = at_value(call.clone, tangent)
        if moved is not None and not levels_of(moved) <= levels_of(tangent):
            fresh = at_value(
                Tensor.new_zeros, moved, tangent.shape, dtype=tangent.dtype
            )
            tangent = at_value(Tensor.copy_, fresh, tangent)
        self.tangent = tangent
        return tangent


def differentiable(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


class TangentLevel(Level):
    """Carries tangents through the calls of one ``jvp`` or ``dual_level``."""

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

    def tangent_of(self, tensor):
        return tensor._stand.look() if self.owns(tensor) else None

    def process(self, op, args):
        if op.form == OUT:
            return self.outside(op, each(self.unwrap, args))
        if op.form == INPLACE:
            return self.process_inplace(op, args)
        mine = [t for t in tensors(args) if self.owns(t)]
        values = each(self.unwrap, args)
        if op.name == "detach":
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
        shares = op.is_view
        others, recording = values[1:], is_grad_enabled()

        def take(number):
            def view(whole):
                before = set_grad_enabled(recording)  # as of the view of the value
                try:
                    taken = self.outside(op, [whole, *others])
                finally:
                    set_grad_enabled(before)
                return taken if number is None else taken[number]

            return view

        if isinstance(result, Tensor):
            if not differentiable(result):
                return self.wrap(result)
            if (
                not shares
                and result.untyped_storage() is not values[0].untyped_storage()
            ):
                whole = source._stand.look()
                return self.wrap(result, None if whole is None else take(None)(whole))
            return self.wrap(result, None, source._stand, take(None))
        parts = [
            self.wrap(part, None, source._stand, take(i))
            for i, part in enumerate(result)
        ]
        return parts if isinstance(result, list) else tuple(parts)

    # -- tangents of results -----------------------------------------------------------

    def push_forward(self, op, args, values):
        """The result's value, and the tangents of its tensors."""
        rule = own_rule(op)
        if rule is not None:
            return self.push_rule(rule, op, args, values)
        if says(op, "linear") and differentiable(next(tensors(values))):
            result = self.outside(op, values)
            moved = each(self.tangent_or_zeros, args)
            if op.name == "as_strided_scatter":  # it counts elements of memory
                moved = each(lambda t: self.at_value(call.clone, t), moved)
            moved = self.outside(op, moved)
            if any(moved is self.tangent_of(t) for t in tensors(args[:1])):
                moved = self.at_value(call.clone, moved)
            return result, [t if differentiable(t) else None for t in tensors([moved])]
        if says(op, "product"):
            return self.push_product(op, args, values)
        if by_formula(op) and all(map(real, tensors(values))):
            found = self.push_elementwise(op, args, values)
            if found is not None:
                return found
        with Outside(self), GradientLevel() as inner:
            return transpose_twice(inner, op, args, self)

    def push_rule(self, rule, op, args, values):
        """By the operator's own rule; of factors, what a gradient leaves open too."""
        result = self.outside(op, values)
        tangents = each(self.tangent_of, args)
        tangents = [
            tangent if any(True for _ in tensors([arg])) else None
            for tangent, arg in zip(tangents, args)
        ]
        moved = self.at_value(rule, tangents, values, result)
        if not isinstance(moved, (tuple, list)):
            moved = (moved,)
        return result, list(moved)

    def push_product(self, op, args, values):
        """Linear in each of two factors; what is added to the product has its own."""
        result = self.outside(op, values)
        total = None
        for place in (0, 1):
            tangent = self.tangent_of(args[place])
            if tangent is not None:
                moved = [*values]
                moved[place] = tangent
                if len(values) > 2:
                    moved[2] = None  # the bias
                part = self.outside(op, moved)
                total = part if total is None else self.at_value(call.add, total, part)
        bias = values[2] if len(values) > 2 else None
        tangent = None if bias is None else self.tangent_of(args[2])
        if tangent is not None:
            if op.name == "convolution":
                rank = result.dim() - 2
                tangent = self.at_value(Tensor.reshape, tangent, (-1, *(1,) * rank))
            if total is None:
                total = self.at_value(call.zeros_like, result)
            total = self.at_value(call.add, total, tangent)
        return result, [total]

    def push_elementwise(self, op, args, values):
        """The derivative's formula with tangents for gradients, as rows meet no others.

        None where types differ, so that a gradient's type is not a tangent's.
        """
        result = self.outside(op, values)
        if not isinstance(result, Tensor) or not real(result):
            return None
        rule = op.derivative
        formula = named(rule.module, rule.function)
        saved = [
            values[place] if kind == ARGUMENT else result
            for kind, place, _ in rule.saved
        ]
        total = None
        for number, (place, _) in enumerate(rule.groups):
            arg = args[place]
            tangent = self.tangent_of(arg) if isinstance(arg, Tensor) else None
            if tangent is None:
                continue
            if tangent.dtype is not result.dtype:
                return None
            part = self.at_value(formula, 1 << number, tangent, *saved)
            if len(rule.groups) > 1:
                part = part[number]
            if part is tangent:
                part = self.at_value(call.clone, part)
            if part.shape != result.shape:
                part = self.at_value(call.broadcast_to, part, result.shape)
                part = self.at_value(call.clone, part)
            total = part if total is None else self.at_value(call.add, total, part)
        return result, [total]

    def tangent_or_zeros(self, tensor):
        tangent = self.tangent_of(tensor)
        if tangent is not None:
            return tangent
        value = self.unwrap(tensor)
        if not differentiable(value):
            return value
        return self.at_value(call.zeros_like, value)

    # -- in place --------------------------------------------------------------------

    def process_inplace(self, op, args):
        target = args[0]
        values = each(self.unwrap, args)
        carried = any(self.tangent_of(t) is not None for t in tensors(args))
        if not self.owns(target):
            if carried:
                raise RuntimeError(
                    "During a grad (vjp, jvp, grad, etc) transform, the function "
                    f"provided attempted to call in-place operation (aten::{op.name}) "
                    "that would mutate a captured Tensor. This is not supported; please "
                    "rewrite the function being transformed to explicitly accept the "
                    "mutated Tensor(s) as inputs."
                )
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
        """Compute the new tangent from the old values, then write both."""
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
        # the old values, apart: what the levels outside save must not be written
        copies = [values[0], stand.look()]
        copies = [t if t is None else self.at_value(call.clone, t) for t in copies]
        before = self.wrap(*copies)
        args = each(lambda t: before if t is target else t, args)
        with Outside(self), GradientLevel() as inner:
            if op.functional is not None:
                computed, found = transpose_twice(inner, op.functional, args, self)
            else:
                computed, found = transpose_in_place(inner, op, args, self)
        self.at_value(Tensor.copy_, values[0], computed)
        if found[0] is None:
            self.at_value(Tensor.zero_, stand.own())
        else:
            self.at_value(Tensor.copy_, stand.own(found[0]), found[0])


def variables_of(inner, args, level):
    """The arguments with variables in the place of tensors that have tangents."""
    leaves, moved, made = [], [], {}

    def swap(tensor):
        tangent = level.tangent_of(tensor)
        value = level.unwrap(tensor)
        if tangent is None:
            return value
        if id(tensor) not in made:
            made[id(tensor)] = inner.variable(value)
            leaves.append(made[id(tensor)])
            moved.append(tangent)
        return made[id(tensor)]

    return each(swap, args), leaves, moved


def transpose_twice(inner, op, args, level):
    """A result's value and its tangents, by way of the gradient."""
    swapped, leaves, moved = variables_of(inner, args, level)
    result = op.redispatch(None, *swapped)
    return mapped(inner.unwrap, result), tangents_of(inner, op, result, leaves, moved)


def transpose_in_place(inner, op, args, level):
    """The same for an operator that has no form but the one that writes."""
    swapped, leaves, moved = variables_of(inner, args, level)
    swapped[0] = call.clone(swapped[0])
    result = op.redispatch(None, *swapped)
    return inner.unwrap(result), tangents_of(inner, op, result, leaves, moved)


def tangents_of(inner, op, result, leaves, moved):
    """The tangents of a result's tensors; None for zero."""
    outputs = list(tensors([result]))
    tracked = [t for t in outputs if t.requires_grad]
    found = dict.fromkeys(map(id, outputs))
    if tracked:
        vectors = [
            inner.variable(inner.unwrap(call.ones_like(inner.unwrap(t))))
            for t in tracked
        ]
        pulled = inner.gradients(tracked, leaves, vectors, keep_graph=True)
        linear, along = [], []
        for gradient, tangent in zip(pulled, moved):
            if gradient is None:
                continue
            if gradient.requires_grad:
                linear.append(gradient)
                along.append(tangent)
            elif not bool((inner.unwrap(gradient) == 0).all()):
                raise NotImplementedError(
                    f"Trying to use forward AD with {op.name} that does not support it "
                    "because it has not been implemented yet."
                )
        pushed = inner.gradients(linear, vectors, along) if linear else []
        for output, tangent in zip(tracked, pushed):
            found[id(output)] = None if tangent is None else inner.unwrap(tangent)
    return [found[id(t)] for t in outputs]

"""Tangents of results: what an operator's derivative makes of its arguments' tangents.

Linear operators, which their declarations name, act on tangents as they act on values;
products do in each factor. An elementwise operator's tangent is its derivative's formula
with the tangent for the gradient. Any other operator's comes from its gradient: the
vector-Jacobian product is linear in its vector u, and the gradient of <J^T u, t> by u is
J t (Pearlmutter's transposition, 1994; Townsend 2017). So whatever has a gradient that can
be differentiated again has forward mode too.
"""

import functools
import importlib

from rushlight.autograd.levels.gradient import GradientLevel
from rushlight.autograd.levels.stack import each, mapped, plain, tensors
from rushlight.autograd.windows import Untransformed
from rushlight.core.facts import storage_of
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import FORWARD, IMPLEMENTATION, KIND
from rushlight.dispatch.rules_from_outside import tangent_rules
from rushlight.operators import call

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


def differentiable(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


class Pushforward:
    """The tangents of a call's results; subclasses say where tangents are.

    They define ``tangent_of(tensor)``, ``unwrap(tensor)`` for the primal value,
    ``outside(op, values)`` and ``at_value(function, *args)`` for calls on plain values,
    and ``beneath()``, a block in which all calls are such.
    """

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
        return self.transposed(transpose_twice, op, args)

    def transposed(self, transpose, op, args):
        """The same by way of the gradient, which a level of its own records."""
        carried = {id(t): self.tangent_of(t) for t in tensors(args)}
        with self.beneath(), GradientLevel() as inner:
            return transpose(inner, op, args, self, carried)

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


def with_copies(target, args, copied):
    """The arguments of a write with copies of what it may change: its target's memory.

    What outer levels save of a tangent's computation must not be written, either.

    Args:
        copied: a function that copies a tensor with its tangent.
    """
    return each(lambda t: copied(t) if storage_of(t) is storage_of(target) else t, args)


def variables_of(inner, args, level, carried):
    """The arguments with variables in the place of tensors that have tangents."""
    leaves, moved, made = [], [], {}

    def swap(tensor):
        tangent = carried[id(tensor)]
        value = level.unwrap(tensor)
        if tangent is None:
            return value
        if id(tensor) not in made:
            made[id(tensor)] = inner.variable(value)
            leaves.append(made[id(tensor)])
            moved.append(tangent)
        return made[id(tensor)]

    return each(swap, args), leaves, moved


def transpose_twice(inner, op, args, level, carried):
    """A result's value and its tangents, by way of the gradient."""
    swapped, leaves, moved = variables_of(inner, args, level, carried)
    result = op.redispatch(None, *swapped)
    return mapped(inner.unwrap, result), tangents_of(inner, op, result, leaves, moved)


def transpose_in_place(inner, op, args, level, carried):
    """The same for an operator that has no form but the one that writes."""
    swapped, leaves, moved = variables_of(inner, args, level, carried)
    swapped[0] = call.clone(swapped[0])
    result = op.redispatch(None, *swapped)
    return inner.unwrap(result), tangents_of(inner, op, result, leaves, moved)


def pushed_along(inner, linear, vectors, along):
    """The tangents of results, which are linear in those of what they are made of.

    Tangents may be complex where their tensors are real: real and imaginary parts are
    pushed one after the other. Real ones of complex tensors are complex without these.
    """
    pairs = list(zip(linear, along))
    if all(t.is_complex() is g.is_complex() for g, t in pairs):
        return inner.gradients(linear, vectors, along, keep_graph=True)
    if not any(t.is_complex() and not g.is_complex() for g, t in pairs):
        along = [t.to(g.dtype) if g.is_complex() else t for g, t in pairs]
        return inner.gradients(linear, vectors, along, keep_graph=True)
    parts = []
    for part in (call.real, call.imag):
        chosen = [
            part(t) if t.is_complex() else t if part is call.real else t * 0
            for t in along
        ]
        parts.append(pushed_along(inner, linear, vectors, chosen))
    return [
        None if one is None else call.add(one, call.mul(other, 1j))
        for one, other in zip(*parts)
    ]


def is_zero(gradient):
    """Whether a gradient is zero, of all examples where it is of a batch."""
    with Untransformed():
        return bool((plain(gradient) == 0).all())


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
            elif not is_zero(gradient):
                raise NotImplementedError(
                    f"Trying to use forward AD with {op.name} that does not support it "
                    "because it has not been implemented yet."
                )
        pushed = pushed_along(inner, linear, vectors, along) if linear else []
        for output, tangent in zip(tracked, pushed):
            found[id(output)] = None if tangent is None else inner.unwrap(tangent)
    return [found[id(t)] for t in outputs]

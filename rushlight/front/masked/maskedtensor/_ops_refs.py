"""Operators on masked tensors: what they do to the data, and what to the mask.

Declarations name the rule of an operator as ``masked:``; those that are declared to compute
each element for itself need none.
"""

import math
import sys

import rushlight as rl
from rushlight._value_types import among, is_elementwise, writes
from rushlight.dispatch.declared import rule_of, says
from rushlight.masked import _ops
from rushlight.masked.maskedtensor import _layouts
from rushlight.masked.maskedtensor.core import MaskedTensor, data_of, of_data, write

__all__ = ["run"]

_HERE = sys.modules[__name__]


def _data(value):
    if isinstance(value, MaskedTensor):
        return data_of(value)
    if isinstance(value, (list, tuple)):
        return [_data(each) for each in value]
    return value


def _mask(value):
    if isinstance(value, MaskedTensor):
        return value._masked_mask
    if isinstance(value, (list, tuple)):
        return [_mask(each) for each in value]
    return value


def _joined(results, masks):
    if isinstance(results, rl.Tensor):
        return of_data(results, masks)
    return type(results)(of_data(r, m) for r, m in zip(results, masks))


def _common_mask(args):
    """The mask of all masked arguments.

    Raises:
        ValueError: they have different ones, or different layouts.
    """
    first, *others = [each._masked_mask for each in among(MaskedTensor, args)]
    for other in others:
        if other.layout is not first.layout:
            raise ValueError(
                "`a` and `b` must have the same layout. Got "
                f"{first.layout} and {other.layout}"
            )
        if other is not first and not _layouts.same(first, other):
            raise ValueError(
                "Input masks must match. If you need support for this, please open an "
                "issue on Github.\n  remedy: combine the data, and say with a mask of "
                "your own which results count"
            )
    return first


def elementwise(op, *args):
    mask = _common_mask(args)
    if mask.layout is not rl.strided:
        return _of_values(op, mask, args)
    data = [_data(each) for each in args]
    if writes(op):
        grads = any(isinstance(a, rl.Tensor) and a.requires_grad for a in args)
        if rl.is_grad_enabled() and grads:
            return write(args[0], op.redispatch(None, data[0].clone(), *data[1:]))
        op.redispatch(None, *data)
        return args[0]
    found = op.redispatch(None, *data)
    return of_data(found, mask.expand_as(found))


def _of_values(op, mask, args):
    """The same of sparse ones: their elements are at the same places.

    Raises:
        TypeError: one is a tensor that is not masked.
    """
    values, first = [], None
    for each in args:
        if isinstance(each, MaskedTensor):
            first = first if first is not None else each
            each = _layouts.values_of(each._masked_data)
        elif isinstance(each, rl.Tensor) and each.ndim:
            raise TypeError(
                f"no implementation found for '{op}' on sparse masked tensors and "
                "tensors\n  remedy: mask the other tensor in the same layout"
            )
        values.append(each)
    found = op.redispatch(None, *values)
    if writes(op):
        return first
    return of_data(_layouts.with_values(first._masked_data, found), mask)


def moved(op, *args):
    """The same done to the data and to the mask."""
    found = op.redispatch(None, *(_data(each) for each in args))
    return _joined(found, op.redispatch(None, *(_mask(each) for each in args)))


def _argument(op, args, name, default=None):
    names = [each.name for each in op._schema.arguments]
    return args[names.index(name)] if name in names else default


def _plain(op, args, data, dim, keep, mask):
    dtype = _argument(op, args, "dtype")
    reduce = getattr(_ops, op._opname)
    return reduce(data, dim, keepdim=keep, mask=mask, dtype=dtype)


def _spread(op, args, data, dim, keep, mask):
    correction = _argument(op, args, "correction")
    if correction is None:
        correction = int(_argument(op, args, "unbiased", True))
    reduce = getattr(_ops, op._opname)
    return reduce(data, dim, bool(correction), keepdim=keep, mask=mask)


def _norm(op, args, data, dim, keep, mask):
    order = _argument(op, args, "ord", _argument(op, args, "p", 2.0))
    return _ops.norm(
        data, 2.0 if order is None else order, dim, keepdim=keep, mask=mask
    )


def _every(op, args, data, dim, keep, mask):
    whole = data.masked_fill(~mask, True)
    return whole.all() if dim is None else whole.all(dim, keepdim=keep)


_REDUCTIONS = {"plain": _plain, "spread": _spread, "norm": _norm, "every": _every}


def reduced(kind):
    """Reductions without what does not count; a result counts where anything does.

    Args:
        kind: which arguments they have: a name in ``_REDUCTIONS``.
    """
    reduce = _REDUCTIONS[kind]

    def rule(op, *args):
        masked, dim = args[0], _argument(op, args, "dim")
        keep = bool(_argument(op, args, "keepdim", False))
        if isinstance(dim, (list, tuple)):
            dim = tuple(dim) or None
        if masked.is_sparse and (dim is not None or keep):
            return rule(op, masked.to_dense(), *args[1:])
        if masked.is_sparse:
            return _reduced_sparse(rule, op, *args)
        mask = masked._masked_mask
        found = reduce(op, args, data_of(masked), dim, keep, mask)
        if dim is None:
            counts = mask.any()
            counts = counts.view(found.shape) if keep else counts
        else:
            counts = mask.any(dim, keepdim=keep)
        return of_data(found, counts)

    return rule


def _reduced_sparse(rule, op, masked, *rest):
    """The same of all elements of a sparse one."""
    data, mask = masked._masked_data, masked._masked_mask
    values = of_data(_layouts.values_of(data), _layouts.values_of(mask))
    found = rule(op, values, *rest)
    if op._opname in ("argmin", "argmax"):
        place = _layouts.flat_index(data, found._masked_data)
        return of_data(place, found._masked_mask)
    return found


def where(op, condition, one, other):
    """Of both what is chosen, with its mask: only that gets a gradient that counts."""
    data, masks = [], []
    for each in (one, other):
        data.append(_data(each))
        plain = not isinstance(each, MaskedTensor)
        masks.append(rl.ones_like(condition) if plain else each._masked_mask)
    mask = rl.where(condition, *masks)
    if not any(
        each.requires_grad for each in (one, other) if isinstance(each, rl.Tensor)
    ):
        return of_data(rl.where(condition, *data), mask)
    chosen = []
    for each, part in ((one, condition), (other, ~condition)):
        if isinstance(each, MaskedTensor) and each.requires_grad:
            each = _Part.apply(each, part)
        chosen.append(_data(each))
    return of_data(rl.where(condition, *chosen), mask)


class _Part(rl.autograd.Function):
    """A masked tensor of which some elements are used: the gradient counts there."""

    @staticmethod
    def forward(ctx, masked, part):
        ctx.part = part
        return of_data(masked._masked_data.detach(), masked._masked_mask)

    @staticmethod
    def backward(ctx, grad):
        if not isinstance(grad, MaskedTensor):
            return of_data(grad, ctx.part), None
        return of_data(data_of(grad), grad._masked_mask & ctx.part), None


def softmax(op, masked, dim, *rest):
    data, mask = data_of(masked), masked._masked_mask
    found = op.redispatch(None, data.masked_fill(~mask, -math.inf), dim, *rest)
    return of_data(found.masked_fill(~mask, 0), mask)


def on_data(op, masked, *rest):
    if masked.is_sparse:
        return _of_values(op, masked._masked_mask, (masked, *rest))
    return of_data(op.redispatch(None, data_of(masked), *rest), masked._masked_mask)


def detach(op, masked):
    return of_data(masked._masked_data.detach(), masked._masked_mask)


def contiguous(op, masked, *rest):
    if masked.is_sparse or masked._masked_data.is_contiguous():
        return masked
    mask = masked._masked_mask.contiguous()
    return of_data(data_of(masked).contiguous(), mask)


def any_true(op, masked):
    found = op.redispatch(None, masked._masked_data & masked._masked_mask)
    return of_data(found, rl.tensor(True))


def to_scalar(op, masked):
    return masked.item()


def run(op, args):
    """Compute an operator of which an argument is masked.

    Args:
        op: the operator.
        args: all of its arguments.

    Raises:
        TypeError: no rule says what counts of its result.
    """
    rule = rule_of(op, "masked", _HERE)
    if rule is None and says(op, "like"):
        rule = on_data
    elif rule is None and is_elementwise(op):
        rule = elementwise
    if rule is None:
        raise TypeError(
            f"no implementation found for '{op}' on masked tensors\n  remedy: compute on "
            "get_data(), and say with a mask which results count"
        )
    return rule(op, *args)

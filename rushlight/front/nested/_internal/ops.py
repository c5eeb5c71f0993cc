"""Operators on ragged tensors: each computes on the values, above autograd.

A rule gets the operator and its arguments, with nested tensors among them. What is
declared to compute each element for itself needs none.
"""

import rushlight as rl
from rushlight._value_types import (
    among,
    dropped,
    is_elementwise,
    is_reduction,
    keep_whole,
    writes,
)
from rushlight.dispatch.declared import says
from rushlight.nested._internal import gathered, padding, products, reductions, views
from rushlight.nested._internal.nested_tensor import (
    NestedTensor,
    values_of,
    wrapped,
    write,
)
from rushlight.nested._internal.padding import from_padded, packed, padded
from rushlight.nested._internal.rules import Rules
from rushlight.nested._internal.sdpa import jagged_scaled_dot_product_attention

__all__ = ["from_padded", "packed", "padded"]

RULES = Rules()


def check_alike(op, tensors):
    """Refuse nested tensors that are cut at different places.

    Raises:
        RuntimeError: they are.
    """
    first, *others = tensors
    for other in others:
        same = other._ragged == first._ragged and other._ragged_idx == first._ragged_idx
        if not same or len(other) != len(first):
            raise RuntimeError(
                f"cannot call binary pointwise function {op.name} with inputs of shapes "
                f"{first._size} and {other._size}"
            )
    return first


def _operand(op, value, like):
    """What goes with the values of a nested tensor: values, or a tensor cut like it."""
    if isinstance(value, NestedTensor):
        return values_of(value)
    if isinstance(value, rl.Tensor) and value.dim():
        return _dense_operand(op, value, like)
    if isinstance(value, (list, tuple)):
        return [_operand(op, each, like) for each in value]
    return value


def _dense_operand(op, dense, like):
    """A dense tensor broadcast along the ragged dimension.

    Raises:
        NotImplementedError: it has more dimensions.
        RuntimeError: its sizes do not go with the nested tensor's.
    """
    if dense.dim() > like.dim():
        raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
    bare = dense
    while bare.dim() and bare.shape[0] == 1:
        bare = bare.squeeze(0)
    if bare.dim() + 2 <= like.dim():
        return bare
    if dense.dim() != like.dim() or dense.shape[0] != len(like):
        raise RuntimeError(
            f"cannot call binary pointwise function {op.name} with inputs of shapes "
            f"{like._size} and {tuple(dense.shape)}"
        )
    return padding.rows_of(dense, like)


@RULES("fill_", "lift_fresh", "positive", "glu", "rrelu")
def elementwise(op, *args):
    """Compute on values, element by element; in place where the operator does."""
    first = check_alike(op, list(among(NestedTensor, args)))
    operands = [_operand(op, each, first) for each in args]
    if not writes(op):
        return _all_wrapped(op.redispatch(None, *operands), first)
    target = args[0]
    if not isinstance(target, NestedTensor):
        raise RuntimeError(
            f"{op}: a nested tensor cannot be written into a dense one in place"
        )
    if not (rl.is_grad_enabled() and any(_records(each) for each in args)):
        op.redispatch(None, *operands)
        return target
    return write(target, op.redispatch(None, operands[0].clone(), *operands[1:]))


def _records(value):
    return isinstance(value, rl.Tensor) and value.requires_grad


def _all_wrapped(results, like):
    if isinstance(results, rl.Tensor):
        offsets, lengths, ragged_idx, cache = like.raggedness
        if offsets.device != results.device:
            offsets = offsets.to(results.device)
            lengths = None if lengths is None else lengths.to(results.device)
        return wrapped(results, offsets, lengths, ragged_idx, cache)
    if isinstance(results, (list, tuple)):
        return type(results)(_all_wrapped(each, like) for each in results)
    return results


@RULES("clone")
def _clone(op, nested, memory_format):
    if nested._lengths is not None and memory_format is rl.contiguous_format:
        return packed(nested)
    return elementwise(op, nested, memory_format)


@RULES("contiguous")
def _contiguous(op, nested, *rest):
    if nested.is_contiguous():
        return nested
    if nested._lengths is not None:
        return packed(nested)
    return _all_wrapped(values_of(nested).contiguous(), nested)


@RULES("detach")
def _detach(op, nested):
    return wrapped(nested._values.detach(), *nested.raggedness)


@RULES("_to_copy")
def _to_copy(op, nested, dtype, layout, *rest):
    if layout not in (None, rl.jagged):
        raise RuntimeError(
            "converting nested tensors to another layout is not supported"
        )
    return elementwise(op, nested, dtype, None, *rest)


def _like(op, nested, *rest):
    rest = [None if each is rl.jagged else each for each in rest]
    return _all_wrapped(op.redispatch(None, nested._values, *rest), nested)


@RULES("new_empty", "new_zeros", "new_ones", "new_full")
def _new(op, nested, size, *rest):
    return op.redispatch(None, nested._values, size, *rest)


@RULES("embedding")
def _embedding(op, weight, indices, *rest):
    found = op.redispatch(None, weight, values_of(indices), *rest)
    return _all_wrapped(found, indices)


@RULES("dropout", "dropout_")
def _dropout(op, nested, p, train):
    """PyTorch's draws: one for each value, whatever the probability is.

    Raises:
        ValueError: it is none.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    found = dropped(values_of(nested), p, train)
    return write(nested, found) if writes(op) else _all_wrapped(found, nested)


@RULES("equal")
def _equal(op, one, other):
    both = isinstance(one, NestedTensor) and isinstance(other, NestedTensor)
    if not both or len(one) != len(other) or one.dim() != other.dim():
        return False
    return all(rl.equal(a, b) for a, b in zip(one.unbind(), other.unbind()))


@RULES(
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "soft_margin_loss",
    "kl_div",
    "binary_cross_entropy",
)
def _loss(op, nested, target, *rest):
    """A loss over elements: of values, whose sum or mean has no raggedness."""
    both = [each for each in (nested, target) if isinstance(each, NestedTensor)]
    first = check_alike(op, both)
    if len(both) == 1:
        nested, target = (_operand(op, each, first) for each in (nested, target))
    found = op.redispatch(
        None, *(_bare(each) for each in (nested, target)), *map(_bare, rest)
    )
    if found.dim() == first._values.dim() and found.shape == first._values.shape:
        return _all_wrapped(found, first)
    return found


def _bare(value):
    return values_of(value) if isinstance(value, NestedTensor) else value


@RULES("nll_loss_forward")
def _labels(op, nested, target, *rest):
    """A loss over classes, of as many rows as there are."""
    if nested._ragged_idx != 1 or nested.dim() != 3:
        raise RuntimeError(
            f"{op}: classes are expected along the last dimension of (B, j, C), not of "
            f"{nested._size}"
        )
    check_alike(
        op, [each for each in (nested, target) if isinstance(each, NestedTensor)]
    )
    found = op.redispatch(None, values_of(nested), _bare(target), *rest)
    if isinstance(found, tuple) and found[0].dim():
        return (_all_wrapped(found[0], nested), *found[1:])
    return found


RULES("scaled_dot_product_attention")(jagged_scaled_dot_product_attention)
for _more in (reductions.RULES, views.RULES, gathered.RULES, products.RULES):
    RULES.update(_more)


def _declared(op):
    """The rule of what an operator is declared to do; None where that says none."""
    if says(op, "like"):
        return _like
    if is_reduction(op):
        return reductions.reduce
    return elementwise if is_elementwise(op) else None


def run(op, *args):
    """Compute an operator of which an argument is nested.

    Args:
        op: the operator.
        args: all of its arguments.

    Raises:
        NotImplementedError: no rule says how.
    """
    rule = RULES.get(op._opname)
    if rule is None:
        rule = _declared(op)
    if rule is None:
        shapes = ", ".join(str(each._size) for each in among(NestedTensor, args))
        raise NotImplementedError(
            f"{op}: no rule for nested tensors, of shape {shapes}\n"
            "  remedy: compute on values(), on the parts of unbind(), or on "
            "to_padded_tensor()"
        )
    return rule(op, *args)


keep_whole(("dropout", "dropout_", "matmul", "scaled_dot_product_attention"))

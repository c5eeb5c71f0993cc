"""Rules of propagation: how a call may be computed from parts, family by family.

A rule looks at one dimension of the mesh and lists strategies; the one that moves the
fewest octets is taken. The first is always that every rank does everything. Operators'
declarations name theirs as ``sharding:``; those declared pointwise need it only where
shares of a sum may go through them, and what has no rule is computed whole by every rank.
"""

from rushlight.distributed.tensor import _view_rules
from rushlight.distributed.tensor._op_call import Strategy
from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
from rushlight.distributed.tensor.placement_types import (
    NormPartial,
    Partial,
    Replicate,
    Shard,
)

WHOLE = Replicate()


def replicated(call):
    """Every rank does everything."""
    return [call.replicated()]


# -- elements ------------------------------------------------------------------------


def _operand_dim(shape, out_ndim, dim):
    """An operand's dimension that lies under one of the result; None where it is spread."""
    own = dim - (out_ndim - len(shape))
    return own if own >= 0 and shape[own] != 1 else None


def _cut_along(call, dim):
    """All operands cut along one dimension of the result, where they have it."""
    ndim, inputs = call.outputs[0].dim(), []
    for index in range(len(call.inputs)):
        own = _operand_dim(call.shape(index), ndim, dim)
        inputs.append(WHOLE if own is None else Shard(own))
    return Strategy((Shard(dim),) * len(call.outputs), tuple(inputs))


def pointwise(linear=""):
    """Operators that compute each element for itself.

    Args:
        linear: ``all`` where sums of all operands' shares give shares of the result
            (``a + b``), ``one`` where those of one do (``a * b``), ``first`` where those
            of the first do (``a / b``); else shares are summed before.
    """

    def rule(call):
        found = [call.replicated()]
        found += call.aligned(lambda dim: _cut_along(call, dim))
        count, outputs = len(call.inputs), len(call.outputs)
        for kind in call.partial_kinds() if linear else ():
            if kind.reduce_op not in ("sum", "avg") or isinstance(kind, NormPartial):
                continue
            if linear == "all":
                found.append(Strategy((kind,) * outputs, (kind,) * count))
                continue
            for index in range(count if linear == "one" else 1):
                inputs = [WHOLE] * count
                inputs[index] = kind
                found.append(Strategy((kind,) * outputs, tuple(inputs)))
        return found

    return rule


elementwise = pointwise()


def follow(call):
    """Results are cut as the first input is; of shares they are whole."""
    kept = [call.replicated()]
    placement = call.placement()
    if isinstance(placement, Shard):
        inputs = [placement] + [WHOLE] * (len(call.inputs) - 1)
        kept.append(Strategy((placement,) * len(call.outputs), tuple(inputs)))
    return kept


# -- dimensions that move ------------------------------------------------------------


def mapped(name):
    """Operators that move dimensions: each of the input's is one of the result, or gone.

    Args:
        name: the function of ``_view_rules`` that gives for each dimension of the input
            the result's, or None where the input must be whole along it.
    """
    dims_of = getattr(_view_rules, name)

    def rule(call):
        found, placement = [call.replicated()], call.placement()
        rest = (WHOLE,) * (len(call.inputs) - 1)
        if isinstance(placement, Partial):
            outputs = (placement,) * len(call.outputs)
            found.append(Strategy(outputs, (placement, *rest)))
        if isinstance(placement, Shard):
            target = dims_of(call)[placement.dim]
            if target is not None:
                outputs = (Shard(target),) * len(call.outputs)
                found.append(Strategy(outputs, (placement, *rest)))
        return found

    return rule


def concatenation(call):
    """Tensors behind one another: cut along other dimensions, or shares of all."""
    ndim = call.outputs[0].dim()
    joined, count = (call.get("dim") or 0) % ndim, len(call.inputs)
    found = [call.replicated()]
    found += call.aligned(
        lambda dim: (
            None if dim == joined else Strategy((Shard(dim),), (Shard(dim),) * count)
        )
    )
    found += [Strategy((kind,), (kind,) * count) for kind in call.partial_kinds()]
    return found


def stack(call):
    """Tensors along a new dimension."""
    ndim = call.outputs[0].dim()
    new, count = (call.get("dim") or 0) % ndim, len(call.inputs)

    def strategy(dim):
        if dim == new:
            return None
        own = dim if dim < new else dim - 1
        return Strategy((Shard(dim),), (Shard(own),) * count)

    found = [call.replicated(), *call.aligned(strategy)]
    found += [Strategy((kind,), (kind,) * count) for kind in call.partial_kinds()]
    return found


# -- reductions ----------------------------------------------------------------------


def _reduced_dims(call):
    ndim, dims = len(call.shape()), call.get("dim")
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return set(range(ndim))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return {each % ndim for each in dims} if ndim else set()


def reduction(combined=None):
    """Reductions over dimensions.

    Args:
        combined: the reduction of parts' results that gives the whole's; None where
            there is none. ``norm`` is that of powers. Sums and means take shares of a
            sum to shares of one.
    """
    linear = combined in ("sum", "avg")

    def rule(call):
        found, placement = [call.replicated()], call.placement()
        count = len(call.outputs)
        if linear and isinstance(placement, Partial):
            if placement.reduce_op in ("sum", "avg"):
                found.append(Strategy((placement,) * count, (placement,)))
        if not isinstance(placement, Shard):
            return found
        dims, dim = _reduced_dims(call), placement.dim
        if dim not in dims:
            gone = 0 if call.get("keepdim") else sum(each < dim for each in dims)
            found.append(Strategy((Shard(dim - gone),) * count, (placement,)))
            return found
        kind = _combination(combined, call, dim)
        if kind is not None:
            found.append(Strategy((kind,) * count, (placement,)))
        return found

    return rule


uncombined = reduction()


def _combination(combined, call, dim):
    if combined is None:
        return None
    if combined != "sum" and not call.is_even(0, dim):
        return None  # parts that differ do not weigh alike, and empty ones have none
    if combined != "norm":
        return Partial(combined)
    exponent = call.get("ord", 2)
    if exponent in (float("inf"), float("-inf")):
        return Partial("max" if exponent > 0 else "min")
    return NormPartial("sum", float(exponent)) if exponent else None


def along(*names):
    """Operators that need whole rows along some dimensions, of tensors of one rank.

    Args:
        names: the arguments that say along which; all are the last where there is none.
    """

    def rule(call):
        ndim, whole = len(call.shape()), set()
        for name in names:
            dims = call.get(name)
            dims = dims if isinstance(dims, (list, tuple)) else [dims]
            whole |= {(-1 if each is None else each) % max(ndim, 1) for each in dims}

        def strategy(dim):
            if dim in whole:
                return None
            shapes = [call.shape(i) for i in range(len(call.inputs))]
            if len({shape[dim] for shape in shapes if len(shape) == ndim}) > 1:
                return None  # an index of fewer rows: parts would not lie side by side
            inputs = tuple(Shard(dim) if len(s) == ndim else WHOLE for s in shapes)
            return Strategy((Shard(dim),) * len(call.outputs), inputs)

        return [call.replicated(), *call.aligned(strategy)]

    return rule


# -- products ------------------------------------------------------------------------


def contraction(equation):
    """Products of two tensors, as ``einsum`` writes them, behind one they are added to.

    Args:
        equation: as ``mk,kn->mn``.
    """
    terms, result = equation.split("->")
    first, second = terms.split(",")

    def rule(call):
        found = [call.replicated()]
        for letter in dict.fromkeys(first + second):
            placed = [
                Shard(term.index(letter)) if letter in term else WHOLE
                for term in (first, second)
            ]
            out = Shard(result.index(letter)) if letter in result else Partial()
            found.append(_with_addend(call, out, placed))
        for kind in call.partial_kinds():
            if kind == Partial():
                for placed in ([kind, WHOLE], [WHOLE, kind]):
                    found.append(_with_addend(call, kind, placed))
        return found

    return rule


def _with_addend(call, out, placed):
    if len(call.inputs) == len(placed):
        return Strategy((out,), tuple(placed))
    addend = out
    if isinstance(out, Shard):
        own = _operand_dim(call.shape(), call.outputs[0].dim(), out.dim)
        addend = WHOLE if own is None else Shard(own)
    return Strategy((out,), (addend, *placed))


# -- layers --------------------------------------------------------------------------


def _batch_dims(call):
    """The dimensions before those that are normalized."""
    index = [each.name for each in call.inputs].index("input")
    return len(call.shape(index)) - len(call["normalized_shape"])


def _by_name(call, placed):
    """Placements of the inputs, by their names; whole where there is none."""
    return tuple(placed.get(each.name, WHOLE) for each in call.inputs)


def layer_norm(call):
    """Rows that are normalized each for itself."""
    found = [call.replicated()]
    for dim in range(_batch_dims(call)):
        cut = Shard(dim)
        found.append(
            Strategy((cut,) * len(call.outputs), _by_name(call, {"input": cut}))
        )
    return found[:1] + [each for each in found[1:] if call.placement() in each.outputs]


def layer_norm_backward(call):
    """Gradients of rows, and shares of those of what all rows are scaled by."""
    found = [call.replicated()]
    for dim in range(_batch_dims(call)):
        cut = Shard(dim)
        rows = dict.fromkeys(("grad_out", "input", "mean", "rstd"), cut)
        outputs = (cut, *(Partial(),) * (len(call.outputs) - 1))
        if cut in call.placements():
            found.append(Strategy(outputs, _by_name(call, rows)))
    return found


def attention(call):
    """Attention: batches and heads each for themselves."""
    found = [call.replicated()]
    for dim in (0, 1):
        cut, inputs = Shard(dim), []
        for each in call.inputs:
            shape = each.spec.shape
            spread = each.name == "attn_mask" and (len(shape) < 4 or shape[dim] == 1)
            inputs.append(WHOLE if spread else cut)
        if cut in call.placements():
            found.append(Strategy((cut,) * len(call.outputs), tuple(inputs)))
    return found


def _rows_of_part(call, chosen, parts):
    """This rank's rows of a table, and zeros for those of others."""
    table, indices = parts
    sizes, offsets = compute_local_shape_and_global_offset(
        call.shape(0), call.mesh, chosen[0]
    )
    size, start = sizes[0], offsets[0]
    outside = (indices < start) | (indices >= start + size)
    own = (indices - start).masked_fill(outside, 0)
    if not size:
        return table.new_zeros((*indices.shape, table.shape[1]))
    found = call.func(table, own)
    return found.masked_fill(outside.unsqueeze(-1), 0)


def embedding(call):
    """Rows of a table: cut by indices, by columns, or by rows with sums of all ranks'."""
    last = call.outputs[0].dim() - 1
    found = [call.replicated()]
    if isinstance(call.placement(1), Shard):
        cut = call.placement(1)
        found.append(Strategy((cut,), (WHOLE, cut)))
    if call.placement(0) == Shard(1):
        found.append(Strategy((Shard(last),), (Shard(1), WHOLE)))
    if call.placement(0) == Shard(0):
        found.append(Strategy((Partial(),), (Shard(0), WHOLE), _rows_of_part))
    return found


def embedding_backward(call):
    """The gradient of a table: shares of each part of the indices, or its columns."""
    last, found = len(call.shape()) - 1, [call.replicated()]
    for dim in range(last):
        cut = Shard(dim)
        if cut in call.placements():
            found.append(Strategy((Partial(),), (cut, cut)))
    if call.placement(0) == Shard(last):
        found.append(Strategy((Shard(1),), (Shard(last), WHOLE)))
    if isinstance(call.placement(0), Partial):
        found.append(Strategy((Partial(),), (Partial(), WHOLE)))
    return found

"""Looking up rows of a table."""

import warnings

import rushlight as rl
from rushlight.dispatch.python_key import recording
from rushlight.operators import call
from rushlight.operators.indexing.bags import (
    bounds_from_offsets,
    check_bag_types,
    row_number,
    values_of_bags,
)

OLDER_ORDER = (
    "Argument order of nn.functional.embedding_bag was changed. Usage "
    "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
    "`embedding_bag(input, weight, ...)`."
)


def _renormalize(weight, indices, max_norm: float, norm_type: float) -> None:
    """Shorten the rows looked up to a length of ``max_norm``, in place."""
    with rl.no_grad():  # gradients and tangents are of what is looked up
        call.embedding_renorm_(weight.detach(), indices, max_norm, norm_type)


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of ``weight`` that the numbers in ``input`` name.

    Args:
        input: row numbers, of any shape.
        weight: the table ``(rows, features)``.
        padding_idx: a row that gets no gradient.
        max_norm: rows that are longer are shortened in the table first.
        norm_type: the norm that ``max_norm`` is about.
        scale_grad_by_freq: divide gradients by how often a row was named.
        sparse: give the weight a sparse gradient.

    Raises:
        AssertionError: ``padding_idx`` names no row.
        IndexError: a number in ``input`` names no row.

    >>> table = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding(rl.tensor([1, 1, 0]), table)
    tensor([[3., 4.],
            [3., 4.],
            [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx > 0:
        if padding_idx >= weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        if padding_idx < -weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = weight.size(0) + padding_idx
    if max_norm is not None:
        input = input.contiguous()
        _renormalize(weight, input, max_norm, norm_type)
    return call.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _check_bags(
    input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq, sparse
):
    if per_sample_weights is not None:
        if input.shape != per_sample_weights.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is "
                "not None, then it must have the same shape as the input "
                f"({input.shape})"
            )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension "
            f"{input.dim()}"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a "
            "mini-batch of fixed length sequences. However, found offsets of type "
            f"{type(offsets)}"
        )
    if input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            "max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights "
            f"is only supported for mode='sum' (got mode='{mode}')."
        )


def _equal_bounds(bags, length, device):
    """Where bags of one length begin, and the last one ends."""
    if not length:
        return rl.zeros(bags + 1, dtype=rl.int64, device=device)
    return rl.arange(0, bags * length + 1, length, device=device)


def _bags_of_parts(nested, weights):
    """The values of a nested tensor, whose parts are bags, and of their weights.

    Raises:
        ValueError: the weights are not nested.
    """
    if weights is not None:
        if not weights.is_nested:
            raise ValueError(
                "If input is nested, then per_sample_weights must be nested if specified"
            )
        weights = weights.values().reshape(-1)
    return nested.values().reshape(-1), weights


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum of the rows named in each bag.

    Args:
        input: ``(bags, length)``, or all bags one after another.
        weight: the table ``(rows, features)``.
        offsets: where each bag starts in a one-dimensional ``input``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: a factor for each row named, with ``"sum"``.
        include_last_offset: whether ``offsets`` ends with the end of the last bag.
        padding_idx: a row that doesn't count.
        max_norm, norm_type, scale_grad_by_freq, sparse: as in ``embedding``.

    >>> table = rl.tensor([[1.0], [3.0], [5.0]])
    >>> embedding_bag(rl.tensor([[0, 1], [1, 2]]), table)
    tensor([[2.],
            [4.]])
    """
    if weight.dtype == rl.int64 and input.is_floating_point():
        warnings.warn(OLDER_ORDER, stacklevel=2)
        weight, input = input, weight
    if input.is_nested and input.dim() == 2:
        include_last_offset, offsets = True, input.offsets()
        input, per_sample_weights = _bags_of_parts(input, per_sample_weights)
    _check_bags(
        input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq, sparse
    )
    if offsets is not None and offsets.dtype != input.dtype:
        common = rl.promote_types(input.dtype, offsets.dtype)
        input, offsets = input.to(common), offsets.to(common)
    check_bag_types(input, weight, offsets, per_sample_weights)
    if not weight.device.has_memory:
        last = 1 if include_last_offset and offsets is not None else 0
        bags = input.shape[0] if input.dim() == 2 else offsets.numel() - last
        return weight.sum(0, dtype=weight.dtype).expand(bags, weight.size(1)).clone()
    if recording():
        return _recorded_bags(
            input, weight, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
            include_last_offset, padding_idx,
        )  # fmt: skip
    length = None
    if input.dim() == 2:
        bags, length = input.shape
        bounds = _equal_bounds(bags, length, input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        bounds = bounds_from_offsets(input, offsets, include_last_offset)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else row_number(padding_idx, weight)
    options = padding, scale_grad_by_freq, sparse
    return values_of_bags(
        weight, input, bounds, mode, per_sample_weights, options, length
    )


def _recorded_bags(input, weight, offsets, scale, mode, sparse, factors, last, padding):
    """The values by the one operator that PyTorch has for them."""
    if input.dim() == 2:
        offsets = call.arange(
            0, input.numel(), input.shape[1], dtype=input.dtype, device=input.device
        )
        input = input.reshape(-1)
        factors = None if factors is None else factors.reshape(-1)
    number = ("sum", "mean", "max").index(mode)
    operator = call.embedding_bag.overloads[1]
    return operator(
        weight, input, offsets, scale, number, sparse, factors, last, padding
    )[0]

"""What translated programs run for bags of rows; read as text."""

import warnings

import rushlight as torch
from rushlight import Tensor


def _bag_mode(mode: str) -> int:
    if mode == "sum":
        return 0
    if mode == "mean":
        return 1
    if mode == "max":
        return 2
    raise ValueError("mode has to be one of sum or mean")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    if weight.dtype == torch.long and input.is_floating_point():
        warnings.warn(torch.nn._functions.sparse.OLDER_ORDER, stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not "
            f"None, then it must have the same shape as the input ({input.shape})"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            "supported for mode='sum'"
        )
    rows = input
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        starts = torch.arange(
            0, input.numel(), input.size(1), dtype=input.dtype, device=input.device
        )
        rows = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        starts = offsets
    if max_norm is not None:
        with torch.no_grad():
            torch.ops.aten.embedding_renorm_(weight, rows, max_norm, norm_type)
    return torch.embedding_bag(
        weight,
        rows,
        starts,
        scale_grad_by_freq,
        _bag_mode(mode),
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]

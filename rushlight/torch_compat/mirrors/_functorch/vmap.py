"""The parts of ``vmap`` that packages import by PyTorch's names.

``func.vmap`` does not go through them: what a package puts in their place has no effect.
"""

from __future__ import annotations

from rushlight._C._functorch import _add_batch_dim, _remove_batch_dim
from rushlight.core.tensor import Tensor
from rushlight.func import vmap
from rushlight.func._batches import _name as _get_name
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_unflatten,
)

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_get_name",
    "_maybe_remove_batch_dim",
    "_remove_batch_dim",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """An output with all its examples along ``out_dim``, or as it is for None.

    Raises:
        ValueError: it is not a tensor and ``out_dim`` is a dimension, or it is
            batched and ``out_dim`` is None.
    """
    if out_dim is None:
        if isinstance(batched_output, Tensor) and batched_output._stand is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)

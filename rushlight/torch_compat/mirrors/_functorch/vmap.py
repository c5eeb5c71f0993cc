"""The parts of ``vmap`` that packages import, and replace, by PyTorch's names.

``func.vmap`` goes through what a package puts in the place of ``_process_batched_inputs``,
``_create_batched_inputs`` and ``_unwrap_batched``: so tensordict's containers are mapped over.
"""

import sys
import types

from rushlight._C._functorch import _add_batch_dim, _remove_batch_dim
from rushlight.core.tensor import Tensor
from rushlight.func import vmap
from rushlight.func._batches import _name as _get_name
from rushlight.func._batches import steps
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


def _step(attribute):
    return property(
        lambda module: getattr(steps, attribute),
        lambda module, step: setattr(steps, attribute, step),
    )


class _Replaceable(types.ModuleType):
    """A module whose steps of ``vmap`` are those that ``vmap`` takes."""

    _process_batched_inputs = _step("examples")
    _create_batched_inputs = _step("wrap")
    _unwrap_batched = _step("unwrap")


sys.modules[__name__].__class__ = _Replaceable

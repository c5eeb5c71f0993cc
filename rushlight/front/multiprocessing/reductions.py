"""How tensors travel between processes: their memory is shared, not copied."""

from rushlight._storage_methods import init_reductions, reduce_storage, reduce_tensor

__all__ = ["init_reductions", "reduce_storage", "reduce_tensor"]

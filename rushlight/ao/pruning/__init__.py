"""Masks that make weights sparse while they are trained, and schedules of how sparse.

>>> import rushlight as rl
>>> model = rl.nn.Sequential(rl.nn.Linear(8, 4))
>>> sparsifier = WeightNormSparsifier(1.0, (1, 4), zeros_per_block=2)  # two of four
>>> sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
>>> sparsifier.step()
>>> int((model[0].weight == 0).sum())
16
>>> sparsifier.squash_mask()
>>> type(model[0]).__name__, model[0].weight.shape
('Linear', rushlight.Size([4, 8]))
"""

from rushlight.ao.pruning._mappings import (
    get_dynamic_sparse_quantized_mapping,
    get_static_sparse_quantized_mapping,
)
from rushlight.ao.pruning.scheduler.base_scheduler import BaseScheduler
from rushlight.ao.pruning.scheduler.cubic_scheduler import CubicSL
from rushlight.ao.pruning.scheduler.lambda_scheduler import LambdaSL
from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from rushlight.ao.pruning.sparsifier.nearly_diagonal_sparsifier import (
    NearlyDiagonalSparsifier,
)
from rushlight.ao.pruning.sparsifier.utils import (
    FakeSparsity,
    fqn_to_module,
    get_arg_info_from_tensor_fqn,
    module_to_fqn,
)
from rushlight.ao.pruning.sparsifier.weight_norm_sparsifier import WeightNormSparsifier

__all__ = [
    "BaseScheduler",
    "BaseSparsifier",
    "CubicSL",
    "FakeSparsity",
    "LambdaSL",
    "NearlyDiagonalSparsifier",
    "WeightNormSparsifier",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "get_dynamic_sparse_quantized_mapping",
    "get_static_sparse_quantized_mapping",
    "module_to_fqn",
]

"""Masks that take away blocks of small norm, or the smallest elements of blocks."""

from math import prod

import rushlight as rl
from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from rushlight.nn import functional as F

__all__ = ["WeightNormSparsifier"]

NORMS = {1: lambda x: x.abs(), 2: lambda x: x * x}


class WeightNormSparsifier(BaseSparsifier):
    """Takes away the blocks of a matrix whose norm is smallest, or elements of them.

    Two of four (2:4), as some devices multiply: ``WeightNormSparsifier(1.0, (1, 4), 2)``.

    Args:
        sparsity_level: the share of blocks that is taken away.
        sparse_block_shape: rows and columns of a block; blocks begin at the first element.
        zeros_per_block: how many elements of a block that is taken away become zero,
            those with the smallest norm; by default all.
        norm: 1, 2, or a function of elements.

    Raises:
        NotImplementedError: it is another number.
    """

    def __init__(
        self,
        sparsity_level=0.5,
        sparse_block_shape=(1, 4),
        zeros_per_block=None,
        norm=None,
    ):
        norm = 2 if norm is None else norm
        if not callable(norm) and norm not in NORMS:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        if zeros_per_block is None:
            zeros_per_block = prod(sparse_block_shape)
        self.norm_fn = norm if callable(norm) else NORMS[norm]
        defaults = {
            "sparsity_level": sparsity_level,
            "sparse_block_shape": sparse_block_shape,
            "zeros_per_block": zeros_per_block,
        }
        super().__init__(defaults=defaults)

    def _make_tensor_mask(self, data, sparsity_level, sparse_block_shape):
        """Zero in the share of blocks whose mean is smallest."""
        if sparsity_level >= 1 or sparsity_level <= 0:
            return rl.full(data.shape, float(sparsity_level <= 0), device=data.device)
        means = data
        if prod(sparse_block_shape) > 1:
            means = F.avg_pool2d(
                data[None, None], sparse_block_shape, sparse_block_shape, ceil_mode=True
            )[0, 0]
        count = means.numel()
        least = max(0, min(count - 1, round(sparsity_level * count)))
        _, found = rl.topk(means.flatten(), least, largest=False)
        mask = rl.ones(count, device=data.device).index_fill(0, found, 0)
        mask = mask.view(means.shape)
        for dim, size in enumerate(sparse_block_shape):
            mask = mask.repeat_interleave(size, dim)
        return mask[: data.shape[0], : data.shape[1]].contiguous()

    def _make_block_mask(self, data, sparse_block_shape, zeros_per_block):
        """Zero in the smallest elements of each block; what is beyond the edge is none."""
        sizes = data.shape[-2:]
        missing = [-size % block for size, block in zip(sizes, sparse_block_shape)]
        padded = F.pad(data, (0, missing[1], 0, missing[0]), value=float("nan"))
        blocks = F.unfold(
            padded[None, None], sparse_block_shape, stride=sparse_block_shape
        )
        _, found = rl.topk(blocks, zeros_per_block, dim=1, largest=False)
        mask = rl.ones_like(blocks).scatter(1, found, 0)
        shape = tuple(padded.shape)
        mask = F.fold(mask, shape, sparse_block_shape, stride=sparse_block_shape)
        return mask[0, 0, : sizes[0], : sizes[1]].contiguous()

    def update_mask(
        self,
        module,
        tensor_name,
        sparsity_level,
        sparse_block_shape,
        zeros_per_block,
        **kwargs,
    ):
        """Finds the mask of a tensor.

        Raises:
            ValueError: more elements than a block has are to be zero, or less than none.
        """
        size = prod(sparse_block_shape)
        if zeros_per_block > size:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of "
                "elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = rl.ones_like(mask)
            return
        if sparsity_level >= 1 and zeros_per_block == size:
            mask.data = rl.zeros_like(mask)
            return
        norms = self.norm_fn(getattr(module, tensor_name))
        found = self._make_tensor_mask(norms, sparsity_level, sparse_block_shape)
        if zeros_per_block != size:
            inside = self._make_block_mask(norms, sparse_block_shape, zeros_per_block)
            found = rl.logical_or(found, inside)
        mask.data = found

"""Masks that leave a band around the diagonal."""

import rushlight as rl
from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Leaves of matrices the diagonal and as many lines beside it.

    Args:
        nearliness: how many lines are left, an odd number.
    """

    def __init__(self, nearliness=1):
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module, tensor_name, nearliness, **kwargs):
        """Writes the band.

        Raises:
            ValueError: the number is even, or reaches beyond the matrix.
        """
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        mask.data = rl.zeros_like(mask)
        if nearliness <= 0:
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        reach = nearliness // 2
        if reach >= min(mask.shape):
            raise ValueError(
                "nearliness cannot be larger than the dimensions of tensor."
            )
        mask.data = rl.ones_like(mask).tril(reach).triu(-reach)

"""How ``linear_cross_entropy`` splits its batch."""

import dataclasses
from typing import Any

import rushlight as rl

__all__ = ["LinearCrossEntropyOptions"]

_HALVES = (rl.float16, rl.bfloat16)


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Choices of ``linear_cross_entropy``: the batch is taken in parts, so that the
    scores of all classes exist for a part of the inputs at a time.

    Args:
        allow_retain_graph: whether ``backward`` may be called twice.
        batch_chunk_size: rows in a part; all of them where it is left out.
        chunking_method: how the rows are chosen: ``"aspect_ratio"`` makes the scores
            about as large as the inputs, ``"aspect_ratio:N"`` smaller by ``N``,
            ``"auto"`` decides, None leaves it to ``batch_chunk_size``.
        acc_policy: PyTorch's ``"accurate"``, ``"balanced"``, ``"compact"`` or
            ``"auto"``; all of them sum in ``acc_dtype`` here.
        acc_dtype: the dtype of scores and sums; by default float32 for inputs of
            sixteen bits, else the inputs'.

    Raises:
        ValueError: a choice is unknown.

    >>> LinearCrossEntropyOptions(batch_chunk_size=2).batch_chunk_size
    2
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self):
        if self.acc_policy not in {"auto", "accurate", "balanced", "compact"}:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            valid = not colon or (factor.isdigit() and int(factor) > 0)
            if name != "aspect_ratio" or not valid:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(
                f"batch_chunk_size must be positive int or None, got {size!r}"
            )
        known = (None, rl.float16, rl.bfloat16, rl.float32, rl.float64)
        if self.acc_dtype not in known:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, "
                f"torch.float32, torch.float64}}, got {self.acc_dtype!r}. Pass "
                "acc_dtype=None to let the op pick automatically."
            )

    def _rows(self, num_batches, in_features, num_classes, dtype):
        """How many rows a part has."""
        method, size = self.chunking_method, self.batch_chunk_size
        if method == "auto":
            if size is not None:
                return min(size, num_batches)
            method = "aspect_ratio" if dtype in _HALVES else "aspect_ratio:2"
        if method is None:
            return num_batches if size is None else min(size, num_batches)
        factor = int(method.partition(":")[2] or 1)
        share = -(-num_classes // in_features)
        rows = 1 << (-(-num_batches // share) - 1).bit_length()
        rows = min(rows // factor, num_batches)
        if size is not None and min(size, num_batches) != rows:
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give "
                f"different chunk sizes ({size} vs {rows}); pass only one."
            )
        return max(1, rows)

    def _sum_dtype(self, dtype):
        """The dtype of scores and sums for inputs of a dtype."""
        if self.acc_dtype is not None:
            return self.acc_dtype
        return rl.float32 if self.acc_policy == "auto" and dtype in _HALVES else dtype

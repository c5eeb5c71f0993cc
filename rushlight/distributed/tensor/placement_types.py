"""How one dimension of a mesh holds a tensor: cut, whole, or in shares of a reduction."""

from dataclasses import dataclass

__all__ = ["NormPartial", "Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How one dimension of the devices holds a tensor."""

    def is_shard(self, dim=None) -> bool:
        """Whether every device holds a part, cut along ``dim`` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every device holds all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None) -> bool:
        """Whether every device holds a share of the sum, or of another reduction."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Every device holds a part, cut along one dimension of the tensor.

    Parts have the sizes of ``chunk``: the last may be smaller, or empty.
    """

    dim: int

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """The size of a part, and where it begins.

        Args:
            curr_local_size: the size that is cut.
            num_chunks: into how many parts.
            rank: which of them.

        >>> [Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
        [(2, 0), (2, 2), (1, 4), (0, 5)]
        """
        full = -(-curr_local_size // num_chunks)
        start = min(full * rank, curr_local_size)
        return min(full, curr_local_size - start), start


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A part of what an inner dimension of the mesh has cut along the same dimension.

    Args:
        dim: the tensor's dimension.
        split_factor: into how many parts inner dimensions of the mesh cut it.
    """

    split_factor: int = 1

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Every device holds all of it."""

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Every device holds a share of what they come to together.

    Args:
        reduce_op: ``sum``, ``avg``, ``product``, ``min`` or ``max``.
    """

    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


@dataclass(frozen=True)
class NormPartial(Partial):
    """Every device holds the norm of its part: powers of them are added.

    Args:
        reduce_op: ``sum``: of the powers.
        norm_type: the exponent.
    """

    norm_type: float = 2.0

    def __repr__(self):
        return f"NormPartial({self.norm_type})"

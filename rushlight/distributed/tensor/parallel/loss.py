"""Cross entropy of logits of which each process has some classes."""

from rushlight.core.state import AttributeScope
from rushlight.distributed.tensor._dispatch import state

__all__ = ["loss_parallel"]


def loss_parallel():
    """A block in which ``cross_entropy`` works on classes where they are.

    Logits that are cut along the classes stay so: each row costs two reductions of a
    number in place of all logits. ``backward`` belongs into the block.
    """
    return AttributeScope(state, loss_parallel=True)

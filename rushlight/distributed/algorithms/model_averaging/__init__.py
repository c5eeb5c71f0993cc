"""Models that processes train apart, and average now and then."""

from rushlight.distributed.algorithms.model_averaging import averagers, utils

__all__ = ["averagers", "utils"]

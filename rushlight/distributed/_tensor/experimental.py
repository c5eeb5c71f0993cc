"""The earlier name of `distributed.tensor.experimental`."""

from rushlight.distributed.tensor.experimental import implicit_replication

__all__ = ["implicit_replication"]

"""The earlier place of functions that spread modules."""

from rushlight.distributed._composable.fsdp import fully_shard

__all__ = ["fully_shard"]

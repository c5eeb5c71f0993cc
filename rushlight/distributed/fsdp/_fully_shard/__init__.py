"""Modules that are spread in place, and the choices that they are spread by."""

from rushlight.distributed.fsdp._fully_shard import _fsdp_api, _fully_shard
from rushlight.distributed.fsdp._fully_shard._fsdp_api import *
from rushlight.distributed.fsdp._fully_shard._fully_shard import *

__all__ = _fsdp_api.__all__ + _fully_shard.__all__

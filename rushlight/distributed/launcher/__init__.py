"""Functions and programs in several processes, started from Python."""

from rushlight.distributed.launcher.api import (
    LaunchConfig,
    elastic_launch,
    launch_agent,
)

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

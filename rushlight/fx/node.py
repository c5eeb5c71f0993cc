"""Steps of graphs."""

from collections.abc import Callable
from typing import Any, TypeAlias, Union

from rushlight.fx import Node, has_side_effect

__all__ = ["Node", "has_side_effect"]

# What a step calls, and what it may be given: for annotations.
Target: TypeAlias = Union[Callable[..., Any], str]  # noqa: UP007
Argument: TypeAlias = Any

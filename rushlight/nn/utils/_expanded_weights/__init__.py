"""Weights of which each sample's gradient is kept."""

from rushlight.nn.utils._expanded_weights.expanded_weights_impl import ExpandedWeight

__all__ = ["ExpandedWeight"]

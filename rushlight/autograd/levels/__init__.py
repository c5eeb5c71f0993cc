"""Interpreters in levels: gradients, tangents and batches of whole functions.

While a level is open, every operator of its thread goes through the innermost one. It
knows its own tensors, which stand in for values of the levels outside, does its part,
and hands the call on with those values; there the next level sees it. So
transformations nest in any order, and an operator's kernels meet plain tensors only.
"""

from rushlight.autograd.levels.stack import Level, Stand, depth, plain

__all__ = ["Level", "Stand", "depth", "plain"]

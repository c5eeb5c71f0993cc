"""Algorithms over the ranks: uneven inputs, communication hooks."""

from rushlight.distributed.algorithms import join

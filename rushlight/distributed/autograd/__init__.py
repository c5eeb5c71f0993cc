"""Gradients through calls from process to process.

``context()`` is a block of calls whose gradients belong together, ``backward`` runs over all
processes, ``get_gradients`` gives those of this one's tensors.
"""

from rushlight.distributed.autograd.contexts import backward, context, get_gradients

__all__ = ["backward", "context", "get_gradients"]

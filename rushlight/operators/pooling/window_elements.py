"""Largest values of windows on devices of many threads: an element is a thread's."""

from __future__ import annotations

from rushlight.kernels.window.pool_elements import (
    find_outside,
    max_pool_elements,
    max_pool_gather,
)
from rushlight.operators.loop_calls import name_of, run


def find_largest(x, out, index, win):
    """The largest of each window; their places go to ``index`` unless it is None."""
    placed = index is not None
    operands = [out, index if placed else out, x]
    types = {"T": name_of(x.dtype), "placed": int(placed)}
    run(
        max_pool_elements,
        operands,
        [*win.geometry(), int(placed)],
        out.numel(),
        **types,
    )


def bring_back(grad, tensors, flag, size, geometry):
    """Gathers for each element the gradients of the windows that it was largest of."""
    grad_input, _, indices = tensors
    run(find_outside, [indices, flag], [size], indices.numel())
    types = {"T": name_of(grad.dtype)}
    run(max_pool_gather, tensors, geometry, grad_input.numel(), **types)

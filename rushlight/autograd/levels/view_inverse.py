"""The ways back through views: the whole with a window's values in their places.

Entries of views name them with ``inverse:``. Each is called with the step (the operator, the
arguments behind the tensor, the number of the result), the whole and the window.
"""

import functools
import importlib

from rushlight.dispatch.declared import ARGUMENT, IMPLEMENTATION, INVERSE
from rushlight.operators import call


@functools.cache
def way_back(op):
    """What an operator's entry names; of one that copies a view, what the view's names."""
    if not op.entry:
        return None
    found, view = op.entry[INVERSE], op.entry[IMPLEMENTATION][ARGUMENT]
    if found is None and view is not None:
        found = getattr(call, view).overloads[0].entry[INVERSE]
    return getattr(importlib.import_module(found[0]), found[1]) if found else None


def given(step):
    """The view's arguments behind the tensor, by their names."""
    return {row[0]: value for row, value in zip(step.op.signature.rows[1:], step.rest)}


def reshaped(step, whole, window):
    if window.dtype is not whole.dtype:
        return window.view(whole.dtype)
    if window.is_contiguous():
        return window.view(whole.shape)
    return window.reshape(whole.shape)


def permuted(step, whole, window):
    dims = [dim % whole.dim() for dim in step.rest[0]]
    return window.permute([dims.index(at) for at in range(len(dims))])


def selected(step, whole, window):
    return call.select_scatter(whole, window, **given(step))


def sliced(step, whole, window):
    return call.slice_scatter(whole, window, **given(step))


def diagonal_placed(step, whole, window):
    return call.diagonal_scatter(whole, window, **given(step))


def unbound(step, whole, window):
    dim = step.rest[0] if step.rest else 0
    return call.select_scatter(whole, window, dim, step.number)


def split_placed(step, whole, window):
    sizes, dim = step.rest
    if isinstance(sizes, int):
        start = sizes * step.number
    else:
        start = sum(sizes[: step.number])
    stop = start + window.shape[dim]
    return call.slice_scatter(whole, window, dim, start, stop)


def unsqueezed(step, whole, window):
    return window.squeeze(step.rest[0])


def transposed(step, whole, window):
    return window.transpose(*step.rest)


def transposed_matrix(step, whole, window):
    return window.t()


def itself(step, whole, window):
    return window


def expanded(step, whole, window):
    return window.sum_to_size(whole.shape)


def of_parts(step, whole, window):
    """Of pairs of real numbers: the complex ones."""
    return call.view_as_complex(window)


def of_complex(step, whole, window):
    return call.view_as_real(window)


def conjugated(step, whole, window):
    return window.conj()


def negated(step, whole, window):
    return -window

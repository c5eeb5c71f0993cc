"""Calls that PyTorch answers before an operator sees them, or by other operators.

What is one operator here may be some lines of Python there, or a question of its own.
An exported program has then the operators that those lines call. Each function takes the
operator's arguments and calls what is to be recorded; `NotImplemented` has the operator
recorded after all.
"""

from __future__ import annotations

import importlib

from rushlight.core.dtype import DType
from rushlight.core.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.core.layout import contiguous_format
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import DECOMPOSITION, says
from rushlight.operators import call

__all__ = ["WITHOUT_ELEMENTS", "decomposition_of"]

_CASTS = {
    "float": float32, "double": float64, "half": float16,
    "bfloat16": bfloat16, "int": int32, "long": int64,
    "short": int16, "char": int8, "byte": uint8, "bool": bool_,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip


def _cast(dtype):
    """A method that is a conversion to one type."""

    def cast(self, **kwargs):
        return self.to(dtype, **kwargs)

    return cast


def _conj(self):
    return call._conj(self) if self.is_complex() else self


def _contiguous(self, *, memory_format=contiguous_format):
    already = self.is_contiguous(memory_format=memory_format)
    return self if already else NotImplemented


def _to(self, device=None, dtype=None, *rest, **kwargs):
    """A device alone goes with all else that a tensor is."""
    if isinstance(device, DType):
        return NotImplemented
    if isinstance(device, Tensor):
        return self.to(device.device, device.dtype, bool(dtype), *rest, **kwargs)
    if dtype is not None or device is None and "layout" in kwargs:
        return NotImplemented
    names = "non_blocking", "copy", "memory_format"
    given = {**dict(zip(names, rest)), **kwargs}
    device = self.device if device is None else device
    place = {"dtype": self.dtype, "layout": self.layout, "device": device}
    return call.to(self, **{**place, **given})


def decomposition_of(op):
    """What is called in an operator's place while a program is recorded, or None.

    An operator that is Python of PyTorch's says so in its declaration.
    """
    found = TAKEN_APART.get(op._opname)
    if found is None and says(op, "recorded_in_parts"):
        module, name = op.entry[DECOMPOSITION]
        found = getattr(importlib.import_module(module), name)
    return found


# Operators by name; the same tracer records what these call.
TAKEN_APART = {
    **{name: _cast(dtype) for name, dtype in _CASTS.items()},
    "_segment_reduce": call.segment_reduce,
    "conj": _conj,
    "contiguous": _contiguous,
    "to": _to,
}


def _spaced(start, end, steps, base=None, **kwargs):
    """Numbers between two tensors' numbers."""
    wide = any(isinstance(one, Tensor) and one.is_complex() for one in (start, end))
    return call.linspace(0j if wide else 0, 1, steps, **kwargs)


def _histogram(self, bins=100, **_):
    counts = bins if isinstance(bins, int) else bins.shape[0] - 1
    return self.new_empty(counts), self.new_empty(counts + 1)


def _histogramdd(self, bins, *_, **__):
    rank = self.shape[-1]
    counts = [bins] * rank if isinstance(bins, int) else bins
    counts = [one if isinstance(one, int) else one.shape[0] - 1 for one in counts]
    return self.new_empty(counts), [self.new_empty(one + 1) for one in counts]


def _recurrent(operator, states):
    """What a recurrent network gives for a length that stays open, by its sizes alone.

    Args:
        operator: the network; of a packed batch it runs itself.
        states: how many tensors its state has.
    """

    def results(input, hx, params, *rest, **named):
        packed = isinstance(params, Tensor) or isinstance(hx, Tensor) is (states > 1)
        if packed or all(type(size) is int for size in input.shape):
            return operator(input, hx, params, *rest, **named)
        first = hx if states == 1 else hx[0]
        both = 2 if rest[4] else 1
        width = first.shape[-1] * both
        output = input.new_empty([*input.shape[:-1], width])
        state = [one.new_empty(one.shape) for one in ([hx] if states == 1 else hx)]
        made = output, *state
        if is_grad_enabled() and any(one.requires_grad for one in (input, *params)):
            for one in made:
                one.requires_grad_()
        return made

    return results


# Compositions that look at elements: what has the same results but for those.
WITHOUT_ELEMENTS = {
    "_assert_async": lambda *_: None,
    "histogram": _histogram,
    "histogramdd": _histogramdd,
    "gru": _recurrent(call.gru, 1),
    "linspace": _spaced,
    "logspace": _spaced,
    "lstm": _recurrent(call.lstm, 2),
    "rnn_relu": _recurrent(call.rnn_relu, 1),
    "rnn_tanh": _recurrent(call.rnn_tanh, 1),
    "rrelu": lambda self, *_, **__: call.clone(self),
}

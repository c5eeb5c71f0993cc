"""Calls that PyTorch answers before an operator sees them, or by other operators.

What is one operator here may be some lines of Python there, or a question of its own.
An exported program has then the operators that those lines call. Each function takes the
operator's arguments and calls what is to be recorded; `NotImplemented` has the operator
recorded after all.
"""

import importlib
import sys

from rushlight.core import dtypes
from rushlight.core.dtype import DType
from rushlight.core.layout import contiguous_format
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import DECOMPOSITION, rule_of, says
from rushlight.operators import call

_HERE = sys.modules[__name__]


def cast(name):
    """A method that is a conversion to one type."""
    dtype = getattr(dtypes, name)

    def convert(self, **kwargs):
        return self.to(dtype, **kwargs)

    return convert


def segment_reduce(*args, **kwargs):
    return call.segment_reduce(*args, **kwargs)


def conj(self):
    return call._conj(self) if self.is_complex() else self


def contiguous(self, *, memory_format=contiguous_format):
    already = self.is_contiguous(memory_format=memory_format)
    return self if already else NotImplemented


def to(self, device=None, dtype=None, *rest, **kwargs):
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

    Its declaration names it as ``recorded``, or says that its decomposition is.
    """
    found = rule_of(op, "recorded", _HERE)
    if found is None and says(op, "recorded_in_parts"):
        module, name = op.entry[DECOMPOSITION]
        found = getattr(importlib.import_module(module), name)
    return found


def without_elements(op):
    """What has an operator's results but for their elements, which it looks at; or itself."""
    return rule_of(op, "without_elements", _HERE) or op


def spaced(start, end, steps, base=None, **kwargs):
    """Numbers between two tensors' numbers."""
    wide = any(isinstance(one, Tensor) and one.is_complex() for one in (start, end))
    return call.linspace(0j if wide else 0, 1, steps, **kwargs)


def histogram(self, bins=100, **_):
    counts = bins if isinstance(bins, int) else bins.shape[0] - 1
    return self.new_empty(counts), self.new_empty(counts + 1)


def histogramdd(self, bins, *_, **__):
    rank = self.shape[-1]
    counts = [bins] * rank if isinstance(bins, int) else bins
    counts = [one if isinstance(one, int) else one.shape[0] - 1 for one in counts]
    return self.new_empty(counts), [self.new_empty(one + 1) for one in counts]


def nothing(*_):
    """What only looks gives nothing."""


def copied(self, *_, **__):
    return call.clone(self)


def recurrent(name):
    """What a recurrent network gives for a length that stays open, by its sizes alone.

    Args:
        name: the network's; of a packed batch it runs itself.
    """
    operator = getattr(call, name)
    states = len(operator.overloads[0].returns) - 1

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

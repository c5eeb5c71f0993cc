"""Runs kernels over NumPy arrays: natively, and through the reference emitter."""

import os

import numpy as np
import pytest

from rushlight.codegen.emit import python
from rushlight.codegen.target import named, using
from rushlight.runtime.cpu.launch import launch
from tools import emulate

EMULATED = bool(os.environ.get("RUSHLIGHT_EMULATED"))  # by `python -m tools.emulate`


def names_of(arrays):
    return tuple(str(array.dtype) for array in arrays)


def padded(values, filler):
    """Three loops, the missing outer ones trivial."""
    return [filler] * (3 - len(values)) + list(values)


class Runner:
    """Calls kernels with the native signature, one way or the other."""

    def __init__(self, reference):
        self.reference = reference

    def call(self, front, specialization, arrays, ints, total):
        pointers = [array.ctypes.data for array in arrays]
        if self.reference:
            function = front.lowered(*specialization)
            python.run(function, pointers, ints, 0, total)
        elif EMULATED:
            with using(named(emulate.TARGET)):
                function = front.lowered(*specialization)
            if emulate.launch(function, arrays, ints, 0, total):
                raise RuntimeError("ZeroDivisionError")
        else:
            launch(front.native(*specialization), pointers, ints, total, total)

    def pointwise(self, front, *inputs, out=None, compute=None, static=()):
        """An elementwise kernel over arrays of one or two dimensions."""
        dtypes = names_of(inputs)
        compute = compute or dtypes[0]
        out = compute if out is None else out
        shape = np.broadcast_shapes(*(array.shape for array in inputs))
        many = isinstance(out, tuple)
        outputs = [np.zeros(shape, dtype) for dtype in (out if many else (out,))]
        self.into(front, outputs, inputs, compute, static)
        return outputs if many else outputs[0]

    def into(self, front, outputs, inputs, compute, static=()):
        """The same, writing into given arrays."""
        shape = outputs[0].shape
        operands = [*outputs, *(np.broadcast_to(a, shape) for a in inputs)]
        strides = [padded(a.strides, 0)[1:] for a in operands]
        ints = [
            shape[-1] if shape else 1,
            *(inner for _, inner in strides),
            *(outer for outer, _ in strides),
        ]
        rows = shape[0] if len(shape) == 2 else 1
        specialization = (names_of(inputs), names_of(outputs), compute, static)
        self.call(front, specialization, operands, ints, rows)

    def reduction(self, front, x, axes, out=None, compute=None, scalar=None):
        """A reduction over some of at most six axes."""
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        outs = out if isinstance(out, tuple) else (out or str(x.dtype),)
        outputs = [np.zeros([x.shape[a] for a in kept], dtype) for dtype in outs]
        ints = [
            *padded([x.shape[a] for a in axes], 1),
            *padded([x.strides[a] for a in axes], 0),
            *padded([x.shape[a] for a in kept], 1),
            *padded([x.strides[a] for a in kept], 0),
        ]
        for output in outputs:
            ints += padded(output.strides, 0)
        extra = [] if scalar is None else [np.array([scalar], np.float64)]
        total = int(np.prod([x.shape[a] for a in kept]))
        self.call(
            front,
            (str(x.dtype), outs, compute or str(x.dtype)),
            [*outputs, x, *extra],
            ints,
            total,
        )
        return outputs if isinstance(out, tuple) else outputs[0]

    def rowwise(self, front, outputs, inputs, compute="float32", numbers=()):
        """A kernel over the rows of matrices; vectors have one value for each row."""
        operands = [*outputs, *inputs]
        rows, n = next(a.shape for a in operands if a.ndim == 2 and a.shape[0] > 1)
        operands += [np.array(number, np.float64) for number in numbers]
        outer = [a.strides[0] if a.shape[:1] == (rows,) else 0 for a in operands]
        along = [a.strides[1] if a.ndim == 2 else 0 for a in operands]
        ints = [n, 1, *outer, *[0] * len(operands), *along]
        specialization = (names_of(inputs), names_of(outputs), compute)
        self.call(front, specialization, operands, ints, rows)


@pytest.fixture
def native():
    """Runs compiled kernels."""
    return Runner(reference=False)


@pytest.fixture
def reference():
    """Runs kernels through their Python text."""
    return Runner(reference=True)


@pytest.fixture(params=["native", "reference"])
def runner(request):
    """Both ways in turn."""
    return Runner(reference=request.param == "reference")

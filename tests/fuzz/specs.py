"""Tensors and calls as data that either library can be given."""

from __future__ import annotations

import math

import numpy as np

BITS = {
    "bool": np.uint8,
    "uint8": np.uint8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
DOUBLE = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex64": "complex128",
}
SINGLE = {"float64": "float32", "complex128": "complex64"}
EPSILON = {
    "float16": 9.8e-4,
    "bfloat16": 7.8e-3,
    "float32": 1.2e-7,
    "float64": 2.2e-16,
    "complex64": 1.2e-7,
    "complex128": 2.2e-16,
}
LARGEST = 1 << 24  # elements that are compared
REAL = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = REAL + COMPLEX


def to_values(raw, dtype):
    """Elements of a dtype as NumPy numbers that hold them exactly."""
    if dtype == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw


def from_values(values, dtype):
    """NumPy numbers as the elements of a dtype, rounded or cut as need be."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            wide = np.asarray(values, np.float32).reshape(-1).view(np.uint32)
            return ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
        if dtype == "bool":
            return (np.asarray(values) != 0).astype(np.uint8).reshape(-1)
        values = np.asarray(values)
        if values.dtype.kind == "c" and dtype not in COMPLEX:
            values = values.real
        if dtype not in INEXACT and values.dtype.kind == "f":
            values = np.nan_to_num(values, nan=0.0, posinf=100, neginf=-100)
            values = np.clip(values, -(2.0**62), 2.0**62)
        return values.astype(BITS[dtype]).reshape(-1)


class Buffer:
    """The elements of one storage; tensors that share it share memory."""

    def __init__(self, raw):
        self.raw = raw


class TensorSpec:
    """A strided window on a buffer of one dtype.

    One spec object among a call's arguments means one tensor object.
    """

    def __init__(self, buffer, dtype, sizes, strides, offset=0, grad=False):
        self.buffer, self.dtype = buffer, dtype
        self.sizes, self.strides, self.offset = tuple(sizes), tuple(strides), offset
        self.grad = grad
        self.conjugate = False  # lazily, when it is read

    @classmethod
    def dense(cls, values, dtype, sizes, grad=False):
        """A row-major tensor of its own with these values."""
        strides = [max(1, math.prod(sizes[i + 1 :])) for i in range(len(sizes))]
        return cls(Buffer(from_values(values, dtype)), dtype, sizes, strides, 0, grad)

    @property
    def numel(self):
        return math.prod(self.sizes)

    def values(self):
        """The elements in row-major order, as NumPy numbers."""
        raw = to_values(self.buffer.raw, self.dtype)
        if self.numel == 0:
            return raw[:0]
        item = raw.dtype.itemsize
        return np.lib.stride_tricks.as_strided(
            raw[self.offset :], self.sizes, [s * item for s in self.strides]
        ).reshape(-1)

    def widened(self):
        """The same tensor in double precision; itself where it is exact."""
        if self.dtype not in DOUBLE:
            return self
        raw = from_values(to_values(self.buffer.raw, self.dtype), DOUBLE[self.dtype])
        return TensorSpec(
            Buffer(raw),
            DOUBLE[self.dtype],
            self.sizes,
            self.strides,
            self.offset,
            self.grad,
        )

    def rounded(self):
        """The same tensor in single precision; itself where it is not of doubles."""
        if self.dtype not in SINGLE:
            return self
        raw = from_values(self.buffer.raw, SINGLE[self.dtype])
        return TensorSpec(
            Buffer(raw),
            SINGLE[self.dtype],
            self.sizes,
            self.strides,
            self.offset,
            self.grad,
        )

    def shaken(self, seed):
        """A row-major tensor with every element rounded up or down, at random."""
        step = EPSILON.get(self.dtype)
        if step is None:
            return self
        values = self.values()
        draw = np.random.default_rng([seed, values.size])
        moved = values * (1 + step * draw.normal(size=values.shape))
        return TensorSpec.dense(moved, self.dtype, self.sizes, self.grad)

    def __repr__(self):
        note = "" if self.strides == dense_strides(self.sizes) else f", {self.strides}"
        note += f", offset {self.offset}" if self.offset else ""
        note += ", grad" if self.grad else ""
        note += ", conj" if self.conjugate else ""
        shown = self.values()
        shown = shown.tolist() if shown.size <= 12 else f"{shown[:8].tolist()}..."
        return f"{self.dtype}{list(self.sizes)}({shown}{note})"


def dense_strides(sizes):
    return tuple(max(1, math.prod(sizes[i + 1 :])) for i in range(len(sizes)))


class Named:
    """A dtype, layout, device or memory format, by its name in the module."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Side:
    """One library: builds arguments from specs, reads results back."""

    def __init__(self, module, wide=False, shaken=None, rounded=False):
        self.module, self.wide, self.shaken = module, wide, shaken
        self.rounded = rounded
        self.tensors, self.storages, self.kept = {}, {}, []

    def build(self, value):
        """A spec tree as arguments of this library."""
        if isinstance(value, TensorSpec):
            if id(value) not in self.tensors:
                self.tensors[id(value)] = (self.tensor(value), value)
            return self.tensors[id(value)][0]
        if isinstance(value, Named):
            if self.wide and value.name in DOUBLE:
                return getattr(self.module, DOUBLE[value.name])
            if self.rounded and not self.wide and value.name in SINGLE:
                return getattr(self.module, SINGLE[value.name])
            if value.name.startswith("device:"):
                return self.module.device(value.name[7:])
            return getattr(self.module, value.name)
        if isinstance(value, (list, tuple)):
            return type(value)([self.build(item) for item in value])
        if isinstance(value, dict):
            return {key: self.build(item) for key, item in value.items()}
        return value

    def tensor(self, spec):
        m = self.module
        if self.shaken is not None:
            spec, lazy = spec.shaken(self.shaken), spec.conjugate
            spec.conjugate = lazy
            self.kept.append(spec)  # whose buffer's id is a key below
        source = spec.rounded() if self.rounded else spec
        source = source.widened() if self.wide else source
        key = id(spec.buffer), source.dtype
        if key not in self.storages:
            flat = m.from_numpy(source.buffer.raw.view(np.uint8).copy()).clone()
            if not flat.numel():
                flat = m.zeros(source.buffer.raw.itemsize, dtype=m.uint8)
            self.storages[key] = flat.view(getattr(m, source.dtype))
        base = self.storages[key]
        window = base.as_strided(spec.sizes, spec.strides, spec.offset).detach()
        if spec.conjugate:
            window = window.conj().detach()
        return window.requires_grad_() if spec.grad else window

    def read(self, tensor):
        """(dtype, sizes, strides, elements) of a tensor of this library."""
        m = self.module
        t = tensor.detach()
        dtype = str(t.dtype).rpartition(".")[2]
        if t.numel() > LARGEST:  # seen from one element, and too many to compare
            return dtype, tuple(tensor.shape), tuple(tensor.stride()), np.zeros(0)
        # a copy: what is put off, repeated or zeros without memory becomes plain
        flat = m.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1))
        if dtype in BITS:
            raw = flat.view(m.uint8).numpy().copy().view(BITS[dtype])
            values = to_values(raw, dtype)
        else:
            values = flat.view(m.uint8).numpy().copy()
        return dtype, tuple(tensor.shape), tuple(tensor.stride()), values

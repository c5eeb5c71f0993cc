"""Every type into every other at the values where types differ, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

WHOLE = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
REAL = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
TYPES = ("bool", *WHOLE, *REAL, *COMPLEX)

# Integers from numbers that they cannot hold, and from NaN, are undefined in C: vectors
# and single elements differ in PyTorch itself. What every type holds is left.
NUMBERS = [0.0, -0.0, 0.4, 0.5, 0.6, 1.0, 1.5, 2.5, 3.999, 42.0, 100.0, 127.0]
BEYOND = [-0.4, -1.0, -1.5, -100.0, 255.0, 300.0, 65504.0, 1e6]
SPECIAL = [
    float("inf"),
    -float("inf"),
    float("nan"),
    1e30,
    -1e30,
    1e-30,
    65520.0,
    1e300,
]
COUNTS = [0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1]
COUNTS += [2**53 + 1, 2**62 + 1, 2**63 - 1, -1, -2, -128, -129, -(2**31), -(2**63)]


def made(m, item, dtype):
    """The type and the numbers of what becomes a tensor, or the kind of a refusal."""
    try:
        t = m.tensor(item, **({} if dtype is None else {"dtype": getattr(m, dtype)}))
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)
    return str(t.dtype).partition(".")[2], t.tolist()


def source(m, dtype):
    """Elements of a type, most of them where other types end."""
    if dtype == "bool":
        return m.tensor([False, True])
    if dtype in WHOLE:
        bits = np.array(COUNTS, np.int64).astype(dtype)  # cut to their width
        return m.tensor(bits)
    values = NUMBERS + BEYOND + SPECIAL
    wide = m.tensor(values, dtype=m.float64)
    if dtype in COMPLEX:
        wide = m.complex(wide, wide.flip(0))
    return wide.to(getattr(m, dtype))


def defined(x, target):
    """Where the conversion is defined: inexact numbers that an integer type holds."""
    if target not in WHOLE or not (x.is_floating_point() or x.is_complex()):
        return slice(None)
    low, high = (
        torch.iinfo(getattr(torch, target)).min,
        torch.iinfo(getattr(torch, target)).max,
    )
    real = (x.real if x.is_complex() else x).double().numpy()
    with np.errstate(invalid="ignore"):
        return np.flatnonzero((real > low - 1.0) & (real < float(high)))


def bits(m, x):
    return x.contiguous().view(m.uint8).numpy().reshape(x.numel(), -1).copy()


def same(ours, theirs, where):
    a, b = bits(rushlight, ours)[where], bits(torch, theirs)[where]
    nan = theirs.double() if not theirs.is_complex() else theirs
    nan = (nan != nan).numpy()[where]
    other = ours.double() if not ours.is_complex() else ours
    assert ((other != other).numpy()[where] == nan).all()
    np.testing.assert_array_equal(a[~nan], b[~nan])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("start", TYPES)
def test_every_type_turns_into_every_other_as_in_pytorch(start, to):
    results = []
    for m in (rushlight, torch):
        x = source(m, start)
        kind = getattr(m, to)
        placed = m.zeros(x.shape, dtype=kind)
        placed[:] = x
        copied = m.zeros(2 * x.numel(), dtype=kind)[::2]
        copied.copy_(x)
        results.append([x.to(kind), placed, copied.contiguous(), x.type(kind)])
    where = defined(source(torch, start), to)
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs, where)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [*TYPES[:9], "float16", "float32", "float64", *COMPLEX]
)
@pytest.mark.parametrize("dtype", [None, *TYPES])
def test_numpys_numbers_and_arrays_become_tensors_as_in_pytorch(kind, dtype):
    number = np.dtype(kind).type(1)
    given = [number, [number, number], np.array([0, 1], kind), np.array(1, kind)]
    given += [[np.array([0, 1], kind)] * 2, np.zeros((2, 0), kind), (number, 1)]
    if kind == "complex64" and dtype in REAL:
        given = given[2:4]  # lists of them lose their imaginary parts there, not here
    for item in given:
        theirs, ours = (made(m, item, dtype) for m in (torch, rushlight))
        # PyTorch does not take NumPy's floats for integers: it was not meant to
        if theirs is not TypeError:
            assert ours == theirs, item

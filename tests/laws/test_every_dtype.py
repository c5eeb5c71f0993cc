"""Every data type, through every way that numbers go into tensors and come out."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
REALS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = [*INTEGERS, "bool", *REALS, *COMPLEX]
EDGES = sorted(
    {
        sign * 2**bits + step
        for bits in (0, 7, 8, 15, 16, 31, 32, 40, 63, 64, 70)
        for sign in (-1, 1)
        for step in (-1, 0, 1)
    }
)
REAL_EDGES = [
    -0.0, 0.5, -0.5, 1.5, -1.5, 127.5, 128.0, -128.5, 255.0, 256.0, 65535.0, 65536.0,
    2.0**31 - 0.5, 2.0**31, 2.0**32, -(2.0**63), 1e20, 1e300, float("inf"),
    float("-inf"), float("nan"),
]  # fmt: skip
COMPLEX_EDGES = [1 + 0j, 1 + 2j, 300 + 0j]

# Ways in that convert one number to the dtype.
WAYS_IN = {
    "tensor": lambda lib, v, dt: lib.tensor(v, dtype=dt),
    "tensor of a list": lambda lib, v, dt: lib.tensor([[v], [v]], dtype=dt),
    "full": lambda lib, v, dt: lib.full((2, 1), v, dtype=dt),
    "full_like": lambda lib, v, dt: lib.full_like(lib.zeros(2, dtype=dt), v),
    "new_full": lambda lib, v, dt: lib.zeros(2, dtype=dt).new_full((3,), v),
    "fill_": lambda lib, v, dt: lib.zeros(2, 3, dtype=dt).t().fill_(v),
}


def outcome(function, *args):
    """The values as the dtype's Python numbers, or the type of the refusal."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error).__name__
    return repr((str(result.dtype).split(".")[-1], result.tolist()))


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_goes_in_as_the_oracle_has_it(dtype, way):
    differing = []
    for value in [*EDGES, *REAL_EDGES, *COMPLEX_EDGES, True, False]:
        mine = outcome(WAYS_IN[way], rl, value, getattr(rl, dtype))
        theirs = outcome(WAYS_IN[way], torch, value, getattr(torch, dtype))
        if mine != theirs:
            differing.append((value, mine, theirs))
    assert not differing, differing


@pytest.mark.parametrize("dtype", DTYPES)
def test_ones_and_small_numbers_are_what_they_say(dtype):
    kind = getattr(rl, dtype)
    assert rl.ones(2, dtype=kind).tolist() == [1, 1]
    assert rl.zeros(2, dtype=kind).tolist() == [0, 0]
    assert rl.ones_like(rl.zeros(2, dtype=kind)).tolist() == [1, 1]
    assert rl.ones((), dtype=kind).item() == 1
    if dtype != "bool":
        assert rl.tensor([1, 2, 3], dtype=kind).tolist() == [1, 2, 3]
        assert rl.tensor(np.array([1, 2, 3]), dtype=kind).tolist() == [1, 2, 3]


OPERATORS = {
    "add": lambda x, v: x + v,
    "radd": lambda x, v: v + x,
    "sub": lambda x, v: x - v,
    "rsub": lambda x, v: v - x,
    "mul": lambda x, v: x * v,
    "eq": lambda x, v: x == v,
    "ne": lambda x, v: x != v,
    "lt": lambda x, v: x < v,
    "ge": lambda x, v: x >= v,
    "and": lambda x, v: x & v,
    "or": lambda x, v: x | v,
    "rxor": lambda x, v: v ^ x,
}
SIGNED = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", SIGNED)
def test_an_operators_number_wraps_as_a_cast_does(dtype, operator):
    mine_in = rl.tensor([0, 1, 100], dtype=getattr(rl, dtype))
    theirs_in = torch.tensor([0, 1, 100], dtype=getattr(torch, dtype))
    differing = []
    for value in EDGES:
        mine = outcome(OPERATORS[operator], mine_in.clone(), value)
        theirs = outcome(OPERATORS[operator], theirs_in.clone(), value)
        if mine != theirs:
            differing.append((value, mine, theirs))
    assert not differing, differing

"""Operands that are broadcast give what they give written out whole, in every dtype."""

from __future__ import annotations

import itertools
import pathlib
import re

import pytest
import yaml

import rushlight as rl

DECLARATIONS = pathlib.Path(rl.__file__).parent / "operators"
MORE = r"(?:, (?:\*, )?\w+\?? \w+=[^,)]*)*"
PAIR = re.compile(rf"(\w+(?:\.\w+)?)\(Tensor \w+, Tensor(?:\|Scalar)? \w+{MORE}\)")
DTYPES = (
    rl.float32, rl.float64, rl.bfloat16, rl.int32, rl.uint8, rl.bool,
    rl.complex64,
)  # fmt: skip
TYPES = tuple(zip(DTYPES, DTYPES, strict=True)) + (
    (rl.float32, rl.int32), (rl.int32, rl.float32), (rl.bfloat16, rl.float64),
    (rl.float64, rl.int32), (rl.uint8, rl.bool), (rl.complex64, rl.float64),
)  # fmt: skip
SIZES = (
    ((3,), (2, 3)), ((2, 3), (3,)), ((), (3,)), ((3,), ()), ((3, 1), (3, 2)),
    ((3, 2), (3, 1)), ((2, 1, 3), (2, 3, 1)), ((1, 1), (2,)), ((1,), (2, 2)),
)  # fmt: skip


def pairs():
    """The names of elementwise operators of two tensors, and of what they compose."""
    for path in sorted(DECLARATIONS.rglob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            found = PAIR.match(entry["op"])
            if found and "pointwise" in entry:
                yield found[1]


COMPOSED = ("ldexp", "float_power", "rsub", "heaviside", "logical_and", "xlogy")
NAMES = sorted({*pairs(), *COMPOSED})


def operand(sizes, dtype, start):
    count = rl.ones(sizes).numel()
    values = (rl.arange(count).to(rl.float64) % 5 + start).reshape(sizes)
    return values.to(dtype)


def call(name, x, y):
    """The result, or None where the types are refused."""
    function = rl.ops.aten
    for part in name.split("."):
        function = getattr(function, part)
    try:
        return function(x, y)
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def test_the_operators_are_found():
    assert len(NAMES) > 30
    assert {"ldexp", "_ldexp", "hypot", "maximum"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_broadcast_operands_give_what_whole_ones_do(name):
    for (one, other), (left, right) in itertools.product(TYPES, SIZES):
        x, y = operand(left, one, 1), operand(right, other, 2)
        sizes = rl.broadcast_shapes(left, right)
        whole = call(name, x.expand(sizes).contiguous(), y.expand(sizes).contiguous())
        if whole is None or 0 in (len(left), len(right)) and one is not other:
            continue  # of no dimension, an operand counts less for the type
        for step in (1, 2) if one is rl.float32 else (1,):  # dense, with gaps
            a = x if step == 1 else rl.stack([x, x], -1)[..., 0]
            found = call(name, a, y)
            assert found is not None, (one, other, left, right)
            assert found.shape == whole.shape
            assert rl.equal(found.nan_to_num(), whole.nan_to_num()), (
                one,
                other,
                left,
                right,
                step,
            )

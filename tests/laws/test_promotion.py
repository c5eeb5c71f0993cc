"""Types and values of binary operators are the oracle's for every pair of operands.

Each operand is a tensor with dimensions, a tensor without, or a Python number.
"""

import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
FEW = ("bool", "uint8", "int64", "float16", "float32", "complex64")
NUMBERS = (True, 4099, 0.1, 1.5 - 0.1j)
HALF = {"float16": 2e-3, "bfloat16": 1.6e-2}
OPERATORS = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "floor_divide": lambda lib, x, y: x // y,
    "remainder": lambda lib, x, y: x % y,
    "pow": lambda lib, x, y: x**y,
    "lt": lambda lib, x, y: x < y,
    "eq": lambda lib, x, y: x == y,
    "and": lambda lib, x, y: x & y,
    "where": lambda lib, x, y: lib.where(lib.tensor([True, False, True]), x, y),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
}
EXACT = {"add", "sub", "mul", "lt", "eq", "where", "maximum"}


def operand(lib, kind, what, first):
    """A tensor of a type with or without dimensions, or the number itself."""
    if kind == "number":
        return what
    values = [3, 1, 2] if first else [1, 2, 2]
    if what in ("float64", "float32"):
        values = [3.3333333, 1.1, 2.7] if first else [1.1111111, 2.3, 0.1]
    if what in ("int16", "int32", "int64"):
        values = [4099, 2051, 33] if first else [2, 2, 2]
    if kind == "lone":
        values = values[0]
    return lib.tensor(values, dtype=getattr(lib, what))


def answer(lib, function, x, y):
    """Name of the type and the values, or the kind of refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(lib, x, y)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            return type(error), None
    kind = str(result.dtype).rpartition(".")[2]
    wide = {"bfloat16": lib.float32, "uint16": lib.int64}.get(kind, result.dtype)
    return kind, result.to(wide).numpy()


def half_complex(x, y):
    """Whether the result is of the type whose parts are in half precision."""
    try:
        return torch.result_type(x, y) is torch.complex32
    except RuntimeError:
        return False


def pairs(dtypes):
    """Both orders of operands of which at least one has dimensions."""
    kinds = [("tensor", name) for name in dtypes]
    others = kinds + [("lone", name) for name in dtypes]
    others += [("number", number) for number in NUMBERS]
    for first, second in itertools.product(kinds, others):
        yield first, second
        if second[0] != "tensor":
            yield second, first


def compared(name, first, second):
    """What is wrong with one operator's answer, or None."""
    function = OPERATORS[name]
    x, y = operand(torch, *first, True), operand(torch, *second, False)
    if half_complex(x, y):
        return None  # there is no arithmetic with them here
    kind, values = answer(torch, function, x, y)
    ours, found = answer(
        rl, function, operand(rl, *first, True), operand(rl, *second, False)
    )
    if values is None:
        refused = found is None or kind is NotImplementedError
        return None if refused else f"{ours}, not refused with {kind.__name__}"
    if ours != kind:
        return f"{ours}, not {kind}"
    if name in EXACT or values.dtype.kind not in "fc":
        same = np.array_equal(found, values, equal_nan=values.dtype.kind in "fc")
    else:
        tolerance = HALF.get(kind, 1e-6)
        same = np.allclose(found, values, rtol=tolerance, equal_nan=True)
    return None if same else f"{found}, not {values}"


@pytest.mark.parametrize("name", OPERATORS)
def test_every_pair_of_operands_gives_the_type_and_value_of_the_oracle(name):
    wrong = [
        f"{first} and {second}: {trouble}"
        for first, second in pairs(DTYPES if name == "add" else FEW)
        if (trouble := compared(name, first, second))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_pair_of_types_promotes_as_the_oracle_does():
    names = (*DTYPES, "uint32", "uint64", "complex32", "float8_e5m2")
    for a, b in itertools.product(names, names):
        try:
            expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as caught:
                rl.promote_types(getattr(rl, a), getattr(rl, b))
            assert str(caught.value).startswith(str(error)), (a, b)
            continue
        found = rl.promote_types(getattr(rl, a), getattr(rl, b))
        assert str(found).rpartition(".")[2] == str(expected).rpartition(".")[2], (a, b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("alpha", [1, 0.1, 3.14159])
def test_sums_round_their_numbers_to_half_precision_first(dtype, alpha):
    # whole vectors: the oracle rounds the elements behind them once more
    x = torch.linspace(-3, 3, 960).to(getattr(torch, dtype))
    ours = rl.tensor(x.tolist(), dtype=getattr(rl, dtype))
    for number in (0.1, 1.2345, 2049, 1e-4):
        for name in ("add", "sub", "rsub"):
            expected = getattr(torch, name)(x, number, alpha=alpha)
            found = getattr(rl, name)(ours, number, alpha=alpha)
            assert found.tolist() == expected.tolist(), (name, number)
    y = x.flip(0)
    expected = torch.add(x, y, alpha=alpha)
    assert rl.add(ours, ours.flip(0), alpha=alpha).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_and_quotients_keep_the_digits_of_a_number(dtype):
    x = torch.linspace(0.1, 3, 1000).to(getattr(torch, dtype))
    ours = rl.tensor(x.tolist(), dtype=getattr(rl, dtype))
    for number in (0.1, 1.2345, 3.3):
        assert (ours * number).tolist() == (x * number).tolist()
        assert (ours / number).tolist() == (x / number).tolist()
        assert (number / ours).tolist() == (number / x).tolist()
        lone, expected = rl.tensor(number), torch.tensor(number)
        assert (ours * lone).tolist() == (x * expected).tolist()
        assert (lone * ours).tolist() == (expected * x).tolist()


@pytest.mark.parametrize("other", ["int8", "float32", "complex64"])
@pytest.mark.parametrize("number", ["int64", "float64", "complex128"])
def test_numbers_yield_to_matrices_on_a_diagonal(number, other):
    def kind(m):
        blocks = [
            m.ones((), dtype=getattr(m, number)),
            m.ones(2, dtype=getattr(m, other)),
        ]
        many = m.block_diag(*blocks * 8)
        return str(m.block_diag(*blocks).dtype), str(many.dtype)

    assert [k.partition(".")[2] for k in kind(rl)] == [
        k.partition(".")[2] for k in kind(torch)
    ]

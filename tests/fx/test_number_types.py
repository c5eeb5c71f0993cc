"""`normalize_function` tells overloads apart by the types of numbers, as PyTorch does."""

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

CALLS = {
    "a number by name": ((1,), {"other": 2}, ("Tensor",), {"other": int}),
    "a number": ((1, 2), {}, ("Tensor", float), {}),
    "a tensor": ((1, 2), {}, ("Tensor", "Tensor"), {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_types_of_numbers_choose_an_overload(call):
    args, kwargs, kinds, named = CALLS[call]
    found = []
    for lib in (rl, torch):
        given = tuple(lib.Tensor if one == "Tensor" else one for one in kinds)
        normalize = lib.fx.operator_schemas.normalize_function
        found.append(tuple(normalize(lib.add, args, kwargs, given, named)))
    assert found[0] == found[1]

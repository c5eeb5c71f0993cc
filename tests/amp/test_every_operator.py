"""Operators of PyTorch's database under autocast: results in the types that it gives."""

import warnings

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl
from tests.fuzz import judge
from tests.fuzz.specs import Side
from tests.programs import sweep

# What these give is of the type that they are told, or in memory.
LEFT_OUT = {
    "sparse.mm": "products with a reduction are rounded here, which PyTorch leaves alone",
    "linalg.pinv": "without elements PyTorch multiplies, and we don't",
    **dict.fromkeys(sweep.SKIPPED, "it reads memory that nothing was written to"),
}
NAMES = [(at, name) for at, name in sweep.names() if name not in LEFT_OUT]


def kinds(result):
    """The types of a result's tensors, in a nest."""
    if isinstance(result, (list, tuple)):
        return [kinds(item) for item in result]
    return str(getattr(result, "dtype", type(result).__name__)).rpartition(".")[2]


def answer(module, case):
    """The types of a call's results under autocast, or that it was refused."""
    side = Side(module)
    args, kwargs = side.build(case.args), side.build(case.kwargs)
    function = judge.lookup(module, case.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with module.autocast("cpu", dtype=module.bfloat16):
                return kinds(function(*args, **kwargs))
        except Exception as error:
            return f"refused by a {type(error).__name__}"


@pytest.mark.parametrize("at, name", NAMES, ids=[name for _, name in NAMES])
def test_autocast_gives_the_types_that_pytorchs_gives(at, name):
    for case in sweep.cases(at, dtypes=("float32", "bfloat16"), most=1):
        assert answer(rl, case) == answer(torch, case), case

"""Operators of PyTorch's database under autocast: results in the types that it gives."""

import itertools
import warnings

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl
from tests.fuzz import judge
from tests.fuzz.specs import Side
from tests.graph import sweep

# What these give is of the type that they are told, or in memory.
LEFT_OUT = {
    "linalg.pinv": "without elements PyTorch multiplies, and we don't",
    **dict.fromkeys(sweep.SKIPPED, "it reads memory that nothing was written to"),
}
# Which PyTorch refuses by what its elements are: it joins powers of matrices that need
# more than two.
UNLIKE = {("matrix_exp", "float16")}
NAMES = [(at, name) for at, name in sweep.names() if name not in LEFT_OUT]


def kinds(result):
    """The types of a result's tensors, in a nest."""
    if isinstance(result, (list, tuple)):
        return [kinds(item) for item in result]
    return str(getattr(result, "dtype", type(result).__name__)).rpartition(".")[2]


def answer(module, case, short="bfloat16"):
    """The types of a call's results under autocast, or that it was refused."""
    side = Side(module)
    args, kwargs = side.build(case.args), side.build(case.kwargs)
    function = judge.lookup(module, case.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with module.autocast("cpu", dtype=getattr(module, short)):
                return kinds(function(*args, **kwargs))
        except Exception as error:
            return f"refused by a {type(error).__name__}"


@pytest.mark.parametrize("at, name", NAMES, ids=[name for _, name in NAMES])
def test_autocast_gives_the_types_that_pytorchs_gives(at, name):
    known = ("float32", ("bfloat16", "float16")[at % 2])
    dtypes = [dtype for dtype in known if (name, dtype) not in UNLIKE]
    for case in sweep.cases(at, dtypes=dtypes, most=1):
        assert answer(rl, case) == answer(torch, case), case


JOINING = {
    "cat": lambda module, tensors: module.cat(tensors),
    "stack": lambda module, tensors: module.stack(tensors),
    "vstack": lambda module, tensors: module.vstack(tensors),
    "block_diag": lambda module, tensors: module.block_diag(*tensors),
    "index_copy": lambda module, tensors: module.index_copy(
        tensors[0], 0, module.tensor([1, 0]), tensors[-1]
    ),
    "pad_sequence": lambda module, tensors: module.nn.utils.rnn.pad_sequence(tensors),
}


# PyTorch says once a process that complex numbers lose their imaginary parts
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", JOINING)
@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_operands_of_the_other_short_type_are_refused_in_the_order_pytorch_asks(
    name, short
):
    kinds = ("float16", "bfloat16", "float32", "float64", "int64", "complex64")
    for count in (1, 2, 3):
        for chosen in itertools.product(kinds, repeat=count):
            found = []
            for module in (torch, rl):
                tensors = [
                    module.ones(2, 2).to(getattr(module, dtype)) for dtype in chosen
                ]
                with module.autocast("cpu", dtype=getattr(module, short)):
                    try:
                        result = JOINING[name](module, tensors)
                        found.append(str(result.dtype).rpartition(".")[2])
                    except (RuntimeError, TypeError) as error:
                        found.append(type(error).__name__)
            assert found[0] == found[1], chosen


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_products_of_sparse_tensors_have_the_types_that_pytorchs_have(layout):
    def made(module):
        dense = module.tensor([[1.0, 0, 2], [0, 3, 0]])
        return getattr(dense, f"to_sparse_{layout}")(), module.ones(3, 2)

    calls = {
        "mm": lambda module, s, d: module.sparse.mm(s, d),
        "addmm": lambda module, s, d: module.sparse.addmm(module.ones(2, 2), s, d),
        "linear": lambda module, s, d: module.nn.functional.linear(d.t(), s),
        **{
            reduce: lambda module, s, d, reduce=reduce: module.sparse.mm(s, d, reduce)
            for reduce in ("sum", "mean", "amax", "amin")
        },
    }
    for name, call in calls.items():
        found = []
        for module in (torch, rl):
            with module.autocast("cpu", dtype=module.bfloat16):
                try:
                    result = call(module, *made(module))
                    found.append(str(result.dtype).rpartition(".")[2])
                except NotImplementedError as error:
                    kernel = "not implemented for 'BFloat16'" in str(error)
                    found.append("bfloat16" if kernel else "refused")
        assert found[0] == found[1], name

"""What sparse tensors answer that have no memory, as PyTorch's do."""

import copy
import itertools
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# PyTorch's of its own implementation
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
    pytest.mark.filterwarnings("ignore:.*TypedStorage is deprecated"),
]
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
ROWS = [[1.0, 0, 0, 2], [0, 0, 3, 0], [0, 0, 0, 0], [4, 0, 5, 6]]


def made(lib, layout, dtype="float32"):
    blocks = {"blocksize": (2, 2)} if "bs" in layout else {}
    x = lib.tensor(ROWS, dtype=getattr(lib, dtype))
    return x.to_sparse(layout=getattr(lib, layout), **blocks)


def answer(function, *args):
    """A value without the library's own types, or the exception's name and first words."""
    try:
        value = function(*args)
    except Exception as error:
        kind = type(error).__name__
        return "NotImplementedError" if kind == "RuntimeError" else kind, str(error)[
            :20
        ]
    if hasattr(value, "to_dense"):
        numbers = value.detach().to_dense().cpu().numpy().round(4)
        return list(value.shape), repr(numbers), str(value.dtype).split(".")[1]
    return value


QUESTIONS = {
    "stride": lambda x: x.stride(),
    "is_contiguous": lambda x: x.is_contiguous(),
    "contiguous": lambda x: x.contiguous(),
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.storage(),
    "is_shared": lambda x: x.is_shared(),
    "row": lambda x: x.select(0, 1),
    "column": lambda x: x.select(1, 0),
    "element": lambda x: x[3, 2],
    "far row": lambda x: x[9],
}


def test_questions_about_memory_are_answered_or_refused_as_on_pytorch():
    for layout, (name, question) in itertools.product(LAYOUTS, QUESTIONS.items()):
        if layout == "sparse_coo" and name == "far row":
            continue  # told in other words
        ours, theirs = (answer(question, made(lib, layout)) for lib in (rl, torch))
        assert ours == theirs, (layout, name)


def test_values_in_place_stay_of_their_kind():
    for name in ("asin_", "sqrt_", "log1p_", "abs_", "sin_", "sign_", "neg_"):
        for dtype in ("int32", "bool", "float32", "complex64"):
            if dtype == "bool" and name in ("sign_", "neg_", "abs_"):
                continue  # refused by both in other words
            ours, theirs = (
                answer(getattr(made(lib, "sparse_coo", dtype), name))
                for lib in (rl, torch)
            )
            assert ours == theirs, (name, dtype)


def test_products_without_elements_have_no_coordinates():
    def counts(lib):
        x = lib.sparse_coo_tensor([[0, 1], [1, 0]], lib.ones(2, 2, 0), (3, 3, 2, 0))
        yield (x * 2.5)._nnz()
        yield (x * lib.ones(3, 3, 2, 0))._nnz()
        empty = lib.sparse_coo_tensor([[], []], lib.ones(0), (1, 1))
        yield empty.item(), type(empty.item()).__name__

    assert list(counts(rl)) == list(counts(torch))


def test_a_number_without_a_sparse_number_is_dense():
    x = rl.tensor(3.0).to_sparse()
    assert (10 - x).tolist() == (10 - torch.tensor(3.0).to_sparse()).tolist() == 7.0
    for lib in (rl, torch):
        with pytest.raises(RuntimeError):
            10 - lib.eye(2).to_sparse()


def test_a_product_in_place_with_what_is_dense_says_that_coordinates_may_repeat():
    def states(lib):
        for factor in (2, 2.5, lib.tensor(2.0), lib.ones(4, 4)):
            x = made(lib, "sparse_coo").coalesce()
            x.mul_(factor)
            yield x.is_coalesced()
            yield (made(lib, "sparse_coo").coalesce() * factor).is_coalesced()

    assert list(states(rl)) == list(states(torch))


def test_copies_and_pickles_are_the_same_tensor():
    for layout in LAYOUTS:
        x = made(rl, layout)
        for again in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
            assert again.layout is x.layout
            assert again.to_dense().tolist() == ROWS

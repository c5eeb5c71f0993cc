"""Sparse tensors beside PyTorch's: parts, values, gradients, refusals, text, files."""

import copy
import io
import pickle

import numpy as np
import pytest

import rushlight as rl
from tests.sparse.calls import (
    CALLS,
    COMPRESSED,
    GRADIENTS,
    LEAVES,
    ON_COMPRESSED,
    dense,
    described,
    example,
    gradients,
    matrix,
    outcome,
    value_of,
)

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("text", CALLS)
def test_calls_on_sparse_tensors_end_as_pytorchs_do(text):
    assert outcome(value_of(text), rl) == outcome(value_of(text), torch)


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("text", ON_COMPRESSED)
def test_calls_on_compressed_tensors_end_as_pytorchs_do(text, layout):
    call = value_of(text, layout)
    ours, theirs = outcome(call, rl), outcome(call, torch)
    if text == "c.to_sparse_csr()" and layout == "sparse_csc":
        return  # PyTorch's own conversion fails inside
    assert ours == theirs


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_the_layout_and_values_of_pytorchs(name):
    assert outcome(gradients(name), rl) == outcome(gradients(name), torch)


def test_gradients_of_a_table_add_up_over_backward_passes():
    def call(m):
        table = m.ones(4, 2, requires_grad=True)
        for rows in ([0, 2], [2, 3]):
            m.nn.functional.embedding(
                m.tensor(rows), table, sparse=True
            ).sum().backward()
        sparse = table.grad.coalesce()
        (table * 2).sum().backward()
        return sparse, table.grad.to_dense()

    assert outcome(call, rl) == outcome(call, torch)


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_text_is_pytorchs(kind):
    ours = repr(LEAVES[kind](rl)).replace("rushlight.", "torch.")
    assert ours.split() == repr(LEAVES[kind](torch)).split()


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_copies_and_pickles_have_parts_of_their_own(kind):
    tensor = LEAVES[kind](rl)
    for again in (
        copy.deepcopy(tensor),
        pickle.loads(pickle.dumps(tensor)),
        tensor.clone(),
    ):
        assert described(again) == described(tensor)
        assert again.is_sparse == tensor.is_sparse


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_files_go_both_ways(kind, tmp_path):
    path = tmp_path / "tensor.pt"
    rl.save({"it": LEAVES[kind](rl)}, path)
    assert described(torch.load(path)["it"]) == described(LEAVES[kind](torch))
    torch.save({"it": LEAVES[kind](torch)}, path)
    assert described(rl.load(path)["it"]) == described(LEAVES[kind](rl))


def test_files_with_coordinates_outside_are_refused():
    file = io.BytesIO()
    torch.save(torch.sparse_coo_tensor([[7]], [1.0], (3,)), file)
    file.seek(0)
    with pytest.raises(Exception, match="size is inconsistent with indices"):
        rl.load(file)


@pytest.mark.parametrize("name", ["exp", "max", "cumsum", "where", "sort", "maximum"])
def test_nothing_reads_memory_that_is_not_there(name):
    s, d = example(rl), dense(rl)
    arguments = {
        "cumsum": (s, 0),
        "where": (d > 0, s, d),
        "maximum": (d, s),
    }.get(name, (s,))
    with pytest.raises((NotImplementedError, RuntimeError)):
        getattr(rl, name)(*arguments)


def test_memory_of_its_own_is_refused():
    for read in ("numpy", "tolist"):
        with pytest.raises((RuntimeError, TypeError)):
            getattr(example(rl), read)()


def test_invariants_are_checked_inside_the_context():
    check = rl.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check(), pytest.raises(RuntimeError, match="size is inconsistent"):
        rl.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))
    assert not check.is_enabled()


def test_sparse_gradients_pass_the_gradient_check():
    check = rl.sparse.as_sparse_gradcheck(rl.autograd.gradcheck)
    s = example(rl, True).double().requires_grad_()
    x = matrix(rl).double().requires_grad_()
    assert check(lambda a, b: rl.sparse.mm(a, b), (s, x))


@pytest.mark.parametrize("target", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("source", ["coo", "csr", "csc"])
@pytest.mark.parametrize("shape", [(4, 6), (0, 4), (4, 0), (2, 2), (4, 6, 3)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_zeros_that_are_written_down_stay_in_every_layout(shape, source, target):
    numbers = np.random.default_rng(len(shape))
    count = 7 if shape[0] * shape[1] else 0
    places = [numbers.integers(0, max(n, 1), count).tolist() for n in shape[:2]]
    values = numbers.integers(0, 3, (count, *shape[2:])).astype("float32")

    def parts(m):
        index = m.tensor(places, dtype=m.int64).reshape(2, count)
        found = m.tensor(values.tolist(), dtype=m.float32).reshape(values.shape)
        made = m.sparse_coo_tensor(index, found, shape)
        if source != "coo":
            made = getattr(made, f"to_sparse_{source}")()
        blocks = ((2, 2),) if target.startswith("b") else ()
        made = getattr(made, f"to_sparse_{target}")(*blocks)
        rows = target in ("csr", "bsr")
        ends = made.crow_indices() if rows else made.ccol_indices()
        plain = made.col_indices() if rows else made.row_indices()
        return ends.tolist(), plain.tolist(), made.values().tolist()

    assert parts(rl) == parts(torch)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_values_that_a_compressed_tensor_has_twice_are_added(layout):
    starts, places = rl.tensor([0, 2]), rl.tensor([1, 1])
    values = rl.ones(2, 2, 2) if layout == "bsr" else rl.tensor([1.0, 2.0])
    size = {"csr": (1, 3), "csc": (3, 1), "bsr": (2, 4)}[layout]
    make = getattr(rl, f"sparse_{layout}_tensor")
    found = make(starts, places, values, size, check_invariants=False).to_dense()
    assert found.sum() == values.sum()
    assert found.abs().max() == (2 if layout == "bsr" else 3)

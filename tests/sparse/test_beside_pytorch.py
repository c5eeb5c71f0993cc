"""Sparse tensors beside PyTorch's: what is written down, and what is refused how."""

import itertools
import warnings

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch says so once

LAYOUTS = ("strided", "coo", "uncoalesced", "csr", "csc", "bsr", "bsc")
COMPRESSED = LAYOUTS[3:]


def made(module, layout, sizes=(3, 4)):
    """A tensor with zeros in it, in a layout; each element twice, uncoalesced."""
    count = 1
    for size in sizes:
        count *= size
    dense = module.tensor([float(k % 3) for k in range(count)]).reshape(sizes)
    if layout == "strided":
        return dense
    if layout in ("bsr", "bsc"):
        return getattr(dense, f"to_sparse_{layout}")((1, 1))
    if layout != "uncoalesced":
        return getattr(dense, f"to_sparse_{layout}")()
    once = dense.to_sparse()
    places = module.cat([once.indices(), once.indices()], 1)
    values = module.cat([once.values(), once.values()])
    return module.sparse_coo_tensor(places, values, sizes)


def written(result):
    """Layout, sizes, how many values are written down in what order, and the numbers."""
    if isinstance(result, (list, tuple)):
        return [written(item) for item in result]
    layout = str(result.layout).rpartition(".")[2]
    told = [layout, tuple(result.shape), result.requires_grad]
    if layout != "strided":
        told.append(result._nnz())
    if layout == "sparse_coo":
        told.append(result.is_coalesced())
    return [*told, result.detach().to_dense().tolist()]


def outcome(call, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return written(call(*args))
        except Exception as error:
            return type(error)


ALONE = {
    "select": lambda m, x: [x.select(0, 0), x.select(1, 1), x[1], x[:, 2]],
    "unbind": lambda m, x: x.unbind(1),
    "index_select": lambda m, x: x.index_select(1, m.tensor([0, 2, 2])),
    "unsqueeze": lambda m, x: x.unsqueeze(0),
    "sum": lambda m, x: [m.sparse.sum(x, 0), x.sum(0), x.sum(1, keepdim=True)],
    "positive": lambda m, x: m.positive(x.clone().requires_grad_()),
    "times numbers": lambda m, x: [x * 2, x / 2, x * m.tensor(2.0)],
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("layout", ["coo", "uncoalesced"])
def test_as_many_values_are_written_down_as_by_pytorch(name, layout):
    expected, found = (
        outcome(lambda m=m: ALONE[name](m, made(m, layout))) for m in (torch, rl)
    )
    assert found == expected


def test_a_number_that_is_zero_is_not_written_down():
    for number in (0.0, 2.0):
        expected, found = (
            outcome(lambda m=m, n=number: m.tensor(n).to_sparse()) for m in (torch, rl)
        )
        assert found == expected


@pytest.mark.parametrize("layout", COMPRESSED)
def test_coordinates_of_compressed_tensors_keep_zeros_and_say_if_in_order(layout):
    def converted(module):
        blocks = (1, 2) if layout in ("bsr", "bsc") else None
        dense = made(module, "strided")
        given = (blocks,) if blocks else ()
        return getattr(dense, f"to_sparse_{layout}")(*given).to_sparse()

    assert outcome(converted, rl) == outcome(converted, torch)


@pytest.mark.parametrize("one, two", [*itertools.product(LAYOUTS[1:3], repeat=2)])
def test_products_keep_the_values_of_the_tensor_that_is_not_in_order(one, two):
    expected, found = (outcome(m.mul, made(m, one), made(m, two)) for m in (torch, rl))
    assert found == expected


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("sizes", [(5, 4), (4,), (2, 5, 4)])
def test_a_weight_may_be_sparse(layout, sizes):
    def called(module, layout):
        weight = made(module, layout).detach().requires_grad_()
        input = made(module, "strided", sizes).requires_grad_()
        result = module.nn.functional.linear(input, weight, module.ones(3))
        return [result, *module.autograd.grad(result.sum(), (input, weight))]

    expected = outcome(called, torch, "strided")
    found = outcome(called, rl, layout)
    if layout != "uncoalesced":
        assert found == expected
    else:  # every element twice
        wide = made(rl, "strided", sizes) @ made(rl, "strided").t() * 2 + 1
        assert found[0][-1] == wide.tolist()


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_a_compressed_and_a_dense_matrix_have_a_dense_sum(layout):
    expected, found = (
        outcome(lambda m=m: m.add(made(m, layout), made(m, "strided"), alpha=2))
        for m in (torch, rl)
    )
    assert found == expected


def test_a_tensor_without_memory_is_doubled_and_refusals_name_it():
    for m in (torch, rl):
        x = made(m, "coo").to("meta")
        total = x + x
        assert total.layout is m.sparse_coo and tuple(total.shape) == (3, 4)
        assert total.is_meta
        with pytest.raises(NotImplementedError, match="'SparseMeta' backend"):
            x.prod()


@pytest.mark.parametrize("layout", LAYOUTS[:5])  # of blocks PyTorch has not all
def test_products_lie_in_memory_as_pytorchs_do(layout):
    strides = []
    for m in (torch, rl):
        sparse, dense = made(m, layout, (4, 6)), m.ones(5, 4)
        found = [dense @ sparse, m.mm(dense, sparse), sparse @ m.ones(6, 5)]
        if layout == "coo":
            found.append(m.nn.functional.linear(m.ones(5, 6), sparse))
        strides.append([each.stride() for each in found])
    assert strides[0] == strides[1]


PAIRS = {
    "mm": lambda m, x, y: m.mm(x, y),
    "mv": lambda m, x, y: m.mv(x, y),
    "bmm": lambda m, x, y: m.bmm(x, y),
    "sparse.mm": lambda m, x, y: m.sparse.mm(x, y),
    "sparse.mm by sums": lambda m, x, y: m.sparse.mm(x, y, "sum"),
    "sparse.mm by means": lambda m, x, y: m.sparse.mm(x, y, "mean"),
    "hspmm": lambda m, x, y: m.hspmm(x, y),
    "smm": lambda m, x, y: m.smm(x, y),
    "sspaddmm": lambda m, x, y: m.sspaddmm(made(m, "coo", (3, 3)), x, y),
    "add": lambda m, x, y: m.add(x, y),
    "mul": lambda m, x, y: m.mul(x, y),
    "stack": lambda m, x, y: m.stack([x, y]),
    "softmax": lambda m, x, y: m.sparse.softmax(x, 0),
    "sum": lambda m, x, y: m.sparse.sum(x, 0),
    "resize_as_sparse_": lambda m, x, y: x.clone().resize_as_sparse_(y),
}
SIZES = ((3, 4), (4, 3), (4,), (), (2, 3, 4))


@pytest.mark.parametrize("name", PAIRS)
def test_what_does_not_go_together_is_refused_as_such(name):
    """With an error of PyTorch's kind, and never one of the library's own insides."""
    for one, two in itertools.product(LAYOUTS, repeat=2):
        for sizes, others in itertools.product(SIZES, repeat=2):
            if one in COMPRESSED and len(sizes) < 2:
                continue
            if two in COMPRESSED and len(others) < 2:
                continue
            if 3 in (len(sizes), len(others)) and {one, two} & set(COMPRESSED):
                continue  # batches of unequal rows
            args = [(m, made(m, one, sizes), made(m, two, others)) for m in (torch, rl)]
            expected, found = (outcome(PAIRS[name], *each) for each in args)
            if not isinstance(found, type):
                continue
            where = (one, sizes, two, others, expected)
            assert found in (RuntimeError, NotImplementedError, IndexError), where
            if found is IndexError:
                assert expected is IndexError, where


def sums_and_differences(module, kinds, layouts, alpha):
    """What every way to add gives: numbers and their type, or the error's type."""
    found = []
    for name in ("add", "sub", "add_", "sub_"):
        operands = []
        for kind, layout, rows in zip(
            kinds, layouts, ([[1, 0], [0, 5]], [[3, 2], [0, 1]]), strict=True
        ):
            dense = module.tensor(rows).to(getattr(module, kind))
            operands.append(dense.to_sparse() if layout == "coo" else dense)
        try:
            result = getattr(operands[0], name)(operands[1], alpha=alpha)
            kind = str(result.dtype).rpartition(".")[2]
            found.append((name, kind, result.to_dense().tolist()))
        except (RuntimeError, TypeError) as told:
            found.append((name, type(told).__name__))
    return found


@pytest.mark.parametrize("layouts", [("coo", "coo"), ("strided", "coo")])
def test_scales_of_sparse_sums_are_taken_and_refused_as_pytorch_does(layouts):
    for kinds in itertools.product(("int32", "bool", "float32"), repeat=2):
        for alpha in (1, 2, 0.5, True, 1j):
            case = kinds, layouts, alpha
            wanted = sums_and_differences(torch, *case)
            for one, two in zip(sums_and_differences(rl, *case), wanted, strict=True):
                if two[1] != "NotImplementedError":  # sums of sparse truth values
                    assert one == two, case


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_gradients_of_sparse_tensors_are_pytorchs(layout):
    names = ["relu", "conj_physical", "abs", "neg"] + ["square"] * (layout == "coo")
    for name in names:
        found = []
        for module in (torch, rl):
            dense = module.tensor([[0.0, 2.0, 0.0], [0.5, 0.0, -3.0]])
            x = getattr(
                dense, "to_sparse" + "_csr" * (layout == "csr")
            )().requires_grad_()
            y = getattr(module, name)(x)
            y.backward(y.detach())
            found.append((str(x.grad.layout).split(".")[1], x.grad.to_dense().tolist()))
        assert found[0] == found[1], name


@pytest.mark.parametrize("coordinates", [1, 2, 3, 4])
def test_sums_along_any_dimensions_of_a_hybrid_tensor_are_pytorchs(coordinates):
    def sums(m):
        dense = m.arange(120.0).reshape(2, 3, 4, 5)
        tensor = dense.to_sparse(coordinates)
        for count in (1, 2, 3):
            for dims in itertools.combinations(range(4), count):
                found = m.sparse.sum(tensor, dims)
                whole = found.to_dense() if found.is_sparse else found
                yield dims, found.is_sparse, whole.tolist()

    assert list(sums(rl)) == list(sums(torch))


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_nothing_like_a_compressed_tensor_may_have_coordinates(layout):
    def made(m):
        tensor = getattr(m.eye(3), f"to_sparse_{layout}")()
        for asked in (None, m.sparse_coo, tensor.layout):
            found = m.zeros_like(tensor, layout=asked)
            yield (
                str(found.layout).split(".")[-1],
                found._nnz(),
                found.to_dense().tolist(),
            )

    assert list(made(rl)) == list(made(torch))

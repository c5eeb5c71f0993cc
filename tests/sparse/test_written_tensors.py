"""Sparse tensors that are written, resized or summed, and gradient checks, as PyTorch's."""

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl
from tests.sparse.test_beside_pytorch import COMPRESSED, made, outcome

VALUE_WISE = (
    "abs asinh atan ceil erf expm1 floor frac log1p neg relu sgn sign sin sinh sqrt tan "
    "tanh trunc"
).split()
WRITES = {
    "zero": lambda m, x: x.zero_(),
    "fill": lambda m, x: x.fill_(3),
    "add": lambda m, x: x.add_(x * 2),
    "times itself": lambda m, x: x.mul_(x),
    "resize": lambda m, x: x.resize_(4, 6),
    "resize smaller": lambda m, x: x.resize_(2, 2),
    "resize as": lambda m, x: x.resize_as_sparse_(x.clone()),
    "copy of other layout": lambda m, x: x.copy_(x.to_dense()),
}
ASKS = {
    "ones_like": lambda m, x: m.ones_like(x),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "full_like": lambda m, x: m.full_like(x, 2.0),
    "empty_like count": lambda m, x: m.zeros(m.empty_like(x)._nnz()),
    "like dense": lambda m, x: m.zeros_like(x, layout=m.strided),
    "like coordinates": lambda m, x: m.zeros_like(x, layout=m.sparse_coo),
    "rows": lambda m, x: x.sum(1, keepdim=True),
    "columns": lambda m, x: x.sum(0, keepdim=True),
    "all": lambda m, x: x.sum((0, 1), keepdim=True),
    "lost rows": lambda m, x: x.sum(1),
    "transposed": lambda m, x: x.transpose(0, 2),
    "transposed to itself": lambda m, x: x.transpose(1, -1),
    "vector": lambda m, x: m.addmv(m.ones(3), x.to_sparse_csr(), m.ones(4), alpha=2),
    "mask": lambda m, x: m.arange(12.0).reshape(3, 4).sparse_mask(x),
    "array": lambda m, x: x.numpy(),
    "conjugate": lambda m, x: (x * 1j).conj(),
    "angle": lambda m, x: x.angle(),
    "other type": lambda m, x: x.to_dense(m.float64),
    "fewer coordinates": lambda m, x: x.to_sparse(1),
}


@pytest.mark.parametrize("layout", COMPRESSED)
def test_functions_of_values_write_in_place_and_to_outputs(layout):
    def call(m, name):
        x = made(m, layout)
        written = getattr(x.clone(), f"{name}_")()
        if (
            layout == "csr" and name != "square"
        ):  # the only layout PyTorch's outputs have
            return written, getattr(m, name)(x, out=x.clone())
        return (written,)

    for name in VALUE_WISE:
        assert outcome(call, rl, name) == outcome(call, torch, name), name


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("name", WRITES)
def test_compressed_tensors_are_written_in_place(layout, name):
    if name in ("add", "times itself") and layout != "csr":
        return  # PyTorch writes sums and products to rows alone
    if name == "resize" and layout != "csr":
        return  # PyTorch counts rows there, and not columns or rows of blocks
    call = WRITES[name]
    found, expected = (outcome(call, m, made(m, layout)) for m in (rl, torch))
    assert found == expected


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("name", ASKS)
def test_compressed_tensors_say_what_pytorchs_say(layout, name):
    if name == "vector" and layout in ("bsr", "bsc"):
        return  # rows of blocks are not made rows of elements
    found, expected = (outcome(ASKS[name], m, made(m, layout)) for m in (rl, torch))
    if isinstance(expected, type):
        assert isinstance(found, type) and issubclass(found, expected)
        return
    assert found == expected


def test_coordinates_are_rearranged_in_place_and_outputs_get_their_size():
    for call in (
        lambda m, x: x.transpose_(0, 1),
        lambda m, x: x.t_(),
        lambda m, x: m.add(x, x, out=m.sparse_coo_tensor((1,))),
        lambda m, x: m.mul(x, x, out=m.sparse_coo_tensor((2, 2, 2))),
        lambda m, x: m.ones(3, 4).mul_(x),
        lambda m, x: x.index_select(0, m.tensor([0.0])),
        lambda m, x: x.narrow_copy(9, 0, 1),
        lambda m, x: m.sparse_coo_tensor(size=(2, 3)),
        lambda m, x: m.ones(2).to_sparse(layout=m.strided),
    ):
        found, expected = (outcome(call, m, made(m, "coo")) for m in (rl, torch))
        assert found == expected


def test_dense_factories_make_no_tensor_of_another_layout():
    for name, args in (
        ("ones", ((2, 2),)),
        ("full", ((2, 2), 1.0)),
        ("rand", ((2, 2),)),
        ("eye", (2,)),
        ("arange", (3,)),
        ("linspace", (0, 1, 3)),
        ("randint", (3, (2, 2))),
        ("randperm", (3,)),
        ("tril_indices", (2, 2)),
        ("hann_window", (3,)),
    ):
        for m in (rl, torch):
            with pytest.raises(RuntimeError):
                getattr(m, name)(*args, layout=m.sparse_coo)


@pytest.mark.parametrize("layout", ["coo", *COMPRESSED])
@pytest.mark.parametrize("masked", [True, False])
def test_gradients_of_sparse_inputs_are_checked(layout, masked):
    for m in (rl, torch):
        x = made(m, layout).to(m.float64).requires_grad_()
        check = m.autograd.gradcheck
        assert check(lambda x: x.to_dense(masked_grad=masked), (x,), masked=masked)
        whole = m.sparse.as_sparse_gradcheck(check)
        assert whole(lambda x: x * 2, (x,), masked=masked)


def test_a_wrong_gradient_of_a_sparse_input_is_found():
    for m in (rl, torch):
        x = made(m, "coo").to(m.float64).requires_grad_()
        with pytest.raises(RuntimeError):
            m.autograd.gradcheck(lambda x: x.to_dense(masked_grad=True), (x,))

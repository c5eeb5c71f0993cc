"""Sparse tensors on an imagined card: what comes of calls is what comes of them on the host."""

import copy
import io
import pickle

import pytest

import rushlight as rl
from tests.sparse.calls import (
    CALLS,
    COMPRESSED,
    GRADIENTS,
    LEAVES,
    ON_COMPRESSED,
    described,
    gradients,
    outcome,
    value_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MAKERS = """
    tensor arange ones zeros rand empty sparse_coo_tensor sparse_csr_tensor
    sparse_compressed_tensor sparse_bsr_tensor sparse_bsc_tensor
""".split()


class Cards:
    """The library with makers that make on a card; nothing else hears of a device."""

    def __getattr__(self, name):
        found = getattr(rl, name)
        if name not in MAKERS:
            return found
        return lambda *args, **options: found(*args, device="cuda", **options)


def parts_of(value):
    """The tensors that a value is made of."""
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in parts_of(item)]
    if not isinstance(value, rl.Tensor):
        return []
    if value.layout is rl.strided:
        return [value]
    if value.layout is rl.sparse_coo:
        return [value._indices(), value._values()]
    rows = value.layout in (rl.sparse_csr, rl.sparse_bsr)
    lines = value.crow_indices() if rows else value.ccol_indices()
    return [lines, value.col_indices() if rows else value.row_indices(), value.values()]


def on_a_card(call):
    """What comes of a call with tensors of a card, all of whose parts have to be there."""

    def watched(m):
        value = call(m)
        for item in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(item, rl.Tensor):
                assert item.is_cuda and all(part.is_cuda for part in parts_of(item))
        return value

    found = outcome(watched, Cards())
    if (
        isinstance(found, tuple) and found[0] == "NotImplementedError"
    ):  # it names the layout and the device
        return found[0], (found[1][0], found[1][1].replace("CUDA", "CPU"))
    return found


@pytest.mark.parametrize("text", CALLS)
def test_calls_on_sparse_tensors_of_a_card_end_as_on_the_host(machine, text):
    wanted = outcome(value_of(text), rl)
    found = on_a_card(value_of(text))
    if isinstance(found, tuple):  # messages tell types by their old names
        found = found[0], str(found[1]).replace("torch.cuda.", "torch.")
        wanted = wanted[0], str(wanted[1])
    assert found == wanted


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("text", ON_COMPRESSED)
def test_calls_on_compressed_tensors_of_a_card_end_as_on_the_host(
    machine, text, layout
):
    call = value_of(text, layout)
    assert on_a_card(call) == outcome(call, rl)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_on_a_card_have_the_host_s_layout_and_values(machine, name):
    assert on_a_card(gradients(name)) == outcome(gradients(name), rl)


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_sparse_tensors_move_with_all_their_parts(machine, kind):
    here = LEAVES[kind](rl)
    wanted = described(here)
    for there in (here.cuda(), here.to("cuda:0"), here.to("cuda", rl.float32)):
        assert there.device == rl.device("cuda:0") and there.is_sparse == here.is_sparse
        assert all(part.is_cuda for part in parts_of(there))
        back = there.cpu()
        assert not any(part.is_cuda for part in (back, *parts_of(back)))
        assert described(there) == described(back) == wanted
    assert there.cuda() is there and here.cpu() is here
    second = there.to("cuda:1", rl.float64)
    assert {part.device.index for part in parts_of(second)} == {1}
    assert (
        second.dtype is rl.float64
        and second.to("cuda:0", rl.float32).device == there.device
    )
    assert described(here.double()) == described(second)
    target = rl.zeros_like(there)
    target.copy_(here)
    assert target.is_cuda and all(part.is_cuda for part in parts_of(target))
    assert described(target) == wanted
    for fresh in (
        rl.empty_like(here, device="cuda"),
        rl.zeros_like(here, device="cuda"),
    ):
        assert fresh.is_cuda and all(part.is_cuda for part in parts_of(fresh))


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_gradients_follow_a_sparse_tensor_to_a_card(machine, kind):
    here = LEAVES[kind](rl).requires_grad_()
    again = LEAVES[kind](rl).requires_grad_()
    (here.cuda().to_dense() ** 2).sum().backward()
    (again.to_dense() ** 2).sum().backward()
    assert not here.grad.is_cuda and described(here.grad) == described(again.grad)


@pytest.mark.parametrize("kind", ["s", "c", "r"])
def test_copies_pickles_files_and_text_of_a_card_keep_the_device(
    machine, kind, monkeypatch
):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    tensor = LEAVES[kind](Cards())
    file = io.BytesIO()
    rl.save(tensor, file)
    file.seek(0)
    again = copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), rl.load(file)
    for found in again:
        assert found.is_cuda and described(found) == described(tensor)
        assert all(part.is_cuda for part in parts_of(found))
    file.seek(0)
    assert not rl.load(file, map_location="cpu").is_cuda
    assert "device='cuda:0'" in repr(tensor)


def test_parts_of_two_devices_are_refused(machine):
    places, values = rl.tensor([[0, 1]]), rl.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        rl.sparse_coo_tensor(places, values.cuda(), (3,))
    made = rl.sparse_coo_tensor(places, values, (3,), device="cuda")
    assert all(part.is_cuda for part in parts_of(made))
    listed = rl.sparse_coo_tensor([[0, 1]], values.cuda(), (3,))
    assert all(part.is_cuda for part in parts_of(listed))
    matrix = rl.eye(3).to_sparse().cuda()
    with pytest.raises(RuntimeError, match="same device"):
        matrix @ rl.ones(3, 2)
    with pytest.raises(RuntimeError, match="same device"):
        matrix + rl.eye(3).to_sparse()


def test_a_table_with_sparse_gradients_learns_on_a_card_as_on_the_host(machine):
    def trained(device):
        rl.manual_seed(0)
        table = rl.nn.Embedding(6, 3, sparse=True)
        table.weight.data = rl.arange(18.0).reshape(6, 3) / 9
        table.to(device)
        rule = rl.optim.SparseAdam(list(table.parameters()), lr=0.1)
        for rows in ([0, 2, 2], [5, 2, 1]):
            rule.zero_grad()
            table(rl.tensor(rows, device=device)).square().sum().backward()
            assert table.weight.grad.is_sparse
            rule.step()
        return table.weight.detach().cpu()

    assert rl.allclose(trained("cuda"), trained("cpu"))


def test_larger_sparse_products_are_the_host_s(machine):
    rl.manual_seed(0)
    places = rl.randint(0, 40, (2, 300))
    one = rl.sparse_coo_tensor(places, rl.randn(300), (40, 40))
    two = rl.randn(40, 17)
    there = one.cuda()
    assert rl.allclose((there @ two.cuda()).cpu(), one @ two, atol=1e-5)
    ordered, wanted = there.coalesce(), one.coalesce()
    assert rl.equal(ordered.indices().cpu(), wanted.indices())
    assert rl.allclose(ordered.values().cpu(), wanted.values(), atol=1e-6)
    square, expected = there @ there, one @ one
    assert rl.equal(square.indices().cpu(), expected.indices())
    assert rl.allclose(square.to_dense().cpu(), expected.to_dense(), atol=1e-5)
    rows = there.to_sparse_csr()
    assert rl.equal(rows.crow_indices().cpu(), one.to_sparse_csr().crow_indices())
    assert rl.allclose((rows @ two.cuda()).cpu(), one @ two, atol=1e-5)

"""What nested tensors keep of autograd, copies and devices, without another library."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight.nested import nested_tensor


def jagged(requires_grad=True, sizes=(2, 5, 3)):
    rl.manual_seed(0)
    parts = [rl.randn(n, 4) for n in sizes]
    return nested_tensor(parts, layout=rl.jagged, requires_grad=requires_grad)


def test_gradients_of_gradients_flow():
    nt = jagged()
    (first,) = rl.autograd.grad((nt**3).sum(), nt, create_graph=True)
    assert first.is_nested
    (second,) = rl.autograd.grad(first.sum(), nt)
    assert rl.allclose(second.values(), 6 * nt.values())


def test_gradients_add_up_and_hooks_see_them():
    nt, seen = jagged(), []
    nt.register_hook(lambda grad: seen.append(grad.is_nested))
    y = nt * 2
    y.retain_grad()
    for _ in range(2):
        (y * y).sum().backward(retain_graph=True)
    assert seen == [True, True]
    assert rl.allclose(nt.grad.values(), 16 * nt.values())
    assert y.grad.is_nested


def test_in_place_writes_are_recorded():
    nt = jagged()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        nt.add_(1)
    y = nt * 1
    y.mul_(nt)
    y.sum().backward()
    assert rl.allclose(nt.grad.values(), 2 * nt.values())
    with rl.no_grad():
        before = nt.values().clone()
        nt.zero_()
    assert before.abs().sum() > 0
    assert nt.values().abs().sum() == 0


def test_modules_train_on_ragged_batches():
    rl.manual_seed(0)
    layer = rl.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    parts = [rl.randn(n, 8) for n in (3, 5, 2)]
    for layout in (rl.jagged, rl.strided):
        nt = nested_tensor(parts, layout=layout, requires_grad=True)
        found = layer(nt)
        found.values().square().sum().backward()
        for out, part, grad in zip(found.unbind(), parts, nt.grad.unbind()):
            alone = part.clone().requires_grad_()
            wanted = layer(alone[None])[0]
            wanted.square().sum().backward()
            assert rl.allclose(out, wanted, atol=1e-6)
            assert rl.allclose(grad, alone.grad, atol=1e-5)


def test_copies_are_tensors_of_their_own():
    nt = jagged()
    for other in (copy.deepcopy(nt), pickle.loads(pickle.dumps(nt))):
        assert rl.equal(other, nt)
        assert other.requires_grad
        assert other.shape[1] != nt.shape[1]
    parts = [rl.ones(1, 2), rl.ones(2, 3)]
    strided = nested_tensor(parts)
    for other in (copy.deepcopy(strided), pickle.loads(pickle.dumps(strided))):
        assert rl.equal(other, strided)
        assert repr(other) == repr(strided)


def test_tensors_with_holes_leave_the_holes_out():
    values = rl.arange(12.0).view(6, 2)
    nt = rl.nested.nested_tensor_from_jagged(
        values, rl.tensor([0, 2, 4, 6]), lengths=rl.tensor([1, 2, 1])
    )
    assert not nt.is_contiguous()
    assert nt.numel() == 8
    assert [p.tolist() for p in nt.unbind()] == [
        [[0.0, 1.0]], [[4.0, 5.0], [6.0, 7.0]], [[8.0, 9.0]]]  # fmt: skip
    assert nt.sum() == 40
    assert nt.sum(1).tolist() == [[0.0, 1.0], [10.0, 12.0], [8.0, 9.0]]
    assert nt.contiguous().values().shape == (4, 2)
    assert nt.to_padded_tensor(-1.0)[0].tolist() == [[0.0, 1.0], [-1.0, -1.0]]


def test_losses_and_scans_compute_on_parts():
    nt, target = jagged(), jagged(False) * 0
    loss = rl.nn.functional.mse_loss(nt, rl.zeros_like(nt))
    assert rl.allclose(loss, nt.values().square().mean())
    assert target.is_nested
    for part, scan in zip(nt.unbind(), nt.cumsum(1).unbind()):
        assert rl.allclose(part.cumsum(0), scan)
    labels = rl.nested.nested_tensor_from_jagged(
        rl.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1]), nt.offsets()
    )
    loss = rl.nn.functional.cross_entropy(nt.values(), labels.values())
    assert loss.requires_grad


def test_what_has_no_rule_is_refused_with_a_remedy():
    with pytest.raises(NotImplementedError, match=r"(?s)aten.topk.*remedy"):
        jagged().topk(2)
    with pytest.raises(RuntimeError):
        jagged().item()
    with pytest.raises(ValueError, match="Masks are not yet"):
        q = jagged().unflatten(-1, (2, 2)).transpose(1, 2)
        rl.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=rl.ones(2, 2))


def test_attention_of_ragged_sequences_equals_each_alone():
    q = jagged().unflatten(-1, (2, 2)).transpose(1, 2)
    k = jagged().detach().unflatten(-1, (2, 2)).transpose(1, 2)
    attend = rl.nn.functional.scaled_dot_product_attention
    for causal in (False, True):
        found = attend(q, k * 1, k * 1, is_causal=causal)
        for out, one, other in zip(found.unbind(), q.unbind(), k.unbind()):
            wanted = attend(one, other, other, is_causal=causal)
            assert rl.allclose(out, wanted, atol=1e-6)


def test_dropout_draws_for_the_values():
    nt = jagged()
    rl.manual_seed(3)
    dropped = rl.nn.functional.dropout(nt, 0.5)
    rl.manual_seed(3)
    wanted = rl.nn.functional.dropout(nt.values(), 0.5)
    assert rl.equal(dropped.values(), wanted)


def test_checkpoints_hold_ragged_tensors(tmp_path):
    nt = jagged()
    rl.save({"nt": nt, "values": nt.values().detach()}, tmp_path / "nt.pt")
    found = rl.load(tmp_path / "nt.pt")["nt"]
    assert rl.equal(found, nt)
    assert found.requires_grad
    torch = pytest.importorskip("torch")
    theirs = torch.load(tmp_path / "nt.pt")["nt"]
    assert theirs.is_nested
    assert theirs.values().tolist() == nt.values().tolist()
    torch.save(torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(3, 2)],
               layout=torch.jagged), tmp_path / "theirs.pt")  # fmt: skip
    ours = rl.load(tmp_path / "theirs.pt")
    assert [part.tolist() for part in ours.unbind()] == [[[1.0] * 2], [[1.0] * 2] * 3]


# PyTorch says once a process that its nested tensors are young
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_checkpoints_hold_strided_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    parts = [[[1.0, 2.0]], [[3.0], [4.0]]]
    for ours, theirs in ((rl, torch), (torch, rl)):
        nt = ours.nested.nested_tensor([ours.tensor(part) for part in parts])
        ours.save(nt, tmp_path / "nt.pt")
        for reader in (ours, theirs):
            found = reader.load(tmp_path / "nt.pt")
            assert [part.tolist() for part in found.unbind()] == parts


def test_strided_parts_are_joined_and_sizes_refused():
    nt = nested_tensor([rl.ones(1, 2), rl.zeros(3, 2)])
    assert [p.shape for p in rl.cat([nt, nt], -1).unbind()] == [(1, 4), (3, 4)]
    with pytest.raises(NotImplementedError, match="sizes of a strided"):
        nt.expand(2, -1, 2)
    with pytest.raises(RuntimeError, match="with 8 elements cannot be converted"):
        nt.item()


def test_compiled_functions_take_ragged_tensors():
    nt = jagged()
    found = rl.compile(lambda x: (x * 2).sin() + 1)(nt)
    found.sum().backward()
    assert rl.allclose(found.values(), (nt.values() * 2).sin() + 1)
    assert rl.allclose(nt.grad.values(), 2 * (nt.values() * 2).cos())
    assert rl.compile(rl.nn.Linear(4, 3))(nt).is_nested


def test_data_is_the_tensor_without_history():
    nt = jagged()
    assert nt.data.is_nested
    assert nt.data.shape == nt.shape
    assert not nt.data.requires_grad
    nt.data = nt.detach() * 2
    assert nt.requires_grad


@pytest.mark.parametrize(
    "layout, names",
    [
        (rl.strided, ["grad", "vjp", "jacrev", "jacfwd"]),
        (rl.jagged, ["grad", "jacrev", "jacfwd"]),
    ],
)
def test_transforms_refuse_nested_tensors(layout, names):
    nested = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=layout)
    calls = {
        "grad": lambda: rl.func.grad(lambda x: x.sum())(nested),
        "vjp": lambda: rl.func.vjp(lambda x: x * 2, nested),
        "jacrev": lambda: rl.func.jacrev(lambda x: x * 2)(nested),
        "jacfwd": lambda: rl.func.jacfwd(lambda x: x * 2)(nested),
    }
    for name in names:
        with pytest.raises(RuntimeError, match="nested tensors have no strides"):
            calls[name]()


WHOLE = (
    *("sum", "nansum", "prod", "any", "all", "amax", "amin", "max", "min", "mean"),
    *("count_nonzero", "argmax", "argmin", "median", "nanmedian", "std", "var"),
)


@pytest.mark.parametrize("layout", [rl.jagged, rl.strided])
@pytest.mark.parametrize("name", WHOLE)
def test_a_reduction_of_everything_is_that_of_all_elements(name, layout):
    parts = [rl.tensor([3.0, -1.0, 0.5]), rl.tensor([2.0, 0.0])]
    nt = nested_tensor(parts, layout=layout)
    found = getattr(rl, name)(nt)
    assert found.item() == getattr(rl, name)(rl.cat(parts)).item()
    assert found.shape == () and not found.is_nested

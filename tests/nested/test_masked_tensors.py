"""Masked tensors compute, print and differentiate as PyTorch's do."""

import copy
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def made(t, requires_grad=False):
    data = t.arange(24.0).view(2, 3, 4)
    mask = (t.arange(24).view(2, 3, 4) % 5) % 2 == 0
    return t.masked.masked_tensor(data, mask, requires_grad)


PROGRAMS = {
    "itself": lambda t, m: m,
    "numbers": lambda t, m: (m * 2 + 1) / 3 - m,
    "functions": lambda t, m: (m / 24).sin().exp().sqrt(),
    "power": lambda t, m: m**2,
    "negative": lambda t, m: -m,
    "dense": lambda t, m: m + t.ones(4),
    "compared": lambda t, m: m < 5,
    "clamp": lambda t, m: m.clamp(2, 7),
    "sum": lambda t, m: m.sum(),
    "sum of rows": lambda t, m: m.sum(-1),
    "kept": lambda t, m: m.sum(1, keepdim=True),
    "mean": lambda t, m: m.mean(),
    "mean of rows": lambda t, m: m.mean(2),
    "mean of two": lambda t, m: m.mean((0, 1)),
    "prod": lambda t, m: m.prod(-1),
    "amax": lambda t, m: m.amax(1),
    "amin": lambda t, m: m.amin(2, keepdim=True),
    "argmax": lambda t, m: m.argmax(-1),
    "var": lambda t, m: m.var(-1),
    "std": lambda t, m: m.std(1),
    "all": lambda t, m: (m < 7).all(),
    "all of rows": lambda t, m: (m < 7).all(1),
    "softmax": lambda t, m: t.softmax(m, -1),
    "select": lambda t, m: m[0],
    "slice": lambda t, m: m[:, 1:, ::2],
    "index": lambda t, m: m[t.tensor([1, 0])],
    "transpose": lambda t, m: m.transpose(1, 2),
    "view": lambda t, m: m.view(6, 4),
    "flatten": lambda t, m: m.flatten(),
    "unsqueeze": lambda t, m: m.unsqueeze(0),
    "cat": lambda t, m: t.cat([m, m]),
    "stack": lambda t, m: t.stack([m, m], -1),
    "chunk": lambda t, m: m.chunk(2, -1)[1],
    "contiguous": lambda t, m: m.transpose(0, 1).contiguous(),
    "double": lambda t, m: m.double(),
    "ones": lambda t, m: t.ones_like(m),
    "where": lambda t, m: t.where(m.get_mask(), m, m * 2),
    "written": lambda t, m: m.clone().mul_(3),
    "dense again": lambda t, m: m.to_tensor(-1.0),
    "data": lambda t, m: m.get_data() * 2,
    "mask": lambda t, m: m.get_mask(),
    "one": lambda t, m: t.masked.masked_tensor(t.tensor(2.5), t.tensor(True)),
    "none": lambda t, m: t.masked.masked_tensor(t.tensor(2), t.tensor(False)),
    "truths": lambda t, m: t.masked.masked_tensor(
        t.tensor([True, False]), t.tensor([True, False])
    ),
}
WITHOUT_GRADIENT = {
    "compared", "argmax", "all", "all of rows", "mask", "one", "none", "truths", "ones",
    "index", "dense", "var", "std",
    # PyTorch has none, or another: what is not selected is masked out of it there
    "clamp", "unsqueeze", "chunk", "where", "select", "slice",
    "softmax",  # of a sum of ones: nothing but rounding
}  # fmt: skip


def text(value):
    return repr(value).replace("torch.", "rushlight.").split(", grad_fn")[0]


def test_programs_print_the_same():
    for name, program in PROGRAMS.items():
        assert text(program(rl, made(rl))) == text(program(torch, made(torch))), name


def test_gradients_are_masked_and_the_same():
    for name, program in PROGRAMS.items():
        if name in WITHOUT_GRADIENT:
            continue
        grads = []
        for t in (rl, torch):
            m = made(t, requires_grad=True)
            program(t, m).sum().backward()
            grads.append(text(m.grad))
        assert grads[0] == grads[1], name


def test_gradients_reach_the_data_of_tensors():
    grads = []
    for t in (rl, torch):
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        m = t.masked.as_masked_tensor(x, t.tensor([True, False, True]))
        assert t.masked.is_masked_tensor(m)
        assert m.requires_grad
        (m * m).sum().backward()
        grads.append(text(x.grad))
    assert grads[0] == grads[1]


def test_what_is_chosen_gets_the_gradient():
    shown = []
    for t in (rl, torch):
        x = t.tensor([-10.0, -5.0, 0.0, 50.0, 100.0])
        mask = x < 0
        mx = t.masked.masked_tensor(x, mask, requires_grad=True)
        my = t.masked.masked_tensor(t.ones_like(x), ~mask, requires_grad=True)
        y = t.where(mask, t.exp(mx), my)
        y.sum().backward()
        shown.append((text(y), text(mx.grad), text(my.grad)))
    assert shown[0] == shown[1]


def wrong_calls(t):
    data, mask, build = t.ones(2, 3), t.ones(2, 3) > 0, t.masked.masked_tensor
    return [
        lambda: build([1.0], mask),
        lambda: build(data, [True]),
        lambda: build(data, data),
        lambda: build(data, mask[0]),
        lambda: build(data[:, :2], mask),
        lambda: build(data.bfloat16(), mask),
        lambda: build(data, mask) + build(data, ~mask),
        lambda: build(data, ~mask).sum().item(),
        lambda: build(data, mask).sort(),
        lambda: build(data, mask).median(),
        lambda: bool(build(data, mask)),
    ]


def test_wrong_calls_are_refused_with_the_same_type():
    for i, calls in enumerate(zip(wrong_calls(rl), wrong_calls(torch))):
        told = []
        for call in calls:
            with pytest.raises(Exception) as caught:
                call()
            told.append(caught.type.__name__)
        assert told[0] == told[1], i


def test_copies_are_tensors_of_their_own():
    m = made(rl, requires_grad=True)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert text(other) == text(m)
        assert other.requires_grad
        assert other.get_mask() is not m.get_mask()


def test_masked_tensors_keep_data_of_their_own():
    data, mask = rl.ones(3), rl.tensor([True, False, True])
    m = rl.masked.MaskedTensor(data, mask)
    data.zero_()
    mask.fill_(False)
    assert m.sum().item() == 2
    m.add_(1)
    assert m.sum().item() == 4


def test_what_is_not_selected_has_a_gradient_of_zero():
    m = made(rl, requires_grad=True)
    (m[0].sum() + m[1, 1:].sum() + m.chunk(2, -1)[0].sum()).backward()
    data = m.get_data().detach().requires_grad_()
    kept = data.masked_fill(~m.get_mask(), 0)
    (kept[0].sum() + kept[1, 1:].sum() + kept.chunk(2, -1)[0].sum()).backward()
    assert rl.equal(m.grad.to_tensor(0.0), data.grad)
    m = made(rl, requires_grad=True)
    (rl.softmax(m / 24, -1) * m).sum().backward()
    data = m.get_data().detach().requires_grad_()
    weights = rl.softmax((data / 24).masked_fill(~m.get_mask(), -float("inf")), -1)
    (weights * data).sum().backward()
    assert rl.allclose(m.grad.to_tensor(0.0), data.grad, atol=1e-5)


SPARSE = {
    "itself": lambda t, m: m,
    "data": lambda t, m: m.get_data(),
    "mask": lambda t, m: m.get_mask(),
    "dense": lambda t, m: m.to_dense(),
    "function": lambda t, m: m.sin(),
    "number": lambda t, m: m.add(2),
    "sum of two": lambda t, m: m * 2 + m,
    "quotient": lambda t, m: t.div(m, m + 1),
    "compared": lambda t, m: m == m,
    "sum": lambda t, m: m.sum(),
    "amin": lambda t, m: m.amin(),
    "prod": lambda t, m: m.prod(),
    "clone": lambda t, m: m.clone().detach(),
    "kinds": lambda t, m: (m.is_sparse, m.is_sparse_coo(), m.is_sparse_csr(), m.layout),
    "reduction": lambda t, m: t.masked.sum(m, 1, keepdim=True).to_dense(),
}


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_masked_tensors_print_and_compute_as_pytorchs(layout):
    for name, program in SPARSE.items():
        found = []
        for t in (rl, torch):
            data = t.tensor([[3.0, 0.0, 7.0], [0.0, 4.0, 5.0]])
            mask = t.tensor([[True, False, False], [True, True, True]])
            m = t.masked.masked_tensor(data, mask)
            m = getattr(m, f"to_sparse_{layout}")()
            found.append(str(program(t, m)).replace("rushlight", "torch"))
        assert found[0] == found[1], name


def test_sparse_data_and_masks_are_made_one_and_strangers_are_refused():
    def of(t, data, mask):
        where = [[0, 1, 1], [2, 0, 2]]
        data = t.sparse_coo_tensor(where, data, (2, 3))
        return t.masked.masked_tensor(data, t.sparse_coo_tensor(where, mask, (2, 3)))

    wrong = {
        "another layout": lambda t: t.masked.masked_tensor(
            t.ones(2).to_sparse(), t.ones(2).bool()
        ),
        "other indices": lambda t: t.masked.masked_tensor(
            t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)),
            t.sparse_coo_tensor([[0, 2]], [True, True], (3,)),
        ),
        "blocks": lambda t: t.masked.masked_tensor(
            t.ones(2, 2).to_sparse_bsr((1, 1)),
            t.ones(2, 2).bool().to_sparse_bsr((1, 1)),
        ),
        "two layouts": lambda t: (
            made(t)[0].to_sparse_coo() + made(t)[0].to_sparse_csr()
        ),
        "other masks": lambda t: (
            of(t, [1, 2, 3], [True] * 3) + of(t, [1, 2, 3], [True, False, True])
        ),
    }
    for name, program in wrong.items():
        with pytest.raises(Exception) as theirs:
            program(torch)
        with pytest.raises(theirs.type) as ours:
            program(rl)
        word = str(theirs.value).split("\n")[0]
        assert str(ours.value).split("\n")[0].replace("rushlight", "torch") == word, (
            name
        )
    data, mask = rl.eye(2).to_sparse(), rl.ones(2, 2).bool().triu().to_sparse()
    made_one = rl.masked.masked_tensor(data, mask)
    assert made_one.get_data().values().tolist() == [1, 0, 1]
    for other in (copy.deepcopy(made_one), pickle.loads(pickle.dumps(made_one))):
        assert text(other) == text(made_one) and other.is_sparse_coo()
    with pytest.raises(TypeError, match="mask the other tensor"):
        rl.mul(made_one, rl.ones(2, 2))
    assert made_one.argmax().item() == 0 and made_one.sum(1).get_data().tolist() == [
        1,
        1,
    ]

"""Fake tensors have the shapes, types and devices that real ones would have."""

import importlib

import pytest

import rushlight as rl
from rushlight._subclasses import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from rushlight._subclasses.fake_tensor import unset_fake_temporarily

F = rl.nn.functional


def block(t):
    """A small transformer block with everything that such a thing has."""
    nn = t.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.mix = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x):
            y = self.norm(x)
            x = x + self.attend(y, y, y, need_weights=False)[0]
            return x + self.mix(x)

    return Block()


def image_net(t):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(64, 5),
    )


@pytest.mark.parametrize(
    "make, size",
    [(block, (2, 4, 8)), (image_net, (2, 3, 8, 8))],
    ids=["block", "image"],
)
def test_a_training_step_needs_no_elements(make, size):
    real = make(rl)
    out = real(rl.randn(*size))
    with FakeTensorMode():
        net = make(rl)
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        y = net(rl.randn(*size))
        assert isinstance(y, FakeTensor)
        assert y.shape == out.shape and y.dtype is out.dtype
        y.square().mean().backward()
        assert all(p.grad.shape == p.shape for p in net.parameters())
        assert all(isinstance(p.grad, FakeTensor) for p in net.parameters())
        optimizer.step()


PROGRAMS = [
    lambda t: t.ones(2, 3),
    lambda t: t.ones(2, 3) + t.ones(3),
    lambda t: t.ones(2, device="cuda"),
    lambda t: t.ones(2, 3, device="cuda", dtype=t.float64) + t.tensor(1.0),
    lambda t: t.ones(2, 3, requires_grad=True),
    lambda t: t.ones(2, 3, requires_grad=True) * 2,
    lambda t: t.arange(3),
    lambda t: t.randint(0, 2, (3,)),
    lambda t: t.ones(2, 3).view(3, 2).t(),
    lambda t: t.ones(2, 3)[0],
    lambda t: t.cat([t.ones(2, 3), t.zeros(1, 3)]),
    lambda t: t.ones(4, 3) @ t.ones(3, 5),
    lambda t: t.ones(2, 3).max(1).indices,
    lambda t: t.ones(2, 3, dtype=t.float16).sum(),
    lambda t: t.nn.Linear(2, 3).weight,
    lambda t: t.nn.Parameter(t.ones(2)),
    lambda t: t.tensor(3.0),
    lambda t: t.tensor(3.0).item(),
    lambda t: (t.tensor(3.0) + 1).item(),
    lambda t: t.ones(2, 3).add_(1),
    lambda t: t.zeros(3, 4).index_select(0, t.tensor([0, 1])),
    lambda t: t.nn.functional.conv2d(t.ones(1, 3, 8, 8), t.ones(4, 3, 3, 3)),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_fake_tensors_are_and_print_as_in_pytorch(program):
    torch = pytest.importorskip("torch")
    from torch._subclasses import FakeTensorMode as Theirs

    with FakeTensorMode():
        found = program(rl)
    with Theirs():
        expected = program(torch)
    assert repr(found) == repr(expected).replace("torch.", "rushlight.")
    if isinstance(found, FakeTensor):
        assert found.stride() == expected.stride()


REFUSED = [
    lambda t: t.ones(1).item(),
    lambda t: bool(t.ones(1)),
    lambda t: int(t.ones(2)[0]),
    lambda t: t.ones(2).tolist(),
    lambda t: t.ones(2).nonzero(),
    lambda t: t.ones(2)[t.ones(2) > 0],
    lambda t: t.masked_select(t.ones(2), t.ones(2) > 0),
    lambda t: t.ones(2).unique(),
    lambda t: t.equal(t.ones(2), t.ones(2)),
    lambda t: t.ones(2, 3) + t.ones(2, 3, device="cuda"),
    lambda t: t.ones(2).numpy(),
]


@pytest.mark.parametrize("program", REFUSED, ids=range(len(REFUSED)))
def test_what_needs_elements_is_refused_in_pytorch_s_words(program):
    torch = pytest.importorskip("torch")
    from torch._subclasses import FakeTensorMode as Theirs

    with pytest.raises(RuntimeError) as expected, Theirs():
        program(torch)
    with pytest.raises(RuntimeError) as found, FakeTensorMode():
        program(rl)
    assert type(found.value).__name__ == type(expected.value).__name__
    words = str(expected.value).replace("cuda:0", "cuda")
    assert str(found.value).replace("cuda:0", "cuda") == words


def test_errors_of_sizes_come_as_they_are():
    with FakeTensorMode(), pytest.raises(RuntimeError, match="cannot be multiplied"):
        rl.ones(2, 3) @ rl.ones(2, 3)


def test_real_tensors_are_made_fake_once():
    mode = FakeTensorMode()
    x = rl.randn(3, 4)
    fake = mode.from_tensor(x)
    assert mode.from_tensor(x) is fake and fake.shape == (3, 4)
    view = mode.from_tensor(x[1])
    assert view.untyped_storage() is fake.untyped_storage()
    weight = mode.from_tensor(rl.nn.Parameter(x))
    assert isinstance(weight, rl.nn.Parameter) and weight.requires_grad
    assert (fake + 1).shape == (3, 4)  # outside of the mode's block, too


def test_real_tensors_do_not_come_in_unasked():
    x = rl.ones(2)
    with FakeTensorMode(), pytest.raises(AssertionError, match="Please convert all"):
        rl.ones(2) + x
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(rl.ones(2) + x, FakeTensor)


def test_views_share_and_writes_change_what_is_written():
    with FakeTensorMode():
        x = rl.ones(2, 3)
        assert x.view(3, 2)._base is x
        assert x.add_(1) is x
        y = rl.empty(0)
        rl.exp(x, out=y)
        assert y.shape == (2, 3)


def test_a_block_can_be_left_for_real_tensors():
    with FakeTensorMode() as mode:
        with unset_fake_temporarily() as left:
            assert left is mode and rl.ones(2).tolist() == [1.0, 1.0]
        assert isinstance(rl.ones(2), FakeTensor)


def test_exceptions_carry_the_operator():
    with FakeTensorMode():
        with pytest.raises(DataDependentOutputException) as caught:
            rl.ones(1).item()
        assert str(caught.value.func) == "aten._local_scalar_dense.default"
        with pytest.raises(DynamicOutputShapeException):
            rl.ones(1).nonzero()


def test_fake_tensors_put_off_conjugates_and_negatives_as_pytorch_s_do():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")

    def outcomes(m):
        fake = importlib.import_module(f"{m.__name__}._subclasses.fake_tensor")
        real = m.ones(2, 3, dtype=m.complex64).conj()
        with fake.FakeTensorMode() as mode:
            z = m.ones(2, 3, dtype=m.complex64)
            w = mode.from_tensor(real)
            made = [z.conj(), z.mH, z.conj().conj(), z.conj()[0], z.conj().imag, w]
            made += [z.conj() + 1, w.resolve_conj(), w.clone(), m._neg_view(z), w.T]
            made += [w.imag.resolve_neg(), z.conj_physical(), w.copy_(z), w.mul_(2)]
            made += [w.conj().view(3, 2), m.matmul(w, z.T), m.empty_like(w)]
            for one in made:
                assert type(one) is fake.FakeTensor
                yield one.is_conj(), one.is_neg(), tuple(one.shape), one.stride()
            for refused in (m.view_as_real, lambda t: t.view(m.float32)):
                with pytest.raises(RuntimeError):
                    refused(w)

    assert list(outcomes(rl)) == list(outcomes(torch))

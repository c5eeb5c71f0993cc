"""Laws of lazy conjugates and negatives: they share memory and are seen by all."""

import copy
import pickle

import pytest

import rushlight as rl

NUMBERS = [1 + 2j, 3 - 4j, 0, -1 - 1j]


def test_a_conjugate_shares_memory_and_remembers_itself():
    x = rl.tensor(NUMBERS)
    y = x.conj()
    assert y.is_conj() and not y.conj().is_conj() and y.data_ptr() == x.data_ptr()
    assert y.tolist() == [complex(z).conjugate() for z in NUMBERS]
    assert not y.resolve_conj().is_conj() and x.resolve_conj() is x
    assert rl.is_conj(y) and not rl.tensor([1.0]).conj().is_conj()


def test_the_imaginary_part_of_a_conjugate_is_a_lazy_negative():
    x = rl.tensor(NUMBERS)
    part = x.conj().imag
    assert part.is_neg() and not part.resolve_neg().is_neg()
    part.fill_(7)
    assert x.imag.tolist() == [-7.0] * 4
    assert (part * 2).tolist() == [14.0] * 4


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.mul_(2j),
        lambda y: y.fill_(3j),
        lambda y: y.copy_(rl.tensor([1j, 2, 3, 4j])),
        lambda y: y.copy_(rl.tensor([1j, 2, 3, 4j]).conj()),
        lambda y: y.__setitem__(slice(1, 3), 5 + 1j),
        lambda y: rl.mul(rl.tensor(NUMBERS), 2, out=y),
        lambda y: setattr(y, "imag", rl.tensor([1.0, 2.0, 3.0, 4.0])),
        lambda y: y.view(2, 2).t().add_(1j),
    ],
)
def test_writing_through_a_conjugate_writes_conjugates(write):
    x = rl.tensor(NUMBERS)
    lazy, plain = x.conj(), x.conj().clone()
    write(lazy)
    write(plain)
    assert lazy.is_conj() and not plain.is_conj()
    assert lazy.tolist() == plain.tolist()
    assert x.tolist() == [z.conjugate() for z in plain.tolist()]


def test_parts_are_windows_that_gradients_flow_through():
    x = rl.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    z = x * 1
    z.imag.mul_(3)
    (z.imag.sum() + z.real.sum()).backward()
    assert x.grad.tolist() == [1 + 3j, 1 + 3j]
    x.grad = None
    c = (x * 1).conj()
    c.mul_(2j)
    c.imag.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_bytes_of_a_deferred_tensor_are_not_for_reading():
    y = rl.tensor(NUMBERS).conj()
    with pytest.raises(RuntimeError, match="unresolved conjugated"):
        rl.view_as_real(y)
    with pytest.raises(RuntimeError, match="conjugate bit"):
        y.numpy()
    with pytest.raises(RuntimeError, match="negative bit"):
        y.imag.numpy()
    with pytest.raises(RuntimeError, match="conjugate view"):
        y.view(rl.float32)


def test_copies_of_deferred_tensors_hold_the_same_numbers():
    y = rl.tensor(NUMBERS).conj()
    assert copy.deepcopy(y).tolist() == y.tolist()
    assert pickle.loads(pickle.dumps(y)).tolist() == y.tolist()
    assert repr(y) == repr(y.clone())


def test_real_tensors_have_no_imaginary_part():
    with pytest.raises(RuntimeError, match="imag is not implemented"):
        rl.tensor([1.0]).imag  # noqa: B018
    x = rl.tensor([1.0])
    assert x.real is x


def test_what_looks_at_no_element_leaves_conjugates_and_negatives_waiting():
    for x in (rl.tensor(NUMBERS).conj(), rl.ones(4)._neg_view()):
        for y in (x.detach(), x.view(2, 2), x[1:], x.data):
            assert (y.is_conj(), y.is_neg()) == (x.is_conj(), x.is_neg())
            assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        x.detach().mul_(2)
        doubled = [2 * abs(one) for one in _plain(x)]
        assert x.abs().tolist() == pytest.approx(doubled)


def _plain(x):
    return NUMBERS if x.is_complex() else [1] * 4

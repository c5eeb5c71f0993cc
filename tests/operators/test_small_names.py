"""Names with little behind them do what PyTorch's do."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CALLS = {
    "is_signed": lambda m: [
        m.is_signed(m.zeros(1, dtype=getattr(m, kind)))
        for kind in ("uint8", "int8", "float32", "bool", "complex64")
    ],
    "get_device": lambda m: m.get_device(m.zeros(1)),
    "view_as_real_copy": lambda m: m.view_as_real_copy(m.tensor([1 + 2j, 3j])).tolist(),
    "view_as_complex_copy": lambda m: m.view_as_complex_copy(
        m.tensor([[1.0, 2.0], [3.0, 4.0]])
    ).tolist(),
    "unsafe_split_with_sizes": lambda m: [
        part.tolist() for part in m.unsafe_split_with_sizes(m.arange(5), [2, 3])
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_they_give_what_pytorch_gives(name):
    assert CALLS[name](rl) == CALLS[name](torch)


@pytest.mark.parametrize("name", ["view_as_real_copy", "view_as_complex_copy"])
def test_copies_share_no_memory_and_carry_gradients(name):
    kind = rl.complex64 if name == "view_as_real_copy" else rl.float32
    x = rl.ones(3, 2, dtype=kind, requires_grad=True)
    copy = getattr(rl, name)(x)
    assert copy.data_ptr() != x.data_ptr()
    (rl.view_as_real(copy) if copy.is_complex() else copy).sum().backward()
    assert x.grad.shape == x.shape

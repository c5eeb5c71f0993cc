"""No operator reads outside of a storage that was resized below its operands."""

import ctypes

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the samples are PyTorch's")
QUICK = (
    "softmax|tensordot|var|einsum|fft.fft|nn.functional.conv2d|add|gather|roll|cat|"
    "nn.functional.layer_norm|linalg.inv|sort|index_put|cumsum|nn.functional.relu"
)


def test_a_resized_storage_is_refused_and_resized_back_is_read():
    from tests import storages

    swept = 0
    for _, lines in storages.sweep(f"^({QUICK})$"):
        swept += 1
        assert not lines
    assert swept >= 16


def test_a_crash_of_an_operator_is_a_failure_and_not_the_end():
    from tests import storages

    lines, ended = storages.apart(lambda: [ctypes.string_at(0)])
    assert not lines
    assert ended.startswith(("SIGSEGV", "SIGABRT", "exit"))  # as a sanitizer makes it


def message(library, call, n_bytes):
    x = library.ones(3, 4)
    for _ in range(3):
        call(library, x)
    x.untyped_storage().resize_(n_bytes)
    with pytest.raises(RuntimeError) as caught:
        call(library, x)
    return str(caught.value)


def test_an_operand_without_memory_is_refused_in_pytorchs_words():
    def softmax(library, x):
        return library.softmax(x, 1)

    theirs, ours = (message(library, softmax, 0) for library in (torch, rl))
    assert ours.splitlines()[0] == theirs.splitlines()[0]


def test_an_operand_beyond_its_storage_is_refused_as_a_window_would_be():
    def window(library, x):
        return x.as_strided((3, 4), (4, 1))

    def softmax(library, x):
        return library.softmax(x, 1)

    assert message(rl, softmax, 44) == message(torch, window, 44)


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_are_freed_and_filled_again_between_forward_and_backward(compiled):
    """As sharded training does: the graph keeps the tensor, not its elements."""
    layer = rl.nn.Linear(4, 3)
    call = rl.compile(layer) if compiled else layer
    x = rl.randn(2, 4)
    for _ in range(4):
        layer.zero_grad()
        loss = call(x).square().sum()
        wanted = rl.autograd.grad(loss, layer.weight, retain_graph=True)[0]
        storage = layer.weight.untyped_storage()
        kept = storage.clone()
        storage.resize_(0)
        with pytest.raises(RuntimeError, match="not allocated yet"):
            call(x)
        storage.resize_(kept.nbytes())
        storage.copy_(kept)
        loss.backward()
        assert layer.weight.grad.tolist() == wanted.tolist()


def test_what_reads_no_elements_takes_tensors_without_memory():
    x = rl.ones(3, 4)
    x.untyped_storage().resize_(0)
    assert x.data_ptr() == 0
    assert rl.zeros_like(x).tolist() == rl.zeros(3, 4).tolist()
    assert x.t().shape == (4, 3) and rl.empty_like(x).shape == (3, 4)
    x.resize_(2, 2).fill_(1)
    assert x.sum().item() == 4

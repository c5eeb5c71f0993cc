"""PyTorch's functions refuse Rushlight's tensors, and say what to import."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def test_functions_of_pytorch_refuse_tensors_of_ours():
    x = rl.ones(2, 2)
    calls = (
        lambda: torch.add(x, x),
        lambda: torch.stack([x, x]),
        lambda: torch.nn.functional.relu(x),
        lambda: torch.nn.utils.rnn.pad_sequence([x, x]),
        lambda: torch.nn.Linear(2, 2)(x),
    )
    for call in calls:
        with pytest.raises(
            TypeError, match=r"(?s)Tensors of rushlight.*rushlight\.run"
        ):
            call()
    assert (x + x).sum().item() == 8.0

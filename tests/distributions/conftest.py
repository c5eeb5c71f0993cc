"""What holds for the tests of distributions."""

import pytest


@pytest.fixture(autouse=True)
def arguments_are_looked_at(monkeypatch):
    """PyTorch's compiler stops its distributions from looking, for good."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)

"""What tests of quantized models begin with."""

import pytest


@pytest.fixture
def fbgemm():
    """PyTorch takes the engine whose integers Rushlight has."""
    engines = pytest.importorskip("torch").backends.quantized
    before, engines.engine = engines.engine, "fbgemm"
    yield
    engines.engine = before

"""Programs in the manner of PyTorch's tutorials print there what they print here."""

import numpy as np
import pytest

import rushlight
from tests.examples import tutorials

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fbgemm():
    engines = torch.backends.quantized
    before, engines.engine = engines.engine, "fbgemm"
    yield
    engines.engine = before


def agree(one, two, rough):
    """Results of both sides are the same, up to rounding."""
    if isinstance(two, list | tuple):
        assert len(one) == len(two)
        for pair in zip(one, two, strict=True):
            agree(*pair, rough)
    elif isinstance(two, dict):
        assert list(one) == list(two)
        agree(list(one.values()), list(two.values()), rough)
    elif isinstance(two, torch.Tensor):
        assert str(one.layout).partition(".")[2] == str(two.layout).partition(".")[2]
        assert str(one.dtype).partition(".")[2] == str(two.dtype).partition(".")[2]
        one, two = (each.detach().to_dense().float().numpy() for each in (one, two))
        bound = 2e-2 if rough else 1e-5
        np.testing.assert_allclose(one, two, rtol=bound, atol=bound)
    elif isinstance(two, float):
        assert one == pytest.approx(two, rel=1e-5)
    elif isinstance(two, str):
        assert one.replace("rushlight", "torch") == two
    else:
        assert one == two


@pytest.mark.parametrize("program", tutorials.PROGRAMS, ids=lambda f: f.__name__)
def test_the_program_gives_what_it_gives_with_pytorch(program):
    found = []
    for t in (rushlight, torch):
        t.manual_seed(0)
        found.append(list(program(t)))
    assert len(found[0]) == len(found[1])
    for one, two in zip(*found, strict=True):
        rough = isinstance(two, tuple) and two[0] is tutorials.ROUGH
        agree(one, two, rough)

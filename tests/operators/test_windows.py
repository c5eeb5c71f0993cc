"""Window functions: ``rushlight.signal.windows``."""

import pytest

import rushlight as rl
from rushlight.signal import windows

SHAPES = {"general_cosine": {"a": [0.5, 0.3, 0.2]}, "gaussian": {"std": 2.0}}


@pytest.mark.parametrize("name", windows.__all__)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 31])
def test_windows_are_those_of_the_oracle(name, sym, length):
    torch = pytest.importorskip("torch")
    shape = SHAPES.get(name, {})
    theirs = getattr(torch.signal.windows, name)(
        length, sym=sym, dtype=torch.float64, **shape
    )
    ours = getattr(windows, name)(length, sym=sym, dtype=rl.float64, **shape)
    assert ours.tolist() == pytest.approx(theirs.tolist(), abs=1e-12)


@pytest.mark.parametrize("name", windows.__all__)
def test_symmetric_windows_read_the_same_backwards(name):
    window = getattr(windows, name)(9, dtype=rl.float64, **SHAPES.get(name, {}))
    assert window.tolist() == pytest.approx(window.flip(0).tolist(), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.hann(-1), "requires non-negative window length, got M=-1"),
        (lambda w: w.hann(3, dtype=rl.float16), "expects float32 or float64 dtypes"),
        (lambda w: w.exponential(3, tau=0), "Tau must be positive, got: 0 instead."),
        (lambda w: w.exponential(3, center=1), "Center must be None for symmetric"),
        (lambda w: w.gaussian(3, std=0), "Standard deviation must be positive, got: 0"),
        (lambda w: w.kaiser(3, beta=-1), "beta must be non-negative, got: -1 instead."),
        (lambda w: w.general_cosine(3, a=[]), "Coefficients cannot be empty"),
    ],
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(windows)

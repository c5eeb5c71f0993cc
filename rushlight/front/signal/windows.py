"""Window functions of given length: ``rushlight.signal.windows``.

Each takes ``M``, the number of points, and as keywords ``sym``, whether the window is
symmetric (for filters) or one period of a periodic one (for spectra), ``dtype``
(float32 or float64), ``layout``, ``device`` and ``requires_grad``.

>>> hann(5).tolist()
[0.0, 0.5, 1.0, 0.5, 0.0]
>>> hann(4, sym=False).tolist()
[0.0, 0.5, 1.0, 0.5]
"""

import functools
import inspect
import math
from collections.abc import Iterable

import rushlight
from rushlight.core.docstrings import describe_arguments

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _shown(value):
    """A dtype or layout by the name that a program over PyTorch gives it."""
    return str(value).replace("rushlight.", "torch.")


def _window(function):
    """Adds the keywords that all windows share, their checks and the trivial lengths."""

    @functools.wraps(function)
    def window(
        M, *, sym=True, dtype=None, layout=rushlight.strided, device=None,
        requires_grad=False, **shape,
    ):  # fmt: skip
        name = function.__name__
        general = {"hamming", "hann", "nuttall", "general_hamming"}
        shown = "general_cosine" if name in general else name
        if dtype is None:
            dtype = rushlight.get_default_dtype()
        if M < 0:
            raise ValueError(f"{shown} requires non-negative window length, got M={M}")
        if layout is not rushlight.strided:
            raise ValueError(
                f"{shown} is implemented for strided tensors only, got: {_shown(layout)}"
            )
        if dtype not in (rushlight.float32, rushlight.float64):
            raise ValueError(
                f"{shown} expects float32 or float64 dtypes, got: {_shown(dtype)}"
            )
        function(None, sym, **shape)
        options = {"dtype": dtype, "device": device}
        if M == 0:
            return rushlight.empty(0, **options, requires_grad=requires_grad)
        if M == 1 and name not in ("cosine", "exponential", "gaussian"):
            return rushlight.ones(1, **options, requires_grad=requires_grad)

        def points(start, end):
            return rushlight.linspace(
                start, end, M, **options, requires_grad=requires_grad
            )

        # the number of steps that make one period
        points.period = M if not sym and M > 1 else M - 1
        points.last = M - 1
        points.wants = requires_grad
        return function(points, sym, **shape)

    # what `wraps` copied tells of the function within
    shared, own = inspect.signature(window, follow_wrapped=False), []
    for parameter in list(inspect.signature(function).parameters.values())[2:]:
        own.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
    length, *options = list(shared.parameters.values())[:-1]
    window.__signature__ = inspect.Signature([length, *own, *options])
    return window


@_window
def exponential(points, sym, center=None, tau=1.0):
    """Falls off exponentially on both sides of ``center``, by e every ``tau`` points.

    Args:
        center: the place of the peak; the middle by default, and always where
            ``sym``.
        tau: how fast it falls.

    Raises:
        ValueError: ``tau`` is not positive, or a symmetric window has a centre.

    >>> exponential(4)
    tensor([0.2231, 0.6065, 0.6065, 0.2231])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if points is None:
        return None
    if center is None:
        center = points.period / 2.0
    scale = 1 / tau
    distance = points(-center * scale, (-center + points.last) * scale)
    return rushlight.exp(-rushlight.abs(distance))


@_window
def cosine(points, sym):
    """One arch of a sine.

    >>> cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    if points is None:
        return None
    step = math.pi / (points.period + 1)
    start = 0.5 * step
    return rushlight.sin(points(start, start + points.last * step))


@_window
def gaussian(points, sym, std=1.0):
    """A normal density of deviation ``std``, one at its middle.

    Args:
        std: the standard deviation, in samples.

    Raises:
        ValueError: ``std`` is not positive.

    >>> gaussian(4)
    tensor([0.3247, 0.8825, 0.8825, 0.3247])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if points is None:
        return None
    start = -points.period / 2.0
    scale = 1 / (std * math.sqrt(2))
    distance = points(start * scale, (start + points.last) * scale)
    return rushlight.exp(-(distance * distance))


@_window
def kaiser(points, sym, beta=12.0):
    """Kaiser's window, by the Bessel function of order zero.

    Args:
        beta: the shape: the larger, the narrower.

    Raises:
        ValueError: ``beta`` is negative.

    >>> kaiser(4)
    tensor([5.2773e-05, 5.1884e-01, 5.1884e-01, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if points is None:
        return None
    beta = float(beta)
    start = -beta
    step = 2.0 * beta / points.period
    end = start + points.last * step
    distance = points(start, min(end, beta))
    top = rushlight.tensor(beta, dtype=distance.dtype, device=distance.device)
    inside = beta * beta - distance * distance
    return rushlight.special.i0(rushlight.sqrt(inside)) / rushlight.special.i0(top)


@_window
def general_cosine(points, sym, *, a):
    """A sum of cosines with the weights ``a``, of alternating sign.

    Args:
        a: the weights of the cosines.

    Raises:
        TypeError: ``a`` is no list, or ``requires_grad`` no truth value.
        ValueError: ``a`` is empty.

    >>> general_cosine(4, a=[0.5, 0.5])
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    if points is None:
        return None
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    if points.wants is None:  # the others only hand it on
        raise TypeError("tensor(): argument 'requires_grad' must be bool, not NoneType")
    step = 2 * math.pi / points.period
    angle = points(0, points.last * step)
    weights = rushlight.tensor(
        [(-1) ** k * w for k, w in enumerate(a)], dtype=angle.dtype, device=angle.device
    )
    orders = rushlight.arange(len(a), dtype=angle.dtype, device=angle.device)
    waves = rushlight.cos(orders.unsqueeze(-1) * angle)
    return (weights.unsqueeze(-1) * waves).sum(0)


@_window
def general_hamming(points, sym, alpha=0.54):
    """A cosine on a pedestal of height ``alpha``.

    Args:
        alpha: the constant of the window.

    >>> general_hamming(4)
    tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return _cosines(points, sym, [alpha, 1.0 - alpha])


@_window
def hamming(points, sym):
    """Hamming's window.

    >>> hamming(4)
    tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return _cosines(points, sym, [0.54, 0.46])


@_window
def hann(points, sym):
    """Hann's window: a raised cosine.

    >>> hann(4)
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    return _cosines(points, sym, [0.5, 0.5])


@_window
def blackman(points, sym):
    """Blackman's window.

    >>> blackman(4)
    tensor([-1.4901e-08,  6.3000e-01,  6.3000e-01, -1.4901e-08])
    """
    return _cosines(points, sym, [0.42, 0.5, 0.08])


@_window
def nuttall(points, sym):
    """Nuttall's window of four cosines.

    >>> nuttall(4)
    tensor([3.6280e-04, 5.2923e-01, 5.2923e-01, 3.6280e-04])
    """
    return _cosines(points, sym, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


def _cosines(points, sym, weights):
    return general_cosine.__wrapped__(points, sym, a=weights)


@_window
def bartlett(points, sym):
    """A triangle that is zero at both ends.

    >>> bartlett(4)
    tensor([0.0000, 0.6667, 0.6667, 0.0000])
    """
    if points is None:
        return None
    step = 2.0 / points.period
    return 1 - rushlight.abs(points(-1, -1 + points.last * step))


describe_arguments(
    globals(),
    M="how many points the window has.",
    sym="whether it is symmetric, not one period of a longer one.",
)

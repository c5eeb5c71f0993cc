"""Errors of sums, norms and what is made of them, beside PyTorch's.

The error is the largest distance from the exact value, relative to the size of the exact
results, in units of the format's epsilon; of small arrays, the mean over five draws.
"""

import math

import numpy as np
import torch

import rushlight

EPSILON = {
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}


def numbers(shape, seed, dtype, offset=0.0, scale=1.0):
    """Normal numbers around ``offset``."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * scale + offset).astype(dtype)


def error(result, exact):
    """The largest distance over the largest size."""
    exact = np.asarray(exact)
    result = result.astype(exact.dtype)
    if np.isnan(result).any() or np.isinf(result).any():
        return float("inf")
    scale = np.maximum(abs(exact), abs(exact).max() * 1e-3)
    return float((abs(result - exact) / np.where(scale == 0, 1, scale)).max())


def cases(quick):
    """Name, shapes with offsets and scales, function of a library, exact function."""
    n = 10**6 if quick else 10**7
    flat = [((n,), 0.5, 0.3)]
    signed = [((n,), 0.0, 1.0)]
    table = [((10**5 // 2, 64), 0.5, 0.3)]
    wide = [((64, 10**5 // 2), 0.5, 0.3)]
    far = [((10**5 // 2, 64), 1000.0, 1.0)]
    yield "sum of 10^7", flat, lambda t, x: x.sum(), np.sum
    yield "mean of 10^7", flat, lambda t, x: x.mean(), np.mean
    yield "cumsum of 10^7", flat, lambda t, x: x.cumsum(0), np.cumsum
    yield (
        "logcumsumexp of 10^7",
        signed,
        lambda t, x: x.logcumsumexp(0),
        lambda x: np.log(np.cumsum(np.exp(x))),
    )
    for name, data in (("tall", table), ("wide", wide), ("tall at 1000", far)):
        for dim in (0, 1):
            what = f"dim {dim} of {name}"
            for function in (
                "sum",
                "mean",
                "cumsum",
                "logsumexp",
                "softmax",
                "log_softmax",
            ):
                exact = {
                    "sum": np.sum,
                    "mean": np.mean,
                    "cumsum": np.cumsum,
                    "logsumexp": logsumexp,
                    "softmax": softmax,
                    "log_softmax": lambda x, axis: np.log(softmax(x, axis)),
                }[function]
                yield (
                    f"{function} over {what}",
                    data,
                    lambda t, x, f=function, d=dim: getattr(x, f)(d),
                    lambda x, e=exact, d=dim: e(x, axis=d),
                )
            for function in ("var", "std"):
                yield (
                    f"{function} over {what}",
                    data,
                    lambda t, x, f=function, d=dim: getattr(x, f)(d),
                    lambda x, f=function, d=dim: getattr(np, f)(x, axis=d, ddof=1),
                )
            for p in (1, 2, 3, 0.5):
                yield (
                    f"norm {p} over {what}",
                    data,
                    lambda t, x, p=p, d=dim: t.linalg.vector_norm(x, p, d),
                    lambda x, p=p, d=dim: (
                        (abs(x) ** p).sum(d) ** (x.dtype.type(1) / x.dtype.type(p))
                    ),
                )
    for name, offset in (("0", 0.0), ("1000", 1000.0)):
        yield (
            f"var of 10^7 at {name}",
            [((n,), offset, 1.0)],
            lambda t, x: x.var(),
            lambda x: np.var(x, ddof=1),
        )
        yield (
            f"layer_norm at {name}",
            [((256, 1024), offset, 1.0)],
            lambda t, x: t.nn.functional.layer_norm(x, (1024,)),
            lambda x: unit(x, (1,)),
        )
        yield (
            f"batch_norm at {name}",
            [((64, 16, 28, 28), offset, 1.0)],
            lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
            lambda x: unit(x, (0, 2, 3)),
        )
        yield (
            f"group_norm at {name}",
            [((64, 16, 28, 28), offset, 1.0)],
            lambda t, x: t.nn.functional.group_norm(x, 4),
            lambda x: unit(x.reshape(64, 4, -1), (2,)).reshape(x.shape),
        )
        yield (
            f"instance_norm at {name}",
            [((64, 16, 28, 28), offset, 1.0)],
            lambda t, x: t.nn.functional.instance_norm(x),
            lambda x: unit(x, (2, 3)),
        )
        yield (
            f"rms_norm at {name}",
            [((256, 1024), offset, 1.0)],
            lambda t, x: t.nn.functional.rms_norm(x, (1024,), eps=1e-5),
            lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + x.dtype.type(1e-5)),
        )
        yield (
            f"cov at {name}",
            [((8, 10**5), offset, 1.0)],
            lambda t, x: x.cov(),
            np.cov,
        )
    yield "prod of 1000", [((1000,), 1.0, 0.05)], lambda t, x: x.prod(), np.prod
    yield (
        "cumprod of 1000",
        [((1000,), 1.0, 0.05)],
        lambda t, x: x.cumprod(0),
        np.cumprod,
    )
    yield (
        "norm of 10^7",
        signed,
        lambda t, x: x.norm(),
        lambda x: np.sqrt((x * x).sum()),
    )
    yield (
        "norm of numbers around 1e30",
        [((1000,), 0.0, 1e30)],
        lambda t, x: x.norm(),
        lambda x: np.sqrt((x * x).sum()),
    )
    yield (
        "norm of numbers around 1e-30",
        [((1000,), 0.0, 1e-30)],
        lambda t, x: x.norm(),
        lambda x: np.sqrt((x * x).sum()),
    )
    yield (
        "trapezoid",
        [((10**6,), 0.5, 0.3)],
        lambda t, x: t.trapezoid(x),
        lambda x: (x[1:] + x[:-1]).sum() / 2,
    )
    two = [((512, 256), 0.2, 1.0), ((512, 256), 0.1, 1.0)]
    yield (
        "cosine_similarity",
        two,
        lambda t, x, y: t.cosine_similarity(x, y, 1),
        lambda x, y: (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1)),
    )
    for p in (1, 2, 3):
        yield (
            f"cdist {p}",
            [((64, 32), 0.0, 1.0), ((64, 32), 0.0, 1.0)],
            lambda t, x, y, p=p: t.cdist(x, y, p=float(p)),
            lambda x, y, p=p: (
                (abs(x[:, None] - y[None]) ** p).sum(2) ** (x.dtype.type(1) / p)
            ),
        )
        yield (
            f"dist {p}",
            two,
            lambda t, x, y, p=p: t.dist(x, y, p),
            lambda x, y, p=p: (abs(x - y) ** p).sum() ** (x.dtype.type(1) / p),
        )
    yield (
        "cdist of near points",
        [((64, 32), 100.0, 1e-2), ((64, 32), 100.0, 1e-2)],
        lambda t, x, y: t.cdist(x, y),
        lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(2)),
    )
    for loss in ("mse_loss", "l1_loss"):
        yield (
            loss,
            [((10**6,), 0.2, 1.0), ((10**6,), 0.1, 1.0)],
            lambda t, x, y, f=loss: getattr(t.nn.functional, f)(x, y),
            lambda x, y, f=loss: (
                ((x - y) ** 2) if f == "mse_loss" else abs(x - y)
            ).mean(),
        )


def logsumexp(x, axis):
    """The largest taken out."""
    top = x.max(axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(x - top).sum(axis))


def norm(x, p, axis=None):
    """The root of the sum of powers."""
    return (abs(x) ** p).sum(axis) ** (x.dtype.type(1) / x.dtype.type(p))


def softmax(x, axis):
    """Shares of the exponentials."""
    mass = np.exp(x - x.max(axis, keepdims=True))
    return mass / mass.sum(axis, keepdims=True)


def log_softmax(x, axis):
    """Logarithms of the shares."""
    return np.log(softmax(x, axis))


def unit(x, axes):
    """With mean zero and variance one."""
    gap = x - x.mean(axes, keepdims=True)
    return gap / np.sqrt((gap * gap).mean(axes, keepdims=True) + x.dtype.type(1e-5))


DRAWS = 5  # of small arrays, whose errors depend on luck


def rows(make, quick):
    """The rows of the table, in every type."""
    for number, (name, shapes, function, exact) in enumerate(cases(quick)):
        small = sum(math.prod(shape) for shape, *_ in shapes) < 1 << 19
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            half = dtype in ("float16", "bfloat16")
            words = ("10^", "1e", "cum", "dist", "at 1000")
            if half and any(word in name for word in words):
                continue
            errors = []
            for draw in range(DRAWS if small else 1):
                start = number + 1000 * draw
                arrays = [
                    numbers(shape, start + k, "float32" if half else dtype, *spread)
                    for k, (shape, *spread) in enumerate(shapes)
                ]
                if half:
                    arrays = [
                        torch.from_numpy(a).to(getattr(torch, dtype)).float().numpy()
                        for a in arrays
                    ]
                errors.append(errors_of(dtype, arrays, function, exact))
            yield make(f"{name} {dtype}", *np.mean(errors, 0))


def errors_of(dtype, arrays, function, exact):
    """Both libraries against the exact values."""
    wide = "longdouble" if dtype == "float64" else "float64"
    truth = exact(*(a.astype(wide) for a in arrays))
    errors = []
    for library in (rushlight, torch):
        tensors = [library.from_numpy(a).to(getattr(library, dtype)) for a in arrays]
        result = function(library, *tensors).to(library.float64).numpy()
        errors.append(error(result, truth) / EPSILON[dtype])
    return errors

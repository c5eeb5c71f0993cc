"""Borders of a tensor's own elements are PyTorch's, and so are their gradients."""

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

MODES = ("reflect", "replicate", "circular")
PADS = (
    (1, 2), (0, 3), (-1, 2), (2, -1), (-2, -1),
    (1, 0, 0, 2), (2, 2, -1, 1), (-1, -1, 1, 0), (0, 0, 1, 1),
    (1, 1, 0, 2, 2, 1), (-1, 2, 1, -1, 0, 1),
)  # fmt: skip


def padded(library, x, pad, mode):
    try:
        return library.nn.functional.pad(x, pad, mode=mode)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "complex128"])
@pytest.mark.parametrize("pad", PADS, ids=str)
def test_borders_are_pytorchs(pad, kind, mode):
    for batch in (), (2,), (2, 3):
        sizes = (*batch, *(3, 4, 5)[3 - len(pad) // 2 :])
        x = np.arange(np.prod(sizes)).reshape(sizes).astype(kind)
        ours = padded(rl, rl.from_numpy(x), pad, mode)
        theirs = padded(torch, torch.from_numpy(x), pad, mode)
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert ours.stride() == theirs.stride()
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", PADS, ids=str)
def test_gradients_through_borders_are_pytorchs(pad, mode):
    sizes = (2, 3, *(3, 4, 5)[3 - len(pad) // 2 :])
    x = np.random.default_rng(0).normal(size=sizes)
    seen = []
    for library in rl, torch:
        y = library.from_numpy(x).requires_grad_()
        out = library.nn.functional.pad(y, pad, mode=mode)
        (first,) = library.autograd.grad((out**3).sum(), y, create_graph=True)
        (second,) = library.autograd.grad(first.sum(), y)
        seen.append((first.detach().numpy(), second.numpy()))
    for ours, theirs in zip(*seen):
        np.testing.assert_allclose(ours, theirs, 1e-12, 1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_formats_of_images_stay_as_pytorchs(mode):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    strides = []
    for library in rl, torch:
        y = library.from_numpy(x).to(memory_format=library.channels_last)
        strides.append(library.nn.functional.pad(y, (1, 1, 2, 0), mode=mode).stride())
    assert strides[0] == strides[1]


@pytest.mark.parametrize("mode", MODES)
def test_borders_can_be_batched_and_followed_forwards(mode):
    x, pad = rl.randn(4, 2, 3, 5), (1, 2)

    def call(y):
        return rl.nn.functional.pad(y, pad, mode=mode)

    assert rl.equal(rl.func.vmap(call)(x), rl.stack([call(y) for y in x]))
    value, slope = rl.func.jvp(call, (x[0],), (x[1],))
    assert rl.equal(value, call(x[0])) and rl.equal(slope, call(x[1]))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_wide_and_narrow_images_are_resampled_alike(mode):
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 5)).astype("float32")
    seen = [
        library.nn.functional.interpolate(
            library.from_numpy(x), (33, 40), mode=mode
        ).numpy()
        for library in (rl, torch)
    ]
    np.testing.assert_allclose(*seen, 2e-6, 2e-6)


EVERY_EDGE = """
import itertools
import numpy as np
import rushlight as rl

cases = 0
for size, before, after in itertools.product(range(1, 5), range(-5, 7), range(-5, 7)):
    for mode, wrap in (("replicate", False), ("circular", True)):
        places = np.arange(-before, size + after)
        if size + before + after < 1:
            continue
        if wrap and max(before, after) > size + min(before, 0) + min(after, 0):
            continue
        if wrap:  # what is cut off does not come back at the other edge
            start, length = max(-before, 0), size + min(before, 0) + min(after, 0)
            places = start + (places - start) % length
        places = np.clip(places, 0, size - 1)
        for other in ((0, 0), (1, 1)):
            x = rl.arange(3.0 * size).reshape(1, 3, size).requires_grad_()
            y = rl.nn.functional.pad(x[:, None], (before, after, *other), mode)
            rows = np.clip(np.arange(-other[0], 3 + other[1]), 0, 2)
            if wrap:
                rows = np.arange(-other[0], 3 + other[1]) % 3
            expected = x.detach().numpy()[0][np.ix_(rows, places)]
            assert (y.detach().numpy()[0, 0] == expected).all(), (mode, size, before, after)
            y.sum().backward()
            counts = np.zeros((3, size))
            np.add.at(counts, np.ix_(rows, places), 1)
            assert (x.grad.numpy()[0] == counts).all(), (mode, size, before, after)
            cases += 1
print(cases)
"""


def test_borders_of_any_widths_write_within_their_block():
    """Guard pages stop what writes beside it: values alone would not tell."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_EDGE],
        env={**os.environ, "RUSHLIGHT_GUARD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 500
